/* RWKV's token shift: what a row sees of the one before it. */
#ifndef LOCKSTEP_MODEL_MIXERS_TOKEN_SHIFT_H
#define LOCKSTEP_MODEL_MIXERS_TOKEN_SHIFT_H

#include "model/mixers/stretch.h"

/* The row before less the row itself, for x [n][hidden], in the arena; zeros stand before the first position. The last
 * row of every sequence becomes the first `hidden` floats of its recurrent state. NULL: out of memory. */
float *token_shift(Step *s, int layer, const Stretch *stretches, int n_stretches, const float *x);
/* out = x + shift * mix, mix [hidden], the product rounded first. */
void token_mix(const Step *s, const float *x, const float *shift, const float *mix, float *out);

#endif
