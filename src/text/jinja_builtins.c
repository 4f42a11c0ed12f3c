/* Looking builtins up, binding arguments to them, and the two smallest families: tests and global functions. Filters
 * and methods are in jinja_builtins_*.c and jinja_methods.c. */
#define _GNU_SOURCE
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { MAX_RANGE = 100000 }; /* jinja2's sandbox refuses longer ranges */

/* ---- arguments ---- */

static bool is_name(const char *text, size_t length, const char *name) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* Position of `name` in the comma-separated params, -1 when it is not there; *n_params counts them. */
static int find_param(const char *params, const char *name, size_t length, int *n_params) {
    int at = 0, found = -1;
    while (*params) {
        size_t n = strcspn(params, ",");
        if (n == length && memcmp(params, name, n) == 0) found = at;
        at++;
        params += n;
        if (*params) params++;
    }
    *n_params = at;
    return found;
}

bool args_bind(Run *run, const Signature *sig, const Args *args, Value argv[MAX_PARAMS]) {
    bool positional_only = sig->params[0] == '/';
    const char *params = sig->params + positional_only;
    int n_params;
    find_param(params, "", 0, &n_params);
    for (int i = 0; i < MAX_PARAMS; i++) argv[i] = (Value){.type = V_MISSING};
    if (args->n > (size_t)n_params)
        return run_fail(run, "%s() takes at most %d argument(s) (%zu given)", sig->name, n_params, args->n);
    for (size_t i = 0; i < args->n; i++) argv[i] = args->positional[i];
    for (size_t i = 0; i < args->n_keywords; i++) {
        const String *name = args->names[i];
        int at = positional_only ? -1 : find_param(params, name->data, name->length, &n_params);
        int shown = (int)(name->length < 60 ? name->length : 60);
        if (at < 0)
            return run_fail(run, "%s() got an unexpected keyword argument '%.*s'", sig->name, shown, name->data);
        if (argv[at].type != V_MISSING)
            return run_fail(run, "%s() got multiple values for argument '%.*s'", sig->name, shown, name->data);
        argv[at] = args->keywords[i];
    }
    for (int i = 0; i < sig->required; i++)
        if (argv[i].type == V_MISSING) return run_fail(run, "%s() is missing a required argument", sig->name);
    return true;
}

bool arg_int(Run *run, Value v, const char *what, int64_t *out) {
    if (value_as_int(v, out)) return true;
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type == V_BIG) return run_fail(run, "%s: integers beyond 64 bits cannot be computed with", what);
    return run_fail(run, "%s: '%s' object cannot be interpreted as an integer", what, value_type_name(v));
}

bool arg_text(Run *run, Value v, const char *what, const String **out) {
    if (v.type != V_STRING) return run_fail(run, "%s must be str, not %s", what, value_type_name(v));
    *out = v.string;
    return true;
}

bool jinja_apply_filter(Run *run, const FilterDef *def, Value v, const Args *args, Value *out) {
    Value argv[MAX_PARAMS];
    if (def->sig.params[0] == '*') return def->fn(run, v, NULL, args, out);
    return args_bind(run, &def->sig, args, argv) && def->fn(run, v, argv, args, out);
}

bool jinja_apply_test(Run *run, const TestDef *def, Value v, const Args *args, bool *out) {
    Value argv[MAX_PARAMS];
    return args_bind(run, &def->sig, args, argv) && def->fn(run, v, argv, out);
}

bool jinja_call_function(Run *run, const Function *def, Value self, const Args *args, Value *out) {
    Value argv[MAX_PARAMS];
    if (def->sig.params[0] == '*') return def->fn(run, self, NULL, args, out);
    return args_bind(run, &def->sig, args, argv) && def->fn(run, self, argv, args, out);
}

/* ---- tests ---- */

static bool rest_is(Run *run, Value v, Value divisor, int64_t wanted, bool *out) {
    Value rest;
    return jinja_binary(run, T_MOD, v, divisor, &rest) && value_equal(run, rest, value_int(wanted), out);
}

static bool test_odd(Run *run, Value v, const Value *argv, bool *out) {
    (void)argv;
    return rest_is(run, v, value_int(2), 1, out);
}

static bool test_even(Run *run, Value v, const Value *argv, bool *out) {
    (void)argv;
    return rest_is(run, v, value_int(2), 0, out);
}

static bool test_divisibleby(Run *run, Value v, const Value *argv, bool *out) {
    return rest_is(run, v, argv[0], 0, out);
}

/* Tests of the type alone. */
#define TYPE_TEST(name, condition)                                             \
    static bool test_##name(Run *run, Value v, const Value *argv, bool *out) { \
        (void)run, (void)argv;                                                 \
        *out = (condition);                                                    \
        return true;                                                           \
    }

TYPE_TEST(defined, v.type != V_UNDEFINED)
TYPE_TEST(undefined, v.type == V_UNDEFINED)
TYPE_TEST(none, v.type == V_NONE)
TYPE_TEST(boolean, v.type == V_BOOL)
TYPE_TEST(false, v.type == V_BOOL && !v.boolean)
TYPE_TEST(true, v.type == V_BOOL && v.boolean)
TYPE_TEST(integer, v.type == V_INT || v.type == V_BIG)
TYPE_TEST(float, v.type == V_FLOAT)
TYPE_TEST(string, v.type == V_STRING)
TYPE_TEST(mapping, v.type == V_DICT)
TYPE_TEST(number, value_is_number(v) || v.type == V_BIG)
TYPE_TEST(iterable, value_iterable(v))
TYPE_TEST(escaped, v.type == V_STRING && v.string->safe)
TYPE_TEST(sequence, v.type == V_STRING || v.type == V_LIST || v.type == V_TUPLE || v.type == V_DICT ||
                        v.type == V_RANGE || v.type == V_UNDEFINED)
TYPE_TEST(callable, v.type == V_FUNCTION || v.type == V_METHOD || v.type == V_MACRO || v.type == V_LOOP ||
                        v.type == V_JOINER || v.type == V_BLOCK || v.type == V_UNDEFINED)
TYPE_TEST(sameas, value_same(v, argv[0]))
TYPE_TEST(filter, v.type == V_STRING && jinja_filter(v.string->data, v.string->length))
TYPE_TEST(test, v.type == V_STRING && jinja_test(v.string->data, v.string->length))

/* str.islower and str.isupper of str(v). */
static bool is_cased(Run *run, Value v, bool upper, bool *out) {
    *out = false;
    if (!value_str(run, v, &v)) return false;
    static const String LOWER = {"islower", 7, 7, false}, UPPER = {"isupper", 7, 7, false};
    Value method, result;
    Args none = {0};
    if (!jinja_getattr(run, v, upper ? &UPPER : &LOWER, &method) || !jinja_call(run, method, &none, &result))
        return false;
    *out = value_truth(result);
    return true;
}

static bool test_lower(Run *run, Value v, const Value *argv, bool *out) {
    (void)argv;
    return is_cased(run, v, false, out);
}

static bool test_upper(Run *run, Value v, const Value *argv, bool *out) {
    (void)argv;
    return is_cased(run, v, true, out);
}

static bool test_in(Run *run, Value v, const Value *argv, bool *out) {
    return value_contains(run, argv[0], v, out);
}

static bool test_eq(Run *run, Value v, const Value *argv, bool *out) {
    return value_equal(run, v, argv[0], out);
}

static bool test_ne(Run *run, Value v, const Value *argv, bool *out) {
    if (!value_equal(run, v, argv[0], out)) return false;
    *out = !*out;
    return true;
}

static bool ordered(Run *run, Value v, Value other, const char *op, bool *out) {
    int order;
    if (!value_compare(run, v, other, op, &order)) return false;
    bool equal_too = op[1] == '=';
    *out = order != 2 && (order == 0 ? equal_too : op[0] == '<' ? order < 0 : order > 0);
    return true;
}

static bool test_gt(Run *run, Value v, const Value *argv, bool *out) {
    return ordered(run, v, argv[0], ">", out);
}
static bool test_ge(Run *run, Value v, const Value *argv, bool *out) {
    return ordered(run, v, argv[0], ">=", out);
}
static bool test_lt(Run *run, Value v, const Value *argv, bool *out) {
    return ordered(run, v, argv[0], "<", out);
}
static bool test_le(Run *run, Value v, const Value *argv, bool *out) {
    return ordered(run, v, argv[0], "<=", out);
}

static const TestDef TESTS[] = {
    {{"odd", "", 0}, test_odd},
    {{"even", "", 0}, test_even},
    {{"divisibleby", "num", 1}, test_divisibleby},
    {{"defined", "", 0}, test_defined},
    {{"undefined", "", 0}, test_undefined},
    {{"filter", "", 0}, test_filter},
    {{"test", "", 0}, test_test},
    {{"none", "", 0}, test_none},
    {{"boolean", "", 0}, test_boolean},
    {{"false", "", 0}, test_false},
    {{"true", "", 0}, test_true},
    {{"integer", "", 0}, test_integer},
    {{"float", "", 0}, test_float},
    {{"lower", "", 0}, test_lower},
    {{"upper", "", 0}, test_upper},
    {{"string", "", 0}, test_string},
    {{"mapping", "", 0}, test_mapping},
    {{"number", "", 0}, test_number},
    {{"sequence", "", 0}, test_sequence},
    {{"iterable", "", 0}, test_iterable},
    {{"callable", "", 0}, test_callable},
    {{"sameas", "other", 1}, test_sameas},
    {{"escaped", "", 0}, test_escaped},
    {{"in", "seq", 1}, test_in},
    {{"==", "/b", 1}, test_eq},
    {{"eq", "/b", 1}, test_eq},
    {{"equalto", "/b", 1}, test_eq},
    {{"!=", "/b", 1}, test_ne},
    {{"ne", "/b", 1}, test_ne},
    {{">", "/b", 1}, test_gt},
    {{"gt", "/b", 1}, test_gt},
    {{"greaterthan", "/b", 1}, test_gt},
    {{"ge", "/b", 1}, test_ge},
    {{">=", "/b", 1}, test_ge},
    {{"<", "/b", 1}, test_lt},
    {{"lt", "/b", 1}, test_lt},
    {{"lessthan", "/b", 1}, test_lt},
    {{"<=", "/b", 1}, test_le},
    {{"le", "/b", 1}, test_le},
};

const TestDef *jinja_test(const char *name, size_t length) {
    for (size_t i = 0; i < COUNT(TESTS); i++)
        if (is_name(name, length, TESTS[i].sig.name)) return &TESTS[i];
    return NULL;
}

/* ---- filters: by name over all tables ---- */

const FilterDef *jinja_filter(const char *name, size_t length) {
    FilterTable tables[] = {jinja_text_filters(), jinja_sequence_filters(), jinja_number_filters(),
                            jinja_html_filters()};
    for (size_t t = 0; t < COUNT(tables); t++)
        for (size_t i = 0; i < tables[t].n; i++)
            if (is_name(name, length, tables[t].items[i].sig.name)) return &tables[t].items[i];
    return NULL;
}

/* ---- global functions ---- */

static bool range_length(int64_t start, int64_t stop, int64_t step, int64_t *out) {
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    bool empty = step > 0 ? stop <= start : start <= stop;
    uint64_t n = empty ? 0 : (span - 1) / by + 1;
    *out = (int64_t)n;
    return n <= MAX_RANGE;
}

static bool call_range(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self;
    int64_t start = 0, stop, step = 1;
    Range *range = run_take(run, 1, sizeof *range);
    if (!range || !arg_int(run, argv[0], "range()", args->n > 1 ? &start : &stop)) return false;
    if (args->n > 1 && !arg_int(run, argv[1], "range()", &stop)) return false;
    if (args->n > 2 && !arg_int(run, argv[2], "range()", &step)) return false;
    if (step == 0) return run_fail(run, "range() arg 3 must not be zero");
    *range = (Range){start, stop, step, 0};
    if (!range_length(start, stop, step, &range->length))
        return run_fail(run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
    *out = (Value){.type = V_RANGE, .range = range};
    return true;
}

/* dict.update: a mapping, or pairs. */
static bool fill_dict(Run *run, Dict *d, Value from) {
    if (from.type == V_UNDEFINED) return true;
    if (from.type == V_DICT) {
        for (uint32_t i = 0; i < from.dict->n; i++)
            if (!value_dict_set(run, d, from.dict->keys[i], from.dict->values[i])) return false;
        return true;
    }
    Iterator *it = value_iterate(run, from);
    Value item;
    int got = it ? 1 : -1;
    while (got > 0 && (got = iterator_next(run, it, &item)) > 0) {
        List *pair;
        if (!value_to_list(run, item, &pair)) return false;
        if (pair->n != 2)
            return run_fail(run, "dictionary update sequence element has length %zu; 2 is required", pair->n);
        if (!value_dict_set(run, d, pair->items[0], pair->items[1])) return false;
    }
    return got == 0;
}

static bool build_dict(Run *run, const Args *args, Dict **out) {
    Dict *d = value_dict_new(run, 0);
    if (!d) return false;
    if (args->n > 1) return run_fail(run, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n && !fill_dict(run, d, args->positional[0])) return false;
    for (size_t i = 0; i < args->n_keywords; i++)
        if (!value_dict_set(run, d, value_string(args->names[i]), args->keywords[i])) return false;
    *out = d;
    return true;
}

static bool call_dict(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)argv;
    Dict *d;
    if (!build_dict(run, args, &d)) return false;
    *out = (Value){.type = V_DICT, .dict = d};
    return true;
}

static bool call_namespace(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)argv;
    Dict *d;
    if (!build_dict(run, args, &d)) return false;
    for (uint32_t i = 0; i < d->n; i++)
        if (d->keys[i].type == V_STRING && d->keys[i].string->length && d->keys[i].string->data[0] == '_')
            return run_fail(run, "Chat templates cannot store underscore-prefixed attributes on a namespace");
    *out = (Value){.type = V_NAMESPACE, .dict = d};
    return true;
}

static bool call_cycler(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)argv;
    if (args->n_keywords) return run_fail(run, "Cycler() takes no keyword arguments");
    if (args->n == 0) return run_fail(run, "at least one item has to be provided");
    Cycler *c = run_take(run, 1, sizeof *c);
    if (!c) return false;
    *c = (Cycler){args->positional, args->n, 0};
    *out = (Value){.type = V_CYCLER, .cycler = c};
    return true;
}

static bool call_joiner(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)args;
    Joiner *j = run_take(run, 1, sizeof *j);
    if (!j) return false;
    j->separator = argv[0];
    if (argv[0].type == V_MISSING && !value_text_ref(run, ", ", 2, &j->separator)) return false;
    *out = (Value){.type = V_JOINER, .joiner = j};
    return true;
}

static bool call_lipsum(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)argv, (void)args, (void)out;
    return run_fail(run, "lipsum() gives random text, which a prompt must not depend on; it is not supported");
}

static bool call_raise(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)args, (void)out;
    Value text;
    if (!value_str(run, argv[0], &text)) return false;
    run_error(run, "%.*s", (int)(text.string->length < 800 ? text.string->length : 800), text.string->data);
    run->raised = true;
    return false;
}

/* datetime.now().strftime(format): C's strftime, but %f are microseconds and a zone is unknown. */
static bool call_strftime(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)args;
    const String *format = NULL;
    if (!arg_text(run, argv[0], "strftime() argument 1", &format)) return false;
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!localtime_r(&now.tv_sec, &local)) return run_fail(run, "the local time is unknown");
    Buffer expanded = {0};
    for (size_t i = 0; i < format->length; i++) {
        char c = format->data[i], next = i + 1 < format->length ? format->data[i + 1] : 0;
        if (c == '%' && next == 'f')
            buffer_printf(&expanded, "%06ld", now.tv_nsec / 1000);
        else if (c == '%' && (next == 'z' || next == 'Z'))
            buffer_text(&expanded, "");
        else {
            buffer_byte(&expanded, c);
            if (c == '%' && next) buffer_byte(&expanded, next);
            if (c != '%' || !next) continue;
        }
        i++;
    }
    char text[2048];
    size_t n = expanded.length ? strftime(text, sizeof text, expanded.data, &local) : 0;
    buffer_clear(&expanded);
    return value_text(run, text, n, out);
}

static const Function GLOBALS[] = {
    {{"range", "/start,stop,step", 1}, call_range},
    {{"dict", "*", 0}, call_dict},
    {{"lipsum", "*", 0}, call_lipsum},
    {{"cycler", "*", 0}, call_cycler},
    {{"joiner", "sep", 0}, call_joiner},
    {{"namespace", "*", 0}, call_namespace},
    {{"raise_exception", "message", 1}, call_raise},
    {{"strftime_now", "format", 1}, call_strftime},
};

const Function *jinja_global(const char *name, size_t length) {
    for (size_t i = 0; i < COUNT(GLOBALS); i++)
        if (is_name(name, length, GLOBALS[i].sig.name)) return &GLOBALS[i];
    return NULL;
}

Dict *jinja_variables(Run *run) {
    Dict *d = value_dict_new(run, 32);
    for (size_t i = 0; d && i < COUNT(GLOBALS); i++) {
        Value name, f = {.type = V_FUNCTION, .function = &GLOBALS[i]};
        if (!value_text_ref(run, GLOBALS[i].sig.name, strlen(GLOBALS[i].sig.name), &name) ||
            !value_dict_set(run, d, name, f))
            return NULL;
    }
    return d;
}

/* ---- sorting ---- */

static bool comes_before(Run *run, const Value *keys, size_t a, size_t b, bool reverse, bool *out) {
    int order;
    if (!value_compare(run, keys[b], keys[a], "<", &order)) return false;
    *out = reverse ? order == 1 : order == -1;
    return true;
}

/* Merge sort of the numbers 0..n-1 in `order`; takes from the right half only what is strictly before. */
static bool merge_sort(Run *run, size_t *order, size_t *spare, const Value *keys, size_t n, bool reverse) {
    if (n < 2) return true;
    size_t half = n / 2;
    if (!merge_sort(run, order, spare, keys, half, reverse) ||
        !merge_sort(run, order + half, spare, keys, n - half, reverse))
        return false;
    memcpy(spare, order, half * sizeof *spare);
    size_t i = 0, j = half, to = 0;
    while (i < half && j < n) {
        bool right;
        if (!comes_before(run, keys, spare[i], order[j], reverse, &right)) return false;
        order[to++] = right ? order[j++] : spare[i++];
    }
    while (i < half) order[to++] = spare[i++];
    return true;
}

bool jinja_sort(Run *run, Value *items, const Value *keys, size_t n, bool reverse) {
    size_t *order = run_take(run, n * 2 + 1, sizeof *order);
    Value *copy = run_take(run, n + 1, sizeof *copy);
    if (!order || !copy) return false;
    for (size_t i = 0; i < n; i++) order[i] = i;
    if (!merge_sort(run, order, order + n, keys, n, reverse)) return false;
    if (n) memcpy(copy, items, n * sizeof *copy);
    for (size_t i = 0; i < n; i++) items[i] = copy[order[i]];
    return true;
}
