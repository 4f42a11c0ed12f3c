/* Streamed or not, items are opened, filled and closed by the same calls, so both answers agree; without a stream the
 * events are left out. At most one item is open.
 *
 * A score belongs to the text that its token is part of. The marks around thoughts and calls are no text, so of the
 * scores that wait when a message begins only the last is its own. */
#include "serve/responses_output.h"
#include "serve/sse.h"

#include <stdio.h>
#include <string.h>

void response_clear(ResponseOutput *o) {
    buffer_clear(&o->name);
    buffer_clear(&o->text);
    buffer_clear(&o->scores);
    buffer_clear(&o->fresh);
    buffer_clear(&o->items);
    buffer_clear(&o->event);
}

/* ---- events ---- */

void response_event_begin(ResponseOutput *o, const char *type) {
    buffer_reset(&o->event);
    buffer_printf(&o->event, "{\"type\": \"%s\", \"sequence_number\": %d", type, o->sequence++);
}

void response_event_send(ResponseOutput *o, const char *type) {
    buffer_byte(&o->event, '}');
    if (o->sequence > o->first) sse_send(o->stream, type, &o->event);
}

static void begin_of_item(ResponseOutput *o, const char *type) {
    response_event_begin(o, type);
    buffer_printf(&o->event, ", \"item_id\": \"%s\", \"output_index\": %d", o->item_id, o->n_items - 1);
    if (o->open != OUTPUT_CALL) buffer_text(&o->event, ", \"content_index\": 0");
}

/* ---- items ---- */

static const char *prefix_of(OutputKind kind) {
    return kind == OUTPUT_REASONING ? "rs_" : kind == OUTPUT_MESSAGE ? "msg_" : "fc_";
}

static void write_content(const ResponseOutput *o, const char *text, size_t n, Buffer *out) {
    bool says = o->open == OUTPUT_MESSAGE;
    buffer_printf(out, "{\"type\": \"%s\", ", says ? "output_text" : "reasoning_text");
    api_write_text(out, "text", text, n);
    if (says) buffer_printf(out, ", \"annotations\": [], \"logprobs\": [%s]", buffer_string(&o->scores));
    buffer_byte(out, '}');
}

/* With what it holds, or (status "in_progress") as it is before that. */
static void write_item(const ResponseOutput *o, const char *status, Buffer *out) {
    bool begins = strcmp(status, "in_progress") == 0;
    static const char *const types[] = {
        [OUTPUT_REASONING] = "reasoning", [OUTPUT_MESSAGE] = "message", [OUTPUT_CALL] = "function_call"};
    buffer_printf(out, "{\"id\": \"%s\", \"type\": \"%s\", \"status\": \"%s\"", o->item_id, types[o->open], status);
    if (o->open == OUTPUT_CALL) {
        buffer_text(out, ", ");
        api_write_text(out, "call_id", o->call_id, strlen(o->call_id));
        buffer_text(out, ", ");
        api_write_text(out, "name", buffer_string(&o->name), o->name.length);
        buffer_text(out, ", ");
        api_write_text(out, "arguments", begins ? "" : buffer_string(&o->text), begins ? 0 : o->text.length);
    } else {
        buffer_text(out, o->open == OUTPUT_MESSAGE ? ", \"role\": \"assistant\"" : ", \"summary\": []");
        buffer_text(out, ", \"content\": [");
        if (!begins) write_content(o, buffer_string(&o->text), o->text.length, out);
        buffer_byte(out, ']');
    }
    buffer_byte(out, '}');
}

static void send_item(ResponseOutput *o, const char *type, const char *status) {
    response_event_begin(o, type);
    buffer_printf(&o->event, ", \"output_index\": %d, \"item\": ", o->n_items - 1);
    write_item(o, status, &o->event);
    response_event_send(o, type);
}

static void send_content(ResponseOutput *o, const char *type, const char *text, size_t n) {
    begin_of_item(o, type);
    buffer_text(&o->event, ", \"part\": ");
    write_content(o, text, n, &o->event);
    response_event_send(o, type);
}

/* The text so far, as it is told at its end. */
static void send_whole(ResponseOutput *o) {
    static const char *const types[] = {[OUTPUT_REASONING] = "response.reasoning_text.done",
                                        [OUTPUT_MESSAGE] = "response.output_text.done",
                                        [OUTPUT_CALL] = "response.function_call_arguments.done"};
    begin_of_item(o, types[o->open]);
    buffer_text(&o->event, ", ");
    if (o->open == OUTPUT_CALL) {
        api_write_text(&o->event, "name", buffer_string(&o->name), o->name.length);
        buffer_text(&o->event, ", ");
    }
    api_write_text(&o->event, o->open == OUTPUT_CALL ? "arguments" : "text", buffer_string(&o->text), o->text.length);
    if (o->open == OUTPUT_MESSAGE) buffer_printf(&o->event, ", \"logprobs\": [%s]", buffer_string(&o->scores));
    response_event_send(o, types[o->open]);
}

/* Under the id that is there. */
static void item_begin(ResponseOutput *o, OutputKind kind) {
    o->open = kind;
    o->n_items++;
    buffer_reset(&o->text);
    buffer_reset(&o->scores);
    if (!o->stream) return;
    send_item(o, "response.output_item.added", "in_progress");
    if (kind != OUTPUT_CALL) send_content(o, "response.content_part.added", "", 0);
}

static void item_open(ResponseOutput *o, OutputKind kind) {
    openai_new_id(o->item_id, sizeof o->item_id, prefix_of(kind));
    item_begin(o, kind);
}

void response_close(ResponseOutput *o, bool cut) {
    if (o->open == OUTPUT_NONE) return;
    const char *status = cut ? "incomplete" : "completed";
    if (o->stream) {
        send_whole(o);
        if (o->open != OUTPUT_CALL)
            send_content(o, "response.content_part.done", buffer_string(&o->text), o->text.length);
        send_item(o, "response.output_item.done", status);
    }
    buffer_text(&o->items, o->items.length ? ", " : "");
    write_item(o, status, &o->items);
    if (o->text.failed || o->name.failed || o->scores.failed) o->items.failed = true;
    o->open = OUTPUT_NONE;
}

void response_finish(ResponseOutput *o, bool cut) {
    response_close(o, cut);
    if (o->n_items > 0) return;
    item_open(o, OUTPUT_MESSAGE);
    response_close(o, cut);
}

/* ---- scores ---- */

void response_score(ResponseOutput *o, const Tokenizer *t, const TokenScore *score) {
    buffer_text(&o->fresh, o->fresh.length ? ", " : "");
    o->last_score = o->fresh.length;
    openai_write_score(&o->fresh, t, score, false);
}

static void keep_last_score(ResponseOutput *o) {
    if (o->fresh.failed || o->last_score == 0) return;
    size_t n = o->fresh.length - o->last_score;
    memmove(o->fresh.data, o->fresh.data + o->last_score, n);
    o->fresh.length = n;
    o->fresh.data[n] = '\0';
    o->last_score = 0;
}

/* ---- parts ---- */

static void fill(ResponseOutput *o, const char *text, size_t n) {
    static const char *const types[] = {[OUTPUT_REASONING] = "response.reasoning_text.delta",
                                        [OUTPUT_MESSAGE] = "response.output_text.delta",
                                        [OUTPUT_CALL] = "response.function_call_arguments.delta"};
    buffer_append(&o->text, text, n);
    if (o->stream) {
        begin_of_item(o, types[o->open]);
        buffer_text(&o->event, ", ");
        api_write_text(&o->event, "delta", text, n);
        if (o->open == OUTPUT_MESSAGE) buffer_printf(&o->event, ", \"logprobs\": [%s]", buffer_string(&o->fresh));
        response_event_send(o, types[o->open]);
    }
    if (o->open == OUTPUT_MESSAGE && o->fresh.length > 0)
        buffer_printf(&o->scores, "%s%s", o->scores.length ? ", " : "", buffer_string(&o->fresh));
    buffer_reset(&o->fresh);
    o->last_score = 0;
}

static void turn_to(ResponseOutput *o, OutputKind kind) {
    if (o->open == kind) return;
    response_close(o, false);
    if (kind == OUTPUT_MESSAGE) keep_last_score(o);
    item_open(o, kind);
}

void response_part(ResponseOutput *o, const ReplyEvent *e) {
    switch (e->part) {
    case REPLY_TEXT:
        turn_to(o, OUTPUT_MESSAGE);
        fill(o, e->text, e->length);
        break;
    case REPLY_REASONING:
        turn_to(o, OUTPUT_REASONING);
        fill(o, e->text, e->length);
        break;
    case REPLY_CALL:
        response_close(o, false);
        openai_call_id(e, o->call_id);
        buffer_reset(&o->name);
        buffer_append(&o->name, e->text, e->length);
        item_open(o, OUTPUT_CALL);
        break;
    case REPLY_ARGUMENTS: fill(o, e->text, e->length); break;
    case REPLY_CALL_END: response_close(o, false); break;
    }
}

/* ---- what was said, again ---- */

static void take_name(const JsonValue *item, const char *key, char *out, size_t size) {
    const char *text = json_string(json_get(item, key));
    snprintf(out, size, "%s", text ? text : "");
}

static OutputKind kind_of(const JsonValue *item) {
    const JsonValue *type = json_get(item, "type");
    if (json_equals(type, "function_call")) return OUTPUT_CALL;
    return json_equals(type, "reasoning") ? OUTPUT_REASONING : OUTPUT_MESSAGE;
}

void response_replay(ResponseOutput *o, const JsonValue *item) {
    OutputKind kind = kind_of(item);
    const JsonValue *part = json_item(json_get(item, "content"), 0), *scores = json_get(part, "logprobs");
    const JsonValue *text = kind == OUTPUT_CALL ? json_get(item, "arguments") : json_get(part, "text");
    const JsonValue *name = json_get(item, "name");
    take_name(item, "id", o->item_id, sizeof o->item_id);
    take_name(item, "call_id", o->call_id, sizeof o->call_id);
    buffer_reset(&o->name);
    if (json_string(name)) buffer_append(&o->name, name->text, name->length);
    item_begin(o, kind);
    for (uint32_t i = 0; json_item(scores, i); i++) {
        buffer_text(&o->fresh, i ? ", " : "");
        json_write(&o->fresh, json_item(scores, i), NULL);
    }
    if (json_string(text) && text->length > 0) fill(o, text->text, text->length);
    response_close(o, json_equals(json_get(item, "status"), "incomplete"));
}
