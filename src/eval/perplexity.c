/* Each window is traced in steps whose logits fit a modest buffer; the score of a row is the log-probability of the id
 * that follows it, formed from the raw logits as everywhere else. */
#include "eval/perplexity.h"
#include "eval/trace.h"
#include "math/ops.h"

#include <math.h>

enum { LOGIT_BYTES = 32 << 20, MAX_ROWS = 512 };

typedef struct Scoring {
    Model *model;
    int max_rows;
    double nll;
    int64_t scored;
    const int32_t *ids; /* of the window */
    int window;
    int64_t before, n_ids; /* ids before the window, and in all */
    PerplexityProgress *progress;
    void *context;
} Scoring;

/* Adds the scores of the ids that rows [at, at + n) of a window predict. */
static bool score_rows(void *context, int at, int n, const float *logits, Error *err) {
    Scoring *s = context;
    int vocab = model_vocab_size(s->model);
    for (int i = 0; i < n && at + i + 1 < s->window; i++) {
        s->nll -= (double)ops_log_prob(logits + (size_t)i * (size_t)vocab, vocab, s->ids[at + i + 1]);
        s->scored++;
    }
    if (!s->progress || s->progress(s->context, s->before + at + n, s->n_ids)) return true;
    return error_set(err, "stopped");
}

static bool score_all(Scoring *s, const int32_t *ids, int *windows, Error *err) {
    int64_t size = model_context(s->model);
    for (int64_t at = 0; at < s->n_ids; at += size, ++*windows) {
        s->ids = ids + at;
        s->before = at;
        s->window = (int)(s->n_ids - at < size ? s->n_ids - at : size);
        TraceOptions o = {.ids = s->ids, .n_ids = s->window, .chunks = &s->max_rows, .n_chunks = 1};
        if (!trace_run(s->model, &o, score_rows, s, err)) return false;
    }
    return true;
}

bool perplexity_run(Model *m, const int32_t *ids, int64_t n_ids, PerplexityProgress *progress, void *context,
                    Perplexity *out, Error *err) {
    int vocab = model_vocab_size(m), windows = 0;
    if (!model_needs_head(m, err)) return false;
    if (n_ids < 2) return error_set(err, "the text has %d tokens: at least 2 are needed to score one", (int)n_ids);
    if (model_context(m) < 2) return error_set(err, "a context of 1 leaves nothing to score: raise --ctx");
    for (int64_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return error_set(err, "id %d is outside the vocabulary (0 to %d)", ids[i], vocab - 1);
    Scoring s = {.model = m, .max_rows = LOGIT_BYTES / 4 / vocab, .n_ids = n_ids};
    s.progress = progress;
    s.context = context;
    if (s.max_rows < 1) s.max_rows = 1;
    if (s.max_rows > MAX_ROWS) s.max_rows = MAX_ROWS;
    if (!score_all(&s, ids, &windows, err)) return false;
    double mean = s.nll / (double)s.scored;
    *out = (Perplexity){n_ids, s.scored, windows, mean, exp(mean)};
    return true;
}
