/* perplexity: how well a model predicts a text, as the mean negative log-likelihood per token. */
#ifndef LOCKSTEP_EVAL_PERPLEXITY_H
#define LOCKSTEP_EVAL_PERPLEXITY_H

#include "model/model.h"

#include <stdint.h>

typedef struct Perplexity {
    int64_t n_ids, n_scored; /* the first id of each window is context only */
    int windows;             /* of the model's context; 1 unless the text is longer */
    double mean_nll, ppl;    /* natural logarithm; ppl = exp(mean_nll) */
} Perplexity;

/* Called after each step with the ids done so far; false stops with an error "stopped". */
typedef bool PerplexityProgress(void *context, int64_t done, int64_t n_ids);

/* ids as they are, at least two; a text longer than the context is cut into windows that do not see each other. */
bool perplexity_run(Model *m, const int32_t *ids, int64_t n_ids, PerplexityProgress *progress, void *context,
                    Perplexity *out, Error *err);

#endif
