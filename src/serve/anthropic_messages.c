/* POST /v1/messages and /v1/messages/count_tokens. An answer is a row of blocks; at most one is open. Streamed or not,
 * blocks are opened, filled and closed by the same calls, so that their numbers have no gaps and both answers agree. */
#include "base/hash.h"
#include "base/memory.h"
#include "serve/anthropic.h"
#include "serve/converse.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include "serve/sse.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

typedef enum BlockKind { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_CALL } BlockKind;

typedef struct Message {
    Exchange *exchange;
    Converse converse;
    JsonDoc *messages, *tools;
    Ask *ask;
    bool streams;
    char id[40];
    BlockKind block; /* the open one */
    int n_blocks;    /* opened so far */
    char call_id[OPENAI_CALL_ID];
    Buffer name, text; /* of the open block */
    uint64_t thought;  /* hash of the open block's thinking */
    Buffer content;    /* the items of "content", where the answer is not streamed */
    const char *stop_reason;
    int stop;   /* the stop sequence that ended it, -1: none */
    Buffer out; /* scratch */
} Message;

static void message_free(Message *m) {
    converse_clear(&m->converse);
    json_free(m->messages);
    json_free(m->tools);
    buffer_clear(&m->name);
    buffer_clear(&m->text);
    buffer_clear(&m->content);
    buffer_clear(&m->out);
    mem_free(m);
}

/* ---- blocks ---- */

static void send_event(Message *m, const char *name) {
    sse_send(m->exchange, name, &m->out);
}

static void event_begin(Message *m, const char *name) {
    buffer_reset(&m->out);
    buffer_printf(&m->out, "{\"type\": \"%s\"", name);
}

/* The block with its text, or as it is before there is any. */
static void write_block(Message *m, Buffer *out, bool whole) {
    const char *text = whole ? buffer_string(&m->text) : "";
    size_t n = whole ? m->text.length : 0;
    switch (m->block) {
    case BLOCK_THINKING:
        buffer_text(out, "{\"type\": \"thinking\", ");
        api_write_text(out, "thinking", text, n);
        if (whole)
            buffer_printf(out, ", \"signature\": \"%016" PRIx64 "\"}", m->thought);
        else
            buffer_text(out, ", \"signature\": \"\"}");
        return;
    case BLOCK_TEXT:
        buffer_text(out, "{\"type\": \"text\", ");
        api_write_text(out, "text", text, n);
        buffer_text(out, ", \"citations\": null}");
        return;
    default:
        buffer_text(out, "{\"type\": \"tool_use\", ");
        api_write_text(out, "id", m->call_id, strlen(m->call_id));
        buffer_text(out, ", ");
        api_write_text(out, "name", buffer_string(&m->name), m->name.length);
        buffer_printf(out, ", \"input\": %s}", n > 0 ? text : "{}");
    }
}

static void block_open(Message *m, BlockKind kind) {
    m->block = kind;
    m->thought = HASH_START;
    buffer_reset(&m->text);
    if (m->streams) {
        event_begin(m, "content_block_start");
        buffer_printf(&m->out, ", \"index\": %d, \"content_block\": ", m->n_blocks);
        write_block(m, &m->out, false);
        buffer_byte(&m->out, '}');
        send_event(m, "content_block_start");
    }
    m->n_blocks++;
}

static void send_delta(Message *m, const char *type, const char *key, const char *text, size_t n) {
    event_begin(m, "content_block_delta");
    buffer_printf(&m->out, ", \"index\": %d, \"delta\": {\"type\": \"%s\", ", m->n_blocks - 1, type);
    api_write_text(&m->out, key, text, n);
    buffer_text(&m->out, "}}");
    send_event(m, "content_block_delta");
}

static void block_fill(Message *m, const char *text, size_t n) {
    static const struct {
        const char *type, *key;
    } deltas[] = {[BLOCK_THINKING] = {"thinking_delta", "thinking"},
                  [BLOCK_TEXT] = {"text_delta", "text"},
                  [BLOCK_CALL] = {"input_json_delta", "partial_json"}};
    if (m->block == BLOCK_THINKING) m->thought = hash_bytes(m->thought, text, n);
    if (m->streams)
        send_delta(m, deltas[m->block].type, deltas[m->block].key, text, n);
    else
        buffer_append(&m->text, text, n);
}

static void block_close(Message *m) {
    if (m->block == BLOCK_NONE) return;
    if (m->streams && m->block == BLOCK_THINKING) {
        char signature[17];
        snprintf(signature, sizeof signature, "%016" PRIx64, m->thought);
        send_delta(m, "signature_delta", "signature", signature, 16);
    }
    if (m->streams) {
        event_begin(m, "content_block_stop");
        buffer_printf(&m->out, ", \"index\": %d}", m->n_blocks - 1);
        send_event(m, "content_block_stop");
    } else {
        buffer_text(&m->content, m->n_blocks > 1 ? ", " : "");
        write_block(m, &m->content, true);
        if (m->text.failed || m->name.failed) m->content.failed = true;
    }
    m->block = BLOCK_NONE;
}

static void block_turn(Message *m, BlockKind kind) {
    if (m->block == kind) return;
    block_close(m);
    block_open(m, kind);
}

/* ---- the answer's way ---- */

static void write_usage(Message *m, JobUsage u) {
    buffer_printf(&m->out,
                  "\"usage\": {\"input_tokens\": %d, \"cache_creation_input_tokens\": 0, "
                  "\"cache_read_input_tokens\": %d, \"output_tokens\": %d}",
                  u.n_prompt - u.n_cached, u.n_cached, u.n_answer);
}

static void write_stop(Message *m) {
    buffer_text(&m->out, "\"stop_reason\": ");
    if (m->stop_reason)
        buffer_printf(&m->out, "\"%s\"", m->stop_reason);
    else
        buffer_text(&m->out, "null");
    buffer_text(&m->out, ", ");
    if (m->stop >= 0)
        api_write_text(&m->out, "stop_sequence", m->converse.stops[m->stop].text, m->converse.stops[m->stop].length);
    else
        buffer_text(&m->out, "\"stop_sequence\": null");
}

static void write_message(Message *m, JobUsage usage) {
    const char *model = m->converse.model->name;
    buffer_printf(&m->out, "{\"id\": \"%s\", \"type\": \"message\", \"role\": \"assistant\", ", m->id);
    api_write_text(&m->out, "model", model, strlen(model));
    buffer_printf(&m->out, ", \"content\": [%s], ", buffer_string(&m->content));
    write_stop(m);
    buffer_text(&m->out, ", ");
    write_usage(m, usage);
    buffer_byte(&m->out, '}');
    if (m->content.failed) m->out.failed = true;
}

static void call_begin(Message *m, const ReplyEvent *e) {
    if (e->id_length > 0 && e->id_length < OPENAI_CALL_ID)
        snprintf(m->call_id, sizeof m->call_id, "%.*s", (int)e->id_length, e->id);
    else
        openai_new_id(m->call_id, sizeof m->call_id, "toolu_");
    buffer_reset(&m->name);
    buffer_append(&m->name, e->text, e->length);
    block_close(m);
    block_open(m, BLOCK_CALL);
}

static void on_part(void *context, int choice, const ReplyEvent *e) {
    Message *m = context;
    switch (e->part) {
    case REPLY_TEXT: block_turn(m, BLOCK_TEXT); break;
    case REPLY_REASONING: block_turn(m, BLOCK_THINKING); break;
    case REPLY_CALL: call_begin(m, e); return;
    case REPLY_CALL_END:
        block_close(m);
        if (m->converse.one_call) ask_cut(m->ask, choice);
        return;
    default: break;
    }
    block_fill(m, e->text, e->length);
}

static void on_end(void *context, int choice, FinishReason finish, int n_calls) {
    Message *m = context;
    block_close(m);
    m->stop = ask_stop(m->ask, choice);
    m->stop_reason = finish == FINISH_LENGTH ? "max_tokens"
                     : m->stop >= 0          ? "stop_sequence"
                     : n_calls > 0           ? "tool_use"
                                             : "end_turn";
}

static void send_ping(Message *m) {
    event_begin(m, "ping");
    buffer_byte(&m->out, '}');
    send_event(m, "ping");
}

static void on_idle(void *context) {
    Message *m = context;
    if (m->streams) send_ping(m);
}

static void send_start(Message *m) {
    event_begin(m, "message_start");
    buffer_text(&m->out, ", \"message\": ");
    write_message(m, (JobUsage){.n_prompt = m->converse.request.n_prompt});
    buffer_byte(&m->out, '}');
    send_event(m, "message_start");
    send_ping(m);
}

static void stream_done(Message *m) {
    event_begin(m, "message_delta");
    buffer_text(&m->out, ", \"delta\": {");
    write_stop(m);
    buffer_text(&m->out, "}, ");
    write_usage(m, ask_usage(m->ask));
    buffer_byte(&m->out, '}');
    send_event(m, "message_delta");
    event_begin(m, "message_stop");
    buffer_byte(&m->out, '}');
    send_event(m, "message_stop");
    exchange_stream_end(m->exchange);
}

static void on_done(void *context) {
    Message *m = context;
    if (m->streams) {
        stream_done(m);
    } else {
        buffer_reset(&m->out);
        write_message(m, ask_usage(m->ask));
        exchange_add_header(m->exchange, "request-id", exchange_id(m->exchange));
        exchange_reply_json(m->exchange, 200, &m->out);
    }
    message_free(m);
}

static void on_fail(void *context, const char *why) {
    Message *m = context;
    ApiError err;
    api_refuse(&err, 500, NULL, "%s", why);
    if (m->streams) {
        buffer_reset(&m->out);
        api_write_error(&m->out, API_MESSAGES, exchange_id(m->exchange), &err);
        send_event(m, "error");
        exchange_stream_end(m->exchange);
    } else {
        api_fail(m->exchange, API_MESSAGES, &err);
    }
    message_free(m);
}

static void on_left(void *context) {
    message_free(context);
}

static const AskWriter writer = {NULL, on_part, on_end, on_idle, on_done, on_fail, on_left};

/* ---- the request ---- */

static bool has_tool(const JsonValue *tools, const JsonValue *name) {
    for (uint32_t i = 0; tools && i < tools->length; i++)
        if (json_string(name) && json_equals(json_get(json_item(tools, i), "name"), name->text)) return true;
    return false;
}

static bool read_choice(Message *m, ApiError *err) {
    Converse *v = &m->converse;
    const JsonValue *choice = v->fields.tool_choice, *type = json_get(choice, "type"), *name = json_get(choice, "name");
    if (!choice) return true;
    json_bool(json_get(choice, "disable_parallel_tool_use"), &v->one_call);
    if (json_equals(type, "auto")) return true;
    if (json_equals(type, "none")) {
        v->tools = NULL;
        return true;
    }
    bool any = json_equals(type, "any");
    if (!any && !json_equals(type, "tool"))
        return api_refuse(err, 400, "tool_choice", "'type' must be auto, any, tool or none");
    if (!v->tools) return api_refuse(err, 400, "tool_choice", "it asks for a call, and there are no tools");
    if (!any && !has_tool(v->fields.tools, name))
        return api_refuse(err, 400, "tool_choice", "'name' must be that of one of the tools");
    v->must_call = true;
    if (any) return true;
    v->must_name = name->text;
    v->one_call = true;
    return true;
}

static bool read_tools(Message *m, ApiError *err) {
    const JsonValue *tools = m->converse.fields.tools;
    if (tools && tools->length > 0) {
        if (!(m->tools = anthropic_tools(tools, err))) return false;
        m->converse.tools = json_root(m->tools);
    }
    return read_choice(m, err);
}

/* A client that does not ask for thoughts expects none. */
static bool read_thinking(Message *m, ApiError *err) {
    const JsonValue *thinking = m->converse.fields.thinking, *type = json_get(thinking, "type");
    int64_t budget = 0;
    m->converse.fixed_thinking = true;
    if (!thinking || json_equals(type, "disabled")) return true;
    m->converse.thinks = true;
    if (json_equals(type, "adaptive")) return true;
    if (!json_equals(type, "enabled"))
        return api_refuse(err, 400, "thinking", "'type' must be enabled, adaptive or disabled");
    if (!json_int(json_get(thinking, "budget_tokens"), &budget) || budget < 1)
        return api_refuse(err, 400, "thinking", "'budget_tokens' must be an integer of at least 1");
    m->converse.thinking_budget = budget < INT_MAX ? (int)budget : INT_MAX;
    return true;
}

static bool read_request(Message *m, Server *s, const JsonValue *body, bool counts, ApiError *err) {
    Converse *v = &m->converse;
    Fields *f = &v->fields;
    if (!fields_read(body, API_MESSAGES, f, err) || !server_model(s, f->model, &v->model, err)) return false;
    if (!f->max_tokens.set && !counts) return api_refuse(err, 400, "max_tokens", "it is needed: most tokens to answer");
    if (!(m->messages = anthropic_messages(f->system, f->messages, err))) return false;
    v->messages = json_root(m->messages);
    v->max_tokens = f->max_tokens.set ? f->max_tokens.value : 0;
    v->n_choices = 1;
    v->stops_name = "stop_sequences";
    m->streams = f->stream.value;
    m->stop = -1;
    return read_thinking(m, err) && read_tools(m, err) && converse_prepare(v, err);
}

/* The request as it was read; NULL when it was refused, and has been answered. */
static Message *message_open(Exchange *x, Server *s, bool counts) {
    ApiError err = {0};
    Message *m = mem_zeroed(1, sizeof *m);
    const JsonValue *body = api_body(x, m, &err);
    if (m) m->exchange = x;
    if (m && body && read_request(m, s, body, counts, &err)) return m;
    if (m) message_free(m);
    api_fail(x, API_MESSAGES, &err);
    return NULL;
}

void anthropic_create(Exchange *x, void *context) {
    ApiError err = {0};
    Message *m = message_open(x, context, false);
    if (!m) return;
    openai_new_id(m->id, sizeof m->id, "msg_");
    if (!converse_start(&m->converse, context, x, &writer, m, &m->ask, &err)) {
        message_free(m);
        api_fail(x, API_MESSAGES, &err);
        return;
    }
    if (!m->streams) return;
    exchange_add_header(x, "request-id", exchange_id(x));
    sse_begin(x);
    send_start(m);
}

void anthropic_count_tokens(Exchange *x, void *context) {
    Message *m = message_open(x, context, true);
    if (!m) return;
    buffer_printf(&m->out, "{\"input_tokens\": %d}", m->converse.request.n_prompt);
    exchange_add_header(x, "request-id", exchange_id(x));
    exchange_reply_json(x, 200, &m->out);
    message_free(m);
}
