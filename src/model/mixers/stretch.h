/* The rows of a step by sequence, for mixers whose state advances token by token. */
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

/* The convolution of one stretch: x, y [rows][channels]; window: its place in the recurrent state. Zero floats stand
 * for what was before the first position. */
void stretch_conv(const Stretch *t, const Conv *conv, int channels, int kernel, float *window, const float *x,
                  float *y);

#endif
