/* An index that chooses blocks of positions for an attention, as a part of mixers/attention.c. */
#ifndef LOCKSTEP_MODEL_MIXERS_BLOCK_INDEX_H
#define LOCKSTEP_MODEL_MIXERS_BLOCK_INDEX_H

#include "math/attend.h"
#include "model/bind.h"
#include "model/step.h"

/* All do nothing, and succeed, for a layer without one. False otherwise: the binder's error; out of memory. */
bool block_index_bind(Binder *b, const AttentionSpec *a, int layer, AttentionWeights *w);
/* Leaves the index keys of x [n][hidden] in the sequences' states. */
bool block_index_store(Step *s, int layer, const float *x);
/* *keys: [n][n_heads], without positions for rows that see all; left as it is without an index. */
bool block_index_choose(Step *s, int layer, const float *x, AttendKeys **keys);

#endif
