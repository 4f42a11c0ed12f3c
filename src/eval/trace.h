/* trace: the logits after every prefix of a list of ids, run the way the caller asks: cut into chunks, beside rows of
 * other sequences, on whatever threads and instruction set are set. By the promise of docs/arithmetic.md none of that
 * may show. A model without an output head gives the vector of each row in place of logits; an encoder, of which every
 * row sees all of them, takes its ids in one step, and unrelated sequences beside them are whole as well. */
#ifndef LOCKSTEP_EVAL_TRACE_H
#define LOCKSTEP_EVAL_TRACE_H

#include "model/model.h"

/* Called before each step: the traced rows are rows [row, row + n) of the step, at positions first .. first + n - 1.
 * `side` is that of model_side: past a rotary boundary the ids run again from the first on, without logits up to it. */
typedef void TraceStepHook(void *context, int side, int row, int first, int n);

typedef struct TraceOptions {
    const int32_t *ids;
    int n_ids;
    const int *chunks; /* repeated until the ids are used; NULL: TRACE_CHUNK at a time */
    int n_chunks;
    int width; /* unrelated sequences in each step (of a decoder with a row each), plus one; 1: none, 0 counts as 1 */
    bool vectors; /* what the final norm gives of each row, also where there is a head */
    /* For `check`; zero otherwise. */
    bool vary_width;               /* step i carries i % width unrelated rows */
    const StateShape *state_shape; /* NULL: the model's; another cache format */
    bool all_logits; /* unrelated rows want logits where traced ones do, so that a tap sees whole steps at the head */
    TraceStepHook *before_step;
    void *hook_context;
} TraceOptions;

enum { TRACE_CHUNK = 256 };

/* How many values a row has in the trace: of logits, or of a vector. */
int trace_values(const Model *m, const TraceOptions *o);

/* Called in position order with the logits of n positions from `first` on, [n][trace_values], borrowed. False stops the
 * trace.
 */
typedef bool TraceSink(void *context, int first, int n, const float *logits, Error *err);

/* Refuses, before anything runs: no ids, ids outside the vocabulary, more ids than the context holds, a chunk below 1,
 * chunks of an encoder's ids.
 * A row that fails is an error that names position, layer and operation. */
bool trace_run(Model *m, const TraceOptions *o, TraceSink *sink, void *context, Error *err);

/* The same into a safetensors file: f32 `logits` [n_ids, vocab], or `vectors` [n_ids, hidden], with the numeric
 * settings in its metadata. Written to path.part and renamed, so nothing half-written is left. If hash is not NULL it
 * gets logits_hash of the last row. */
bool trace_write(Model *m, const TraceOptions *o, const char *path, uint64_t *hash, Error *err);

#endif
