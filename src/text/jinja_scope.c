/* Which variable a name means. jinja2 compiles a template to Python functions and decides names at compile time, with
 * visible effects: a name that a template sets anywhere in a scope no longer reads the caller's variable of that name
 * before the set, unless it was read first; branches of an if merge their decisions. So this is the same analysis:
 * first all symbols of a scope are collected (jinja2's idtracking.py), then its statements are resolved and inner
 * scopes opened. Every name ends as a slot some scopes up. */
#include "text/jinja_builtins.h"
#include "text/jinja_parse.h"

#include <string.h>

typedef struct Symbols Symbols;
struct Symbols {
    ScopeVar *vars;
    uint32_t n, capacity;
    Symbols *parent;
    ScopeInfo *info;
};

/* Where a statement stands. */
typedef struct Frame {
    Symbols *symbols;
    bool toplevel, soft, in_loop;
} Frame;

typedef struct Scoper {
    Run *run;
    JinjaProgram *program;
} Scoper;

static bool fail_line(Scoper *sc, int line, const char *what) {
    if (sc->run->failed) return false;
    sc->run->located = true;
    return run_fail(sc->run, "line %d: %s", line, what);
}

static bool same(const String *a, const String *b) {
    return a == b || (a->length == b->length && memcmp(a->data, b->data, a->length) == 0);
}

static bool same_text(const String *a, const char *b) {
    return a->length == strlen(b) && memcmp(a->data, b, a->length) == 0;
}

/* ---- symbols ---- */

static ScopeVar *find_own(const Symbols *s, const String *name) {
    for (uint32_t i = 0; i < s->n; i++)
        if (same(s->vars[i].name, name)) return &s->vars[i];
    return NULL;
}

static bool find_ref(const Symbols *s, const String *name, Ref *out) {
    for (uint16_t hops = 0; s; s = s->parent, hops++) {
        const ScopeVar *var = find_own(s, name);
        if (!var) continue;
        *out = (Ref){hops, (uint16_t)(var - s->vars)};
        return true;
    }
    return false;
}

static ScopeVar *define(Scoper *sc, Symbols *s, const String *name, LoadKind load) {
    ScopeVar *var = find_own(s, name);
    if (!var) {
        if (s->n == UINT16_MAX) return run_error(sc->run, "the template has too many variables"), NULL;
        if (s->n == s->capacity) {
            uint32_t capacity = s->capacity ? s->capacity * 2 : 8;
            ScopeVar *vars = run_take(sc->run, capacity, sizeof *vars);
            if (!vars) return NULL;
            if (s->n) memcpy(vars, s->vars, s->n * sizeof *vars);
            s->vars = vars;
            s->capacity = capacity;
        }
        var = &s->vars[s->n++];
        var->name = name;
    }
    var->load = load;
    return var;
}

static bool sym_load(Scoper *sc, Symbols *s, const String *name) {
    Ref ref;
    return find_ref(s, name, &ref) || define(sc, s, name, LOAD_RESOLVE);
}

static bool sym_param(Scoper *sc, Symbols *s, const String *name) {
    ScopeVar *var = define(sc, s, name, LOAD_PARAM);
    if (var) var->stored = true;
    return var != NULL;
}

static bool sym_store(Scoper *sc, Symbols *s, const String *name) {
    ScopeVar *var = find_own(s, name);
    if (!var) {
        Ref outer;
        bool aliased = s->parent && find_ref(s->parent, name, &outer);
        var = define(sc, s, name, aliased ? LOAD_ALIAS : LOAD_UNDEFINED);
        if (var && aliased) var->outer = outer;
    }
    if (var) var->stored = true;
    return var != NULL;
}

static bool sym_copy(Scoper *sc, const Symbols *s, Symbols *out) {
    *out = *s;
    out->capacity = s->n + 8;
    out->vars = run_take(sc->run, out->capacity, sizeof *out->vars);
    if (out->vars && s->n) memcpy(out->vars, s->vars, s->n * sizeof *out->vars);
    return out->vars != NULL;
}

/* jinja2's branch_update: what any branch stores exists after the if, with its outer value when not assigned. */
static bool sym_merge(Scoper *sc, Symbols *s, const Symbols branches[3]) {
    uint32_t before = s->n;
    bool *was_stored = run_take(sc->run, before + 1, sizeof *was_stored);
    if (!was_stored) return false;
    for (uint32_t i = 0; i < before; i++) was_stored[i] = s->vars[i].stored;
    for (int b = 0; b < 3; b++)
        for (uint32_t i = 0; i < branches[b].n; i++) {
            const ScopeVar *from = &branches[b].vars[i];
            ScopeVar *to = define(sc, s, from->name, from->load);
            if (!to) return false;
            to->outer = from->outer;
            to->stored |= from->stored;
        }
    for (uint32_t i = 0; i < s->n; i++) {
        ScopeVar *var = &s->vars[i];
        if (!var->stored || (i < before && was_stored[i])) continue;
        bool aliased = s->parent && find_ref(s->parent, var->name, &var->outer);
        var->load = aliased ? LOAD_ALIAS : LOAD_RESOLVE;
    }
    return true;
}

/* ---- walking ---- */

typedef bool Visit(Scoper *sc, void *context, Node *n);

static bool each(Scoper *sc, void *context, const NodeList *list, Visit *visit) {
    for (uint32_t i = 0; i < list->n; i++)
        if (!visit(sc, context, list->items[i])) return false;
    return true;
}

static bool visit_args(Scoper *sc, void *context, const CallArgs *args, Visit *visit) {
    if (!each(sc, context, &args->positional, visit)) return false;
    for (uint32_t i = 0; i < args->n_keywords; i++)
        if (!visit(sc, context, args->keywords[i].value)) return false;
    if (args->dyn_args && !visit(sc, context, args->dyn_args)) return false;
    return !args->dyn_kwargs || visit(sc, context, args->dyn_kwargs);
}

/* Calls visit for the children of an expression, in jinja2's field order. */
static bool visit_children(Scoper *sc, void *context, Node *n, Visit *visit) {
    switch (n->kind) {
    case N_TUPLE:
    case N_LIST:
    case N_DICT:
    case N_CONCAT:
    case N_OUTPUT: return each(sc, context, &n->items, visit);
    case N_BINARY:
    case N_AND:
    case N_OR: return visit(sc, context, n->binary.left) && visit(sc, context, n->binary.right);
    case N_NOT:
    case N_NEG:
    case N_POS: return visit(sc, context, n->binary.left);
    case N_COMPARE: return visit(sc, context, n->compare.first) && each(sc, context, &n->compare.rest, visit);
    case N_COND:
        return visit(sc, context, n->cond.test) && visit(sc, context, n->cond.then) &&
               (!n->cond.otherwise || visit(sc, context, n->cond.otherwise));
    case N_GETATTR: return visit(sc, context, n->get.object);
    case N_GETITEM: return visit(sc, context, n->get.object) && visit(sc, context, n->get.key);
    case N_SLICE:
        return (!n->slice.start || visit(sc, context, n->slice.start)) &&
               (!n->slice.stop || visit(sc, context, n->slice.stop)) &&
               (!n->slice.step || visit(sc, context, n->slice.step));
    case N_CALL:
    case N_FILTER:
    case N_TEST:
        return (!n->call.target || visit(sc, context, n->call.target)) && visit_args(sc, context, &n->call.args, visit);
    default: return true;
    }
}

/* ---- collecting the symbols of one scope; inner scopes are not entered ---- */

static bool collect(Scoper *sc, void *context, Node *n);

static bool collect_if(Scoper *sc, Symbols *s, Node *n) {
    if (!collect(sc, s, n->branch.test)) return false;
    Symbols branches[3];
    const NodeList *bodies[3] = {&n->branch.body, &n->branch.elifs, &n->branch.otherwise};
    for (int i = 0; i < 3; i++)
        if (!sym_copy(sc, s, &branches[i]) || !each(sc, &branches[i], bodies[i], collect)) return false;
    return sym_merge(sc, s, branches);
}

static bool collect_node(Scoper *sc, Symbols *s, Node *n) {
    switch (n->kind) {
    case N_NAME:
        if (n->name.use == USE_PARAM) return sym_param(sc, s, n->name.name);
        return n->name.use == USE_STORE ? sym_store(sc, s, n->name.name) : sym_load(sc, s, n->name.name);
    case N_NSREF: return sym_load(sc, s, n->name.name);
    case N_IF: return collect_if(sc, s, n);
    case N_MACRO: return sym_store(sc, s, n->macro.macro.name);
    case N_SET: return collect(sc, s, n->set.value) && collect(sc, s, n->set.target);
    case N_SET_BLOCK: return collect(sc, s, n->set.target);
    case N_FOR: return collect(sc, s, n->loop.iter);
    case N_CALL_BLOCK: return !n->macro.call || collect(sc, s, n->macro.call);
    case N_FILTER_BLOCK: return collect(sc, s, n->wrap.filter);
    case N_WITH: return each(sc, s, &n->with.values, collect);
    case N_REFUSED: return collect(sc, s, n->refused.template);
    default: return visit_children(sc, s, n, collect);
    }
}

static bool collect(Scoper *sc, void *context, Node *n) {
    if (!run_enter(sc->run) || !collect_node(sc, context, n)) return false;
    run_leave(sc->run);
    return true;
}

/* A for target: every name is set by the loop itself. */
static bool collect_params(Scoper *sc, void *context, Node *n) {
    if (n->kind == N_NAME) return sym_param(sc, context, n->name.name);
    return visit_children(sc, context, n, collect_params);
}

/* ---- is a special name used without being set before? (jinja2's find_undeclared) ---- */

typedef struct Search {
    const char *name;
    bool found, decided;
} Search;

static bool search(Scoper *sc, void *context, Node *n);

static bool search_all(Scoper *sc, Search *s, const NodeList *list) {
    return each(sc, s, list, search);
}

static bool search_statement(Scoper *sc, Search *s, Node *n) {
    switch (n->kind) {
    case N_FOR:
        return search(sc, s, n->loop.target) && search(sc, s, n->loop.iter) && search_all(sc, s, &n->loop.body) &&
               search_all(sc, s, &n->loop.otherwise) && (!n->loop.test || search(sc, s, n->loop.test));
    case N_IF:
        return search(sc, s, n->branch.test) && search_all(sc, s, &n->branch.body) &&
               search_all(sc, s, &n->branch.elifs) && search_all(sc, s, &n->branch.otherwise);
    case N_SET: return search(sc, s, n->set.target) && search(sc, s, n->set.value);
    case N_SET_BLOCK:
        return search(sc, s, n->set.target) && (!n->set.value || search(sc, s, n->set.value)) &&
               search_all(sc, s, &n->set.body);
    case N_MACRO:
    case N_CALL_BLOCK:
        return (n->kind == N_MACRO || !n->macro.call || search(sc, s, n->macro.call)) &&
               search_all(sc, s, &n->macro.macro.params) && search_all(sc, s, &n->macro.macro.defaults) &&
               search_all(sc, s, &n->macro.macro.body);
    case N_FILTER_BLOCK: return search_all(sc, s, &n->wrap.body) && search(sc, s, n->wrap.filter);
    case N_AUTOESCAPE: return search(sc, s, n->wrap.filter) && search_all(sc, s, &n->wrap.body);
    case N_WITH:
        return search_all(sc, s, &n->with.targets) && search_all(sc, s, &n->with.values) &&
               search_all(sc, s, &n->with.body);
    case N_REFUSED: return search(sc, s, n->refused.template);
    default: return visit_children(sc, s, n, search);
    }
}

static bool search(Scoper *sc, void *context, Node *n) {
    Search *s = context;
    if (s->decided) return true;
    if (n->kind != N_NAME) {
        if (!run_enter(sc->run) || !search_statement(sc, s, n)) return false;
        run_leave(sc->run);
        return true;
    }
    if (!same_text(n->name.name, s->name)) return true;
    s->decided = true;
    s->found = n->name.use == USE_LOAD;
    return true;
}

static bool uses(Scoper *sc, const NodeList *body, const char *name) {
    Search s = {.name = name};
    search_all(sc, &s, body);
    return s.found;
}

/* ---- resolving ---- */

static bool resolve(Scoper *sc, void *context, Node *n);

static Symbols *scope_open(Scoper *sc, Symbols *parent) {
    Symbols *s = run_take(sc->run, 1, sizeof *s);
    if (!s) return NULL;
    s->parent = parent;
    s->info = run_take(sc->run, 1, sizeof *s->info);
    if (!s->info) return NULL;
    s->info->parent = parent ? parent->info : NULL;
    return s;
}

/* All symbols are known: hands them to the program. */
static ScopeInfo *scope_close(Symbols *s) {
    s->info->vars = s->vars;
    s->info->n = s->n;
    return s->info;
}

static bool declare_text(Scoper *sc, Symbols *s, const char *name, int32_t *slot) {
    Value v;
    Ref ref = {0};
    if (!value_text_ref(sc->run, name, strlen(name), &v) || !sym_param(sc, s, v.string)) return false;
    find_ref(s, v.string, &ref);
    *slot = ref.slot;
    return true;
}

static bool resolve_all(Scoper *sc, Frame frame, const NodeList *list) {
    return each(sc, &frame, list, resolve);
}

static bool resolve_one(Scoper *sc, Frame frame, Node *n) {
    return !n || resolve(sc, &frame, n);
}

static bool resolve_name(Scoper *sc, const Frame *frame, Node *n) {
    if (find_ref(frame->symbols, n->name.name, &n->name.ref)) return true;
    return fail_line(sc, n->line, "a name here is unknown to its scope (jinja2 cannot compile this either)");
}

/* Assigning to `loop` anywhere inside of a loop is an error of its own. */
static bool refuse_loop_store(Scoper *sc, void *context, Node *n) {
    if (n->kind == N_NAME && n->name.use == USE_STORE && same_text(n->name.name, "loop"))
        return fail_line(sc, n->line, "Can't assign to special loop variable in for-loop target");
    switch (n->kind) {
    case N_FOR:
        return refuse_loop_store(sc, context, n->loop.target) && each(sc, context, &n->loop.body, refuse_loop_store) &&
               each(sc, context, &n->loop.otherwise, refuse_loop_store);
    case N_IF:
        return each(sc, context, &n->branch.body, refuse_loop_store) &&
               each(sc, context, &n->branch.elifs, refuse_loop_store) &&
               each(sc, context, &n->branch.otherwise, refuse_loop_store);
    case N_SET: return refuse_loop_store(sc, context, n->set.target);
    case N_SET_BLOCK:
        return refuse_loop_store(sc, context, n->set.target) && each(sc, context, &n->set.body, refuse_loop_store);
    case N_MACRO:
    case N_CALL_BLOCK: return each(sc, context, &n->macro.macro.body, refuse_loop_store);
    case N_FILTER_BLOCK:
    case N_AUTOESCAPE: return each(sc, context, &n->wrap.body, refuse_loop_store);
    case N_WITH: return each(sc, context, &n->with.body, refuse_loop_store);
    case N_BLOCK: return each(sc, context, &n->block.body, refuse_loop_store);
    case N_TUPLE: return each(sc, context, &n->items, refuse_loop_store);
    default: return true;
    }
}

static bool has_scoped_block(const NodeList *list) {
    for (uint32_t i = 0; i < list->n; i++) {
        const Node *n = list->items[i];
        if (n->kind == N_BLOCK && n->block.scoped) return true;
        if (n->kind == N_IF && (has_scoped_block(&n->branch.body) || has_scoped_block(&n->branch.elifs) ||
                                has_scoped_block(&n->branch.otherwise)))
            return true;
        if (n->kind == N_FOR && has_scoped_block(&n->loop.body)) return true;
    }
    return false;
}

static bool resolve_for(Scoper *sc, Frame frame, Node *n) {
    Symbols *body = scope_open(sc, frame.symbols), *test = scope_open(sc, frame.symbols),
            *otherwise = scope_open(sc, frame.symbols);
    if (!body || !test || !otherwise || !refuse_loop_store(sc, NULL, n)) return false;
    n->loop.loop_slot = -1;
    bool extended = n->loop.recursive || uses(sc, &n->loop.body, "loop") || has_scoped_block(&n->loop.body);
    /* the target first: its names then have the same slots in the scopes of body and test */
    if (!collect_params(sc, body, n->loop.target)) return false;
    if (extended && !declare_text(sc, body, "loop", &n->loop.loop_slot)) return false;
    if (!each(sc, body, &n->loop.body, collect) || !each(sc, otherwise, &n->loop.otherwise, collect)) return false;
    if (n->loop.test && (!collect_params(sc, test, n->loop.target) || !collect(sc, test, n->loop.test))) return false;
    n->loop.scope = scope_close(body);
    n->loop.test_scope = scope_close(test);
    n->loop.else_scope = scope_close(otherwise);
    Frame inner = {.symbols = body, .in_loop = true}, tested = {.symbols = test},
          rest = {.symbols = otherwise, .in_loop = frame.in_loop && !n->loop.recursive};
    if (!resolve_one(sc, frame, n->loop.iter) || !resolve_one(sc, tested, n->loop.test)) return false;
    return resolve_one(sc, inner, n->loop.target) && resolve_all(sc, inner, &n->loop.body) &&
           resolve_all(sc, rest, &n->loop.otherwise);
}

static bool resolve_if(Scoper *sc, Frame frame, Node *n) {
    frame.soft = true;
    return resolve_one(sc, frame, n->branch.test) && resolve_all(sc, frame, &n->branch.body) &&
           resolve_all(sc, frame, &n->branch.elifs) && resolve_all(sc, frame, &n->branch.otherwise);
}

static bool resolve_macro_specials(Scoper *sc, Symbols *s, MacroNode *m, int line) {
    int32_t explicit_caller = -1;
    bool has_kwargs = false, has_varargs = false;
    for (uint32_t i = 0; i < m->params.n; i++) {
        const String *name = m->params.items[i]->name.name;
        if (same_text(name, "caller")) explicit_caller = (int32_t)i;
        has_kwargs |= same_text(name, "kwargs");
        has_varargs |= same_text(name, "varargs");
        for (uint32_t j = 0; j < i; j++)
            if (same(name, m->params.items[j]->name.name)) return fail_line(sc, line, "duplicate macro argument");
    }
    m->explicit_caller = explicit_caller >= 0;
    m->caller = m->kwargs = m->varargs = -1;
    m->uses_caller = uses(sc, &m->body, "caller");
    if (m->uses_caller) {
        if (explicit_caller < 0) {
            if (!declare_text(sc, s, "caller", &m->caller)) return false;
        } else if ((uint32_t)explicit_caller < m->params.n - m->defaults.n)
            return fail_line(sc, line, "the special \"caller\" argument must be omitted or be given a default");
    }
    if (uses(sc, &m->body, "kwargs") && !has_kwargs && !declare_text(sc, s, "kwargs", &m->kwargs)) return false;
    return !uses(sc, &m->body, "varargs") || has_varargs || declare_text(sc, s, "varargs", &m->varargs);
}

static bool resolve_macro(Scoper *sc, Frame frame, Node *n) {
    MacroNode *m = &n->macro.macro;
    Symbols *s = scope_open(sc, frame.symbols);
    if (!s || !each(sc, s, &m->params, collect) || !each(sc, s, &m->defaults, collect) ||
        !each(sc, s, &m->body, collect) || !resolve_macro_specials(sc, s, m, n->line))
        return false;
    m->scope = scope_close(s);
    Frame inner = {.symbols = s};
    if (!resolve_all(sc, inner, &m->params) || !resolve_all(sc, inner, &m->defaults) ||
        !resolve_all(sc, inner, &m->body))
        return false;
    n->macro.toplevel = frame.toplevel;
    if (m->name) return find_ref(frame.symbols, m->name, &m->ref);
    return resolve_one(sc, frame, n->macro.call);
}

/* Statements with a scope of their own around a body: set and filter blocks, autoescape. */
static Symbols *open_body(Scoper *sc, Frame frame, const NodeList *body) {
    Symbols *s = scope_open(sc, frame.symbols);
    return s && each(sc, s, body, collect) ? s : NULL;
}

static bool resolve_set_block(Scoper *sc, Frame frame, Node *n) {
    Symbols *s = open_body(sc, frame, &n->set.body);
    if (!s) return false;
    n->set.scope = scope_close(s);
    n->set.toplevel = frame.toplevel;
    Frame inner = {.symbols = s, .in_loop = frame.in_loop};
    return resolve_all(sc, inner, &n->set.body) && resolve_one(sc, frame, n->set.target) &&
           resolve_one(sc, inner, n->set.value);
}

static bool resolve_wrap(Scoper *sc, Frame frame, Node *n) {
    Symbols *s = scope_open(sc, frame.symbols);
    if (!s) return false;
    bool escape = n->kind == N_AUTOESCAPE;
    if (escape && !collect(sc, s, n->wrap.filter)) return false;
    if (!each(sc, s, &n->wrap.body, collect) || (!escape && !collect(sc, s, n->wrap.filter))) return false;
    n->wrap.scope = scope_close(s);
    Frame inner = {.symbols = s, .in_loop = frame.in_loop};
    return resolve_all(sc, inner, &n->wrap.body) && resolve_one(sc, inner, n->wrap.filter);
}

static bool resolve_with(Scoper *sc, Frame frame, Node *n) {
    Symbols *s = scope_open(sc, frame.symbols);
    if (!s || !each(sc, s, &n->with.targets, collect) || !each(sc, s, &n->with.body, collect)) return false;
    n->with.scope = scope_close(s);
    Frame inner = {.symbols = s, .in_loop = frame.in_loop};
    return resolve_all(sc, frame, &n->with.values) && resolve_all(sc, inner, &n->with.targets) &&
           resolve_all(sc, inner, &n->with.body);
}

static bool add_block(Scoper *sc, Node *n) {
    NodeList *blocks = &sc->program->blocks;
    for (uint32_t i = 0; i < blocks->n; i++)
        if (same(blocks->items[i]->block.name, n->block.name)) return fail_line(sc, n->line, "block defined twice");
    Node **items = run_take(sc->run, blocks->n + 1, sizeof *items);
    if (!items) return false;
    if (blocks->n) memcpy(items, blocks->items, blocks->n * sizeof *items);
    items[blocks->n++] = n;
    blocks->items = items;
    return true;
}

/* A block sees the variables of the rendering, not the scope it stands in. */
static bool resolve_block(Scoper *sc, Frame frame, Node *n) {
    Symbols *s = scope_open(sc, NULL);
    if (!s || !add_block(sc, n)) return false;
    n->block.outer = frame.symbols->info;
    n->block.self_slot = n->block.super_slot = -1;
    if (uses(sc, &n->block.body, "self") && !declare_text(sc, s, "self", &n->block.self_slot)) return false;
    if (uses(sc, &n->block.body, "super") && !declare_text(sc, s, "super", &n->block.super_slot)) return false;
    if (!each(sc, s, &n->block.body, collect)) return false;
    n->block.scope = scope_close(s);
    return resolve_all(sc, (Frame){.symbols = s}, &n->block.body);
}

static bool resolve_filter(Scoper *sc, Frame frame, Node *n) {
    const String *name = n->call.name;
    bool is_filter = n->kind == N_FILTER;
    if (is_filter)
        n->call.filter = jinja_filter(name->data, name->length);
    else
        n->call.test = jinja_test(name->data, name->length);
    bool known = is_filter ? n->call.filter != NULL : n->call.test != NULL;
    if (!known && !frame.soft) {
        sc->run->located = true;
        return run_fail(sc->run, "line %d: No %s named '%.*s'", n->line, is_filter ? "filter" : "test",
                        (int)(name->length < 100 ? name->length : 100), name->data);
    }
    return visit_children(sc, &frame, n, resolve);
}

static bool resolve_jump(Scoper *sc, const Frame *frame, const Node *n) {
    if (frame->in_loop) return true;
    return fail_line(sc, n->line, n->kind == N_BREAK ? "'break' outside loop" : "'continue' outside loop");
}

static bool resolve_node(Scoper *sc, Frame frame, Node *n) {
    switch (n->kind) {
    case N_NAME:
    case N_NSREF: return resolve_name(sc, &frame, n);
    case N_FILTER:
    case N_TEST: return resolve_filter(sc, frame, n);
    case N_COND: frame.soft = true; return visit_children(sc, &frame, n, resolve);
    case N_FOR: return resolve_for(sc, frame, n);
    case N_IF: return resolve_if(sc, frame, n);
    case N_SET:
        n->set.toplevel = frame.toplevel;
        return resolve_one(sc, frame, n->set.value) && resolve_one(sc, frame, n->set.target);
    case N_SET_BLOCK: return resolve_set_block(sc, frame, n);
    case N_MACRO:
    case N_CALL_BLOCK: return resolve_macro(sc, frame, n);
    case N_FILTER_BLOCK:
    case N_AUTOESCAPE: return resolve_wrap(sc, frame, n);
    case N_WITH: return resolve_with(sc, frame, n);
    case N_BLOCK: return resolve_block(sc, frame, n);
    case N_REFUSED:
        if (!frame.toplevel && strcmp(n->refused.tag, "extends") == 0)
            return fail_line(sc, n->line, "cannot use extend from a non top-level scope");
        return resolve_one(sc, frame, n->refused.template);
    case N_BREAK:
    case N_CONTINUE: return resolve_jump(sc, &frame, n);
    default: return visit_children(sc, &frame, n, resolve);
    }
}

static bool resolve(Scoper *sc, void *context, Node *n) {
    if (!run_enter(sc->run) || !resolve_node(sc, *(Frame *)context, n)) return false;
    run_leave(sc->run);
    return true;
}

bool jinja_scope(Run *run, JinjaProgram *program) {
    Scoper sc = {run, program};
    Symbols *root = scope_open(&sc, NULL);
    if (!root) return false;
    program->self_slot = -1;
    if (uses(&sc, &program->body, "self") && !declare_text(&sc, root, "self", &program->self_slot)) return false;
    if (!each(&sc, root, &program->body, collect)) return false;
    program->scope = scope_close(root);
    return resolve_all(&sc, (Frame){.symbols = root, .toplevel = true}, &program->body);
}
