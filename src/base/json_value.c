/* Looking at values that were read. Objects are searched from the front: they are small, and the order is Python's. */
#include "base/json.h"

#include <math.h>
#include <string.h>

const JsonValue *json_get(const JsonValue *v, const char *key) {
    if (!v || v->type != JSON_OBJECT) return NULL;
    size_t n = strlen(key);
    for (uint32_t i = 0; i < v->length; i++) {
        const JsonMember *m = &v->members[i];
        if (m->key_length == n && memcmp(m->key, key, n) == 0) return &m->value;
    }
    return NULL;
}

const JsonValue *json_get_set(const JsonValue *v, const char *key) {
    const JsonValue *member = json_get(v, key);
    return member && member->type != JSON_NULL ? member : NULL;
}

const JsonValue *json_item(const JsonValue *v, uint32_t i) {
    return v && v->type == JSON_ARRAY && i < v->length ? &v->items[i] : NULL;
}

const char *json_string(const JsonValue *v) {
    return v && v->type == JSON_STRING ? v->text : NULL;
}

bool json_equals(const JsonValue *v, const char *text) {
    return v && v->type == JSON_STRING && v->length == strlen(text) && memcmp(v->text, text, v->length) == 0;
}

bool json_int(const JsonValue *v, int64_t *out) {
    if (!v) return false;
    if (v->type == JSON_FLOAT) {
        if (!(v->number >= -0x1p63 && v->number < 0x1p63) || v->number != floor(v->number)) return false;
        *out = (int64_t)v->number;
        return true;
    }
    if (v->type != JSON_INT) return false;
    int64_t value = 0;
    bool negative = v->text[0] == '-';
    for (uint32_t i = negative; i < v->length; i++) { /* downwards, because INT64_MIN has no positive twin */
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, v->text[i] - '0', &value)) return false;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

bool json_number(const JsonValue *v, double *out) {
    if (!v || (v->type != JSON_INT && v->type != JSON_FLOAT)) return false;
    *out = v->number;
    return true;
}

bool json_bool(const JsonValue *v, bool *out) {
    if (!v || v->type != JSON_BOOL) return false;
    *out = v->boolean;
    return true;
}
