/* The rows of a step by sequence, for mixers whose state advances token by token; and the short convolutions that most
 * of them begin with. */
#ifndef LOCKSTEP_MODEL_MIXERS_STRETCH_H
#define LOCKSTEP_MODEL_MIXERS_STRETCH_H

#include "model/step.h"

/* Rows [first, first + n) are consecutive positions of one sequence. */
typedef struct Stretch {
    State *state;
    int first, n;
} Stretch;

/* All of a step, in the arena; *n: how many. NULL: out of memory. */
Stretch *stretches_of(Step *s, int *n);

/* One convolution along the rows: x -> y [n][channels], not in place. */
typedef struct ConvPart {
    const Conv *conv;
    int channels;
    const float *x;
    float *y;
} ConvPart;

/* Floats of recurrent state that convolutions of `channels` channels in all keep: the last kernel - 1 positions. */
size_t conv_windows(int kernel, int channels);
/* All parts along all stretches, side by side. Their windows lie one after the other at the beginning of the layer's
 * recurrent state, in the order of the parts; zeros stand for what was before the first position. */
void conv_stretches(const Step *s, int layer, const Stretch *stretches, int n, int kernel, const ConvPart *parts,
                    int n_parts);

#endif
