/* Operators, subscripts and attributes with Python's rules, and jinja2's sandbox on top: a missing member is an
 * undefined value, a member that would change its object exists but may not be used. */
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- arithmetic ---- */

static bool unsupported(Run *run, const char *op, Value a, Value b) {
    if (a.type == V_UNDEFINED) return value_fail_undefined(run, a);
    if (b.type == V_UNDEFINED) return value_fail_undefined(run, b);
    if (a.type == V_BIG || b.type == V_BIG) return run_fail(run, "integers beyond 64 bits cannot be computed with");
    return run_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", op, value_type_name(a),
                    value_type_name(b));
}

static bool overflow(Run *run) {
    return run_fail(run, "the result is an integer beyond 64 bits, which templates cannot compute with here");
}

static bool int_pow(Run *run, int64_t base, int64_t exponent, Value *out) {
    if (exponent < 0) {
        if (base == 0) return run_fail(run, "0.0 cannot be raised to a negative power");
        *out = value_float(pow((double)base, (double)exponent));
        return true;
    }
    int64_t result = 1;
    while (exponent) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return overflow(run);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return overflow(run);
    }
    *out = value_int(result);
    return true;
}

static bool int_divide(Run *run, TokenType op, int64_t a, int64_t b, Value *out) {
    if (b == 0) return run_fail(run, op == T_DIV ? "division by zero" : "integer division or modulo by zero");
    if (op == T_DIV) {
        *out = value_float((double)((long double)a / (long double)b));
        return true;
    }
    if (a == INT64_MIN && b == -1) {
        if (op == T_FLOORDIV) return overflow(run);
        *out = value_int(0);
        return true;
    }
    int64_t quotient = a / b, rest = a % b;
    if (rest && (rest < 0) != (b < 0)) { /* Python rounds down, and the rest has the divisor's sign */
        quotient--;
        rest += b;
    }
    *out = value_int(op == T_FLOORDIV ? quotient : rest);
    return true;
}

static bool int_binary(Run *run, TokenType op, int64_t a, int64_t b, Value *out) {
    int64_t result;
    bool over;
    switch (op) {
    case T_ADD: over = __builtin_add_overflow(a, b, &result); break;
    case T_SUB: over = __builtin_sub_overflow(a, b, &result); break;
    case T_MUL: over = __builtin_mul_overflow(a, b, &result); break;
    case T_POW: return int_pow(run, a, b, out);
    default: return int_divide(run, op, a, b, out);
    }
    if (over) return overflow(run);
    *out = value_int(result);
    return true;
}

/* CPython's float_divmod. */
static void float_divide(double a, double b, double *quotient, double *rest) {
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1.0;
        }
    } else
        mod = copysign(0.0, b);
    if (div) {
        double whole = floor(div);
        if (div - whole > 0.5) whole += 1.0;
        *quotient = whole;
    } else
        *quotient = copysign(0.0, a / b);
    *rest = mod;
}

static bool float_binary(Run *run, TokenType op, double a, double b, Value *out) {
    double quotient, rest;
    switch (op) {
    case T_ADD: *out = value_float(a + b); return true;
    case T_SUB: *out = value_float(a - b); return true;
    case T_MUL: *out = value_float(a * b); return true;
    case T_POW:
        if (a == 0 && b < 0) return run_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && b != floor(b)) return run_fail(run, "complex numbers are not supported");
        *out = value_float(pow(a, b));
        if (isinf(out->number) && isfinite(a) && isfinite(b))
            return run_fail(run, "(34, 'Numerical result out of range')");
        return true;
    default: break;
    }
    if (b == 0)
        return run_fail(run, op == T_DIV   ? "float division by zero"
                             : op == T_MOD ? "float modulo"
                                           : "float floor division by zero");
    if (op == T_DIV) {
        *out = value_float(a / b);
        return true;
    }
    float_divide(a, b, &quotient, &rest);
    *out = value_float(op == T_FLOORDIV ? quotient : rest);
    return true;
}

/* ---- sequences ---- */

static bool concat_text(Run *run, Value a, Value b, Value *out) {
    bool safe = a.string->safe || b.string->safe;
    if (safe && (!value_escape(run, a, &a) || !value_escape(run, b, &b))) return false;
    size_t n = a.string->length + b.string->length;
    String *s = run_take(run, 1, sizeof *s + n + 1);
    if (!s) return false;
    char *data = (char *)(s + 1);
    memcpy(data, a.string->data, a.string->length);
    memcpy(data + a.string->length, b.string->data, b.string->length);
    *s = (String){data, n, a.string->chars + b.string->chars, safe};
    *out = value_string(s);
    return true;
}

static bool concat_lists(Run *run, Value a, Value b, Value *out) {
    List *list = value_list_new(run, a.list->n + b.list->n);
    if (!list) return false;
    list->n = a.list->n + b.list->n;
    if (a.list->n) memcpy(list->items, a.list->items, a.list->n * sizeof(Value));
    if (b.list->n) memcpy(list->items + a.list->n, b.list->items, b.list->n * sizeof(Value));
    *out = (Value){.type = a.type, .list = list};
    return true;
}

static bool add(Run *run, Value a, Value b, Value *out) {
    if (a.type == V_STRING && b.type == V_STRING) return concat_text(run, a, b, out);
    if (a.type == b.type && (a.type == V_LIST || a.type == V_TUPLE)) return concat_lists(run, a, b, out);
    if (b.type == V_UNDEFINED || b.type == V_BIG) return unsupported(run, "+", a, b);
    if (a.type == V_STRING) return run_fail(run, "can only concatenate str (not \"%s\") to str", value_type_name(b));
    if (a.type == V_LIST || a.type == V_TUPLE)
        return run_fail(run, "can only concatenate %s (not \"%s\") to %s", value_type_name(a), value_type_name(b),
                        value_type_name(a));
    return unsupported(run, "+", a, b);
}

static bool repeat_text(Run *run, const String *s, size_t times, Value *out) {
    size_t n;
    if (__builtin_mul_overflow(s->length, times, &n)) return run_memory(run);
    char *data = run_take(run, 1, n + 1);
    String *copy = data ? run_take(run, 1, sizeof *copy) : NULL;
    if (!copy) return false;
    for (size_t i = 0; i < times && s->length; i++) memcpy(data + i * s->length, s->data, s->length);
    *copy = (String){data, n, s->chars * times, s->safe};
    *out = value_string(copy);
    return true;
}

static bool repeat(Run *run, Value v, int64_t times, Value *out) {
    if (times < 0) times = 0;
    if (v.type == V_STRING) return repeat_text(run, v.string, v.string->length ? (size_t)times : 0, out);
    size_t n;
    if (!v.list->n) times = 0;
    if (__builtin_mul_overflow(v.list->n, (size_t)times, &n)) return run_memory(run);
    List *list = value_list_new(run, n);
    if (!list) return false;
    for (int64_t i = 0; i < times; i++)
        memcpy(list->items + (size_t)i * v.list->n, v.list->items, v.list->n * sizeof(Value));
    list->n = n;
    *out = (Value){.type = v.type, .list = list};
    return true;
}

static bool is_sequence(Value v) {
    return v.type == V_STRING || v.type == V_LIST || v.type == V_TUPLE;
}

static bool multiply(Run *run, Value a, Value b, Value *out) {
    int64_t times;
    if (is_sequence(a) && value_as_int(b, &times)) return repeat(run, a, times, out);
    if (is_sequence(b) && value_as_int(a, &times)) return repeat(run, b, times, out);
    if (a.type == V_UNDEFINED || b.type == V_UNDEFINED) return unsupported(run, "*", a, b);
    if (is_sequence(a)) return run_fail(run, "can't multiply sequence by non-int of type '%s'", value_type_name(b));
    if (is_sequence(b)) return run_fail(run, "can't multiply sequence by non-int of type '%s'", value_type_name(a));
    return unsupported(run, "*", a, b);
}

bool jinja_binary(Run *run, TokenType op, Value a, Value b, Value *out) {
    int64_t i, j;
    if (value_as_int(a, &i) && value_as_int(b, &j)) return int_binary(run, op, i, j, out);
    if (value_is_number(a) && value_is_number(b))
        return float_binary(run, op, value_as_double(a), value_as_double(b), out);
    if (op == T_ADD) return add(run, a, b, out);
    if (op == T_MUL) return multiply(run, a, b, out);
    if (op == T_MOD && a.type == V_STRING) return jinja_percent(run, a.string, b, out);
    return unsupported(run, op == T_POW ? "** or pow()" : jinja_token_name(op), a, b);
}

/* ---- slices and indexes ---- */

/* The byte offset of character number `at` (0..chars). */
static size_t text_offset(const String *s, size_t at) {
    if (s->chars == s->length) return at;
    size_t i = 0;
    while (at > 0 && i < s->length) {
        i++;
        while (i < s->length && ((unsigned char)s->data[i] & 0xC0) == 0x80) i++;
        at--;
    }
    return i;
}

static bool slice_bound(Run *run, Value v, int64_t missing, int64_t low, int64_t high, int64_t length, int64_t *out) {
    if (v.type == V_MISSING || v.type == V_NONE) {
        *out = missing;
        return true;
    }
    if (!value_as_int(v, out)) {
        if (v.type == V_BIG) {
            *out = v.string->data[0] == '-' ? low : high;
            return true;
        }
        return run_fail(run, "slice indices must be integers or None or have an __index__ method");
    }
    if (*out < 0)
        *out = *out < -length ? low : *out + length < low ? low : *out + length;
    else if (*out > high)
        *out = high;
    return true;
}

/* A forward run of characters is one piece of bytes; any other step picks characters one by one. */
static bool slice_text(Run *run, const String *s, int64_t start, int64_t step, int64_t n, Value *out) {
    if (step == 1) {
        size_t from = text_offset(s, (size_t)start);
        String rest = {s->data + from, s->length - from, s->chars - (size_t)start, false};
        size_t length = text_offset(&rest, (size_t)n);
        String *piece = run_take(run, 1, sizeof *piece);
        if (!piece) return false;
        *piece = (String){s->data + from, length, (size_t)n, s->safe};
        *out = value_string(piece);
        return true;
    }
    if (!run_charge(run, s->length / 8)) return false;
    uint32_t *offsets = run_take(run, s->chars + 1, sizeof *offsets);
    char *text = run_take(run, 1, s->length + 1);
    if (!offsets || !text) return false;
    size_t count = 0, length = 0;
    for (size_t i = 0; i < s->length; i++)
        if (((unsigned char)s->data[i] & 0xC0) != 0x80) offsets[count++] = (uint32_t)i;
    offsets[count] = (uint32_t)s->length;
    for (int64_t i = 0; i < n; i++) {
        size_t at = (size_t)(start + i * step), bytes = offsets[at + 1] - offsets[at];
        memcpy(text + length, s->data + offsets[at], bytes);
        length += bytes;
    }
    return value_text_safe(run, text, length, s->safe, out);
}

static bool slice_range(Run *run, const Range *r, int64_t from, int64_t to, int64_t step, int64_t n, Value *out) {
    Range *piece = run_take(run, 1, sizeof *piece);
    if (!piece) return false;
    /* modulo 2^64: the end may lie one step past what fits; no element does */
    uint64_t start = (uint64_t)r->start, by = (uint64_t)r->step;
    *piece = (Range){(int64_t)(start + (uint64_t)from * by), (int64_t)(start + (uint64_t)to * by),
                     (int64_t)(by * (uint64_t)step), n};
    *out = (Value){.type = V_RANGE, .range = piece};
    return true;
}

bool jinja_slice(Run *run, Value v, Value start, Value stop, Value step, Value *out) {
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type == V_DICT) return run_fail(run, "unhashable type: 'slice'");
    if (!is_sequence(v) && v.type != V_RANGE)
        return run_fail(run, "'%s' object is not subscriptable", value_type_name(v));
    int64_t length, by = 1, from, to;
    if (!value_length(run, v, &length)) return false;
    if (step.type != V_MISSING && step.type != V_NONE && !value_as_int(step, &by))
        return run_fail(run, "slice indices must be integers or None or have an __index__ method");
    if (by == 0) return run_fail(run, "slice step cannot be zero");
    if (by < -INT32_MAX) by = -INT32_MAX;
    if (by > INT32_MAX) by = INT32_MAX;
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
    if (!slice_bound(run, start, by < 0 ? high : low, low, high, length, &from) ||
        !slice_bound(run, stop, by < 0 ? low : high, low, high, length, &to))
        return false;
    int64_t n = by > 0 ? (to > from ? (to - from - 1) / by + 1 : 0) : (from > to ? (from - to - 1) / -by + 1 : 0);
    if (v.type == V_RANGE) return slice_range(run, v.range, from, to, by, n, out);
    if (n == 0) from = 0;
    if (v.type == V_STRING) return slice_text(run, v.string, from, n <= 1 ? 1 : by, n, out);
    List *list = value_list_new(run, (size_t)n);
    if (!list) return false;
    for (int64_t i = 0; i < n; i++) list->items[i] = v.list->items[from + i * by];
    list->n = (size_t)n;
    *out = (Value){.type = v.type, .list = list};
    return true;
}

bool jinja_index(Run *run, Value v, int64_t at, Value *out, bool *found) {
    int64_t length;
    if (!value_length(run, v, &length)) return false;
    if (at < 0) at += length;
    *found = at >= 0 && at < length;
    if (!*found) return true;
    if (v.type == V_STRING) return slice_text(run, v.string, at, 1, 1, out);
    if (v.type == V_RANGE)
        *out = value_int(v.range->start + at * v.range->step);
    else
        *out = v.list->items[at];
    return true;
}

/* ---- members ---- */

static bool is_private(const char *name, size_t length) {
    return length > 0 && name[0] == '_';
}

/* What every Python object has; a template may not touch it. */
static bool is_object_member(const char *name, size_t length) {
    static const char *const NAMES[] = {
        "__class__",   "__doc__",          "__dir__",    "__eq__",     "__format__",        "__ge__",
        "__gt__",      "__getattribute__", "__hash__",   "__init__",   "__init_subclass__", "__le__",
        "__lt__",      "__ne__",           "__new__",    "__reduce__", "__reduce_ex__",     "__repr__",
        "__setattr__", "__delattr__",      "__sizeof__", "__str__",    "__subclasshook__"};
    if (length < 5 || name[0] != '_') return false;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strlen(NAMES[i]) == length && memcmp(NAMES[i], name, length) == 0) return true;
    return false;
}

static bool undefined_unsafe(Run *run, Value object, const char *name, size_t length, Value *out) {
    char *hint = run_take(run, 1, length + 128);
    if (!hint) return false;
    snprintf(hint, length + 128, "access to attribute '%.*s' of '%s' object is unsafe.", (int)length, name,
             value_type_name(object));
    return value_undefined_hint(run, hint, out);
}

/* getattr(object, name): 1 found, 0 none, 2 exists but unsafe, -1 failed. */
static int find_attribute(Run *run, Value object, const char *name, size_t length, Value *out) {
    if (is_object_member(name, length)) return 2;
    int found = jinja_attribute(run, object, name, length, out);
    return found == 1 && is_private(name, length) ? 2 : found;
}

/* object[key] as Python has it: 1, or 0 for a TypeError or LookupError, or -1. */
static int subscript(Run *run, Value object, Value key, Value *out) {
    bool found = false;
    int64_t at;
    if (object.type == V_DICT) {
        if (key.type == V_LIST || key.type == V_DICT || key.type == V_VIEW) return 0;
        if (!value_dict_get(run, object.dict, key, out, &found)) return -1;
        return found;
    }
    if ((is_sequence(object) || object.type == V_RANGE) && value_as_int(key, &at)) {
        if (!jinja_index(run, object, at, out, &found)) return -1;
        return found;
    }
    if (object.type == V_SELF && key.type == V_STRING) {
        if (!jinja_self_block(run, key.string->data, key.string->length, out, &found)) return -1;
        return found;
    }
    return 0;
}

bool jinja_getitem(Run *run, Value object, Value key, Value *out) {
    if (object.type == V_UNDEFINED) return value_fail_undefined(run, object);
    int found = subscript(run, object, key, out);
    if (found) return found > 0;
    if (key.type == V_STRING) {
        found = find_attribute(run, object, key.string->data, key.string->length, out);
        if (found == 2) return undefined_unsafe(run, object, key.string->data, key.string->length, out);
        if (found) return found > 0;
    }
    return value_undefined_member(run, object, key, out);
}

bool jinja_getattr(Run *run, Value object, const String *name, Value *out) {
    if (object.type == V_UNDEFINED) return value_fail_undefined(run, object);
    int found = find_attribute(run, object, name->data, name->length, out);
    if (found == 2) return undefined_unsafe(run, object, name->data, name->length, out);
    if (found) return found > 0;
    found = subscript(run, object, value_string(name), out);
    if (found) return found > 0;
    return value_undefined_member(run, object, value_string(name), out);
}

bool jinja_attr(Run *run, Value object, const String *name, Value *out) {
    if (object.type == V_UNDEFINED) return value_fail_undefined(run, object);
    int found = find_attribute(run, object, name->data, name->length, out);
    if (found == 2) return undefined_unsafe(run, object, name->data, name->length, out);
    return found ? found > 0 : value_undefined_member(run, object, value_string(name), out);
}
