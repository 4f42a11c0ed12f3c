/* check: the exactness probe. For each cache format one reference run on one thread with the scalar kernels, token by
 * token for the model's own; then the same ids in every other way, comparing the logits' bytes. The first difference is
 * traced to its layer and operation. Of an encoder the ids are one text, alone and beside others of other lengths, and
 * what is compared are its rows' vectors; of a sequence classifier also what its head makes of each row. */
#ifndef LOCKSTEP_EVAL_CHECK_H
#define LOCKSTEP_EVAL_CHECK_H

#include "model/model.h"

/* Called before each run: how many of how many, and what it varies ("width 7, 2 threads, avx512, kv i16"). */
typedef void CheckProgress(void *context, int run, int n_runs, const char *what);

typedef struct CheckOptions {
    const int32_t *ids; /* NULL: CHECK_IDS pseudo-random ids of the vocabulary */
    int n_ids;
    bool every_width; /* for small models: each width by itself on every instruction set, over all ids; else only on the
                         best one, over the first ids, and one run through all widths on the others */
    CheckProgress *progress; /* or NULL */
    void *context;
} CheckOptions;

enum { CHECK_IDS = 40 };

typedef struct CheckReport {
    bool exact;
    int runs;             /* runs compared with their reference */
    char difference[512]; /* when not exact: the run, position, layer, kind and operation that differ first */
} CheckReport;

/* Tries instruction sets, thread counts, chunks, widths and cache formats; stops at the first difference. The model's
 * pool and the chosen instruction set are as before when it returns, whatever happens. False only when a run could not
 * be made. */
bool check_run(Model *m, const CheckOptions *o, CheckReport *out, Error *err);

#endif
