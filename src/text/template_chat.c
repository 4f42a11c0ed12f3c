/* Messages as clients of the chat API send them differ from what templates were written for in two places. The
 * arguments of a tool call come as a text that holds JSON: some templates walk over them and need the mapping, others
 * join them to text. A content may be a list of parts: most templates print a content as it is and need one text, some
 * walk over the parts. Nothing in a template tells which, so the mapping and the one text go first, and where the
 * template fails on them, or the text is not in what it made, what the client sent. Neither is ever quoted twice. */
#include "base/json_scan.h"
#include "text/template.h"

#include <string.h>

/* ---- writing the messages anew ---- */

typedef struct Writer {
    Buffer text;
    bool open, join; /* arguments that are a text; contents of parts */
    bool opened, joined;
} Writer;

typedef void WriteValue(Writer *w, const JsonValue *v);

typedef struct Place {
    const char *key;
    WriteValue *write;
} Place;

/* The members at the places by their own functions, all others as they are. */
static void write_object(Writer *w, const JsonValue *v, const Place *places, size_t n) {
    if (v->type != JSON_OBJECT) {
        json_write(&w->text, v, NULL);
        return;
    }
    buffer_byte(&w->text, '{');
    for (uint32_t i = 0; i < v->length; i++) {
        const JsonMember *m = &v->members[i];
        size_t at = 0;
        if (i) buffer_text(&w->text, ", ");
        json_write_string(&w->text, m->key, m->key_length, false);
        buffer_text(&w->text, ": ");
        while (at < n && strcmp(m->key, places[at].key) != 0) at++;
        if (at < n)
            places[at].write(w, &m->value);
        else
            json_write(&w->text, &m->value, NULL);
    }
    buffer_byte(&w->text, '}');
}

static void write_array(Writer *w, const JsonValue *v, WriteValue *write) {
    if (v->type != JSON_ARRAY) {
        json_write(&w->text, v, NULL);
        return;
    }
    buffer_byte(&w->text, '[');
    for (uint32_t i = 0; i < v->length; i++) {
        if (i) buffer_text(&w->text, ", ");
        write(w, &v->items[i]);
    }
    buffer_byte(&w->text, ']');
}

static void write_arguments(Writer *w, const JsonValue *v) {
    bool mapping = v->type == JSON_STRING && v->length > 0 && v->text[0] == '{' && json_is_value(v->text, v->length);
    w->opened |= mapping;
    if (mapping && w->open)
        buffer_append(&w->text, v->text, v->length);
    else
        json_write(&w->text, v, NULL);
}

static void write_function(Writer *w, const JsonValue *v) {
    write_object(w, v, &(Place){"arguments", write_arguments}, 1);
}

static void write_call(Writer *w, const JsonValue *v) {
    write_object(w, v, &(Place){"function", write_function}, 1);
}

static void write_calls(Writer *w, const JsonValue *v) {
    write_array(w, v, write_call);
}

static void write_content(Writer *w, const JsonValue *v) {
    bool parts = v->type == JSON_ARRAY;
    w->joined |= parts;
    if (!parts || !w->join) {
        json_write(&w->text, v, NULL);
        return;
    }
    Buffer joined = {0};
    for (uint32_t i = 0; i < v->length; i++) {
        const JsonValue *text = json_get(&v->items[i], "text");
        buffer_append(&joined, text->text, text->length);
    }
    json_write_string(&w->text, buffer_string(&joined), joined.length, false);
    w->text.failed |= joined.failed;
    buffer_clear(&joined);
}

static void write_message(Writer *w, const JsonValue *v) {
    static const Place places[] = {{"content", write_content}, {"tool_calls", write_calls}};
    write_object(w, v, places, sizeof places / sizeof *places);
}

static void write_messages(Writer *w, const JsonValue *v) {
    write_array(w, v, write_message);
}

/* ---- contents of parts ---- */

static const JsonValue *content_of(const JsonValue *messages, uint32_t i) {
    const JsonValue *content = json_get(json_item(messages, i), "content");
    return content && content->type == JSON_ARRAY ? content : NULL;
}

static uint32_t n_messages(const JsonValue *messages) {
    return messages && messages->type == JSON_ARRAY ? messages->length : 0;
}

static bool check_parts(const JsonValue *messages, Error *err) {
    for (uint32_t i = 0; i < n_messages(messages); i++) {
        const JsonValue *content = content_of(messages, i);
        for (uint32_t k = 0; content && k < content->length; k++) {
            const JsonValue *text = json_get(&content->items[k], "text");
            const char *type = json_string(json_get(&content->items[k], "type"));
            if (!type) return error_set(err, "messages[%u].content[%u] has no \"type\" that is a text", i, k);
            if (strcmp(type, "text") != 0)
                return error_set(err, "messages[%u].content[%u]: only parts of type \"text\" are read, not \"%.40s\"",
                                 i, k, type);
            if (!text || text->type != JSON_STRING)
                return error_set(err, "messages[%u].content[%u] has no \"text\"", i, k);
        }
    }
    return true;
}

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether the text, without the blanks around it (which are cut off it), is in the prompt. */
static bool holds(const char *prompt, Buffer *text) {
    while (text->length && is_blank(text->data[text->length - 1])) text->data[--text->length] = 0;
    const char *start = buffer_string(text);
    while (is_blank(*start)) start++;
    return !text->failed && strstr(prompt, start) != NULL;
}

static bool holds_content(const char *prompt, const JsonValue *content, bool joined) {
    Buffer text = {0};
    bool all = true;
    for (uint32_t i = 0; all && i < content->length; i++) {
        const JsonValue *part = json_get(&content->items[i], "text");
        buffer_append(&text, part->text, part->length);
        if (joined && i + 1 < content->length) continue;
        all = holds(prompt, &text);
        buffer_reset(&text);
    }
    buffer_clear(&text);
    return all;
}

/* Whether all that came in parts is in the prompt. */
static bool holds_parts(const char *prompt, const JsonValue *messages, bool joined) {
    for (uint32_t i = 0; i < n_messages(messages); i++) {
        const JsonValue *content = content_of(messages, i);
        if (content && !holds_content(prompt, content, joined)) return false;
    }
    return true;
}

/* ---- the ways to render ---- */

static bool render_written(const ChatTemplate *t, const JsonValue *variables, Writer *w, Buffer *out, Error *err) {
    write_object(w, variables, &(Place){"messages", write_messages}, 1);
    bool changed = (w->open && w->opened) || (w->join && w->joined), failed = w->text.failed;
    JsonDoc *doc = changed && !failed ? json_parse(buffer_string(&w->text), w->text.length, 0, err) : NULL;
    buffer_clear(&w->text);
    if (failed) return error_memory(err, "the messages");
    bool ok = (doc || !changed) && template_render(t, doc ? json_root(doc) : variables, out, err);
    json_free(doc);
    return ok;
}

/* With the arguments opened, else as they were sent; when both fail the first error stays. */
static bool render_calls(const ChatTemplate *t, const JsonValue *variables, bool join, Buffer *out, Error *err) {
    Writer w = {.open = true, .join = join};
    if (render_written(t, variables, &w, out, err)) return true;
    Writer as_sent = {.join = join};
    return w.opened && render_written(t, variables, &as_sent, out, NULL);
}

bool template_render_chat(const ChatTemplate *t, const JsonValue *variables, Buffer *out, Error *err) {
    const JsonValue *messages = json_get(variables, "messages");
    if (!check_parts(messages, err)) return false;
    bool parts = false;
    for (uint32_t i = 0; i < n_messages(messages); i++) parts |= content_of(messages, i) != NULL;
    Buffer joined = {0}, as_sent = {0};
    bool ok = render_calls(t, variables, true, &joined, err);
    if (parts && !(ok && holds_parts(buffer_string(&joined), messages, true)) &&
        render_calls(t, variables, false, &as_sent, NULL) &&
        (!ok || holds_parts(buffer_string(&as_sent), messages, false))) {
        buffer_clear(&joined);
        joined = as_sent;
        as_sent = (Buffer){0};
        ok = true;
    }
    if (ok) buffer_append(out, buffer_string(&joined), joined.length);
    if (ok && (out->failed || joined.failed)) ok = error_memory(err, "the prompt");
    buffer_clear(&joined);
    buffer_clear(&as_sent);
    return ok;
}
