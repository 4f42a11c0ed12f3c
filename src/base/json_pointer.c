/* The percent signs are undone first, so that %2F parts two steps as / does; then ~0 and ~1 inside of a step. Nothing
 * is copied: a step is undone anew for each name that it is compared with. */
#include "base/json_pointer.h"
#include "base/hex.h"

enum { STEP_END = -1, WRONG = -2 };

static int fragment_byte(const char **at) {
    const char *p = *at;
    if (*p != '%') return (unsigned char)*(*at)++;
    int high = hex_digit(p[1]), low = high < 0 ? -1 : hex_digit(p[2]);
    if (low < 0) return WRONG;
    *at += 3;
    return high * 16 + low;
}

static int step_byte(const char **at) {
    const char *before = *at;
    int c = **at ? fragment_byte(at) : STEP_END;
    if (c == '/') {
        *at = before;
        return STEP_END;
    }
    if (c != '~') return c;
    c = **at ? fragment_byte(at) : WRONG;
    return c == '0' ? '~' : c == '1' ? '/' : WRONG;
}

static bool step_is(const char *step, const char *name, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (step_byte(&step) != (unsigned char)name[i]) return false;
    return step_byte(&step) == STEP_END;
}

/* Digits, without a zero before them. */
static const JsonValue *item_of(const JsonValue *array, const char *step) {
    int c = step_byte(&step);
    uint64_t i = 0;
    if (c == '0') return step_byte(&step) == STEP_END ? json_item(array, 0) : NULL;
    if (c == STEP_END) return NULL;
    for (; c >= '0' && c <= '9' && i < array->length; c = step_byte(&step)) i = i * 10 + (uint64_t)(c - '0');
    return c == STEP_END && i < array->length ? json_item(array, (uint32_t)i) : NULL;
}

static const JsonValue *step_into(const JsonValue *v, const char *step) {
    if (v->type == JSON_ARRAY) return item_of(v, step);
    for (uint32_t i = 0; v->type == JSON_OBJECT && i < v->length; i++)
        if (step_is(step, v->members[i].key, v->members[i].key_length)) return &v->members[i].value;
    return NULL;
}

const JsonValue *json_pointer(const JsonValue *root, const char *pointer) {
    if (*pointer++ != '#') return NULL;
    while (root && *pointer) {
        if (fragment_byte(&pointer) != '/') return NULL;
        root = step_into(root, pointer);
        while (root && step_byte(&pointer) >= 0) {}
    }
    return root;
}
