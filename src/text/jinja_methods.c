/* Attributes of values: which names Python's types have, which of them the sandbox forbids, and the methods of dicts,
 * lists and numbers. Methods of strings are in jinja_methods_str.c. */
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"

#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool is_name(const char *text, size_t length, const char *name) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* ---- dicts ---- */

static bool dict_get(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    bool found;
    if (!value_dict_get(run, self.dict, argv[0], out, &found)) return false;
    if (!found) *out = argv[1].type == V_MISSING ? NONE : argv[1];
    return true;
}

static bool make_view(Run *run, Value self, ViewKind kind, Value *out) {
    View *view = run_take(run, 1, sizeof *view);
    if (!view) return false;
    *view = (View){self.dict, kind};
    *out = (Value){.type = V_VIEW, .view = view};
    return true;
}

static bool dict_items(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return make_view(run, self, VIEW_ITEMS, out);
}

static bool dict_keys(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return make_view(run, self, VIEW_KEYS, out);
}

static bool dict_values(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    return make_view(run, self, VIEW_VALUES, out);
}

/* A copy is as good as the dict itself: nothing can change either. */
static bool value_copy(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    *out = self;
    return true;
}

static bool dict_fromkeys(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)self, (void)args;
    Dict *d = value_dict_new(run, 0);
    Iterator *it = d ? value_iterate(run, argv[0]) : NULL;
    Value key;
    int got = it ? 1 : -1;
    while (got > 0 && (got = iterator_next(run, it, &key)) > 0)
        if (!value_dict_set(run, d, key, argv[1].type == V_MISSING ? NONE : argv[1])) return false;
    *out = (Value){.type = V_DICT, .dict = d};
    return got == 0;
}

static const Function DICT_METHODS[] = {
    {{"get", "/key,default", 1}, dict_get}, {{"items", "", 0}, dict_items},
    {{"keys", "", 0}, dict_keys},           {{"values", "", 0}, dict_values},
    {{"copy", "", 0}, value_copy},          {{"fromkeys", "/iterable,value", 1}, dict_fromkeys},
};
static const char *const DICT_UNSAFE[] = {"clear", "pop", "popitem", "setdefault", "update"};

/* ---- lists and tuples ---- */

static bool list_count(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t n = 0;
    for (size_t i = 0; i < self.list->n; i++) {
        bool equal = value_same(self.list->items[i], argv[0]);
        if (!equal && !value_equal(run, self.list->items[i], argv[0], &equal)) return false;
        n += equal;
    }
    *out = value_int(n);
    return true;
}

static bool list_bound(Run *run, Value v, int64_t missing, int64_t n, int64_t *out) {
    *out = missing;
    if (v.type != V_MISSING && !arg_int(run, v, "index()", out)) return false;
    if (*out < 0) *out = *out + n < 0 ? 0 : *out + n;
    if (*out > n) *out = n;
    return true;
}

static bool list_index(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)args;
    int64_t n = (int64_t)self.list->n, start, stop;
    if (!list_bound(run, argv[1], 0, n, &start) || !list_bound(run, argv[2], n, n, &stop)) return false;
    for (int64_t i = start; i < stop; i++) {
        bool equal = value_same(self.list->items[i], argv[0]);
        if (!equal && !value_equal(run, self.list->items[i], argv[0], &equal)) return false;
        if (!equal) continue;
        *out = value_int(i);
        return true;
    }
    return run_fail(run, "the value is not in the %s", value_type_name(self));
}

static const Function LIST_METHODS[] = {
    {{"count", "/value", 1}, list_count},
    {{"index", "/value,start,stop", 1}, list_index},
    {{"copy", "", 0}, value_copy},
};
static const char *const LIST_UNSAFE[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
static const Function TUPLE_METHODS[] = {
    {{"count", "/value", 1}, list_count},
    {{"index", "/value,start,stop", 1}, list_index},
};

/* ---- numbers ---- */

static bool int_bit_length(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    int64_t i = 0, n = 0;
    value_as_int(self, &i);
    for (uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; u; u >>= 1) n++;
    *out = value_int(n);
    return true;
}

static bool int_bit_count(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    int64_t i = 0, n = 0;
    value_as_int(self, &i);
    for (uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; u; u >>= 1) n += (int64_t)(u & 1);
    *out = value_int(n);
    return true;
}

static bool number_conjugate(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    *out = self.type == V_BOOL ? value_int(self.boolean) : self;
    return true;
}

static bool float_is_integer(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    *out = value_bool(isfinite(self.number) && floor(self.number) == self.number);
    return true;
}

static const Function INT_METHODS[] = {
    {{"bit_length", "", 0}, int_bit_length},
    {{"bit_count", "", 0}, int_bit_count},
    {{"conjugate", "", 0}, number_conjugate},
};
static const Function FLOAT_METHODS[] = {
    {{"is_integer", "", 0}, float_is_integer},
    {{"conjugate", "", 0}, number_conjugate},
};

static int number_attribute(Value v, const char *name, size_t length, Value *out) {
    int64_t i;
    bool whole = value_as_int(v, &i);
    if (is_name(name, length, "real") || (whole && is_name(name, length, "numerator")))
        *out = whole ? value_int(i) : v;
    else if (is_name(name, length, "imag"))
        *out = whole ? value_int(0) : value_float(0);
    else if (whole && is_name(name, length, "denominator"))
        *out = value_int(1);
    else
        return 0;
    return 1;
}

/* ---- objects of the template ---- */

static bool loop_cycle(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    if (args->n_keywords) return run_fail(run, "cycle() takes no keyword arguments");
    if (args->n == 0) return run_fail(run, "no items for cycling given");
    *out = args->positional[(size_t)self.loop->index0 % args->n];
    return true;
}

static bool loop_changed(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    if (args->n_keywords) return run_fail(run, "changed() takes no keyword arguments");
    List *now = value_list_new(run, args->n);
    if (!now) return false;
    for (size_t i = 0; i < args->n; i++) now->items[now->n++] = args->positional[i];
    bool equal = false;
    Value v = value_tuple(now);
    if (self.loop->changed.type != V_MISSING && !value_equal(run, self.loop->changed, v, &equal)) return false;
    if (!equal) self.loop->changed = v;
    *out = value_bool(!equal);
    return true;
}

static const Function LOOP_METHODS[] = {{{"cycle", "*", 0}, loop_cycle}, {{"changed", "*", 0}, loop_changed}};

static bool cycler_next(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    Cycler *c = self.cycler;
    *out = c->items[c->pos];
    c->pos = (c->pos + 1) % c->n;
    return true;
}

static bool cycler_reset(Run *run, Value self, const Value *argv, const Args *args, Value *out) {
    (void)run, (void)argv, (void)args;
    self.cycler->pos = 0;
    *out = NONE;
    return true;
}

static const Function CYCLER_METHODS[] = {{{"next", "", 0}, cycler_next}, {{"reset", "", 0}, cycler_reset}};

static int cycler_attribute(Run *run, Cycler *c, const char *name, size_t length, Value *out) {
    if (is_name(name, length, "current"))
        *out = c->items[c->pos];
    else if (is_name(name, length, "pos"))
        *out = value_int((int64_t)c->pos);
    else if (is_name(name, length, "items")) {
        List *list = value_list_new(run, c->n);
        if (!list) return -1;
        memcpy(list->items, c->items, c->n * sizeof *c->items);
        list->n = c->n;
        *out = value_tuple(list);
    } else
        return 0;
    return 1;
}

static int macro_attribute(Run *run, const Macro *macro, const char *name, size_t length, Value *out) {
    const MacroNode *m = macro->node;
    if (is_name(name, length, "name"))
        *out = m->name ? value_string(m->name) : NONE;
    else if (is_name(name, length, "catch_kwargs"))
        *out = value_bool(m->kwargs >= 0);
    else if (is_name(name, length, "catch_varargs"))
        *out = value_bool(m->varargs >= 0);
    else if (is_name(name, length, "caller"))
        *out = value_bool(m->uses_caller);
    else if (is_name(name, length, "explicit_caller"))
        *out = value_bool(m->explicit_caller);
    else if (is_name(name, length, "arguments")) {
        List *list = value_list_new(run, m->params.n);
        if (!list) return -1;
        for (uint32_t i = 0; i < m->params.n; i++) list->items[list->n++] = value_string(m->params.items[i]->name.name);
        *out = value_tuple(list);
    } else
        return 0;
    return 1;
}

static int range_attribute(const Range *r, const char *name, size_t length, Value *out) {
    if (is_name(name, length, "start"))
        *out = value_int(r->start);
    else if (is_name(name, length, "stop"))
        *out = value_int(r->stop);
    else if (is_name(name, length, "step"))
        *out = value_int(r->step);
    else
        return 0;
    return 1;
}

/* ---- dispatch ---- */

static int bind_method(Run *run, Value self, FunctionTable table, const char *name, size_t length, Value *out) {
    for (size_t i = 0; i < table.n; i++) {
        if (!is_name(name, length, table.items[i].sig.name)) continue;
        Method *method = run_take(run, 1, sizeof *method);
        if (!method) return -1;
        *method = (Method){self, &table.items[i]};
        *out = (Value){.type = V_METHOD, .method = method};
        return 1;
    }
    return 0;
}

static bool listed(const char *const *names, size_t n, const char *name, size_t length) {
    for (size_t i = 0; i < n; i++)
        if (is_name(name, length, names[i])) return true;
    return false;
}

static FunctionTable methods_of(Value v) {
    switch (v.type) {
    case V_STRING: return jinja_string_methods();
    case V_DICT: return (FunctionTable){DICT_METHODS, COUNT(DICT_METHODS)};
    case V_LIST: return (FunctionTable){LIST_METHODS, COUNT(LIST_METHODS)};
    case V_TUPLE: return (FunctionTable){TUPLE_METHODS, COUNT(TUPLE_METHODS)};
    case V_BOOL:
    case V_INT: return (FunctionTable){INT_METHODS, COUNT(INT_METHODS)};
    case V_FLOAT: return (FunctionTable){FLOAT_METHODS, COUNT(FLOAT_METHODS)};
    case V_LOOP: return (FunctionTable){LOOP_METHODS, COUNT(LOOP_METHODS)};
    case V_CYCLER: return (FunctionTable){CYCLER_METHODS, COUNT(CYCLER_METHODS)};
    default: return (FunctionTable){NULL, 0};
    }
}

static int special_attribute(Run *run, Value v, const char *name, size_t length, Value *out) {
    switch (v.type) {
    case V_NAMESPACE: return value_dict_text(v.dict, name, length, out);
    case V_LOOP: return jinja_loop_attribute(run, v.loop, name, length, out);
    case V_CYCLER: return cycler_attribute(run, v.cycler, name, length, out);
    case V_MACRO: return macro_attribute(run, v.macro, name, length, out);
    case V_RANGE: return range_attribute(v.range, name, length, out);
    case V_BOOL:
    case V_INT:
    case V_FLOAT: return number_attribute(v, name, length, out);
    case V_STRING: return bind_method(run, v, jinja_case_methods(), name, length, out);
    case V_DICT: return listed(DICT_UNSAFE, COUNT(DICT_UNSAFE), name, length) ? 2 : 0;
    case V_LIST: return listed(LIST_UNSAFE, COUNT(LIST_UNSAFE), name, length) ? 2 : 0;
    case V_TUPLE:
        if (!v.list->group || (!is_name(name, length, "grouper") && !is_name(name, length, "list"))) return 0;
        *out = v.list->items[name[0] == 'l'];
        return 1;
    case V_JOINER:
        if (is_name(name, length, "used"))
            *out = value_bool(v.joiner->used);
        else if (is_name(name, length, "sep"))
            *out = v.joiner->separator;
        else
            return 0;
        return 1;
    case V_FUNCTION: /* dict.fromkeys */
        if (v.function != jinja_global("dict", 4)) return 0;
        return is_name(name, length, "fromkeys")
                   ? bind_method(run, v, (FunctionTable){DICT_METHODS, COUNT(DICT_METHODS)}, name, length, out)
                   : 0;
    default: return 0;
    }
}

int jinja_attribute(Run *run, Value v, const char *name, size_t length, Value *out) {
    int found = special_attribute(run, v, name, length, out);
    return found ? found : bind_method(run, v, methods_of(v), name, length, out);
}
