/* Values of a template: making, asking, comparing, iterating. What Python would do decides every case here; where a
 * result would need more than 64-bit integers the rendering ends with a clear error instead of another number. */
#define _GNU_SOURCE
#include "text/jinja_value.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HASHED_FROM = 9 }; /* entries from which a dict is hashed */

/* ---- making ---- */

bool value_text_ref(Run *run, const char *data, size_t length, Value *out) {
    String *s = run_take(run, 1, sizeof *s);
    if (!s) return false;
    *s = (String){data, length, utf8_count(data, length), false};
    *out = value_string(s);
    return true;
}

bool value_text_safe(Run *run, const char *data, size_t length, bool safe, Value *out) {
    String *s = run_take(run, 1, sizeof *s + length + 1);
    if (!s) return false;
    char *copy = (char *)(s + 1);
    if (length) memcpy(copy, data, length);
    *s = (String){copy, length, utf8_count(copy, length), safe};
    *out = value_string(s);
    return true;
}

bool value_text(Run *run, const char *data, size_t length, Value *out) {
    return value_text_safe(run, data, length, false, out);
}

bool value_from_buffer(Run *run, Buffer *b, bool safe, Value *out) {
    bool ok = b->failed ? run_memory(run) : value_text_safe(run, buffer_string(b), b->length, safe, out);
    buffer_clear(b);
    return ok;
}

static bool undefined_new(Run *run, Undefined u, Value *out) {
    Undefined *copy = run_take(run, 1, sizeof *copy);
    if (!copy) return false;
    *copy = u;
    *out = (Value){.type = V_UNDEFINED, .undefined = copy};
    return true;
}

bool value_undefined_name(Run *run, Value name, Value *out) {
    return undefined_new(run, (Undefined){.name = name}, out);
}

bool value_undefined_member(Run *run, Value object, Value name, Value *out) {
    return undefined_new(run, (Undefined){.object = object, .name = name}, out);
}

bool value_undefined_hint(Run *run, const char *hint, Value *out) {
    return undefined_new(run, (Undefined){.hint = hint}, out);
}

bool value_fail_undefined(Run *run, Value v) {
    const Undefined *u = v.undefined;
    if (u->hint) return run_fail(run, "%s", u->hint);
    Buffer name = {0};
    if (!value_repr(run, &name, u->name, 0)) {
        buffer_clear(&name);
        return false;
    }
    if (u->object.type == V_MISSING)
        run_error(run, "%s is undefined", buffer_string(&name));
    else if (u->name.type == V_STRING)
        run_error(run, "'%s' has no attribute %s", value_object_name(run, u->object), buffer_string(&name));
    else
        run_error(run, "%s has no element %s", value_object_name(run, u->object), buffer_string(&name));
    buffer_clear(&name);
    return false;
}

List *value_list_new(Run *run, size_t capacity) {
    List *list = run_take(run, 1, sizeof *list);
    if (!list) return NULL;
    list->capacity = capacity;
    if (capacity && !(list->items = run_take(run, capacity, sizeof(Value)))) return NULL;
    return list;
}

bool value_list_add(Run *run, List *list, Value v) {
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        Value *items = run_take(run, capacity, sizeof *items);
        if (!items) return false;
        if (list->n) memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = v;
    return true;
}

Value value_list(const List *list) {
    return (Value){.type = V_LIST, .list = list};
}

Value value_tuple(const List *list) {
    return (Value){.type = V_TUPLE, .list = list};
}

bool value_pair(Run *run, Value a, Value b, Value *out) {
    List *list = value_list_new(run, 2);
    if (!list) return false;
    list->items[0] = a;
    list->items[1] = b;
    list->n = 2;
    *out = value_tuple(list);
    return true;
}

/* ---- dicts ---- */

Dict *value_dict_new(Run *run, uint32_t capacity) {
    Dict *d = run_take(run, 1, sizeof *d);
    if (!d) return NULL;
    d->capacity = capacity;
    if (!capacity) return d;
    d->keys = run_take(run, capacity, sizeof(Value));
    d->values = run_take(run, capacity, sizeof(Value));
    return d->keys && d->values ? d : NULL;
}

static bool dict_reindex(Run *run, Dict *d) {
    uint32_t size = 16;
    while (size < d->capacity * 2) size *= 2;
    d->index = run_take(run, size, sizeof *d->index);
    if (!d->index) return false;
    d->index_size = size;
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t h;
        if (!value_hash(run, d->keys[i], &h)) return false;
        uint32_t at = (uint32_t)h & (size - 1);
        while (d->index[at]) at = (at + 1) & (size - 1);
        d->index[at] = i + 1;
    }
    return true;
}

/* Entry number of key, or -1; *slot is where a new one goes in the index. False: unhashable, or a limit. */
static bool dict_find(Run *run, const Dict *d, Value key, int64_t *entry, uint32_t *slot) {
    *entry = -1;
    *slot = 0;
    uint64_t h = 0;
    if (!value_hash(run, key, &h)) return false;
    bool equal;
    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++) {
            if (!value_equal(run, d->keys[i], key, &equal)) return false;
            if (!equal) continue;
            *entry = i;
            return true;
        }
        return true;
    }
    uint32_t at = (uint32_t)h & (d->index_size - 1);
    for (; d->index[at]; at = (at + 1) & (d->index_size - 1)) {
        if (!value_equal(run, d->keys[d->index[at] - 1], key, &equal)) return false;
        if (!equal) continue;
        *entry = d->index[at] - 1;
        return true;
    }
    *slot = at;
    return true;
}

static bool dict_grow(Run *run, Dict *d) {
    if (d->capacity > UINT32_MAX / 4) return run_memory(run);
    uint32_t capacity = d->capacity ? d->capacity * 2 : 4;
    Value *keys = run_take(run, capacity, sizeof *keys), *values = run_take(run, capacity, sizeof *values);
    if (!keys || !values) return false;
    if (d->n) {
        memcpy(keys, d->keys, d->n * sizeof *keys);
        memcpy(values, d->values, d->n * sizeof *values);
    }
    d->keys = keys;
    d->values = values;
    d->capacity = capacity;
    return capacity < HASHED_FROM || dict_reindex(run, d);
}

bool value_dict_set(Run *run, Dict *d, Value key, Value v) {
    int64_t entry;
    uint32_t slot;
    if (!dict_find(run, d, key, &entry, &slot)) return false;
    if (entry >= 0) {
        d->values[entry] = v;
        return true;
    }
    if (d->n == d->capacity) {
        if (!dict_grow(run, d) || !dict_find(run, d, key, &entry, &slot)) return false;
    } else if (!d->index && d->capacity >= HASHED_FROM) {
        if (!dict_reindex(run, d) || !dict_find(run, d, key, &entry, &slot)) return false;
    }
    d->keys[d->n] = key;
    d->values[d->n++] = v;
    if (d->index) d->index[slot] = d->n;
    return true;
}

bool value_dict_get(Run *run, const Dict *d, Value key, Value *out, bool *found) {
    int64_t entry;
    uint32_t slot;
    if (!dict_find(run, d, key, &entry, &slot)) return false;
    *found = entry >= 0;
    if (*found) *out = d->values[entry];
    return true;
}

bool value_dict_text(const Dict *d, const char *key, size_t length, Value *out) {
    for (uint32_t i = 0; i < d->n; i++) {
        if (d->keys[i].type != V_STRING) continue;
        const String *s = d->keys[i].string;
        if (s->length != length || memcmp(s->data, key, length) != 0) continue;
        *out = d->values[i];
        return true;
    }
    return false;
}

/* ---- from JSON ---- */

static bool from_json_number(Run *run, const JsonValue *json, Value *out) {
    int64_t i;
    if (json->type == JSON_FLOAT)
        *out = value_float(json->number);
    else if (json_int(json, &i))
        *out = value_int(i);
    else {
        if (!value_text_ref(run, json->text, json->length ? json->length : strlen(json->text), out)) return false;
        out->type = V_BIG;
    }
    return true;
}

bool value_from_json(Run *run, const JsonValue *json, Value *out) {
    switch (json->type) {
    case JSON_NULL: *out = NONE; return true;
    case JSON_BOOL: *out = value_bool(json->boolean); return true;
    case JSON_INT:
    case JSON_FLOAT: return from_json_number(run, json, out);
    case JSON_STRING: return value_text_ref(run, json->text, json->length, out);
    case JSON_ARRAY: {
        List *list = value_list_new(run, json->length);
        if (!list) return false;
        for (uint32_t i = 0; i < json->length; i++)
            if (!value_from_json(run, &json->items[i], &list->items[i])) return false;
        list->n = json->length;
        *out = value_list(list);
        return true;
    }
    case JSON_OBJECT: {
        Dict *d = value_dict_new(run, json->length);
        if (!d) return false;
        for (uint32_t i = 0; i < json->length; i++) {
            const JsonMember *m = &json->members[i];
            Value key, v;
            if (!value_text_ref(run, m->key, m->key_length, &key) || !value_from_json(run, &m->value, &v) ||
                !value_dict_set(run, d, key, v))
                return false;
        }
        *out = (Value){.type = V_DICT, .dict = d};
        return true;
    }
    }
    return false;
}

/* ---- asking ---- */

const char *value_type_name(Value v) {
    static const char *const NAMES[] = {
        [V_MISSING] = "missing",
        [V_UNDEFINED] = "Undefined",
        [V_NONE] = "NoneType",
        [V_BOOL] = "bool",
        [V_INT] = "int",
        [V_BIG] = "int",
        [V_FLOAT] = "float",
        [V_STRING] = "str",
        [V_LIST] = "list",
        [V_TUPLE] = "tuple",
        [V_DICT] = "dict",
        [V_RANGE] = "range",
        [V_NAMESPACE] = "Namespace",
        [V_MACRO] = "Macro",
        [V_LOOP] = "LoopContext",
        [V_FUNCTION] = "function",
        [V_METHOD] = "builtin_function_or_method",
        [V_CYCLER] = "Cycler",
        [V_JOINER] = "Joiner",
        [V_SELF] = "TemplateReference",
        [V_BLOCK] = "BlockReference",
    };
    static const char *const VIEWS[] = {"dict_keys", "dict_values", "dict_items"};
    if (v.type == V_VIEW) return VIEWS[v.view->kind];
    if (v.type == V_ITERATOR) return v.iterator->type_name;
    if (v.type == V_STRING && v.string->safe) return "Markup";
    return NAMES[v.type];
}

/* jinja2.utils.object_type_repr: what error messages call a value. */
const char *value_object_name(Run *run, Value v) {
    if (v.type == V_NONE) return "None";
    const char *type = value_type_name(v);
    bool full = v.type == V_UNDEFINED || v.type == V_MACRO || v.type == V_LOOP || v.type == V_SELF || v.type == V_BLOCK;
    bool util = v.type == V_NAMESPACE || v.type == V_CYCLER || v.type == V_JOINER;
    const char *prefix = full ? "jinja2.runtime." : util ? "jinja2.utils." : "";
    if (v.type == V_STRING && v.string->safe) prefix = "markupsafe.";
    size_t size = strlen(type) + strlen(prefix) + sizeof " object";
    char *text = run_take(run, 1, size);
    if (!text) return "object";
    snprintf(text, size, "%s%s object", prefix, type);
    return text;
}

bool value_truth(Value v) {
    switch (v.type) {
    case V_MISSING:
    case V_UNDEFINED:
    case V_NONE: return false;
    case V_BOOL: return v.boolean;
    case V_INT: return v.integer != 0;
    case V_FLOAT: return v.number != 0;
    case V_STRING: return v.string->length != 0;
    case V_LIST:
    case V_TUPLE: return v.list->n != 0;
    case V_DICT: return v.dict->n != 0;
    case V_RANGE: return v.range->length != 0;
    case V_VIEW: return v.view->dict->n != 0;
    default: return true;
    }
}

bool value_is_text(Value v, const char *text) {
    return v.type == V_STRING && v.string->length == strlen(text) &&
           memcmp(v.string->data, text, v.string->length) == 0;
}

bool value_is_number(Value v) {
    return v.type == V_BOOL || v.type == V_INT || v.type == V_FLOAT;
}

bool value_as_int(Value v, int64_t *out) {
    if (v.type == V_BOOL)
        *out = v.boolean;
    else if (v.type == V_INT)
        *out = v.integer;
    else
        return false;
    return true;
}

double value_as_double(Value v) {
    return v.type == V_FLOAT ? v.number : v.type == V_BOOL ? v.boolean : (double)v.integer;
}

bool value_negate_big(Run *run, Value v, bool negative, Value *out) {
    *out = v;
    if (!negative) return true;
    const String *s = v.string;
    if (s->length == 19 && memcmp(s->data, "9223372036854775808", 19) == 0) { /* the one that fits when negated */
        *out = value_int(INT64_MIN);
        return true;
    }
    Buffer b = {0};
    bool was_negative = s->data[0] == '-';
    if (!was_negative) buffer_byte(&b, '-');
    buffer_append(&b, s->data + was_negative, s->length - was_negative);
    if (!value_from_buffer(run, &b, false, out)) return false;
    out->type = V_BIG;
    return true;
}

/* Exact comparison of an integer with a double, as Python's; 2 for NaN. */
static int compare_int_float(int64_t i, double d) {
    if (isnan(d)) return 2;
    if (d >= 9223372036854775808.0) return -1;
    if (d < -9223372036854775808.0) return 1;
    int64_t whole = (int64_t)d;
    if (i != whole) return i < whole ? -1 : 1;
    double rest = d - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int compare_numbers(Value a, Value b) {
    int64_t i, j;
    bool ai = value_as_int(a, &i), bi = value_as_int(b, &j);
    if (ai && bi) return i < j ? -1 : i > j;
    if (ai) return compare_int_float(i, b.number);
    if (bi) {
        int c = compare_int_float(j, a.number);
        return c == 2 ? 2 : -c;
    }
    if (isnan(a.number) || isnan(b.number)) return 2;
    return a.number < b.number ? -1 : a.number > b.number;
}

static int compare_strings(const String *a, const String *b) {
    size_t n = a->length < b->length ? a->length : b->length;
    int c = n ? memcmp(a->data, b->data, n) : 0; /* UTF-8 keeps the order of code points */
    if (c) return c < 0 ? -1 : 1;
    return a->length < b->length ? -1 : a->length > b->length;
}

static bool equal_lists(Run *run, const List *a, const List *b, bool *out) {
    *out = false;
    if (a->n != b->n) return true;
    for (size_t i = 0; i < a->n; i++) {
        if (value_same(a->items[i], b->items[i])) continue; /* identity first, as Python does: NaN in lists */
        bool equal;
        if (!value_equal(run, a->items[i], b->items[i], &equal)) return false;
        if (!equal) return true;
    }
    *out = true;
    return true;
}

static bool equal_dicts(Run *run, const Dict *a, const Dict *b, bool *out) {
    *out = false;
    if (a->n != b->n) return true;
    for (uint32_t i = 0; i < a->n; i++) {
        Value other;
        bool found, equal;
        if (!value_dict_get(run, b, a->keys[i], &other, &found)) return false;
        if (!found) return true;
        if (value_same(a->values[i], other)) continue;
        if (!value_equal(run, a->values[i], other, &equal)) return false;
        if (!equal) return true;
    }
    *out = true;
    return true;
}

static bool equal_ranges(const Range *a, const Range *b) {
    if (a->length != b->length) return false;
    return a->length == 0 || (a->start == b->start && (a->length == 1 || a->step == b->step));
}

bool value_equal(Run *run, Value a, Value b, bool *out) {
    if (!run_charge(run, 1)) return false;
    if (value_is_number(a) && value_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a.type != b.type) return true;
    bool ok = true;
    switch (a.type) {
    case V_UNDEFINED:
    case V_NONE: *out = true; return true;
    case V_BIG:
    case V_STRING: *out = compare_strings(a.string, b.string) == 0; return true;
    case V_RANGE: *out = equal_ranges(a.range, b.range); return true;
    case V_LIST:
    case V_TUPLE:
        if (!run_enter(run)) return false;
        ok = equal_lists(run, a.list, b.list, out);
        run_leave(run);
        return ok;
    case V_DICT:
        if (!run_enter(run)) return false;
        ok = equal_dicts(run, a.dict, b.dict, out);
        run_leave(run);
        return ok;
    default: *out = value_same(a, b); return true;
    }
}

bool value_same(Value a, Value b) {
    if (a.type != b.type) return false;
    switch (a.type) {
    case V_UNDEFINED: return a.undefined == b.undefined;
    case V_NONE: return true;
    case V_BOOL: return a.boolean == b.boolean;
    /* CPython: small integers are one object each; others are, when they come from one place, which we cannot know */
    case V_INT: return a.integer == b.integer;
    case V_FLOAT: return memcmp(&a.number, &b.number, sizeof a.number) == 0;
    case V_STRING: return a.string == b.string || (a.string->chars <= 1 && compare_strings(a.string, b.string) == 0);
    case V_MISSING: return true;
    default: return a.list == b.list;
    }
}

static bool compare_lists(Run *run, const List *a, const List *b, const char *op, int *out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool equal = value_same(a->items[i], b->items[i]);
        if (!equal && !value_equal(run, a->items[i], b->items[i], &equal)) return false;
        if (!equal) return value_compare(run, a->items[i], b->items[i], op, out);
    }
    *out = a->n < b->n ? -1 : a->n > b->n;
    return true;
}

bool value_compare(Run *run, Value a, Value b, const char *op, int *out) {
    if (!run_charge(run, 1)) return false;
    if (value_is_number(a) && value_is_number(b)) {
        *out = compare_numbers(a, b);
        return true;
    }
    if (a.type == V_UNDEFINED) return value_fail_undefined(run, a);
    if (b.type == V_UNDEFINED) return value_fail_undefined(run, b);
    if (a.type == V_STRING && b.type == V_STRING) {
        *out = compare_strings(a.string, b.string);
        return true;
    }
    if (a.type == b.type && (a.type == V_LIST || a.type == V_TUPLE)) {
        if (!run_enter(run)) return false;
        bool ok = compare_lists(run, a.list, b.list, op, out);
        run_leave(run);
        return ok;
    }
    if (a.type == V_BIG || b.type == V_BIG) return run_fail(run, "integers beyond 64 bits cannot be computed with");
    return run_fail(run, "'%s' not supported between instances of '%s' and '%s'", op, value_type_name(a),
                    value_type_name(b));
}

static uint64_t hash_bytes(const char *s, size_t n) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return h ^ (h >> 32);
}

static bool hash_number(Value v, uint64_t *out) {
    int64_t i;
    if (!value_as_int(v, &i)) {
        double d = v.number;
        if (!(d >= -9.2e18 && d <= 9.2e18) || d != floor(d)) {
            *out = hash_bytes((const char *)&d, sizeof d);
            return true;
        }
        i = (int64_t)d; /* 1 and 1.0 and true are one key */
    }
    *out = (uint64_t)i * 0x9E3779B97F4A7C15u;
    *out ^= *out >> 32;
    return true;
}

bool value_hash(Run *run, Value v, uint64_t *out) {
    if (value_is_number(v)) return hash_number(v, out);
    switch (v.type) {
    case V_STRING:
    case V_BIG: *out = hash_bytes(v.string->data, v.string->length); return true;
    case V_TUPLE: {
        if (!run_enter(run) || !run_charge(run, v.list->n)) return false;
        uint64_t h = 7;
        for (size_t i = 0; i < v.list->n; i++) {
            uint64_t item = 0;
            if (!value_hash(run, v.list->items[i], &item)) return false;
            h = h * 1000003u ^ item;
        }
        run_leave(run);
        *out = h;
        return true;
    }
    case V_LIST:
    case V_DICT: return run_fail(run, "unhashable type: '%s'", value_type_name(v));
    case V_VIEW: return run_fail(run, "unhashable type: '%s'", value_type_name(v));
    case V_NONE:
    case V_UNDEFINED: *out = 0x5bd1e995u + v.type; return true;
    case V_RANGE: *out = (uint64_t)v.range->length; return true;
    default: *out = (uint64_t)(uintptr_t)v.list; return true;
    }
}

bool value_has_length(Value v) {
    switch (v.type) {
    case V_UNDEFINED:
    case V_STRING:
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_RANGE:
    case V_VIEW:
    case V_LOOP: return true;
    default: return false;
    }
}

bool value_length(Run *run, Value v, int64_t *out) {
    switch (v.type) {
    case V_UNDEFINED: *out = 0; return true;
    case V_STRING: *out = (int64_t)v.string->chars; return true;
    case V_LIST:
    case V_TUPLE: *out = (int64_t)v.list->n; return true;
    case V_DICT: *out = v.dict->n; return true;
    case V_RANGE: *out = v.range->length; return true;
    case V_VIEW: *out = v.view->dict->n; return true;
    default: return run_fail(run, "object of type '%s' has no len()", value_type_name(v));
    }
}

static bool contains_text(Run *run, const String *s, Value item, bool *out) {
    if (item.type != V_STRING)
        return run_fail(run, "'in <string>' requires string as left operand, not %s", value_type_name(item));
    if (!run_charge(run, s->length / 64)) return false;
    *out = item.string->length == 0 || memmem(s->data, s->length, item.string->data, item.string->length) != NULL;
    return true;
}

bool value_contains(Run *run, Value container, Value item, bool *out) {
    *out = false;
    Value ignored;
    if (container.type == V_STRING) return contains_text(run, container.string, item, out);
    if (container.type == V_DICT) return value_dict_get(run, container.dict, item, &ignored, out);
    if (container.type == V_VIEW && container.view->kind == VIEW_KEYS)
        return value_dict_get(run, container.view->dict, item, &ignored, out);
    if (!value_iterable(container))
        return run_fail(run, "argument of type '%s' is not iterable", value_type_name(container));
    Iterator *it = value_iterate(run, container);
    if (!it) return false;
    Value v;
    int got;
    while ((got = iterator_next(run, it, &v)) > 0) {
        *out = value_same(v, item);
        if (!*out && !value_equal(run, v, item, out)) return false;
        if (*out) return true;
    }
    return got == 0;
}

/* ---- iterating ---- */

Iterator *iterator_new(Run *run, int (*next)(Run *, Iterator *, Value *), const char *type_name) {
    Iterator *it = run_take(run, 1, sizeof *it);
    if (!it) return NULL;
    it->next = next;
    it->type_name = type_name;
    return it;
}

int iterator_next(Run *run, Iterator *it, Value *out) {
    if (it->done) return 0;
    if (!run_charge(run, 1)) return -1;
    int got = it->next(run, it, out);
    if (got <= 0) it->done = true;
    return got;
}

static int next_in_list(Run *run, Iterator *it, Value *out) {
    (void)run;
    const List *list = it->source.list;
    if (it->index >= list->n) return 0;
    *out = list->items[it->index++];
    return 1;
}

static int next_in_text(Run *run, Iterator *it, Value *out) {
    const String *s = it->source.string;
    if (it->index >= s->length) return 0;
    size_t n = 1;
    while (it->index + n < s->length && ((unsigned char)s->data[it->index + n] & 0xC0) == 0x80) n++;
    if (!value_text_ref(run, s->data + it->index, n, out)) return -1;
    it->index += n;
    return 1;
}

static int next_in_view(Run *run, Iterator *it, Value *out) {
    const View *view = it->source.view;
    if (it->index >= view->dict->n) return 0;
    Value key = view->dict->keys[it->index], v = view->dict->values[it->index];
    it->index++;
    if (view->kind == VIEW_ITEMS) return value_pair(run, key, v, out) ? 1 : -1;
    *out = view->kind == VIEW_KEYS ? key : v;
    return 1;
}

static int next_in_dict(Run *run, Iterator *it, Value *out) {
    (void)run;
    if (it->index >= it->source.dict->n) return 0;
    *out = it->source.dict->keys[it->index++];
    return 1;
}

static int next_in_range(Run *run, Iterator *it, Value *out) {
    (void)run;
    const Range *r = it->source.range;
    if ((int64_t)it->index >= r->length) return 0;
    *out = value_int(r->start + (int64_t)it->index++ * r->step);
    return 1;
}

static int next_in_nothing(Run *run, Iterator *it, Value *out) {
    (void)run, (void)it, (void)out;
    return 0;
}

bool value_iterable(Value v) {
    return v.type == V_ITERATOR || value_has_length(v);
}

Iterator *value_iterate(Run *run, Value v) {
    int (*next)(Run *, Iterator *, Value *) = NULL;
    const char *name = "iterator";
    switch (v.type) {
    case V_ITERATOR: return v.iterator;
    case V_UNDEFINED:
        next = next_in_nothing;
        name = "generator";
        break;
    case V_STRING:
        next = next_in_text;
        name = "str_iterator";
        break;
    case V_LIST:
        next = next_in_list;
        name = "list_iterator";
        break;
    case V_TUPLE:
        next = next_in_list;
        name = "tuple_iterator";
        break;
    case V_DICT:
        next = next_in_dict;
        name = "dict_keyiterator";
        break;
    case V_RANGE:
        next = next_in_range;
        name = "range_iterator";
        break;
    case V_VIEW:
        next = next_in_view;
        name = "dict_itemiterator";
        break;
    default: run_error(run, "'%s' object is not iterable", value_type_name(v)); return NULL;
    }
    Iterator *it = iterator_new(run, next, name);
    if (it) it->source = v;
    return it;
}

bool value_to_list(Run *run, Value v, List **out) {
    Iterator *it = value_iterate(run, v);
    if (!it) return false;
    int64_t n = 0;
    if (value_has_length(v) && v.type != V_LOOP && !value_length(run, v, &n)) return false;
    List *list = value_list_new(run, (size_t)n);
    if (!list) return false;
    Value item;
    int got;
    while ((got = iterator_next(run, it, &item)) > 0)
        if (!value_list_add(run, list, item)) return false;
    *out = list;
    return got == 0;
}
