/* Keys and values that pass a convolution over the positions before they are stored. */
#ifndef LOCKSTEP_MODEL_MIXERS_KV_CONV_H
#define LOCKSTEP_MODEL_MIXERS_KV_CONV_H

#include "model/step.h"

/* Floats of recurrent state: the last kernel - 1 positions of keys and of values. */
size_t kv_conv_state(int kernel, int k_width, int v_width);
bool kv_conv_bind(Binder *b, const AttentionSpec *a, int layer, int k_width, int v_width, AttentionWeights *w);
/* *k, *v [n][width] in, convolved ones out. False: out of memory. */
bool kv_conv_apply(Step *s, int layer, int k_width, int v_width, float **k, float **v);

#endif
