/* Filters over sequences and mappings. Those that jinja2 writes as generators are iterators here too: they work when
 * asked, are always true, have no length, and are empty the second time. Templates depend on each of these. */
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool given(Value v) {
    return v.type != V_MISSING && v.type != V_NONE;
}

static bool truth_or(Value v, bool missing) {
    return v.type == V_MISSING ? missing : value_truth(v);
}

/* ---- attribute paths: "a.b.0" ---- */

typedef struct Path {
    List *parts;
    Value fallback; /* in place of undefined values; MISSING: none */
} Path;

static bool is_digits(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return n > 0 && n < 18;
}

static bool add_part(Run *run, List *parts, const char *s, size_t n) {
    Value v;
    if (is_digits(s, n)) {
        int64_t at = 0;
        for (size_t i = 0; i < n; i++) at = at * 10 + (s[i] - '0');
        return value_list_add(run, parts, value_int(at));
    }
    return value_text(run, s, n, &v) && value_list_add(run, parts, v);
}

static bool path_parse(Run *run, Value attribute, Path *out) {
    *out = (Path){value_list_new(run, 0), {.type = V_MISSING}};
    if (!out->parts) return false;
    if (!given(attribute)) return true;
    if (attribute.type != V_STRING) return value_list_add(run, out->parts, attribute);
    const char *s = attribute.string->data;
    size_t n = attribute.string->length, from = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && s[i] != '.') continue;
        if (!add_part(run, out->parts, s + from, i - from)) return false;
        from = i + 1;
    }
    return true;
}

static bool path_get(Run *run, const Path *path, Value item, Value *out) {
    for (size_t i = 0; i < path->parts->n; i++) {
        if (!jinja_getitem(run, item, path->parts->items[i], &item)) return false;
        if (given(path->fallback) && item.type == V_UNDEFINED) item = path->fallback;
    }
    *out = item;
    return true;
}

/* The value to compare by: strings without case, unless asked. */
static bool path_key(Run *run, const Path *path, Value item, bool case_sensitive, Value *out) {
    if (!path_get(run, path, item, out)) return false;
    return case_sensitive || out->type != V_STRING || jinja_case(run, out->string, CASE_LOWER, out);
}

/* ---- generators ---- */

typedef struct Generator {
    Value source;
    Iterator *it;
    bool always; /* runs also when the source is false */
    /* map, select and their kin */
    bool started, by_path, keep;
    Path path;
    const FilterDef *filter;
    const TestDef *test;
    Args args;
    /* batch, slice, unique */
    int64_t size, at, offset;
    Value count, fill; /* count: what size was given as */
    List *items;
    Dict *seen;
    bool case_sensitive;
} Generator;

static bool generator_new(Run *run, Value source, int (*next)(Run *, Iterator *, Value *), Generator **state,
                          Value *out) {
    Generator *g = run_take(run, 1, sizeof *g);
    Iterator *it = g ? iterator_new(run, next, "generator") : NULL;
    if (!it) return false;
    g->source = source;
    it->state = g;
    it->generator = true;
    *state = g;
    *out = (Value){.type = V_ITERATOR, .iterator = it};
    return true;
}

/* The next item of the source. */
static int generator_pull(Run *run, Generator *g, Value *out) {
    if (!g->it && !(g->it = value_iterate(run, g->source))) return -1;
    return iterator_next(run, g->it, out);
}

/* args without the first `n` positional ones. */
static Args args_after(const Args *args, size_t n) {
    Args rest = *args;
    rest.positional += n;
    rest.n -= n;
    return rest;
}

static bool fail_name(Run *run, const char *kind, Value name) {
    const char *text = name.type == V_STRING ? name.string->data : value_type_name(name);
    size_t n = name.type == V_STRING ? name.string->length : strlen(text);
    return run_fail(run, "No %s named '%.*s'.", kind, (int)(n < 100 ? n : 100), text);
}

static bool find_filter(Run *run, Value name, const FilterDef **out) {
    *out = name.type == V_STRING ? jinja_filter(name.string->data, name.string->length) : NULL;
    return *out || fail_name(run, "filter", name);
}

static bool find_test(Run *run, Value name, const TestDef **out) {
    *out = name.type == V_STRING ? jinja_test(name.string->data, name.string->length) : NULL;
    return *out || fail_name(run, "test", name);
}

/* map(attribute=..., default=...) or map('filter', arguments) */
static bool map_prepare(Run *run, Generator *g) {
    static const Signature BY_ATTRIBUTE = {"map", "attribute,default", 0};
    bool attribute = false;
    for (size_t i = 0; i < g->args.n_keywords; i++)
        attribute |= g->args.names[i]->length == 9 && memcmp(g->args.names[i]->data, "attribute", 9) == 0;
    g->by_path = g->args.n == 0 && attribute;
    if (g->by_path) {
        Value argv[MAX_PARAMS];
        if (!args_bind(run, &BY_ATTRIBUTE, &g->args, argv) || !path_parse(run, argv[0], &g->path)) return false;
        g->path.fallback = argv[1];
        return true;
    }
    if (g->args.n == 0) return run_fail(run, "map requires a filter argument");
    Value name = g->args.positional[0];
    g->args = args_after(&g->args, 1);
    return find_filter(run, name, &g->filter);
}

static int map_next(Run *run, Iterator *it, Value *out) {
    Generator *g = it->state;
    Value item;
    if (!g->started && !value_truth(g->source)) return 0;
    if (!g->started && !map_prepare(run, g)) return -1;
    g->started = true;
    int got = generator_pull(run, g, &item);
    if (got <= 0) return got;
    bool ok = g->by_path ? path_get(run, &g->path, item, out) : jinja_apply_filter(run, g->filter, item, &g->args, out);
    return ok ? 1 : -1;
}

static bool filter_map(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    Generator *g;
    if (!generator_new(run, v, map_next, &g, out)) return false;
    g->args = *args;
    return true;
}

static bool select_prepare(Run *run, Generator *g) {
    if (g->by_path) {
        if (g->args.n == 0) return run_fail(run, "Missing parameter for attribute name");
        if (!path_parse(run, g->args.positional[0], &g->path)) return false;
        g->args = args_after(&g->args, 1);
    }
    if (g->args.n == 0) return true;
    Value name = g->args.positional[0];
    g->args = args_after(&g->args, 1);
    return find_test(run, name, &g->test);
}

static int select_next(Run *run, Iterator *it, Value *out) {
    Generator *g = it->state;
    int got;
    if (!g->started && !value_truth(g->source)) return 0;
    if (!g->started && !select_prepare(run, g)) return -1;
    g->started = true;
    while ((got = generator_pull(run, g, out)) > 0) {
        Value v = *out;
        bool selected;
        if (g->by_path && !path_get(run, &g->path, v, &v)) return -1;
        if (!g->test)
            selected = value_truth(v);
        else if (!jinja_apply_test(run, g->test, v, &g->args, &selected))
            return -1;
        if (selected == g->keep) return 1;
    }
    return got;
}

static bool make_select(Run *run, Value v, const Args *args, bool keep, bool by_path, Value *out) {
    Generator *g;
    if (!generator_new(run, v, select_next, &g, out)) return false;
    g->args = *args;
    g->keep = keep;
    g->by_path = by_path;
    return true;
}

static bool filter_select(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    return make_select(run, v, args, true, false, out);
}
static bool filter_reject(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    return make_select(run, v, args, false, false, out);
}
static bool filter_selectattr(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    return make_select(run, v, args, true, true, out);
}
static bool filter_rejectattr(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv;
    return make_select(run, v, args, false, true, out);
}

static int items_next(Run *run, Iterator *it, Value *out) {
    Generator *g = it->state;
    if (g->source.type == V_UNDEFINED) return 0;
    if (g->source.type != V_DICT) return run_error(run, "Can only get item pairs from a mapping."), -1;
    const Dict *d = g->source.dict;
    if (g->at >= d->n) return 0;
    int64_t at = g->at++;
    return value_pair(run, d->keys[at], d->values[at], out) ? 1 : -1;
}

static bool filter_items(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Generator *g;
    return generator_new(run, v, items_next, &g, out);
}

static int unique_next(Run *run, Iterator *it, Value *out) {
    Generator *g = it->state;
    int got;
    while ((got = generator_pull(run, g, out)) > 0) {
        Value key, ignored;
        bool found;
        if (!path_key(run, &g->path, *out, g->case_sensitive, &key) ||
            !value_dict_get(run, g->seen, key, &ignored, &found))
            return -1;
        if (found) continue;
        return value_dict_set(run, g->seen, key, NONE) ? 1 : -1;
    }
    return got;
}

static bool filter_unique(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Generator *g;
    if (!generator_new(run, v, unique_next, &g, out)) return false;
    g->case_sensitive = truth_or(argv[0], false);
    g->seen = value_dict_new(run, 0);
    return g->seen && path_parse(run, argv[1], &g->path);
}

/* Python compares the length of a row with the count: what equals no length makes one row of all. */
static void batch_size(Generator *g) {
    double d = g->count.number;
    if (value_as_int(g->count, &g->size)) return;
    bool whole = g->count.type == V_FLOAT && d >= 0 && d < 1e15 && (double)(int64_t)d == d;
    g->size = whole ? (int64_t)d : -1;
}

static int batch_next(Run *run, Iterator *it, Value *out) {
    Generator *g = it->state;
    if (!g->started) batch_size(g);
    List *row = value_list_new(run, 0);
    int got = 1;
    Value item;
    if (!row) return -1;
    /* a line count of zero gives one empty row first, and with it or below all the rest is one row */
    bool empty_first = g->size == 0 && !g->started, all = g->size <= 0;
    g->started = true;
    while ((all || (int64_t)row->n < g->size) && (got = generator_pull(run, g, &item)) > 0)
        if (!value_list_add(run, row, item)) return -1;
    if (got < 0) return -1;
    if (row->n == 0) return 0;
    if (empty_first) {
        g->it = value_iterate(run, value_list(row));
        row = value_list_new(run, 0);
        if (!g->it || !row) return -1;
    }
    if (given(g->fill) && !value_is_number(g->count))
        return run_error(run, "'<' not supported between instances of 'int' and '%s'", value_type_name(g->count)), -1;
    while (given(g->fill) && (int64_t)row->n < g->size)
        if (!value_list_add(run, row, g->fill)) return -1;
    *out = value_list(row);
    return 1;
}

static bool filter_batch(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Generator *g;
    if (!generator_new(run, v, batch_next, &g, out)) return false;
    g->count = argv[0];
    g->fill = argv[1];
    return true;
}

static int slice_next(Run *run, Iterator *it, Value *out) {
    Generator *g = it->state;
    if (!g->items && !value_to_list(run, g->source, &g->items)) return -1;
    if (!arg_int(run, g->count, "slice", &g->size)) return -1;
    if (g->size == 0) return run_error(run, "integer division or modulo by zero"), -1;
    if (g->at >= g->size) return 0;
    int64_t n = (int64_t)g->items->n, per = n / g->size, extra = n % g->size, at = g->at++;
    int64_t start = g->offset + at * per;
    if (at < extra) g->offset++;
    int64_t end = g->offset + (at + 1) * per;
    List *row = value_list_new(run, (size_t)(end - start) + 1);
    if (!row) return -1;
    for (int64_t i = start; i < end; i++) row->items[row->n++] = g->items->items[i];
    if (given(g->fill) && at >= extra) row->items[row->n++] = g->fill;
    *out = value_list(row);
    return 1;
}

static bool filter_slice(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Generator *g;
    if (!generator_new(run, v, slice_next, &g, out)) return false;
    g->count = argv[0];
    g->fill = argv[1];
    return true;
}

/* ---- one item, or a number ---- */

static bool filter_length(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    int64_t n;
    if (v.type == V_LOOP) return jinja_loop_attribute(run, v.loop, "length", 6, out) > 0;
    if (!value_length(run, v, &n)) return false;
    *out = value_int(n);
    return true;
}

static bool filter_first(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    Iterator *it = value_iterate(run, v);
    int got = it ? iterator_next(run, it, out) : -1;
    if (got == 0) return value_undefined_hint(run, "No first item, sequence was empty.", out);
    return got > 0;
}

/* The items of something Python can go through backwards; *ok false when it is not of that kind. */
static bool reversible(Run *run, Value v, List **out, bool *ok) {
    *ok = v.type != V_ITERATOR && v.type != V_LOOP && value_iterable(v);
    return !*ok || value_to_list(run, v, out);
}

static bool filter_last(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    List *items;
    bool ok;
    if (!reversible(run, v, &items, &ok)) return false;
    if (!ok) return run_fail(run, "'%s' object is not reversible", value_type_name(v));
    if (items->n == 0) return value_undefined_hint(run, "No last item, sequence was empty.", out);
    *out = items->items[items->n - 1];
    return true;
}

static void turn_round(List *list) {
    for (size_t i = 0; i < list->n / 2; i++) {
        Value v = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = v;
    }
}

/* A string backwards, an iterator over what can be reversed, a list of what can only be gone through. */
static bool filter_reverse(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    List *items;
    bool ok;
    Value missing = {.type = V_MISSING};
    if (v.type == V_STRING) return jinja_slice(run, v, missing, missing, value_int(-1), out);
    if (!value_iterable(v)) return run_fail(run, "argument must be iterable");
    if (!reversible(run, v, &items, &ok) || (!ok && !value_to_list(run, v, &items))) return false;
    turn_round(items);
    *out = value_list(items);
    if (!ok) return true;
    Iterator *it = value_iterate(run, *out);
    if (!it) return false;
    it->type_name = v.type == V_LIST ? "list_reverseiterator" : "reversed";
    *out = (Value){.type = V_ITERATOR, .iterator = it};
    return true;
}

static bool filter_list(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    List *items;
    if (!value_to_list(run, v, &items)) return false;
    *out = value_list(items);
    return true;
}

static bool filter_random(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)argv, (void)args;
    int64_t n;
    if (!value_length(run, v, &n)) return false;
    if (n == 0) return value_undefined_hint(run, "No random item, sequence was empty.", out);
    return run_fail(run, "the filter 'random' is not supported: a prompt must not depend on chance");
}

static bool min_or_max(Run *run, Value v, const Value *argv, bool max, Value *out) {
    Path path;
    Iterator *it = value_iterate(run, v);
    bool case_sensitive = truth_or(argv[0], false);
    Value item, key, best;
    if (!it || !path_parse(run, argv[1], &path)) return false;
    int got = iterator_next(run, it, out);
    if (got == 0) return value_undefined_hint(run, "No aggregated item, sequence was empty.", out);
    if (got < 0 || !path_key(run, &path, *out, case_sensitive, &best)) return false;
    while ((got = iterator_next(run, it, &item)) > 0) {
        int order;
        if (!path_key(run, &path, item, case_sensitive, &key) ||
            !value_compare(run, key, best, max ? ">" : "<", &order))
            return false;
        if (order != (max ? 1 : -1)) continue;
        best = key;
        *out = item;
    }
    return got == 0;
}

static bool filter_min(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return min_or_max(run, v, argv, false, out);
}
static bool filter_max(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    return min_or_max(run, v, argv, true, out);
}

static bool filter_sum(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Path path;
    Iterator *it = value_iterate(run, v);
    Value item, total = argv[1].type == V_MISSING ? value_int(0) : argv[1];
    if (!it || !path_parse(run, argv[0], &path)) return false;
    if (total.type == V_STRING) return run_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    int got;
    while ((got = iterator_next(run, it, &item)) > 0)
        if (!path_get(run, &path, item, &item) || !jinja_binary(run, T_ADD, total, item, &total)) return false;
    *out = total;
    return got == 0;
}

/* ---- order ---- */

/* jinja2's key of a sort: a list with the value of each attribute in "a,b.c". */
static bool sort_key(Run *run, const List *paths, Value item, bool case_sensitive, Value *out) {
    List *key = value_list_new(run, paths->n);
    if (!key) return false;
    for (size_t i = 0; i < paths->n; i++) {
        Path path = {(List *)paths->items[i].list, {.type = V_MISSING}};
        if (!path_key(run, &path, item, case_sensitive, &key->items[key->n++])) return false;
    }
    *out = value_list(key);
    return true;
}

static bool parse_paths(Run *run, Value attribute, List **out) {
    List *paths = value_list_new(run, 0);
    Path path;
    if (!paths) return false;
    *out = paths;
    if (attribute.type != V_STRING)
        return path_parse(run, attribute, &path) && value_list_add(run, paths, value_list(path.parts));
    const String *s = attribute.string;
    size_t from = 0;
    for (size_t i = 0; i <= s->length; i++) {
        if (i < s->length && s->data[i] != ',') continue;
        Value name;
        if (!value_text(run, s->data + from, i - from, &name) || !path_parse(run, name, &path) ||
            !value_list_add(run, paths, value_list(path.parts)))
            return false;
        from = i + 1;
    }
    return true;
}

static bool filter_sort(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    List *items, *paths;
    int64_t reverse = 0;
    if (argv[0].type != V_MISSING && !arg_int(run, argv[0], "reverse", &reverse)) return false;
    if (!value_to_list(run, v, &items) || !parse_paths(run, argv[2], &paths)) return false;
    Value *keys = run_take(run, items->n + 1, sizeof *keys);
    if (!keys) return false;
    for (size_t i = 0; i < items->n; i++)
        if (!sort_key(run, paths, items->items[i], truth_or(argv[1], false), &keys[i])) return false;
    *out = value_list(items);
    return jinja_sort(run, items->items, keys, items->n, reverse != 0);
}

static bool filter_dictsort(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    bool by_value = value_is_text(argv[1], "value");
    int64_t reverse = 0;
    if (argv[1].type != V_MISSING && !by_value && !value_is_text(argv[1], "key"))
        return run_fail(run, "You can only sort by either \"key\" or \"value\"");
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type != V_DICT) return run_fail(run, "'%s' object has no attribute 'items'", value_type_name(v));
    if (argv[2].type != V_MISSING && !arg_int(run, argv[2], "reverse", &reverse)) return false;
    List *items = value_list_new(run, v.dict->n);
    Value *keys = run_take(run, v.dict->n + 1, sizeof *keys);
    if (!items || !keys) return false;
    for (uint32_t i = 0; i < v.dict->n; i++) {
        if (!value_pair(run, v.dict->keys[i], v.dict->values[i], &items->items[i])) return false;
        keys[i] = by_value ? v.dict->values[i] : v.dict->keys[i];
        if (!truth_or(argv[0], false) && keys[i].type == V_STRING &&
            !jinja_case(run, keys[i].string, CASE_LOWER, &keys[i]))
            return false;
        items->n++;
    }
    *out = value_list(items);
    return jinja_sort(run, items->items, keys, items->n, reverse != 0);
}

static bool add_group(Run *run, List *groups, const Path *path, Value key, List *members, bool case_sensitive) {
    List *group = value_list_new(run, 2);
    if (!group) return false;
    if (!case_sensitive && !path_get(run, path, members->items[0], &key)) return false;
    group->items[0] = key;
    group->items[1] = value_list(members);
    group->n = 2;
    group->group = true;
    return value_list_add(run, groups, value_tuple(group));
}

static bool filter_groupby(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Path path;
    List *items, *groups = value_list_new(run, 0), *members = NULL;
    bool case_sensitive = truth_or(argv[2], false);
    if (!groups || !value_to_list(run, v, &items) || !path_parse(run, argv[0], &path)) return false;
    path.fallback = argv[1];
    Value *keys = run_take(run, items->n + 1, sizeof *keys);
    if (!keys) return false;
    for (size_t i = 0; i < items->n; i++)
        if (!path_key(run, &path, items->items[i], case_sensitive, &keys[i])) return false;
    if (!jinja_sort(run, items->items, keys, items->n, false) || !jinja_sort(run, keys, keys, items->n, false))
        return false;
    for (size_t i = 0; i < items->n; i++) {
        bool same = false;
        if (i && !value_equal(run, keys[i], keys[i - 1], &same)) return false;
        if (i && !same && !add_group(run, groups, &path, keys[i - 1], members, case_sensitive)) return false;
        if (!same && !(members = value_list_new(run, 0))) return false;
        if (!value_list_add(run, members, items->items[i])) return false;
    }
    *out = value_list(groups);
    return items->n == 0 || add_group(run, groups, &path, keys[items->n - 1], members, case_sensitive);
}

/* ---- the rest ---- */

/* With autoescape on and a safe string among separator and items, all others are escaped. */
static bool join_items(Run *run, const List *items, Value separator, Value *out) {
    bool safe = separator.type == V_STRING && separator.string->safe;
    for (size_t i = 0; i < items->n; i++) safe |= items->items[i].type == V_STRING && items->items[i].string->safe;
    safe &= run->autoescape;
    if (safe ? !value_escape(run, separator, &separator) : !value_str(run, separator, &separator)) return false;
    Buffer b = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < items->n; i++) {
        Value v = items->items[i];
        if (i) buffer_append(&b, separator.string->data, separator.string->length);
        ok = (!safe || value_escape(run, v, &v)) && value_print(run, &b, v);
        if (b.length > run->heap.limit) ok = run_memory(run);
    }
    if (ok) return value_from_buffer(run, &b, safe, out);
    buffer_clear(&b);
    return false;
}

static bool filter_join(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    Path path;
    List *items;
    Value separator = argv[0];
    if (separator.type == V_MISSING && !value_text_ref(run, "", 0, &separator)) return false;
    if (!value_to_list(run, v, &items) || !path_parse(run, argv[1], &path)) return false;
    for (size_t i = 0; i < items->n; i++)
        if (!path_get(run, &path, items->items[i], &items->items[i])) return false;
    return join_items(run, items, separator, out);
}

static bool filter_default(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    *out = v;
    if (v.type != V_UNDEFINED && !(truth_or(argv[1], false) && !value_truth(v))) return true;
    if (argv[0].type == V_MISSING) return value_text_ref(run, "", 0, out);
    *out = argv[0];
    return true;
}

static bool filter_attr(Run *run, Value v, const Value *argv, const Args *args, Value *out) {
    (void)args;
    const String *name;
    if (!arg_text(run, argv[0], "attribute name", &name)) return false;
    return jinja_attr(run, v, name, out);
}

static const FilterDef FILTERS[] = {
    {{"attr", "name", 1}, filter_attr},
    {{"batch", "linecount,fill_with", 1}, filter_batch},
    {{"count", "", 0}, filter_length},
    {{"d", "default_value,boolean", 0}, filter_default},
    {{"default", "default_value,boolean", 0}, filter_default},
    {{"dictsort", "case_sensitive,by,reverse", 0}, filter_dictsort},
    {{"first", "", 0}, filter_first},
    {{"groupby", "attribute,default,case_sensitive", 1}, filter_groupby},
    {{"items", "", 0}, filter_items},
    {{"join", "d,attribute", 0}, filter_join},
    {{"last", "", 0}, filter_last},
    {{"length", "", 0}, filter_length},
    {{"list", "", 0}, filter_list},
    {{"map", "*", 0}, filter_map},
    {{"max", "case_sensitive,attribute", 0}, filter_max},
    {{"min", "case_sensitive,attribute", 0}, filter_min},
    {{"random", "", 0}, filter_random},
    {{"reject", "*", 0}, filter_reject},
    {{"rejectattr", "*", 0}, filter_rejectattr},
    {{"reverse", "", 0}, filter_reverse},
    {{"select", "*", 0}, filter_select},
    {{"selectattr", "*", 0}, filter_selectattr},
    {{"slice", "slices,fill_with", 1}, filter_slice},
    {{"sort", "reverse,case_sensitive,attribute", 0}, filter_sort},
    {{"sum", "attribute,start", 0}, filter_sum},
    {{"unique", "case_sensitive,attribute", 0}, filter_unique},
};

FilterTable jinja_sequence_filters(void) {
    return (FilterTable){FILTERS, COUNT(FILTERS)};
}
