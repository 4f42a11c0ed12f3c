/* Forms that write arguments as plain text (XML-like ones) leave the type to the schema. The rules are those of the
 * parsers of vLLM and SGLang where these agree; where a union leaves a choice, whatever is not a string goes first.
 *
 * Schemas come from clients: $ref may lead in circles and unions may branch at every level, so a walk has a budget of
 * nodes and gives up quietly, which means "nothing known". */
#include "text/toolcall_schema.h"
#include "base/json_pointer.h"
#include "base/json_scan.h"
#include "text/toolcall_python.h"

#include <string.h>

enum { WALK_BUDGET = 1000 };

typedef struct Walk {
    const JsonValue *root;
    int budget;
} Walk;

static bool is_text(const JsonValue *v, const char *text, size_t n) {
    return v && v->type == JSON_STRING && v->length == n && memcmp(v->text, text, n) == 0;
}

static const JsonValue *member(const JsonValue *v, const char *key, size_t n) {
    for (uint32_t i = 0; v && v->type == JSON_OBJECT && i < v->length; i++)
        if (v->members[i].key_length == n && memcmp(v->members[i].key, key, n) == 0) return &v->members[i].value;
    return NULL;
}

static const JsonValue *find_tool(const JsonValue *tools, const char *name, size_t n) {
    for (uint32_t i = 0; tools && tools->type == JSON_ARRAY && i < tools->length; i++) {
        const JsonValue *tool = &tools->items[i], *function = json_get_set(tool, "function");
        if (function && function->type == JSON_OBJECT) tool = function;
        if (is_text(json_get(tool, "name"), name, n)) return tool;
    }
    return NULL;
}

bool tool_is_known(const JsonValue *tools, const char *name, size_t n) {
    return find_tool(tools, name, n) != NULL;
}

Schema tool_schema(const JsonValue *tools, const char *name, size_t n) {
    const JsonValue *tool = find_tool(tools, name, n), *schema = json_get_set(tool, "parameters");
    if (!schema) schema = json_get_set(tool, "input_schema");
    return (Schema){schema, schema};
}

static const JsonValue *resolve(Walk *w, const JsonValue *node) {
    const char *path;
    while (node && w->budget-- > 0 && (path = json_string(json_get(node, "$ref")))) node = json_pointer(w->root, path);
    return w->budget > 0 ? node : NULL;
}

static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
enum { N_UNIONS = sizeof unions / sizeof *unions };

static const JsonValue *find_property(Walk *w, const JsonValue *node, const char *key, size_t n) {
    node = resolve(w, node);
    const JsonValue *found = member(json_get(node, "properties"), key, n);
    for (int u = 0; u < N_UNIONS && !found; u++) {
        const JsonValue *list = json_get(node, unions[u]);
        for (uint32_t i = 0; !found && json_item(list, i); i++) found = find_property(w, json_item(list, i), key, n);
    }
    if (found) return found;
    const JsonValue *more = json_get(node, "additionalProperties");
    return more && more->type == JSON_OBJECT ? more : NULL;
}

Schema schema_property(Schema s, const char *key, size_t n) {
    Walk w = {s.root, WALK_BUDGET};
    return (Schema){s.root, find_property(&w, s.node, key, n)};
}

Schema schema_items(Schema s) {
    Walk w = {s.root, WALK_BUDGET};
    return (Schema){s.root, json_get(resolve(&w, s.node), "items")};
}

static unsigned type_named(const JsonValue *v) {
    static const char *const names[] = {"string", "integer", "number", "boolean", "null", "object", "array"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (json_equals(v, names[i])) return 1u << i;
    return 0;
}

static unsigned type_of_value(const JsonValue *v) {
    static const unsigned types[] = {
        [JSON_NULL] = TYPE_NULL,     [JSON_BOOL] = TYPE_BOOLEAN, [JSON_INT] = TYPE_INTEGER,  [JSON_FLOAT] = TYPE_NUMBER,
        [JSON_STRING] = TYPE_STRING, [JSON_ARRAY] = TYPE_ARRAY,  [JSON_OBJECT] = TYPE_OBJECT};
    return types[v->type];
}

static unsigned types_of(Walk *w, const JsonValue *node) {
    node = resolve(w, node);
    const JsonValue *type = json_get(node, "type"), *values = json_get(node, "enum"), *value = json_get(node, "const");
    unsigned types = type ? type_named(type) : 0;
    for (uint32_t i = 0; json_item(type, i); i++) types |= type_named(json_item(type, i));
    if (types) {
        bool nullable = false;
        return json_bool(json_get(node, "nullable"), &nullable) && nullable ? types | TYPE_NULL : types;
    }
    for (uint32_t i = 0; json_item(values, i); i++) types |= type_of_value(json_item(values, i));
    if (value) types |= type_of_value(value);
    for (int u = 0; u < N_UNIONS; u++) {
        const JsonValue *list = json_get(node, unions[u]);
        for (uint32_t i = 0; json_item(list, i); i++) types |= types_of(w, json_item(list, i));
    }
    bool has_members = json_get(node, "properties") || json_get(node, "required");
    if (!types && (has_members || json_get(node, "additionalProperties"))) types = TYPE_OBJECT;
    if (!types && json_get(node, "items")) types = TYPE_ARRAY;
    return types;
}

unsigned schema_types(Schema s) {
    Walk w = {s.root, WALK_BUDGET};
    unsigned types = types_of(&w, s.node);
    return types ? types : TYPE_ANY;
}

/* One of the strings that an enum lists: then it is that, whatever else it looks like. */
static bool is_listed(Schema s, const char *text, size_t n) {
    Walk w = {s.root, WALK_BUDGET};
    const JsonValue *values = json_get(resolve(&w, s.node), "enum");
    for (uint32_t i = 0; json_item(values, i); i++)
        if (is_text(json_item(values, i), text, n)) return true;
    return false;
}

static JsonSpan trimmed(const char *text, size_t n) {
    const char *from = json_skip_space(text, text + n), *to = text + n;
    while (to > from && json_is_space(to[-1])) to--;
    return (JsonSpan){from, (size_t)(to - from)};
}

/* Appends JSON of one of the types; false when the text is none. */
static bool write_typed(JsonSpan v, unsigned types, Buffer *out) {
    size_t before = out->length;
    if (v.length == 0 || v.text[0] == '"' || v.text[0] == '\'') return false;
    if (json_is_value(v.text, v.length))
        buffer_append(out, v.text, v.length);
    else if (!python_value(v.text, v.length, out))
        return false;
    if (out->failed) return true;
    char c = out->data[before];
    bool whole = !memchr(out->data + before, '.', out->length - before) &&
                 !memchr(out->data + before, 'e', out->length - before) &&
                 !memchr(out->data + before, 'E', out->length - before);
    unsigned type = c == '{'               ? TYPE_OBJECT
                    : c == '['             ? TYPE_ARRAY
                    : c == 'n'             ? TYPE_NULL
                    : c == 't' || c == 'f' ? TYPE_BOOLEAN
                    : c == '"'             ? 0
                    : whole                ? TYPE_INTEGER | TYPE_NUMBER
                                           : TYPE_NUMBER;
    if (type & types) return true;
    out->length = before;
    out->data[before] = 0;
    return false;
}

void schema_write(Schema s, const char *text, size_t n, Buffer *out) {
    unsigned types = schema_types(s);
    if (types == TYPE_STRING || is_listed(s, text, n) || !write_typed(trimmed(text, n), types, out))
        json_write_string(out, text, n, false);
}

void schema_write_json(const char *text, size_t n, Buffer *out) {
    JsonSpan v = trimmed(text, n);
    if (json_is_value(v.text, v.length))
        buffer_append(out, v.text, v.length);
    else if (!python_value(v.text, v.length, out))
        json_write_string(out, text, n, false);
}
