/* Entries that each stand for several positions, made once the last of them is there from rows kept in the state. */
#ifndef LOCKSTEP_MODEL_MIXERS_POOLING_H
#define LOCKSTEP_MODEL_MIXERS_POOLING_H

#include "model/bind.h"
#include "model/step.h"

bool pooling_bind(Binder *b, const PoolSpec *spec, int layer, PoolWeights *out);

/* Channels of a row's values, and of its gates: what is kept of it until its entries are made. 0 when every is 1. */
int pooling_width(const PoolSpec *spec);
/* Positions that an entry's last row must still find: the window of what is kept. */
int pooling_window(const PoolSpec *spec);

/* The rows of a step that complete an entry. */
typedef struct Completed {
    int n;
    int *rows;      /* [n] of the step */
    int *entries;   /* [n] the entry's number in its sequence */
    int *positions; /* [n] of the entry's first row */
} Completed;
bool pooling_completed(Step *s, int every, Completed *out); /* false: out of memory */

/* Where a row's kept floats have this pool's values and gates: at `at`, then at `at` + pooling_width. */
typedef struct PoolSource {
    int layer; /* whose STEP_RAW rows, [pools' widths, twice each] */
    int at;
} PoolSource;

/* The normed entries of all completed rows, out [n][dim]. False: out of memory. */
bool pooling_run(Step *s, const PoolSpec *spec, const PoolWeights *w, const PoolSource *from, const Completed *done,
                 float *out);

#endif
