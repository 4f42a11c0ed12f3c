/* The index of a sparse latent attention, as a part of mixers/mla.c: its keys, its choice, and what the choice means
 * for the attention. */
#ifndef LOCKSTEP_MODEL_MIXERS_INDEXER_H
#define LOCKSTEP_MODEL_MIXERS_INDEXER_H

#include "model/bind.h"
#include "model/step.h"

/* All do nothing, and succeed, for a layer without an index of its own. False otherwise: the binder's error; out of
 * memory. */
bool indexer_bind(Binder *b, const MlaSpec *m, int layer, IndexWeights *out);
/* Leaves the index keys of x [rows][hidden] in the sequences' states. */
bool indexer_store(Step *s, int layer, const float *x);
/* Chooses for all rows, into s->chosen; latent [rows][q_rank]. */
bool indexer_choose(Step *s, int layer, const float *x, const float *latent);

/* Lets the rows of an attention see what was chosen last. */
bool indexer_apply(Step *s, int layer, AttendRow *rows);

#endif
