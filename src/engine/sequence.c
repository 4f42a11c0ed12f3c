/* A sequence's life: its prompt goes out as rows, its answer comes back as tokens, and text is released once nothing
 * can take it back.
 *
 * The invariant: the prefix holds exactly the ids whose rows were run; `ids` is the prompt and the answer. The next
 * rows are the difference of the two, so a prompt's chunk, a decoded token, and a prefix that is run again because a
 * rotary table changed are the same thing here. */
#include "engine/sequence.h"
#include "base/memory.h"
#include "text/stop.h"

#include <stdio.h>

struct Sequence {
    Request request;
    const Model *model;
    Prefix *prefix;
    int32_t n_tokens;    /* of the tokenizer: a model's vocabulary is often padded past it */
    IdList ids;          /* prompt, then answer */
    int n_cached, limit; /* limit: tokens the answer may have */
    Detok *detok;        /* NULL: no text */
    StopMatcher *stop;   /* likewise */
    Buffer text, piece;  /* released text; scratch */
    FinishReason finish;
    Error error;
};

static bool request_check(const Request *r, const Model *model, const Tokenizer *tokenizer, Error *err) {
    int vocab = model_vocab_size(model), context = model_context(model);
    if (r->n_prompt < 1) return error_set(err, "the prompt is empty: a model needs at least one token");
    for (int i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= vocab)
            return error_set(err, "id %d of the prompt is outside the vocabulary (0 to %d)", r->prompt[i], vocab - 1);
    if (r->n_prompt > context)
        return error_set(err, "the prompt has %d tokens, the context holds %d: shorten the prompt%s", r->n_prompt,
                         context, context < model_max_context(model) ? " or raise --ctx" : "");
    if (r->n_stops > 0 && !tokenizer)
        return error_set(err, "stop strings need a tokenizer, and this model's folder has no tokenizer.json");
    return sampling_check(&r->sampling, vocab, err);
}

Sequence *sequence_new(const Request *request, const Model *model, const Tokenizer *tokenizer, Prefix *prefix,
                       Error *err) {
    if (!request_check(request, model, tokenizer, err)) return NULL;
    Sequence *s = mem_zeroed(1, sizeof *s);
    if (!s) {
        error_memory(err, "a sequence");
        return NULL;
    }
    s->request = *request;
    s->model = model;
    s->prefix = prefix;
    s->n_tokens = tokenizer ? tokenizer_size(tokenizer) : 0;
    int room = model_context(model) - request->n_prompt;
    s->limit = request->max_tokens < 0 || request->max_tokens > room ? room : request->max_tokens;
    if (s->limit == 0) s->finish = FINISH_LENGTH;
    for (int i = 0; i < request->n_prompt; i++)
        if (!id_list_push(&s->ids, request->prompt[i])) {
            error_memory(err, "the prompt");
            goto fail;
        }
    if (tokenizer && (!(s->detok = detok_new(tokenizer, true, err)) ||
                      !(s->stop = stop_new(request->stops, (size_t)request->n_stops, err))))
        goto fail;
    if (s->detok) detok_keep(s->detok, request->kept_ids, (size_t)request->n_kept_ids);
    if (!prefix_fit(prefix, model_state_shape(model), model_side(model, request->n_prompt), request->prompt,
                    request->n_prompt, err))
        goto fail;
    s->n_cached = (int)prefix->ids.n;
    return s;
fail:
    sequence_free(s);
    return NULL;
}

void sequence_free(Sequence *s) {
    if (!s) return;
    id_list_clear(&s->ids);
    detok_free(s->detok);
    stop_free(s->stop);
    buffer_clear(&s->text);
    buffer_clear(&s->piece);
    mem_free(s);
}

int sequence_rows(Sequence *s, int max_rows, Row *rows) {
    if (s->finish != FINISH_NONE) return 0;
    int side = model_side(s->model, (int)s->ids.n);
    if (state_side(s->prefix->state) != side) prefix_restart(s->prefix, side);
    int done = (int)s->prefix->ids.n, n = (int)s->ids.n - done;
    if (n > max_rows) n = max_rows;
    for (int i = 0; i < n; i++)
        rows[i] = (Row){.state = s->prefix->state,
                        .position = done + i,
                        .token = s->ids.ids[done + i],
                        .wants_logits = done + i + 1 == (int)s->ids.n};
    return n;
}

/* A state with a failed row must not be used further, so the prefix goes with it. */
static void sequence_fail(Sequence *s) {
    prefix_clear(s->prefix);
    s->finish = FINISH_FAILED;
}

static bool rows_succeeded(Sequence *s, int n, const RowFault *faults) {
    for (int i = 0; i < n; i++) {
        if (!faults[i].failed) continue;
        int position = (int)s->prefix->ids.n + i;
        if (faults[i].layer < 0)
            error_set(&s->error, "position %d: %s gave a value that is not finite", position, faults[i].operation);
        else
            error_set(&s->error, "position %d: layer %d, %s gave a value that is not finite", position, faults[i].layer,
                      faults[i].operation);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!id_list_push(&s->prefix->ids, s->ids.ids[s->prefix->ids.n]))
            return error_memory(&s->error, "a sequence's ids");
    return true;
}

/* Passes s->piece on to the text, through the stop strings. */
static bool release_piece(Sequence *s) {
    bool ok = stop_push(s->stop, buffer_string(&s->piece), s->piece.length, &s->text, &s->error);
    buffer_reset(&s->piece);
    if (ok && stop_matched(s->stop) >= 0) s->finish = FINISH_STOP;
    return ok;
}

/* Nothing follows: half a character and the beginning of a stop string are text after all. */
static bool release_rest(Sequence *s) {
    return !s->detok || (detok_finish(s->detok, &s->piece, &s->error) && release_piece(s) &&
                         stop_finish(s->stop, &s->text, &s->error));
}

static bool is_end(const Request *r, int32_t id) {
    for (int i = 0; i < r->n_end_ids; i++)
        if (r->end_ids[i] == id) return true;
    return false;
}

static bool take_token(Sequence *s, int32_t id) {
    if (!id_list_push(&s->ids, id)) return error_memory(&s->error, "the answer");
    bool stopped = is_end(&s->request, id);
    if (!stopped && id < s->n_tokens) {
        if (!detok_push(s->detok, id, &s->piece, &s->error) || !release_piece(s)) return false;
        if (s->finish == FINISH_STOP) return true; /* a stop string: what was withheld is part of it or after it */
    }
    if (stopped)
        s->finish = FINISH_STOP;
    else if ((int)s->ids.n - s->request.n_prompt == s->limit)
        s->finish = FINISH_LENGTH;
    return s->finish == FINISH_NONE || release_rest(s);
}

void sequence_accept(Sequence *s, Sampler *sampler, int n, const RowFault *faults, const float *logits) {
    if (!rows_succeeded(s, n, faults)) {
        sequence_fail(s);
        return;
    }
    if (!logits) return;
    int32_t id;
    SamplePrefix prefix = {s->ids.ids, s->request.n_prompt, (int)s->ids.n};
    bool ok = sampler_choose(sampler, &s->request.sampling, logits, prefix, &id, &s->error) && take_token(s, id);
    if (ok && (s->text.failed || s->piece.failed)) ok = error_memory(&s->error, "the answer's text");
    if (!ok) s->finish = FINISH_FAILED;
}

void sequence_cancel(Sequence *s) {
    if (s->finish != FINISH_NONE) return;
    s->finish = FINISH_CANCELLED;
    if (!release_rest(s)) s->finish = FINISH_FAILED;
}

FinishReason sequence_finish(const Sequence *s) {
    return s->finish;
}

const char *sequence_error(const Sequence *s) {
    return s->error.text;
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
