/* POST /v1/completions: texts that are gone on with. One Completion is one request, with n choices of each of its
 * prompts. The prompt's echo goes out with a choice's first event, because only then its scores are there. */
#define _POSIX_C_SOURCE 200809L
#include "base/memory.h"
#include "base/utf8.h"
#include "serve/converse.h"
#include "serve/openai.h"
#include "serve/openai_legacy.h"
#include "serve/routes.h"
#include "serve/sse.h"

#include <string.h>
#include <time.h>

enum { MAX_PROMPTS = 128, USUAL_MAX_TOKENS = 16 };

typedef struct CompletionChoice {
    Buffer text;
    LegacyScores scores; /* that were not sent yet */
    Detok *detok;        /* of the tokens scored, to know where in the text each stands */
    Buffer piece;
    size_t offset; /* characters before the next token */
    bool begun;
    const char *finish;
} CompletionChoice;

typedef struct Completion {
    Exchange *exchange;
    Converse converse;
    Inputs prompts;
    Ask *ask;
    bool streams, tells_usage, scores;
    CompletionChoice *choices;
    int n; /* of all prompts */
    char id[40];
    int64_t created;
    Buffer out; /* scratch */
} Completion;

static void completion_free(Completion *c) {
    for (int i = 0; i < c->n && c->choices; i++) {
        buffer_clear(&c->choices[i].text);
        buffer_clear(&c->choices[i].piece);
        legacy_clear(&c->choices[i].scores);
        detok_free(c->choices[i].detok);
    }
    mem_free(c->choices);
    inputs_clear(&c->prompts);
    converse_clear(&c->converse);
    buffer_clear(&c->out);
    mem_free(c);
}

/* ---- what a choice says ---- */

static void write_choice(Completion *c, int choice, const char *text, size_t n, const char *finish) {
    Buffer *out = &c->out;
    buffer_printf(out, "{\"index\": %d, ", choice);
    api_write_text(out, "text", text, n);
    buffer_text(out, ", \"logprobs\": ");
    legacy_write(&c->choices[choice].scores, c->converse.request.hashes, out);
    buffer_printf(out, ", \"finish_reason\": %s%s%s}", finish ? "\"" : "", finish ? finish : "null",
                  finish ? "\"" : "");
}

/* A chunk; or the text is kept. */
static void say(Completion *c, int choice, const char *text, size_t n, const char *finish) {
    if (!c->streams) {
        buffer_append(&c->choices[choice].text, text, n);
        return;
    }
    buffer_reset(&c->out);
    openai_write_head(&c->out, c->id, "text_completion", c->created, c->converse.model->name);
    buffer_text(&c->out, ", \"choices\": [");
    write_choice(c, choice, text, n, finish);
    buffer_printf(&c->out, "]%s}", c->tells_usage ? ", \"usage\": null" : "");
    sse_send(c->exchange, NULL, &c->out);
}

/* ---- scores ---- */

static const Tokenizer *tokenizer_of(const Completion *c) {
    return c->converse.model->loaded.tokenizer;
}

/* Moves the offset past what became readable by a token. */
static void pass_token(CompletionChoice *k, int32_t id) {
    buffer_reset(&k->piece);
    if (k->detok && detok_push(k->detok, id, &k->piece, NULL))
        k->offset += utf8_count(buffer_string(&k->piece), k->piece.length);
}

/* Special tokens are part of a prompt's text where they stand in it, and not where the tokenizer has added them. */
static void score_prompt(Completion *c, int choice, const Input *prompt) {
    CompletionChoice *k = &c->choices[choice];
    size_t n, end = prompt->ids.n - prompt->n_after;
    const TokenScore *scores = ask_prompt_scores(c->ask, choice / c->converse.n_choices, &n);
    if (tokenizer_of(c)) k->detok = detok_new(tokenizer_of(c), false, NULL);
    for (size_t i = 0; i < prompt->ids.n; i++) {
        const TokenScore *score = i > 0 && i <= n ? &scores[i - 1] : NULL;
        legacy_add(&k->scores, tokenizer_of(c), prompt->ids.ids[i], score, k->offset);
        if (i >= prompt->n_before && i < end) pass_token(k, prompt->ids.ids[i]);
    }
    detok_free(k->detok);
    k->detok = NULL;
}

static void write_prompt(const Completion *c, const Input *prompt, Buffer *out) {
    if (prompt->text)
        buffer_append(out, prompt->text, prompt->n_text);
    else if (tokenizer_of(c))
        tokenizer_decode(tokenizer_of(c), prompt->ids.ids, prompt->ids.n, false, out, NULL);
}

/* Before anything else of a choice. */
static void begin_choice(Completion *c, int choice) {
    CompletionChoice *k = &c->choices[choice];
    if (k->begun) return;
    k->begun = true;
    const Input *prompt = &c->prompts.items[choice / c->converse.n_choices];
    if (c->converse.fields.echo.value) {
        Buffer text = {0};
        write_prompt(c, prompt, &text);
        if (c->scores) score_prompt(c, choice, prompt);
        k->offset = utf8_count(buffer_string(&text), text.length);
        say(c, choice, buffer_string(&text), text.length, NULL);
        if (text.failed) k->text.failed = true;
        buffer_clear(&text);
    }
    if (c->scores && tokenizer_of(c)) k->detok = detok_new(tokenizer_of(c), true, NULL);
}

/* ---- the answer's way ---- */

static void on_token(void *context, int choice, const JobEvent *e) {
    Completion *c = context;
    CompletionChoice *k = &c->choices[choice];
    begin_choice(c, choice);
    if (!e->score || !c->scores) return;
    legacy_add(&k->scores, tokenizer_of(c), e->id, e->score, k->offset);
    pass_token(k, e->id);
}

static void on_part(void *context, int choice, const ReplyEvent *e) {
    begin_choice(context, choice);
    say(context, choice, e->text, e->length, NULL);
}

static void on_end(void *context, int choice, FinishReason finish, int n_calls) {
    Completion *c = context;
    (void)n_calls;
    begin_choice(c, choice);
    c->choices[choice].finish = finish == FINISH_LENGTH ? "length" : "stop";
    say(c, choice, "", 0, c->choices[choice].finish);
}

static void on_idle(void *context) {
    Completion *c = context;
    if (c->streams) sse_comment(c->exchange, "keep-alive");
}

static void write_end(Completion *c) {
    buffer_text(&c->out, "], ");
    openai_write_usage(&c->out, c->ask);
    buffer_byte(&c->out, '}');
}

static void on_done(void *context) {
    Completion *c = context;
    buffer_reset(&c->out);
    openai_write_head(&c->out, c->id, "text_completion", c->created, c->converse.model->name);
    buffer_text(&c->out, ", \"choices\": [");
    for (int i = 0; i < c->n && !c->streams; i++) {
        CompletionChoice *k = &c->choices[i];
        buffer_text(&c->out, i ? ", " : "");
        write_choice(c, i, buffer_string(&k->text), k->text.length, k->finish);
        if (k->text.failed) c->out.failed = true;
    }
    write_end(c);
    if (c->streams) {
        if (c->tells_usage) sse_send(c->exchange, NULL, &c->out);
        sse_send_text(c->exchange, "[DONE]");
        exchange_stream_end(c->exchange);
    } else {
        exchange_reply_json(c->exchange, 200, &c->out);
    }
    completion_free(c);
}

static void on_fail(void *context, const char *why) {
    Completion *c = context;
    openai_fail_late(c->exchange, API_COMPLETIONS, why);
    completion_free(c);
}

static void on_left(void *context) {
    completion_free(context);
}

static const AskWriter writer = {on_token, on_part, on_end, on_idle, on_done, on_fail, on_left};

/* ---- the request ---- */

static bool read_numbers(Completion *c, ApiError *err) {
    const Fields *f = &c->converse.fields;
    Request *r = &c->converse.request;
    int n = f->n.set ? (int)f->n.value : 1;
    if (f->best_of.set && f->best_of.value != n)
        return api_refuse(err, 400, "best_of",
                          "'best_of' is %d and 'n' is %d: they must be equal, as every answer is "
                          "sent",
                          (int)f->best_of.value, n);
    if (f->max_tokens.set && f->max_tokens.value == 0 && !f->echo.value)
        return api_refuse(err, 400, "max_tokens", "'max_tokens' is 0: it must be at least 1, or go with 'echo'");
    c->converse.n_choices = n;
    c->converse.max_tokens = f->max_tokens.set ? f->max_tokens.value : USUAL_MAX_TOKENS;
    c->streams = f->stream.value;
    bool includes = false;
    json_bool(json_get(f->stream_options, "include_usage"), &includes);
    c->tells_usage = c->streams && includes;
    r->hashes = f->logits_hash.value;
    r->scores = c->scores = f->legacy_logprobs.set || r->hashes;
    r->scores_prompt = c->scores && f->echo.value;
    r->n_top = f->legacy_logprobs.set ? (int)f->legacy_logprobs.value : 0;
    return true;
}

static bool read_request(Completion *c, Server *s, const JsonValue *body, ApiError *err) {
    Converse *v = &c->converse;
    Fields *f = &v->fields;
    if (!fields_read(body, API_COMPLETIONS, f, err) || !server_model(s, f->model, &v->model, err)) return false;
    if (!read_numbers(c, err) || !converse_settings(v, err) || !converse_shape(v, err)) return false;
    if (!inputs_read(f->prompt, "prompt", MAX_PROMPTS, model_vocab_size(v->model->loaded.model), &c->prompts, err))
        return false;
    c->n = c->prompts.n * v->n_choices;
    if (!converse_has_suffix(v)) return inputs_encode(&c->prompts, v->model, true, err);
    if (f->echo.value) return api_refuse(err, 400, "echo", "'echo' does not go with 'suffix'");
    return converse_infill(v, &c->prompts, err);
}

/* One request for each prompt. */
static bool ask_all(Completion *c, Server *s, ApiError *err) {
    const Converse *v = &c->converse;
    Request *requests = mem_array((size_t)c->prompts.n, sizeof *requests);
    if (!requests) return api_refuse(err, 500, NULL, "out of memory");
    for (int i = 0; i < c->prompts.n; i++) {
        requests[i] = v->request;
        requests[i].prompt = c->prompts.items[i].ids.ids;
        requests[i].n_prompt = (int)c->prompts.items[i].ids.n;
    }
    AskOptions o = {.server = s,
                    .model = v->model,
                    .exchange = c->exchange,
                    .requests = requests,
                    .n_requests = c->prompts.n,
                    .n_choices = v->n_choices,
                    .writer = &writer,
                    .context = c};
    bool ok = ask_start(&o, &c->ask, err);
    mem_free(requests);
    return ok;
}

static bool completion_start(Completion *c, Server *s, ApiError *err) {
    if (!(c->choices = mem_zeroed((size_t)c->n, sizeof *c->choices)))
        return api_refuse(err, 500, NULL, "out of memory");
    openai_new_id(c->id, sizeof c->id, "cmpl-");
    c->created = (int64_t)time(NULL);
    if (!ask_all(c, s, err)) return false;
    if (c->streams) sse_begin(c->exchange);
    return true;
}

void openai_completions(Exchange *x, void *context) {
    Server *s = context;
    ApiError err = {0};
    Completion *c = mem_zeroed(1, sizeof *c);
    const JsonValue *body = api_body(x, c, &err);
    if (c) c->exchange = x;
    if (c && body && read_request(c, s, body, &err) && completion_start(c, s, &err)) return;
    if (c) completion_free(c);
    api_fail(x, API_COMPLETIONS, &err);
}
