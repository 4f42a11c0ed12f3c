/* Calls that are JSON objects. The text has passed json_scan already, so it is only walked over, and the arguments are
 * passed on as they were written: what the client sends back then renders to the tokens that the model wrote.
 *
 * What counts as name, arguments and id is one list for all forms: models that were trained on several mix them. */
#include "base/json_scan.h"
#include "base/utf8.h"
#include "text/toolcall.h"

#include <string.h>

static const char *const name_keys[] = {"name", "tool_name", "function"};
static const char *const argument_keys[] = {"arguments", "parameters"};
static const char *const id_keys[] = {"id", "tool_call_id"};
enum {
    N_NAME_KEYS = sizeof name_keys / sizeof *name_keys,
    N_ARGUMENT_KEYS = sizeof argument_keys / sizeof *argument_keys,
    N_ID_KEYS = sizeof id_keys / sizeof *id_keys,
};

static bool is_one_of(JsonSpan key, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (json_span_is(key, names[i])) return true;
    return false;
}

static bool starts(JsonSpan v, char c) {
    return v.length > 0 && v.text[0] == c;
}

/* Arguments may be an object, a string that holds one (as the chat API has it), or missing. */
static bool write_arguments(JsonSpan v, Buffer *out) {
    if (starts(v, '{')) {
        buffer_append(out, v.text, v.length);
        return true;
    }
    if (v.length == 0 || starts(v, 'n')) {
        buffer_text(out, "{}");
        return true;
    }
    return starts(v, '"') && json_span_string(v, out) && buffer_string(out)[0] == '{' &&
           json_is_value(out->data, out->length);
}

/* An id may be a number. */
static bool write_id(JsonSpan v, Buffer *out) {
    if (v.length == 0 || starts(v, 'n')) return true;
    if (starts(v, '"')) return json_span_string(v, out);
    buffer_append(out, v.text, v.length);
    return !starts(v, '{') && !starts(v, '[');
}

/* One object. {"type": "function", "function": {...}} has it one level further in. */
static bool read_call(CallList *out, JsonSpan object) {
    JsonWalk w = json_walk(object.text, object.length);
    JsonSpan key, v, name = {0}, arguments = {0}, id = {0};
    while (json_walk_next(&w, &key, &v)) {
        if (json_span_is(key, "function") && starts(v, '{')) return read_call(out, v);
        if (is_one_of(key, name_keys, N_NAME_KEYS)) name = v;
        if (is_one_of(key, argument_keys, N_ARGUMENT_KEYS)) arguments = v;
        if (is_one_of(key, id_keys, N_ID_KEYS)) id = v;
    }
    if (!starts(name, '"') || name.length == 2) return false;
    Call *call = calls_push(out);
    return call && json_span_string(name, &call->name) && write_arguments(arguments, &call->arguments) &&
           write_id(id, &call->id);
}

static bool read_keyed_call(CallList *out, JsonSpan object) {
    JsonWalk w = json_walk(object.text, object.length);
    JsonSpan name, v, more;
    if (!json_walk_next(&w, &name, &v) || name.length == 2 || json_walk_next(&w, &more, &more)) return false;
    Call *call = calls_push(out);
    return call && json_span_string(name, &call->name) && write_arguments(v, &call->arguments);
}

typedef bool ObjectReader(CallList *out, JsonSpan object);

/* An object, or an array of at least one. */
static bool read_value(CallList *out, JsonSpan v, ObjectReader *read) {
    if (starts(v, '{')) return read(out, v);
    JsonWalk w = json_walk(v.text, v.length);
    JsonSpan key, item;
    bool any = false;
    while (json_walk_next(&w, &key, &item)) {
        if (!starts(item, '{') || !read(out, item)) return false;
        any = true;
    }
    return any;
}

/* The value that begins at text[*at], checked; past space and semicolons before it. False at the end, too. */
static bool next_value(const char *text, size_t n, size_t *at, JsonSpan *v) {
    while (*at < n && (text[*at] == ';' || json_is_space(text[*at]))) ++*at;
    JsonScan scan = {0};
    size_t from = *at;
    if (from == n || (text[from] != '{' && text[from] != '[')) return false;
    if (json_scan(&scan, text, n, at) != SCAN_DONE) return false;
    *v = (JsonSpan){text + from, *at - from};
    return true;
}

static bool read_values(CallList *out, const char *text, size_t n, ObjectReader *read) {
    JsonSpan v;
    size_t at = 0;
    if (utf8_valid(text, n) < n) return false;
    while (next_value(text, n, &at, &v))
        if (!read_value(out, v, read)) return false;
    return at == n && out->n > 0;
}

bool read_json_calls(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    (void)tools;
    return read_values(out, text, n, read_call);
}

bool read_keyed_calls(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    (void)tools;
    return read_values(out, text, n, read_keyed_call);
}

bool read_json_arguments(CallList *out, const char *text, size_t n, const JsonValue *tools) {
    (void)tools;
    if (out->n == 0 || n == 0 || text[0] != '{' || utf8_valid(text, n) < n) return false;
    buffer_append(&out->items[out->n - 1].arguments, text, n);
    return true;
}
