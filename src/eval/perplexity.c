/* Each window is run in steps whose logits fit a modest buffer; the score of a row is the log-probability of the id
 * that follows it, formed from the raw logits as everywhere else. */
#include "eval/perplexity.h"
#include "base/memory.h"
#include "math/ops.h"

#include <math.h>

enum { LOGIT_BYTES = 32 << 20, MAX_ROWS = 512 };

typedef struct Scoring {
    Model *model;
    Row *rows;
    RowFault *faults;
    int max_rows;
    double nll;
    int64_t scored;
} Scoring;

/* Runs rows [at, at + n) of a window and adds the scores of the ids they predict. */
static bool score_step(Scoring *s, State *state, const int32_t *ids, int at, int n, int window, Error *err) {
    const float *logits = NULL;
    int vocab = model_vocab_size(s->model);
    for (int i = 0; i < n; i++)
        s->rows[i] = (Row){.state = state, .position = at + i, .token = ids[at + i], .wants_logits = true};
    if (!model_step(s->model, s->rows, n, &logits, s->faults, err)) return false;
    for (int i = 0; i < n; i++) {
        if (s->faults[i].failed)
            return error_set(err, "position %d: layer %d, %s gave a value that is not finite", at + i,
                             s->faults[i].layer, s->faults[i].operation);
        if (at + i + 1 == window) break;
        s->nll -= (double)ops_log_prob(logits + (size_t)i * (size_t)vocab, vocab, ids[at + i + 1]);
        s->scored++;
    }
    return true;
}

static bool score_window(Scoring *s, const int32_t *ids, int window, int64_t before, int64_t n_ids,
                         PerplexityProgress *progress, void *context, Error *err) {
    State *state = state_new(model_state_shape(s->model), err);
    bool ok = state != NULL;
    for (int at = 0; ok && at < window;) {
        int n = window - at < s->max_rows ? window - at : s->max_rows;
        ok = score_step(s, state, ids, at, n, window, err);
        at += n;
        if (ok && progress && !progress(context, before + at, n_ids)) ok = error_set(err, "stopped");
    }
    state_free(state);
    return ok;
}

static bool score_all(Scoring *s, const int32_t *ids, int64_t n_ids, PerplexityProgress *progress, void *context,
                      Perplexity *out, Error *err) {
    int64_t size = model_context(s->model);
    int windows = 0;
    for (int64_t at = 0; at < n_ids; at += size, windows++) {
        int window = (int)(n_ids - at < size ? n_ids - at : size);
        if (!score_window(s, ids + at, window, at, n_ids, progress, context, err)) return false;
    }
    double mean = s->nll / (double)s->scored;
    *out = (Perplexity){n_ids, s->scored, windows, mean, exp(mean)};
    return true;
}

bool perplexity_run(Model *m, const int32_t *ids, int64_t n_ids, PerplexityProgress *progress, void *context,
                    Perplexity *out, Error *err) {
    int vocab = model_vocab_size(m);
    if (n_ids < 2) return error_set(err, "the text has %d tokens: at least 2 are needed to score one", (int)n_ids);
    if (model_context(m) < 2) return error_set(err, "a context of 1 leaves nothing to score: raise --ctx");
    for (int64_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return error_set(err, "id %d is outside the vocabulary (0 to %d)", ids[i], vocab - 1);
    Scoring s = {.model = m, .max_rows = LOGIT_BYTES / 4 / vocab};
    if (s.max_rows < 1) s.max_rows = 1;
    if (s.max_rows > MAX_ROWS) s.max_rows = MAX_ROWS;
    s.rows = mem_array((size_t)s.max_rows, sizeof *s.rows);
    s.faults = mem_array((size_t)s.max_rows, sizeof *s.faults);
    bool ok = (s.rows && s.faults) || error_memory(err, "a step's rows");
    ok = ok && score_all(&s, ids, n_ids, progress, context, out, err);
    mem_free(s.rows);
    mem_free(s.faults);
    return ok;
}
