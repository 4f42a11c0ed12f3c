/* Reading members, with errors that name the component's key. */
#include "text/component.h"

const char *component_type(const JsonValue *v, const char *what, Error *err) {
    const char *type = json_string(json_get(v, "type"));
    if (!type) error_set(err, "%s without a \"type\"", what);
    return type;
}

bool component_bool(const JsonValue *v, const char *key, bool *out, Error *err) {
    const JsonValue *member = json_get_set(v, key);
    return !member || json_bool(member, out) || error_set(err, "\"%s\" is not true or false", key);
}

bool component_size(const JsonValue *v, const char *key, size_t *out, Error *err) {
    const JsonValue *member = json_get_set(v, key);
    int64_t n;
    if (!member) return true;
    if (!json_int(member, &n) || n < 0 || n > INT32_MAX) return error_set(err, "\"%s\" is not a count", key);
    *out = (size_t)n;
    return true;
}

const JsonValue *component_text(const JsonValue *v, const char *key, Error *err) {
    const JsonValue *member = json_get(v, key);
    if (member && member->type == JSON_STRING) return member;
    error_set(err, "\"%s\" is not a string", key);
    return NULL;
}

bool component_sequence(const JsonValue *v, const char *key, ComponentLoader *load, void *to, Error *err) {
    const JsonValue *list = json_get(v, key);
    if (!list || list->type != JSON_ARRAY) return error_set(err, "Sequence without \"%s\"", key);
    for (uint32_t i = 0; i < list->length; i++)
        if (!load(to, &list->items[i], err)) return false;
    return true;
}

Pattern *component_pattern(const JsonValue *v, Error *err) {
    const JsonValue *pattern = json_get(v, "pattern");
    const JsonValue *text = json_get(pattern, "String"), *expression = json_get(pattern, "Regex");
    const JsonValue *source = text ? text : expression;
    if (!source || source->type != JSON_STRING) {
        error_set(err, "\"pattern\" is neither {\"String\": ...} nor {\"Regex\": ...}");
        return NULL;
    }
    if (source == text && text->length) return pattern_literal(text->text, text->length, err);
    Pattern *p = pattern_new(source->text, source->length, err);
    if (!p) error_prefix(err, "\"pattern\"");
    return p;
}

bool component_unknown(const char *what, const char *type, Error *err) {
    return error_set(err, "%s \"%s\" is not known to this version", what, type);
}
