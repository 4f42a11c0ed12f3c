/* POST /v1/responses. The request's items become chat messages, the answer's parts become items; what was said is kept,
 * unless the client wants it not to be, so that the next request need not send it again. */
#define _POSIX_C_SOURCE 200809L
#include "base/memory.h"
#include "serve/converse.h"
#include "serve/openai_tools.h"
#include "serve/responses_fit.h"
#include "serve/responses_input.h"
#include "serve/responses_output.h"
#include "serve/responses_store.h"
#include "serve/routes.h"
#include "serve/sse.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

typedef struct Response {
    Server *server;
    Exchange *exchange;
    Converse converse;
    JsonDoc *messages, *tools, *allowed, *history;
    Buffer input; /* all items that go in */
    Ask *ask;
    ResponseOutput output;
    bool stores, scores;
    char id[40];
    int64_t created;
    FinishReason finish;
} Response;

static void response_free(Response *r) {
    converse_clear(&r->converse);
    json_free(r->messages);
    json_free(r->tools);
    json_free(r->allowed);
    json_free(r->history);
    buffer_clear(&r->input);
    response_clear(&r->output);
    mem_free(r);
}

/* ---- the object ---- */

/* What the client said, or what it would have said. */
static void write_echo(Buffer *out, const char *key, const JsonValue *said, const char *otherwise) {
    buffer_printf(out, ", \"%s\": ", key);
    if (said)
        json_write(out, said, NULL);
    else
        buffer_text(out, otherwise);
}

/* A client may say how verbose the text is to be and nothing of its format; the format is there all the same. */
static void write_text_echo(Buffer *out, const JsonValue *said) {
    buffer_text(out, ", \"text\": {\"format\": ");
    const JsonValue *format = json_get_set(said, "format");
    if (format)
        json_write(out, format, NULL);
    else
        buffer_text(out, "{\"type\": \"text\"}");
    for (uint32_t i = 0; said && i < said->length; i++) {
        const JsonMember *m = &said->members[i];
        if (strcmp(m->key, "format") == 0) continue;
        buffer_text(out, ", ");
        json_write_string(out, m->key, m->key_length, false);
        buffer_text(out, ": ");
        json_write(out, &m->value, NULL);
    }
    buffer_byte(out, '}');
}

static void write_echoes(const Response *r, const JsonValue *body, Buffer *out) {
    static const struct {
        const char *key, *otherwise;
    } echoes[] = {{"instructions", "null"},
                  {"max_output_tokens", "null"},
                  {"metadata", "{}"},
                  {"parallel_tool_calls", "true"},
                  {"previous_response_id", "null"},
                  {"reasoning", "{\"effort\": null, \"summary\": null}"},
                  {"tool_choice", "\"auto\""},
                  {"tools", "[]"},
                  {"top_logprobs", "0"},
                  {"truncation", "\"disabled\""},
                  {"user", "null"}};
    const Sampling *s = &r->converse.request.sampling;
    for (size_t i = 0; i < sizeof echoes / sizeof *echoes; i++)
        write_echo(out, echoes[i].key, json_get_set(body, echoes[i].key), echoes[i].otherwise);
    write_text_echo(out, json_get_set(body, "text"));
    buffer_printf(out, ", \"temperature\": %.6g, \"top_p\": %.6g, \"store\": %s, \"background\": false",
                  (double)s->temperature, (double)s->top_p, r->stores ? "true" : "false");
}

static void write_usage(const Response *r, Buffer *out) {
    JobUsage u = ask_usage(r->ask);
    buffer_printf(out,
                  ", \"usage\": {\"input_tokens\": %d, \"input_tokens_details\": {\"cached_tokens\": %d}, "
                  "\"output_tokens\": %d, \"output_tokens_details\": {\"reasoning_tokens\": %d}, \"total_tokens\": %d}",
                  u.n_prompt, u.n_cached, u.n_answer, ask_thoughts(r->ask), u.n_prompt + u.n_answer);
}

/* failed: why, or NULL. */
static void write_response(const Response *r, const char *status, const char *failed, Buffer *out) {
    Error none = {""};
    const char *model = r->converse.model->name;
    bool ended = strcmp(status, "in_progress") != 0, cut = strcmp(status, "incomplete") == 0;
    buffer_printf(out, "{\"id\": \"%s\", \"object\": \"response\", \"created_at\": %" PRId64 ", \"status\": \"%s\", ",
                  r->id, r->created, status);
    api_write_text(out, "model", model, strlen(model));
    buffer_printf(out, ", \"output\": [%s], \"error\": ", buffer_string(&r->output.items));
    if (failed) {
        buffer_text(out, "{\"code\": \"server_error\", ");
        api_write_text(out, "message", failed, strlen(failed));
        buffer_byte(out, '}');
    } else {
        buffer_text(out, "null");
    }
    buffer_printf(out, ", \"incomplete_details\": %s", cut ? "{\"reason\": \"max_output_tokens\"}" : "null");
    write_echoes(r, exchange_body(r->exchange, &none), out);
    if (ended)
        write_usage(r, out);
    else
        buffer_text(out, ", \"usage\": null");
    buffer_byte(out, '}');
    if (r->output.items.failed) out->failed = true;
}

/* ---- the answer's way ---- */

static void send_state(Response *r, const char *type, const char *status, const char *failed) {
    response_event_begin(&r->output, type);
    buffer_text(&r->output.event, ", \"response\": ");
    write_response(r, status, failed, &r->output.event);
    response_event_send(&r->output, type);
}

static void on_token(void *context, int choice, const JobEvent *e) {
    Response *r = context;
    (void)choice;
    if (r->scores && e->score) response_score(&r->output, r->converse.model->loaded.tokenizer, e->score);
}

static void on_part(void *context, int choice, const ReplyEvent *e) {
    Response *r = context;
    (void)choice;
    response_part(&r->output, e);
    if (e->part == REPLY_CALL_END && r->converse.one_call) ask_cut(r->ask, 0);
}

static void on_end(void *context, int choice, FinishReason finish, int n_calls) {
    Response *r = context;
    (void)choice, (void)n_calls;
    r->finish = finish;
    response_finish(&r->output, finish == FINISH_LENGTH);
}

static void on_idle(void *context) {
    Response *r = context;
    if (r->output.stream) sse_comment(r->exchange, "keep-alive");
}

static void keep(Response *r, Buffer *whole) {
    if (r->stores) response_store_keep(server_responses(r->server), r->id, whole, &r->input, &r->output.items);
    buffer_clear(whole);
}

static void on_done(void *context) {
    Response *r = context;
    const char *status = r->finish == FINISH_LENGTH ? "incomplete" : "completed";
    Buffer whole = {0};
    write_response(r, status, NULL, &whole);
    if (r->output.stream) {
        const char *type = r->finish == FINISH_LENGTH ? "response.incomplete" : "response.completed";
        send_state(r, type, status, NULL);
        exchange_stream_end(r->exchange);
    } else {
        exchange_reply_json(r->exchange, 200, &whole);
    }
    keep(r, &whole);
    response_free(r);
}

static void on_fail(void *context, const char *why) {
    Response *r = context;
    if (r->output.stream) {
        response_close(&r->output, true);
        send_state(r, "response.failed", "failed", why);
        exchange_stream_end(r->exchange);
    } else {
        openai_fail_late(r->exchange, API_RESPONSES, why);
    }
    response_free(r);
}

static void on_left(void *context) {
    response_free(context);
}

static const AskWriter writer = {on_token, on_part, on_end, on_idle, on_done, on_fail, on_left};

/* ---- the request ---- */

static bool refuse_unsupported(const Fields *f, ApiError *err) {
    if (f->background.value) return api_refuse(err, 400, "background", "'background' is not supported: leave it away");
    if (f->conversation)
        return api_refuse(err, 400, "conversation",
                          "'conversation' is not supported: go on with 'previous_response_id'");
    if (f->truncation && strcmp(f->truncation, "auto") != 0 && strcmp(f->truncation, "disabled") != 0)
        return api_refuse(err, 400, "truncation", "'truncation' must be auto or disabled");
    if (f->prompt) return api_refuse(err, 400, "prompt", "'prompt' (a stored prompt) is not supported: use 'input'");
    return true;
}

/* Effort none is what templates know as thinking turned off. */
static bool read_reasoning(Converse *v, ApiError *err) {
    const JsonValue *effort = json_get_set(v->fields.reasoning, "effort");
    if (!effort) return true;
    if (effort->type != JSON_STRING) return api_refuse(err, 400, "reasoning.effort", "'effort' must be a string");
    v->fixed_thinking = json_equals(effort, "none");
    if (!v->fixed_thinking) v->fields.reasoning_effort = effort->text;
    return true;
}

static bool read_scores(Response *r, ApiError *err) {
    const Fields *f = &r->converse.fields;
    for (uint32_t i = 0; f->include && i < f->include->length; i++) {
        const JsonValue *wish = json_item(f->include, i);
        if (wish->type != JSON_STRING) return api_refuse(err, 400, "include", "'include' must be a list of strings");
        if (json_equals(wish, "message.output_text.logprobs")) r->scores = true;
    }
    r->converse.request.n_top = f->top_logprobs.set ? (int)f->top_logprobs.value : 0;
    r->scores = r->scores || r->converse.request.n_top > 0;
    r->converse.request.scores = r->scores;
    return true;
}

/* The items of the response that this one follows. They are copied, as it may be dropped before this one ends. */
static bool read_history(Response *r, const char *id, ApiError *err) {
    const KeptResponse *kept = response_store_find(server_responses(r->server), id);
    if (!kept) {
        api_refuse(err, 400, "previous_response_id", "there is no response '%.100s' (any more): send the whole input",
                   id);
        err->code = "previous_response_not_found";
        return false;
    }
    Buffer items = {0};
    bool both = kept->input.length > 0 && kept->output.length > 0;
    buffer_printf(&items, "[%s%s%s]", buffer_string(&kept->input), both ? ", " : "", buffer_string(&kept->output));
    r->history = api_parse_written(&items, err);
    buffer_clear(&items);
    return r->history != NULL;
}

static bool read_input(Response *r, ApiError *err) {
    const Fields *f = &r->converse.fields;
    if (f->previous_response_id && !read_history(r, f->previous_response_id, err)) return false;
    ResponsesInput in = {
        .instructions = f->instructions, .history = r->history ? json_root(r->history) : NULL, .input = f->input};
    if (!(r->messages = responses_messages(&in, &r->input, err))) return false;
    r->converse.messages = json_root(r->messages);
    if (f->tools && f->tools->length > 0 && !(r->tools = responses_tools(f->tools, err))) return false;
    return openai_choose_tools(&r->converse, r->tools ? json_root(r->tools) : NULL, &r->allowed, err);
}

static bool read_request(Response *r, const JsonValue *body, ApiError *err) {
    Converse *v = &r->converse;
    Fields *f = &v->fields;
    if (!fields_read(body, API_RESPONSES, f, err) || !server_model(r->server, f->model, &v->model, err)) return false;
    v->max_tokens = f->max_tokens.set ? f->max_tokens.value : -1;
    v->n_choices = 1;
    r->stores = !f->store.set || f->store.value;
    if (!refuse_unsupported(f, err) || !read_reasoning(v, err) || !read_scores(r, err) || !read_input(r, err))
        return false;
    bool shortens = f->truncation && strcmp(f->truncation, "auto") == 0;
    if ((!shortens || responses_fit(v, &r->messages, err)) && converse_prepare(v, err)) return true;
    if (strncmp(err->param, "messages", 8) == 0) snprintf(err->param, sizeof err->param, "input");
    return false;
}

/* The request as it was read; NULL when it was refused, and has been answered. */
static Response *response_open(Exchange *x, Server *s) {
    ApiError err = {0};
    Response *r = mem_zeroed(1, sizeof *r);
    const JsonValue *body = api_body(x, r, &err);
    if (r) *r = (Response){.server = s, .exchange = x, .created = (int64_t)time(NULL)};
    if (r && body && read_request(r, body, &err)) return r;
    if (r) response_free(r);
    api_fail(x, API_RESPONSES, &err);
    return NULL;
}

void responses_create(Exchange *x, void *context) {
    ApiError err = {0};
    Response *r = response_open(x, context);
    if (!r) return;
    openai_new_id(r->id, sizeof r->id, "resp_");
    if (!converse_start(&r->converse, r->server, x, &writer, r, &r->ask, &err)) {
        response_free(r);
        api_fail(x, API_RESPONSES, &err);
        return;
    }
    if (!r->converse.fields.stream.value) return;
    r->output.stream = x;
    sse_begin(x);
    send_state(r, "response.created", "in_progress", NULL);
    send_state(r, "response.in_progress", "in_progress", NULL);
}

void responses_count_tokens(Exchange *x, void *context) {
    Buffer out = {0};
    Response *r = response_open(x, context);
    if (!r) return;
    buffer_printf(&out, "{\"object\": \"response.input_tokens\", \"input_tokens\": %d}", r->converse.request.n_prompt);
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
    response_free(r);
}
