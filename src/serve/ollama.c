/* POST /api/chat and /api/generate: an answer as lines of JSON, or as one object. Both are the same but for where the
 * text stands in it, and for a prompt that goes to the model as it is ("raw"), or with what comes after the answer
 * ("suffix"). */
#define _POSIX_C_SOURCE 200809L
#include "serve/ollama.h"
#include "base/memory.h"
#include "serve/converse.h"
#include "serve/openai.h"
#include "serve/openai_tools.h"
#include "serve/routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct OllamaAnswer {
    Exchange *exchange;
    Converse converse;
    JsonDoc *messages;
    Inputs prompt; /* a raw one */
    Ask *ask;
    const char *model; /* as the client has called it */
    bool chats, streams;
    Buffer text, thinking, calls, arguments; /* collected; when streaming, only a call is */
    Buffer scores;                           /* the items of "logprobs" that were not sent yet */
    IdList context;                          /* of a text: all ids so far, for the next one to begin with */
    bool remembers;                          /* they are told */
    const char *reason;                      /* why it ended */
    Buffer out;                              /* scratch */
} OllamaAnswer;

static void answer_free(OllamaAnswer *a) {
    converse_clear(&a->converse);
    inputs_clear(&a->prompt);
    json_free(a->messages);
    buffer_clear(&a->text);
    buffer_clear(&a->thinking);
    buffer_clear(&a->calls);
    buffer_clear(&a->arguments);
    buffer_clear(&a->scores);
    id_list_clear(&a->context);
    buffer_clear(&a->out);
    mem_free(a);
}

/* ---- what is sent ---- */

/* {"model": ..., "created_at": ..., and the answer, or the piece of it that was collected. */
static void write_answer(OllamaAnswer *a) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    buffer_reset(&a->out);
    buffer_byte(&a->out, '{');
    api_write_text(&a->out, "model", a->model, strlen(a->model));
    buffer_text(&a->out, ", ");
    api_write_time(&a->out, "created_at", now.tv_sec, now.tv_nsec);
    buffer_text(&a->out, a->chats ? ", \"message\": {\"role\": \"assistant\", " : ", ");
    api_write_text(&a->out, a->chats ? "content" : "response", buffer_string(&a->text), a->text.length);
    if (a->thinking.length > 0) {
        buffer_text(&a->out, ", ");
        api_write_text(&a->out, "thinking", buffer_string(&a->thinking), a->thinking.length);
    }
    if (a->calls.length > 0) buffer_printf(&a->out, ", \"tool_calls\": [%s]", buffer_string(&a->calls));
    if (a->chats) buffer_byte(&a->out, '}');
    if (a->scores.length > 0) buffer_printf(&a->out, ", \"logprobs\": [%s]", buffer_string(&a->scores));
}

static void send_line(OllamaAnswer *a) {
    buffer_byte(&a->out, '\n');
    if (!a->out.failed) exchange_send(a->exchange, buffer_string(&a->out), a->out.length);
}

static void send_piece(OllamaAnswer *a) {
    if (!a->streams) return;
    write_answer(a);
    buffer_text(&a->out, ", \"done\": false}");
    send_line(a);
    buffer_reset(&a->text);
    buffer_reset(&a->thinking);
    buffer_reset(&a->calls);
    buffer_reset(&a->scores);
}

static void write_nanoseconds(Buffer *out, const char *key, double seconds) {
    buffer_printf(out, ", \"%s\": %" PRId64, key, seconds > 0 ? (int64_t)(seconds * 1e9) : 0);
}

static void write_context(OllamaAnswer *a) {
    buffer_text(&a->out, ", \"context\": [");
    for (size_t i = 0; i < a->context.n; i++) buffer_printf(&a->out, "%s%d", i ? ", " : "", a->context.ids[i]);
    buffer_byte(&a->out, ']');
}

static void write_end(OllamaAnswer *a, JobUsage u) {
    double first = u.n_answer > 0 ? u.first_token_seconds : u.seconds;
    buffer_printf(&a->out, ", \"done\": true, \"done_reason\": \"%s\"", a->reason);
    if (a->remembers) write_context(a);
    write_nanoseconds(&a->out, "total_duration", u.seconds);
    write_nanoseconds(&a->out, "load_duration", 0);
    buffer_printf(&a->out, ", \"prompt_eval_count\": %d", u.n_prompt);
    write_nanoseconds(&a->out, "prompt_eval_duration", first - u.queued_seconds);
    buffer_printf(&a->out, ", \"eval_count\": %d", u.n_answer);
    write_nanoseconds(&a->out, "eval_duration", u.seconds - first);
    buffer_byte(&a->out, '}');
    if (a->text.failed || a->thinking.failed || a->calls.failed || a->arguments.failed || a->scores.failed)
        a->out.failed = true;
}

/* ---- the answer's way ---- */

static void begin_call(OllamaAnswer *a, const ReplyEvent *e) {
    char id[OPENAI_CALL_ID];
    openai_call_id(e, id);
    buffer_reset(&a->arguments);
    buffer_text(&a->calls, a->calls.length ? ", {" : "{");
    api_write_text(&a->calls, "id", id, strlen(id));
    buffer_printf(&a->calls, ", \"function\": {\"index\": %d, ", e->call);
    api_write_text(&a->calls, "name", e->text, e->length);
}

static void on_token(void *context, int choice, const JobEvent *e) {
    OllamaAnswer *a = context;
    (void)choice;
    a->remembers = a->remembers && id_list_push(&a->context, e->id);
    if (!e->score) return;
    buffer_text(&a->scores, a->scores.length ? ", " : "");
    openai_write_score(&a->scores, a->converse.model->loaded.tokenizer, e->score, false);
}

static void on_part(void *context, int choice, const ReplyEvent *e) {
    OllamaAnswer *a = context;
    (void)choice;
    switch (e->part) {
    case REPLY_TEXT: buffer_append(&a->text, e->text, e->length); break;
    case REPLY_REASONING: buffer_append(&a->thinking, e->text, e->length); break;
    case REPLY_CALL: begin_call(a, e); return;
    case REPLY_ARGUMENTS: buffer_append(&a->arguments, e->text, e->length); return;
    case REPLY_CALL_END:
        buffer_printf(&a->calls, ", \"arguments\": %s}}", a->arguments.length ? buffer_string(&a->arguments) : "{}");
        break;
    }
    send_piece(a);
}

static void on_end(void *context, int choice, FinishReason finish, int n_calls) {
    OllamaAnswer *a = context;
    (void)choice, (void)n_calls;
    a->reason = finish == FINISH_LENGTH ? "length" : "stop";
}

static void on_done(void *context) {
    OllamaAnswer *a = context;
    write_answer(a);
    write_end(a, ask_usage(a->ask));
    if (a->streams) {
        send_line(a);
        exchange_stream_end(a->exchange);
    } else {
        exchange_reply_json(a->exchange, 200, &a->out);
    }
    answer_free(a);
}

static void on_fail(void *context, const char *why) {
    OllamaAnswer *a = context;
    ApiError err;
    api_refuse(&err, 500, NULL, "%s", why);
    if (a->streams) {
        buffer_reset(&a->out);
        api_write_error(&a->out, API_OLLAMA, exchange_id(a->exchange), &err);
        send_line(a);
        exchange_stream_end(a->exchange);
    } else {
        api_fail(a->exchange, API_OLLAMA, &err);
    }
    answer_free(a);
}

static void on_left(void *context) {
    answer_free(context);
}

static const AskWriter writer = {on_token, on_part, on_end, NULL, on_done, on_fail, on_left};

/* ---- the request ---- */

bool ollama_model(Server *s, const char *name, ServedModel **out, ApiError *err) {
    char plain[256];
    const char *tag = name ? strrchr(name, ':') : NULL;
    if (!name || !*name) return api_refuse(err, 400, "model", "model is required");
    if (!tag || strcmp(tag, ":latest") != 0 || (size_t)(tag - name) >= sizeof plain)
        return server_model(s, name, out, err);
    snprintf(plain, sizeof plain, "%.*s", (int)(tag - name), name);
    return server_model(s, plain, out, err);
}

/* One message under the names that templates know. */
static bool write_message(Buffer *out, const JsonValue *message, uint32_t i, ApiError *err) {
    static const char *const names[][2] = {{"thinking", "reasoning_content"}, {"tool_name", "name"}};
    char place[64];
    snprintf(place, sizeof place, "messages[%u]", i);
    if (message->type != JSON_OBJECT) return api_refuse(err, 400, place, "%s: it must be an object", place);
    const JsonValue *images = json_get_set(message, "images");
    if (images && images->length > 0)
        return api_refuse(err, 400, place, "%s.images: this server reads text, not images", place);
    buffer_text(out, i ? ", {" : "{");
    bool first = true;
    for (uint32_t k = 0; k < message->length; k++) {
        const JsonMember *m = &message->members[k];
        const char *key = m->key;
        if (strcmp(key, "images") == 0) continue;
        for (size_t j = 0; j < sizeof names / sizeof *names; j++)
            if (strcmp(key, names[j][0]) == 0) key = names[j][1];
        buffer_text(out, first ? "" : ", ");
        json_write_string(out, key, strlen(key), false);
        buffer_text(out, ": ");
        json_write(out, &m->value, NULL);
        first = false;
    }
    buffer_byte(out, '}');
    return true;
}

static void write_turn(Buffer *out, const char *role, const char *text, size_t n) {
    buffer_printf(out, "%s{\"role\": \"%s\", ", out->length > 1 ? ", " : "", role);
    api_write_text(out, "content", text, n);
    buffer_byte(out, '}');
}

/* The chat's messages, or a chat of the system's text and the prompt. */
static bool make_messages(OllamaAnswer *a, ApiError *err) {
    const Fields *f = &a->converse.fields;
    const char *system = json_string(f->system);
    Buffer out = {0};
    Error why = {"out of memory"};
    bool ok = true;
    buffer_byte(&out, '[');
    for (uint32_t i = 0; ok && a->chats && i < f->messages->length; i++)
        ok = write_message(&out, json_item(f->messages, i), i, err);
    if (!a->chats && system && *system) write_turn(&out, "system", system, f->system->length);
    if (!a->chats) write_turn(&out, "user", f->prompt->text, f->prompt->length);
    buffer_byte(&out, ']');
    if (ok && (out.failed || !(a->messages = json_parse(out.data, out.length, 0, &why))))
        ok = api_refuse_error(err, 500, NULL, &why);
    buffer_clear(&out);
    if (ok) a->converse.messages = json_root(a->messages);
    return ok;
}

static bool make_raw(OllamaAnswer *a, ApiError *err) {
    Converse *v = &a->converse;
    if (!converse_settings(v, err) || !converse_shape(v, err) ||
        !inputs_read(v->fields.prompt, "prompt", 1, model_vocab_size(v->model->loaded.model), &a->prompt, err))
        return false;
    if (converse_has_suffix(v) ? !converse_infill(v, &a->prompt, err) : !inputs_encode(&a->prompt, v->model, true, err))
        return false;
    v->request.prompt = a->prompt.items[0].ids.ids;
    v->request.n_prompt = (int)a->prompt.items[0].ids.n;
    return true;
}

/* true, false, or how much: "low", "medium", "high", "max", or what else the template knows. */
static bool read_think(Converse *v, ApiError *err) {
    const JsonValue *think = v->fields.think;
    if (!think) return true;
    v->fixed_thinking = v->thinks = true;
    if (json_bool(think, &v->thinks)) return true;
    if (!json_string(think) || think->length == 0)
        return api_refuse(err, 400, "think", "'think' must be true, false, or a level: low, medium, high or max");
    v->thinks = !json_equals(think, "none");
    v->fields.reasoning_effort = think->text;
    return true;
}

/* Only what is kept is accepted. */
static bool check_fields(OllamaAnswer *a, ApiError *err) {
    const Fields *f = &a->converse.fields;
    if (a->chats && converse_has_suffix(&a->converse))
        return api_refuse(err, 400, "suffix", "'suffix' is for /api/generate: leave it away");
    if (!a->chats && f->prompt && f->prompt->type != JSON_STRING)
        return api_refuse(err, 400, "prompt", "'prompt' must be a string");
    if (!a->chats && f->system && f->system->type != JSON_STRING)
        return api_refuse(err, 400, "system", "'system' must be a string");
    if (f->top_logprobs.set && f->top_logprobs.value > 0 && !f->logprobs.value)
        return api_refuse(err, 400, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
    return openai_check_tools(f->tools, err);
}

static bool read_request(OllamaAnswer *a, Server *s, const JsonValue *body, ApiError *err) {
    Converse *v = &a->converse;
    Fields *f = &v->fields;
    if (!fields_read(body, API_OLLAMA, f, err) || !ollama_model(s, f->model, &v->model, err)) return false;
    a->model = f->model;
    if (f->options && !fields_read(f->options, API_OLLAMA, f, err)) return false;
    if (!check_fields(a, err) || !read_think(v, err)) return false;
    a->streams = !f->stream.set || f->stream.value;
    v->n_choices = 1;
    v->max_tokens = f->max_tokens.set && f->max_tokens.value >= 0 ? f->max_tokens.value : -1;
    v->request.scores = f->logprobs.value;
    v->request.n_top = f->top_logprobs.set ? (int)f->top_logprobs.value : 0;
    v->tools = a->chats && f->tools && f->tools->length > 0 ? f->tools : NULL;
    return true;
}

/* Without a prompt a client wants the model loaded, which it is. */
static bool has_prompt(const OllamaAnswer *a) {
    const Fields *f = &a->converse.fields;
    const JsonValue *prompt = a->chats ? f->messages : f->prompt;
    return prompt && (prompt->length > 0 || converse_has_suffix(&a->converse));
}

static void reply_loaded(OllamaAnswer *a) {
    a->reason = "load";
    write_answer(a);
    write_end(a, (JobUsage){0});
    exchange_reply_json(a->exchange, 200, &a->out);
    answer_free(a);
}

/* The prompt after what the client remembers of earlier ones, as Ollama has it: no template sees those again. */
static bool put_context(OllamaAnswer *a, ApiError *err) {
    Converse *v = &a->converse;
    const JsonValue *before = v->fields.context;
    if (before && !inputs_read_ids(before, "context", model_vocab_size(v->model->loaded.model), &a->context, err))
        return false;
    if (!id_list_append(&a->context, v->request.prompt, (size_t)v->request.n_prompt))
        return api_refuse(err, 500, NULL, "out of memory");
    v->request.prompt = a->context.ids;
    v->request.n_prompt = (int)a->context.n;
    a->remembers = true;
    return true;
}

static bool prepare(OllamaAnswer *a, ApiError *err) {
    const Fields *f = &a->converse.fields;
    bool raw = f->raw.value || converse_has_suffix(&a->converse) || !a->converse.model->loaded.chat_template;
    if (!a->chats && raw && f->context && f->context->length > 0)
        return api_refuse(err, 400, "context", "'context' does not go with a prompt that the model gets as it is");
    if (!a->chats && raw) return make_raw(a, err);
    return make_messages(a, err) && converse_prepare(&a->converse, err) && (a->chats || put_context(a, err));
}

static void answer(Exchange *x, Server *s, bool chats) {
    ApiError err = {0};
    OllamaAnswer *a = mem_zeroed(1, sizeof *a);
    const JsonValue *body = api_body(x, a, &err);
    if (a) a->exchange = x;
    if (a) a->chats = chats;
    bool ok = a && body && read_request(a, s, body, &err);
    if (ok && !has_prompt(a)) {
        reply_loaded(a);
        return;
    }
    if (ok && prepare(a, &err) && converse_start(&a->converse, s, x, &writer, a, &a->ask, &err)) {
        if (a->streams) exchange_stream_begin(x, "application/x-ndjson");
        return;
    }
    if (a) answer_free(a);
    api_fail(x, API_OLLAMA, &err);
}

void ollama_chat(Exchange *x, void *context) {
    answer(x, context, true);
}

void ollama_generate(Exchange *x, void *context) {
    answer(x, context, false);
}
