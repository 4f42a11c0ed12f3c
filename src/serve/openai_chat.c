/* POST /v1/chat/completions. One Chat is one request; each choice collects its message, or sends it on piece by piece.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/memory.h"
#include "base/rng.h"
#include "serve/converse.h"
#include "serve/openai.h"
#include "serve/openai_tools.h"
#include "serve/routes.h"
#include "serve/sse.h"

#include <string.h>
#include <time.h>

typedef struct ChatChoice {
    Buffer text, reasoning;
    Buffer calls;     /* the items of "tool_calls" */
    Buffer arguments; /* of the call that is being read */
    Buffer logprobs;  /* the items of "content" that were not sent yet */
    const char *finish;
} ChatChoice;

typedef struct Chat {
    Exchange *exchange;
    Converse converse;
    Ask *ask;
    bool streams, tells_usage;
    ChatChoice *choices;
    int n;
    char id[40];
    int64_t created;
    JsonDoc *allowed; /* the tools of tool_choice, of all that there are */
    Buffer out;       /* scratch */
} Chat;

static void chat_free(Chat *c) {
    for (int i = 0; i < c->n && c->choices; i++) {
        buffer_clear(&c->choices[i].text);
        buffer_clear(&c->choices[i].reasoning);
        buffer_clear(&c->choices[i].calls);
        buffer_clear(&c->choices[i].arguments);
        buffer_clear(&c->choices[i].logprobs);
    }
    mem_free(c->choices);
    converse_clear(&c->converse);
    json_free(c->allowed);
    buffer_clear(&c->out);
    mem_free(c);
}

/* ---- streaming ---- */

static void chunk_begin(Chat *c, int choice) {
    buffer_reset(&c->out);
    openai_write_head(&c->out, c->id, "chat.completion.chunk", c->created, c->converse.model->name);
    buffer_printf(&c->out, ", \"choices\": [{\"index\": %d, \"delta\": {", choice);
}

/* What was scored since the last chunk goes with this one, so each token's score is sent once. */
static void chunk_end(Chat *c, int choice, const char *finish) {
    ChatChoice *k = &c->choices[choice];
    buffer_text(&c->out, "}, \"logprobs\": ");
    if (k->logprobs.length > 0)
        buffer_printf(&c->out, "{\"content\": [%s], \"refusal\": null}", buffer_string(&k->logprobs));
    else
        buffer_text(&c->out, "null");
    buffer_reset(&k->logprobs);
    buffer_printf(&c->out, ", \"finish_reason\": %s%s%s}]%s}", finish ? "\"" : "", finish ? finish : "null",
                  finish ? "\"" : "", c->tells_usage ? ", \"usage\": null" : "");
    sse_send(c->exchange, NULL, &c->out);
}

static void send_delta(Chat *c, int choice, const char *key, const char *text, size_t n) {
    chunk_begin(c, choice);
    api_write_text(&c->out, key, text, n);
    chunk_end(c, choice, NULL);
}

static void send_call(Chat *c, int choice, const ReplyEvent *e, const char *id) {
    chunk_begin(c, choice);
    buffer_printf(&c->out, "\"tool_calls\": [{\"index\": %d, ", e->call);
    if (e->part == REPLY_CALL) {
        api_write_text(&c->out, "id", id, strlen(id));
        buffer_text(&c->out, ", \"type\": \"function\", \"function\": {");
        api_write_text(&c->out, "name", e->text, e->length);
        buffer_text(&c->out, ", \"arguments\": \"\"}}]");
    } else {
        buffer_text(&c->out, "\"function\": {");
        api_write_text(&c->out, "arguments", e->text, e->length);
        buffer_text(&c->out, "}}]");
    }
    chunk_end(c, choice, NULL);
}

static void stream_part(Chat *c, int choice, const ReplyEvent *e) {
    char id[OPENAI_CALL_ID];
    switch (e->part) {
    case REPLY_TEXT: send_delta(c, choice, "content", e->text, e->length); break;
    case REPLY_REASONING: send_delta(c, choice, "reasoning_content", e->text, e->length); break;
    case REPLY_CALL:
        openai_call_id(e, id);
        send_call(c, choice, e, id);
        break;
    case REPLY_ARGUMENTS: send_call(c, choice, e, NULL); break;
    case REPLY_CALL_END: break;
    }
}

/* ---- collecting ---- */

static void collect_part(ChatChoice *k, const ReplyEvent *e) {
    char id[OPENAI_CALL_ID];
    switch (e->part) {
    case REPLY_TEXT: buffer_append(&k->text, e->text, e->length); break;
    case REPLY_REASONING: buffer_append(&k->reasoning, e->text, e->length); break;
    case REPLY_CALL:
        openai_call_id(e, id);
        buffer_printf(&k->calls, "%s{", k->calls.length ? ", " : "");
        api_write_text(&k->calls, "id", id, strlen(id));
        buffer_text(&k->calls, ", \"type\": \"function\", \"function\": {");
        api_write_text(&k->calls, "name", e->text, e->length);
        break;
    case REPLY_ARGUMENTS: buffer_append(&k->arguments, e->text, e->length); break;
    case REPLY_CALL_END:
        buffer_text(&k->calls, ", ");
        api_write_text(&k->calls, "arguments", buffer_string(&k->arguments), k->arguments.length);
        buffer_text(&k->calls, "}}");
        buffer_reset(&k->arguments);
        break;
    }
}

static void write_choice(Chat *c, int choice) {
    ChatChoice *k = &c->choices[choice];
    Buffer *out = &c->out;
    buffer_printf(out, "%s{\"index\": %d, \"message\": {\"role\": \"assistant\", ", choice ? ", " : "", choice);
    if (k->text.length == 0 && k->calls.length > 0)
        buffer_text(out, "\"content\": null");
    else
        api_write_text(out, "content", buffer_string(&k->text), k->text.length);
    buffer_text(out, ", \"refusal\": null");
    if (k->reasoning.length > 0) {
        buffer_text(out, ", ");
        api_write_text(out, "reasoning_content", buffer_string(&k->reasoning), k->reasoning.length);
    }
    if (k->calls.length > 0) buffer_printf(out, ", \"tool_calls\": [%s]", buffer_string(&k->calls));
    buffer_text(out, "}, \"logprobs\": ");
    if (c->converse.request.scores)
        buffer_printf(out, "{\"content\": [%s], \"refusal\": null}", buffer_string(&k->logprobs));
    else
        buffer_text(out, "null");
    buffer_printf(out, ", \"finish_reason\": \"%s\"}", k->finish);
    if (k->text.failed || k->reasoning.failed || k->calls.failed || k->arguments.failed || k->logprobs.failed)
        out->failed = true;
}

/* ---- the answer's way ---- */

static void on_token(void *context, int choice, const JobEvent *e) {
    Chat *c = context;
    if (!e->score) return;
    Buffer *out = &c->choices[choice].logprobs;
    buffer_text(out, out->length ? ", " : "");
    openai_write_score(out, c->converse.model->loaded.tokenizer, e->score, c->converse.request.hashes);
}

static void on_part(void *context, int choice, const ReplyEvent *e) {
    Chat *c = context;
    if (c->streams)
        stream_part(c, choice, e);
    else
        collect_part(&c->choices[choice], e);
    if (e->part == REPLY_CALL_END && c->converse.one_call) ask_cut(c->ask, choice);
}

static void on_end(void *context, int choice, FinishReason finish, int n_calls) {
    Chat *c = context;
    const char *why = finish == FINISH_LENGTH ? "length" : n_calls > 0 ? "tool_calls" : "stop";
    c->choices[choice].finish = why;
    if (!c->streams) return;
    chunk_begin(c, choice);
    chunk_end(c, choice, why);
}

static void on_idle(void *context) {
    Chat *c = context;
    if (c->streams) sse_comment(c->exchange, "keep-alive");
}

static void stream_done(Chat *c) {
    if (c->tells_usage) {
        buffer_reset(&c->out);
        openai_write_head(&c->out, c->id, "chat.completion.chunk", c->created, c->converse.model->name);
        buffer_text(&c->out, ", \"choices\": [], ");
        openai_write_usage(&c->out, c->ask);
        buffer_byte(&c->out, '}');
        sse_send(c->exchange, NULL, &c->out);
    }
    sse_send_text(c->exchange, "[DONE]");
    exchange_stream_end(c->exchange);
}

static void on_done(void *context) {
    Chat *c = context;
    if (c->streams) {
        stream_done(c);
    } else {
        buffer_reset(&c->out);
        openai_write_head(&c->out, c->id, "chat.completion", c->created, c->converse.model->name);
        buffer_text(&c->out, ", \"choices\": [");
        for (int i = 0; i < c->n; i++) write_choice(c, i);
        buffer_text(&c->out, "], ");
        openai_write_usage(&c->out, c->ask);
        buffer_byte(&c->out, '}');
        exchange_reply_json(c->exchange, 200, &c->out);
    }
    chat_free(c);
}

static void on_fail(void *context, const char *why) {
    Chat *c = context;
    openai_fail_late(c->exchange, API_CHAT, why);
    chat_free(c);
}

static void on_left(void *context) {
    chat_free(context);
}

static const AskWriter writer = {on_token, on_part, on_end, on_idle, on_done, on_fail, on_left};

/* ---- the request ---- */

static bool read_request(Chat *c, Server *s, const JsonValue *body, ApiError *err) {
    Converse *v = &c->converse;
    Fields *f = &v->fields;
    if (!fields_read(body, API_CHAT, f, err) || !server_model(s, f->model, &v->model, err)) return false;
    if (f->max_tokens.set && f->max_tokens.value == 0)
        return api_refuse(err, 400, "max_tokens", "'max_tokens' is 0: it must be at least 1");
    if (f->max_completion_tokens.set && f->max_completion_tokens.value == 0)
        return api_refuse(err, 400, "max_completion_tokens", "'max_completion_tokens' is 0: it must be at least 1");
    if (f->functions && f->functions->length > 0)
        return api_refuse(err, 400, "functions", "'functions' has become 'tools': send those");
    if (f->top_logprobs.set && !f->logprobs.value)
        return api_refuse(err, 400, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
    v->messages = f->messages;
    v->max_tokens = converse_limit(f->max_tokens, f->max_completion_tokens);
    c->n = v->n_choices = f->n.set ? (int)f->n.value : 1;
    c->streams = f->stream.value;
    bool includes = false;
    json_bool(json_get(f->stream_options, "include_usage"), &includes);
    c->tells_usage = c->streams && includes;
    v->request.scores = f->logprobs.value || f->logits_hash.value;
    v->request.n_top = f->top_logprobs.set ? (int)f->top_logprobs.value : 0;
    v->request.hashes = f->logits_hash.value;
    return openai_choose_tools(v, f->tools, &c->allowed, err) && converse_prepare(v, err);
}

static bool chat_start(Chat *c, Server *s, ApiError *err) {
    if (!(c->choices = mem_zeroed((size_t)c->n, sizeof *c->choices)))
        return api_refuse(err, 500, NULL, "out of memory");
    openai_new_id(c->id, sizeof c->id, "chatcmpl-");
    c->created = (int64_t)time(NULL);
    if (!converse_start(&c->converse, s, c->exchange, &writer, c, &c->ask, err)) return false;
    if (!c->streams) return true;
    sse_begin(c->exchange);
    for (int i = 0; i < c->n; i++) {
        chunk_begin(c, i);
        buffer_text(&c->out, "\"role\": \"assistant\", \"content\": \"\"");
        chunk_end(c, i, NULL);
    }
    return true;
}

void openai_chat(Exchange *x, void *context) {
    Server *s = context;
    ApiError err = {0};
    Chat *c = mem_zeroed(1, sizeof *c);
    const JsonValue *body = api_body(x, c, &err);
    if (c) c->exchange = x;
    if (c && body && read_request(c, s, body, &err) && chat_start(c, s, &err)) return;
    if (c) chat_free(c);
    api_fail(x, API_CHAT, &err);
}
