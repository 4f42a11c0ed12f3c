/* A sequence's life: its prompt goes out as rows, its answer comes back as tokens, and text is released once nothing
 * can take it back.
 *
 * The invariant: the prefix holds exactly the ids whose rows were run; `ids` is the prompt and the answer. The next
 * rows are the difference of the two, so a prompt's chunk, a decoded token, and a prefix that is run again because a
 * rotary table changed, or because its memory was wanted, are the same thing here.
 *
 * Where a state can not be cut at any token, a prompt's chunks end where a snapshot is worth its memory: every 256
 * tokens, after a message, and before the last token of the prompt. */
#include "engine/sequence.h"
#include "base/memory.h"
#include "engine/constraint.h"
#include "text/stop.h"

#include <stdio.h>

enum { SNAPSHOT_EVERY = 256, SHARE_POINTS = 8, SCORED_ROWS = 64 /* each has logits of its own */ };

struct Sequence {
    Request request;
    const Model *model;
    PrefixCache *cache;
    Prefix prefix;            /* without a state: not started, or given back */
    int points[SHARE_POINTS]; /* where others wait for a snapshot */
    int n_points;
    int32_t n_tokens;       /* of the tokenizer: a model's vocabulary is often padded past it */
    IdList ids;             /* prompt, then answer */
    int n_cached, limit;    /* limit: tokens the answer may have */
    Detok *detok;           /* NULL: no text */
    StopMatcher *stop;      /* likewise */
    Constraint *constraint; /* NULL: anything may come */
    Buffer text, piece;     /* released text; scratch */
    ScoreList prompt_scores, scores;
    FinishReason finish;
    Error error;
};

bool request_check(const Request *r, const Model *model, const Tokenizer *tokenizer, Error *err) {
    int vocab = model_vocab_size(model), context = model_context(model);
    if (!model_needs_head(model, err)) return false;
    if (r->n_prompt < 1) return error_set(err, "the prompt is empty: a model needs at least one token");
    for (int i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= vocab)
            return error_set(err, "id %d of the prompt is outside the vocabulary (0 to %d)", r->prompt[i], vocab - 1);
    if (r->n_prompt > context)
        return error_set(err, "the prompt has %d tokens, the context holds %d: shorten the prompt%s", r->n_prompt,
                         context, context < model_max_context(model) ? " or raise --ctx" : "");
    if ((r->grammar || r->reasoning_close) && !tokenizer)
        return error_set(err, "a grammar needs a tokenizer, and this model's folder has no tokenizer.json");
    if (r->n_stops > 0 && !tokenizer)
        return error_set(err, "stop strings need a tokenizer, and this model's folder has no tokenizer.json");
    if (r->n_top < 0 || r->n_top > SCORE_TOP)
        return error_set(err, "%d log-probabilities: it must be from 0 to %d", r->n_top, SCORE_TOP);
    return sampling_check(&r->sampling, vocab, err);
}

Sequence *sequence_new(const Request *request, const Model *model, const Tokenizer *tokenizer, PrefixCache *cache,
                       Error *err) {
    if (!request_check(request, model, tokenizer, err)) return NULL;
    Sequence *s = mem_zeroed(1, sizeof *s);
    if (!s) {
        error_memory(err, "a sequence");
        return NULL;
    }
    s->request = *request;
    s->model = model;
    s->cache = cache;
    s->n_tokens = tokenizer ? tokenizer_size(tokenizer) : 0;
    int room = model_context(model) - request->n_prompt;
    s->limit = request->max_tokens < 0 || request->max_tokens > room ? room : request->max_tokens;
    /* Where no answer is asked for, the prompt is: it is there for the next. */
    if (s->limit == 0 && request->max_tokens != 0 && !request->scores_prompt) s->finish = FINISH_LENGTH;
    if (!id_list_append(&s->ids, request->prompt, (size_t)request->n_prompt)) {
        error_memory(err, "the prompt");
        goto fail;
    }
    if (tokenizer && (!(s->detok = detok_new(tokenizer, true, err)) ||
                      !(s->stop = stop_new(request->stops, (size_t)request->n_stops, err))))
        goto fail;
    if (constraint_is_needed(request) &&
        !(s->constraint = constraint_new(&s->request, model_vocab_size(model), tokenizer, err)))
        goto fail;
    if (s->detok) detok_keep(s->detok, request->kept_ids, (size_t)request->n_kept_ids);
    return s;
fail:
    sequence_free(s);
    return NULL;
}

void sequence_free(Sequence *s) {
    if (!s) return;
    prefix_clear(&s->prefix);
    id_list_clear(&s->ids);
    detok_free(s->detok);
    stop_free(s->stop);
    constraint_free(s->constraint);
    buffer_clear(&s->text);
    buffer_clear(&s->piece);
    score_list_clear(&s->prompt_scores);
    score_list_clear(&s->scores);
    mem_free(s);
}

/* ---- what was read ---- */

bool sequence_start(Sequence *s, Error *err) {
    if (s->prefix.state || s->finish != FINISH_NONE) return true;
    int side = model_side(s->model, (int)s->ids.n), n = (int)s->ids.n;
    if (s->request.scores_prompt) return prefix_cache_fresh(s->cache, side, &s->prefix, err);
    if (!prefix_cache_take(s->cache, side, s->ids.ids, n, &s->prefix, err)) return false;
    if (n == s->request.n_prompt) s->n_cached = (int)s->prefix.ids.n;
    return true;
}

bool sequence_started(const Sequence *s) {
    return s->prefix.state != NULL;
}

void sequence_drop(Sequence *s) {
    prefix_clear(&s->prefix);
}

int sequence_read(const Sequence *s) {
    return (int)s->prefix.ids.n;
}

int sequence_left(const Sequence *s) {
    return s->finish == FINISH_NONE ? (int)(s->ids.n - s->prefix.ids.n) : 0;
}

const int32_t *sequence_ids(const Sequence *s, int *n) {
    *n = (int)s->ids.n;
    return s->ids.ids;
}

bool sequence_snapshot_at(Sequence *s, int n) {
    if (n <= (int)s->prefix.ids.n || n > (int)s->ids.n) return false;
    for (int i = 0; i < s->n_points; i++)
        if (s->points[i] == n) return true;
    if (s->n_points == SHARE_POINTS) return false;
    s->points[s->n_points++] = n;
    return true;
}

/* Whether a snapshot is due when n tokens of the prompt were read. */
static bool is_snapshot(const Sequence *s, int n) {
    for (int i = 0; i < s->n_points; i++)
        if (s->points[i] == n) return true;
    if (n >= s->request.n_prompt || prefix_cache_is_whole(s->cache)) return false;
    return n % SNAPSHOT_EVERY == 0 || n == s->request.n_prompt - 1 || request_ends(&s->request, s->ids.ids[n - 1]);
}

/* How many of the next n tokens go out before a snapshot. */
static int rows_to_snapshot(const Sequence *s, int n) {
    int done = (int)s->prefix.ids.n;
    for (int i = 1; i < n; i++)
        if (is_snapshot(s, done + i)) return i;
    return n;
}

static void take_snapshot(Sequence *s) {
    int n = (int)s->prefix.ids.n;
    if (!is_snapshot(s, n)) return;
    prefix_cache_snapshot(s->cache, &s->prefix);
    int kept = 0;
    for (int i = 0; i < s->n_points; i++)
        if (s->points[i] > n) s->points[kept++] = s->points[i];
    s->n_points = kept;
}

/* It is over: what it read is there for others, unless a row failed. */
static void sequence_end(Sequence *s, FinishReason finish) {
    s->finish = finish;
    if (finish == FINISH_FAILED)
        prefix_clear(&s->prefix);
    else
        prefix_cache_give(s->cache, &s->prefix);
}

void sequence_snapshot(Sequence *s) {
    prefix_cache_snapshot(s->cache, &s->prefix);
}

size_t sequence_need(const Sequence *s, int n_rows) {
    return state_need(s->prefix.state, (int)s->prefix.ids.n + n_rows);
}

void sequence_fail(Sequence *s, const Error *why) {
    error_set(&s->error, "%s", why->text);
    sequence_end(s, FINISH_FAILED);
}

/* ---- steps ---- */

int sequence_rows(Sequence *s, int max_rows, Row *rows) {
    if (s->finish != FINISH_NONE) return 0;
    int side = model_side(s->model, (int)s->ids.n);
    if (state_side(s->prefix.state) != side) prefix_restart(&s->prefix, side);
    int done = (int)s->prefix.ids.n, n = (int)s->ids.n - done;
    if (s->request.scores_prompt && max_rows > SCORED_ROWS) max_rows = SCORED_ROWS;
    if (n > max_rows) n = max_rows;
    n = rows_to_snapshot(s, n);
    for (int i = 0; i < n; i++)
        rows[i] = (Row){.state = s->prefix.state,
                        .position = done + i,
                        .token = s->ids.ids[done + i],
                        .wants_logits = s->request.scores_prompt || done + i + 1 == (int)s->ids.n};
    return n;
}

static bool rows_succeeded(Sequence *s, int n, const RowFault *faults) {
    for (int i = 0; i < n; i++) {
        if (!faults[i].failed) continue;
        int position = (int)s->prefix.ids.n + i;
        return model_fault_error(&faults[i], position, &s->error);
    }
    if (!id_list_append(&s->prefix.ids, s->ids.ids + s->prefix.ids.n, (size_t)n))
        return error_memory(&s->error, "a sequence's ids");
    return true;
}

/* Passes s->piece on to the text, through the stop strings. */
static bool release_piece(Sequence *s) {
    bool ok = stop_push(s->stop, buffer_string(&s->piece), s->piece.length, &s->text, &s->error);
    buffer_reset(&s->piece);
    return ok;
}

/* Nothing follows: half a character and the beginning of a stop string are text after all. */
static bool release_rest(Sequence *s) {
    return !s->detok || (detok_finish(s->detok, &s->piece, &s->error) && release_piece(s) &&
                         stop_finish(s->stop, &s->text, &s->error));
}

/* What it finishes with, FINISH_NONE when it goes on. */
static bool take_token(Sequence *s, int32_t id, FinishReason *finish) {
    if (!id_list_push(&s->ids, id)) return error_memory(&s->error, "the answer");
    bool stopped = request_ends(&s->request, id);
    if (!stopped && id < s->n_tokens) {
        if (!detok_push(s->detok, id, &s->piece, &s->error) || !release_piece(s)) return false;
        *finish = FINISH_STOP;
        if (stop_matched(s->stop) >= 0) return true; /* what was withheld is part of the stop string or after it */
    }
    if (s->constraint && constraint_is_complete(s->constraint)) stopped = true;
    bool full = (int)s->ids.n - s->request.n_prompt == s->limit;
    *finish = stopped ? FINISH_STOP : full ? FINISH_LENGTH : FINISH_NONE;
    return *finish == FINISH_NONE || release_rest(s);
}

/* Rows [first, first + n) of the prompt had logits [n][vocab]: each scores the token after it. */
static bool score_prompt(Sequence *s, int first, int n, const float *logits) {
    int vocab = model_vocab_size(s->model);
    for (int i = 0; i < n && first + i + 1 < s->request.n_prompt; i++) {
        TokenScore *score = score_list_push(&s->prompt_scores);
        if (!score) return error_memory(&s->error, "the prompt's scores");
        score_token(logits + (size_t)i * (size_t)vocab, vocab, s->ids.ids[first + i + 1], s->request.n_top,
                    s->request.hashes, score);
    }
    return true;
}

static bool choose(Sequence *s, Sampler *sampler, const float *logits, FinishReason *finish) {
    int32_t id;
    SamplePrefix prefix = {s->ids.ids, s->request.n_prompt, (int)s->ids.n};
    const uint32_t *allowed = NULL;
    if (s->constraint && !constraint_allowed(s->constraint, &allowed, &s->error)) return false;
    if (!sampler_choose(sampler, &s->request.sampling, logits, allowed, prefix, &id, &s->error)) return false;
    if (s->constraint && !constraint_accept(s->constraint, id, &s->error)) return false;
    if (s->request.scores) {
        TokenScore *score = score_list_push(&s->scores);
        if (!score) return error_memory(&s->error, "the answer's scores");
        score_token(logits, model_vocab_size(s->model), id, s->request.n_top, s->request.hashes, score);
    }
    if (!take_token(s, id, finish)) return false;
    return !(s->text.failed || s->piece.failed) || error_memory(&s->error, "the answer's text");
}

int sequence_accept(Sequence *s, Sampler *sampler, int n, const RowFault *faults, const float *logits) {
    int first = (int)s->prefix.ids.n, n_logits = s->request.scores_prompt ? n : first + n == (int)s->ids.n;
    FinishReason finish = FINISH_NONE;
    bool ok = rows_succeeded(s, n, faults);
    if (ok) take_snapshot(s);
    if (ok && s->request.scores_prompt && first < s->request.n_prompt) ok = score_prompt(s, first, n, logits);
    if (ok && s->prefix.ids.n == s->ids.n) {
        const float *last = logits + (size_t)(n_logits - 1) * (size_t)model_vocab_size(s->model);
        if (s->limit == 0)
            finish = FINISH_LENGTH;
        else
            ok = choose(s, sampler, last, &finish);
    }
    if (!ok) finish = FINISH_FAILED;
    if (finish != FINISH_NONE) sequence_end(s, finish);
    return n_logits;
}

void sequence_cancel(Sequence *s) {
    if (s->finish != FINISH_NONE) return;
    sequence_end(s, release_rest(s) ? FINISH_CANCELLED : FINISH_FAILED);
}

FinishReason sequence_finish(const Sequence *s) {
    return s->finish;
}

const char *sequence_error(const Sequence *s) {
    return s->error.text;
}

int sequence_stop(const Sequence *s) {
    return s->stop ? stop_matched(s->stop) : -1;
}

int sequence_cached(const Sequence *s) {
    return s->n_cached;
}

const int32_t *sequence_answer(const Sequence *s, int *n) {
    *n = (int)s->ids.n - s->request.n_prompt;
    return s->ids.ids + s->request.n_prompt;
}

const Buffer *sequence_text(const Sequence *s) {
    return &s->text;
}

const ScoreList *sequence_scores(const Sequence *s) {
    return &s->scores;
}

ScoreList *sequence_prompt_scores(Sequence *s) {
    return &s->prompt_scores;
}
