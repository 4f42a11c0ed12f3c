/* The evaluator: walks the tree, statements print into run->out, expressions give a value. A scope of the template is a
 * row of slots; entering one loads its outer values as jinja2's compiled functions do (see jinja_scope.c). The first
 * failure on the way up is given the line and the text of the innermost expression. */
#include "text/jinja_eval.h"
#include "text/jinja_builtins.h"

#include <string.h>

enum {
    STEP_LIMIT = 20 << 20,
    DEPTH_LIMIT = 1500,
    HEAP_LIMIT = 256 << 20,
    OUTPUT_LIMIT = 32 << 20,
    EMIT_LIMIT = 256 << 20,
    QUOTED = 80,
};

typedef enum Flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL } Flow;

static bool eval(Run *run, Scope *scope, const Node *n, Value *out);
static Flow exec_all(Run *run, Scope *scope, const NodeList *list);

/* ---- errors ---- */

/* Puts line and source text before the message, once. */
static void locate(Run *run, const Node *n) {
    if (run->located) return;
    run->located = true;
    if (run->raised) {
        error_prefix(run->err, "line %d", n->line);
        return;
    }
    const char *text = run->program->source + n->start;
    size_t length = n->end - n->start;
    bool cut = length > QUOTED;
    if (cut) length = QUOTED;
    while (cut && length && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
    error_prefix(run->err, "line %d, in %.*s%s", n->line, (int)length, text, cut ? "..." : "");
}

/* ---- scopes ---- */

static bool resolve_variable(Run *run, const String *name, Value *out) {
    Value key = value_string(name);
    bool found;
    if (!value_dict_get(run, run->context->exported, key, out, &found)) return false;
    if (found) return true;
    if (!value_dict_get(run, run->context->variables, key, out, &found)) return false;
    if (!found) *out = (Value){.type = V_MISSING};
    return true;
}

static Value *slot_of(Scope *scope, Ref ref) {
    for (uint16_t i = 0; i < ref.hops; i++) scope = scope->parent;
    return &scope->slots[ref.slot];
}

/* Loads what comes from outside; parameters are left alone. */
static bool scope_enter(Run *run, Scope *scope) {
    for (uint32_t i = 0; i < scope->info->n; i++) {
        const ScopeVar *var = &scope->info->vars[i];
        Value *slot = &scope->slots[i];
        if (var->load == LOAD_RESOLVE) {
            if (!resolve_variable(run, var->name, slot)) return false;
        } else if (var->load == LOAD_ALIAS)
            *slot = *slot_of(scope->parent, var->outer);
        else if (var->load == LOAD_UNDEFINED)
            *slot = (Value){.type = V_MISSING};
    }
    return true;
}

static Scope *scope_new(Run *run, const ScopeInfo *info, Scope *parent) {
    Scope *scope = run_take(run, 1, sizeof *scope + info->n * sizeof(Value));
    if (!scope) return NULL;
    scope->slots = (Value *)(scope + 1);
    scope->parent = parent;
    scope->info = info;
    return scope;
}

static Scope *scope_start(Run *run, const ScopeInfo *info, Scope *parent) {
    Scope *scope = scope_new(run, info, parent);
    return scope && scope_enter(run, scope) ? scope : NULL;
}

/* ---- expressions ---- */

static bool eval_items(Run *run, Scope *scope, const NodeList *items, List **out) {
    List *list = value_list_new(run, items->n);
    if (!list) return false;
    for (uint32_t i = 0; i < items->n; i++)
        if (!eval(run, scope, items->items[i], &list->items[i])) return false;
    list->n = items->n;
    *out = list;
    return true;
}

static bool eval_dict(Run *run, Scope *scope, const NodeList *items, Value *out) {
    Dict *d = value_dict_new(run, items->n / 2);
    if (!d) return false;
    for (uint32_t i = 0; i < items->n; i += 2) {
        Value key, v;
        if (!eval(run, scope, items->items[i], &key) || !eval(run, scope, items->items[i + 1], &v) ||
            !value_dict_set(run, d, key, v))
            return false;
    }
    *out = (Value){.type = V_DICT, .dict = d};
    return true;
}

static bool eval_name(Run *run, Scope *scope, const Node *n, Value *out) {
    *out = *slot_of(scope, n->name.ref);
    return out->type != V_MISSING || value_undefined_name(run, value_string(n->name.name), out);
}

static bool eval_sign(Run *run, Scope *scope, const Node *n, Value *out) {
    Value v;
    if (!eval(run, scope, n->binary.left, &v)) return false;
    bool negative = n->kind == N_NEG;
    int64_t i;
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type == V_BIG) return value_negate_big(run, v, negative, out);
    if (v.type == V_FLOAT)
        *out = value_float(negative ? -v.number : v.number);
    else if (!value_as_int(v, &i))
        return run_fail(run, "bad operand type for unary %s: '%s'", negative ? "-" : "+", value_type_name(v));
    else if (negative && i == INT64_MIN)
        return run_fail(run, "integers beyond 64 bits cannot be computed with");
    else
        *out = value_int(negative ? -i : i);
    return true;
}

/* a ~ b ~ c: str() of each; with autoescape on and a safe string among them, all are escaped. */
static bool eval_concat(Run *run, Scope *scope, const Node *n, Value *out) {
    List *items;
    if (!eval_items(run, scope, &n->items, &items)) return false;
    bool safe = false;
    for (size_t i = 0; i < items->n && run->autoescape; i++)
        safe |= items->items[i].type == V_STRING && items->items[i].string->safe;
    Buffer b = {0};
    for (size_t i = 0; i < items->n; i++) {
        Value v = items->items[i];
        if ((safe && !value_escape(run, v, &v)) || !value_print(run, &b, v)) {
            buffer_clear(&b);
            return false;
        }
    }
    return value_from_buffer(run, &b, safe, out);
}

static bool compare_once(Run *run, CompareOp op, Value a, Value b, bool *out) {
    static const char *const NAMES[] = {[CMP_LT] = "<", [CMP_LE] = "<=", [CMP_GT] = ">", [CMP_GE] = ">="};
    int order;
    switch (op) {
    case CMP_EQ: return value_equal(run, a, b, out);
    case CMP_NE:
        if (!value_equal(run, a, b, out)) return false;
        *out = !*out;
        return true;
    case CMP_IN: return value_contains(run, b, a, out);
    case CMP_NOT_IN:
        if (!value_contains(run, b, a, out)) return false;
        *out = !*out;
        return true;
    default: break;
    }
    if (!value_compare(run, a, b, NAMES[op], &order)) return false;
    *out = order != 2 && (op == CMP_LT ? order < 0 : op == CMP_LE ? order <= 0 : op == CMP_GT ? order > 0 : order >= 0);
    return true;
}

static bool eval_compare(Run *run, Scope *scope, const Node *n, Value *out) {
    Value left, right;
    if (!eval(run, scope, n->compare.first, &left)) return false;
    bool result = true;
    for (uint32_t i = 0; i < n->compare.rest.n && result; i++) {
        if (!eval(run, scope, n->compare.rest.items[i], &right) ||
            !compare_once(run, (CompareOp)n->compare.ops[i], left, right, &result))
            return false;
        left = right;
    }
    *out = value_bool(result);
    return true;
}

static bool eval_cond(Run *run, Scope *scope, const Node *n, Value *out) {
    Value test;
    if (!eval(run, scope, n->cond.test, &test)) return false;
    if (value_truth(test)) return eval(run, scope, n->cond.then, out);
    if (n->cond.otherwise) return eval(run, scope, n->cond.otherwise, out);
    return value_undefined_hint(run, "the inline if-expression evaluated to false and no else section was defined.",
                                out);
}

static bool eval_optional(Run *run, Scope *scope, const Node *n, Value *out) {
    *out = (Value){.type = V_MISSING};
    return !n || eval(run, scope, n, out);
}

static bool eval_getitem(Run *run, Scope *scope, const Node *n, Value *out) {
    Value object, key, start, stop, step;
    if (!eval(run, scope, n->get.object, &object)) return false;
    const Node *k = n->get.key;
    if (k->kind != N_SLICE) return eval(run, scope, k, &key) && jinja_getitem(run, object, key, out);
    return eval_optional(run, scope, k->slice.start, &start) && eval_optional(run, scope, k->slice.stop, &stop) &&
           eval_optional(run, scope, k->slice.step, &step) && jinja_slice(run, object, start, stop, step, out);
}

/* ---- calls ---- */

typedef struct ArgList {
    List *positional, *keywords;
    const String **names;
    size_t n_names, capacity;
} ArgList;

static bool add_keyword(Run *run, ArgList *list, const String *name, Value v) {
    for (size_t i = 0; i < list->n_names; i++)
        if (list->names[i]->length == name->length && memcmp(list->names[i]->data, name->data, name->length) == 0)
            return run_fail(run, "got multiple values for keyword argument '%.*s'",
                            (int)(name->length < 60 ? name->length : 60), name->data);
    if (list->n_names == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        const String **names = run_take(run, capacity, sizeof *names);
        if (!names) return false;
        if (list->n_names) memcpy(names, list->names, list->n_names * sizeof *names);
        list->names = names;
        list->capacity = capacity;
    }
    list->names[list->n_names++] = name;
    return value_list_add(run, list->keywords, v);
}

static bool add_dynamic(Run *run, Scope *scope, const CallArgs *args, ArgList *list) {
    Value v, item;
    if (args->dyn_args) {
        if (!eval(run, scope, args->dyn_args, &v)) return false;
        Iterator *it = value_iterate(run, v);
        int got = it ? 1 : -1;
        while (got > 0 && (got = iterator_next(run, it, &item)) > 0)
            if (!value_list_add(run, list->positional, item)) return false;
        if (got < 0) return false;
    }
    if (!args->dyn_kwargs) return true;
    if (!eval(run, scope, args->dyn_kwargs, &v)) return false;
    if (v.type == V_UNDEFINED) return value_fail_undefined(run, v);
    if (v.type != V_DICT) return run_fail(run, "argument after ** must be a mapping, not %s", value_type_name(v));
    for (uint32_t i = 0; i < v.dict->n; i++) {
        if (v.dict->keys[i].type != V_STRING) return run_fail(run, "keywords must be strings");
        if (!add_keyword(run, list, v.dict->keys[i].string, v.dict->values[i])) return false;
    }
    return true;
}

/* Evaluates the arguments; `caller` is added as a keyword when not missing. */
static bool eval_args(Run *run, Scope *scope, const CallArgs *args, Value caller, Args *out) {
    ArgList list = {.positional = value_list_new(run, args->positional.n)};
    bool keywords = args->n_keywords || args->dyn_kwargs || caller.type != V_MISSING;
    if (!list.positional || (keywords && !(list.keywords = value_list_new(run, args->n_keywords)))) return false;
    Value v;
    for (uint32_t i = 0; i < args->positional.n; i++)
        if (!eval(run, scope, args->positional.items[i], &v) || !value_list_add(run, list.positional, v)) return false;
    for (uint32_t i = 0; i < args->n_keywords; i++)
        if (!eval(run, scope, args->keywords[i].value, &v) || !add_keyword(run, &list, args->keywords[i].name, v))
            return false;
    if (caller.type != V_MISSING) {
        Value name;
        if (!value_text_ref(run, "caller", 6, &name) || !add_keyword(run, &list, name.string, caller)) return false;
    }
    if (!add_dynamic(run, scope, args, &list)) return false;
    *out = (Args){.positional = list.positional->items, .n = list.positional->n, .names = list.names};
    out->keywords = list.keywords ? list.keywords->items : NULL;
    out->n_keywords = list.n_names;
    return true;
}

static bool eval_call(Run *run, Scope *scope, const Node *n, Value caller, Value *out) {
    Value callee;
    Args args;
    return eval(run, scope, n->call.target, &callee) && eval_args(run, scope, &n->call.args, caller, &args) &&
           jinja_call(run, callee, &args, out);
}

static bool fail_unknown(Run *run, const Node *n, const char *what) {
    const String *name = n->call.name;
    return run_fail(run, "No %s named '%.*s' found.", what, (int)(name->length < 100 ? name->length : 100), name->data);
}

static bool apply_filter(Run *run, Scope *scope, const Node *n, Value v, Value *out) {
    Args args;
    if (!n->call.filter) return fail_unknown(run, n, "filter");
    return eval_args(run, scope, &n->call.args, (Value){.type = V_MISSING}, &args) &&
           jinja_apply_filter(run, n->call.filter, v, &args, out);
}

/* The filters of a filter or set block, from the innermost on, over the captured text. */
static bool apply_chain(Run *run, Scope *scope, const Node *n, Value text, Value *out) {
    if (n->call.target && !apply_chain(run, scope, n->call.target, text, &text)) return false;
    if (apply_filter(run, scope, n, text, out)) return true;
    locate(run, n);
    return false;
}

static bool eval_test(Run *run, Scope *scope, const Node *n, Value *out) {
    Value v;
    Args args;
    bool result;
    if (!n->call.test) return fail_unknown(run, n, "test");
    if (!eval(run, scope, n->call.target, &v) ||
        !eval_args(run, scope, &n->call.args, (Value){.type = V_MISSING}, &args) ||
        !jinja_apply_test(run, n->call.test, v, &args, &result))
        return false;
    *out = value_bool(result);
    return true;
}

static bool eval_logic(Run *run, Scope *scope, const Node *n, Value *out) {
    if (!eval(run, scope, n->binary.left, out)) return false;
    if (value_truth(*out) != (n->kind == N_AND)) return true;
    return eval(run, scope, n->binary.right, out);
}

static bool eval_node(Run *run, Scope *scope, const Node *n, Value *out) {
    Value a, b;
    List *list;
    switch (n->kind) {
    case N_CONST: *out = n->constant; return true;
    case N_NAME: return eval_name(run, scope, n, out);
    case N_TUPLE:
    case N_LIST:
        if (!eval_items(run, scope, &n->items, &list)) return false;
        *out = n->kind == N_LIST ? value_list(list) : value_tuple(list);
        return true;
    case N_DICT: return eval_dict(run, scope, &n->items, out);
    case N_BINARY:
        return eval(run, scope, n->binary.left, &a) && eval(run, scope, n->binary.right, &b) &&
               jinja_binary(run, n->binary.op, a, b, out);
    case N_AND:
    case N_OR: return eval_logic(run, scope, n, out);
    case N_NOT:
        if (!eval(run, scope, n->binary.left, &a)) return false;
        *out = value_bool(!value_truth(a));
        return true;
    case N_NEG:
    case N_POS: return eval_sign(run, scope, n, out);
    case N_CONCAT: return eval_concat(run, scope, n, out);
    case N_COMPARE: return eval_compare(run, scope, n, out);
    case N_COND: return eval_cond(run, scope, n, out);
    case N_GETATTR: return eval(run, scope, n->get.object, &a) && jinja_getattr(run, a, n->get.attr, out);
    case N_GETITEM: return eval_getitem(run, scope, n, out);
    case N_CALL: return eval_call(run, scope, n, (Value){.type = V_MISSING}, out);
    case N_FILTER: return eval(run, scope, n->call.target, &a) && apply_filter(run, scope, n, a, out);
    case N_TEST: return eval_test(run, scope, n, out);
    default: return run_fail(run, "this is no expression");
    }
}

static bool eval(Run *run, Scope *scope, const Node *n, Value *out) {
    bool ok = run_charge(run, 1) && run_enter(run);
    if (ok) {
        ok = eval_node(run, scope, n, out);
        run_leave(run);
    }
    if (!ok) locate(run, n);
    return ok;
}

/* ---- printing ---- */

static bool emit(Run *run, Value v) {
    size_t before = run->out->length;
    if (run->autoescape && !value_escape(run, v, &v)) return false;
    if (!value_print(run, run->out, v)) return false;
    run->emitted += run->out->length - before;
    if (run->out->failed) return run_memory(run);
    if (run->out->length <= OUTPUT_LIMIT && run->emitted <= EMIT_LIMIT) return true;
    return run_fail(run, "the template writes more than %d MB; it was stopped", OUTPUT_LIMIT >> 20);
}

static Flow exec_output(Run *run, Scope *scope, const Node *n) {
    for (uint32_t i = 0; i < n->items.n; i++) {
        const Node *item = n->items.items[i];
        Value v = item->constant;
        if (item->kind == N_DATA) {
            run->emitted += v.string->length;
            buffer_append(run->out, v.string->data, v.string->length);
            if (run->out->length <= OUTPUT_LIMIT && run->emitted <= EMIT_LIMIT && !run->out->failed) continue;
            run_fail(run, "the template writes more than %d MB; it was stopped", OUTPUT_LIMIT >> 20);
        } else if (eval(run, scope, item, &v) && emit(run, v))
            continue;
        locate(run, item);
        return FLOW_FAIL;
    }
    return FLOW_NEXT;
}

/* Runs a body with its output captured. */
static Flow capture(Run *run, Scope *scope, const NodeList *body, bool safe, Value *out) {
    Buffer text = {0}, *outer = run->out;
    run->out = &text;
    Flow flow = exec_all(run, scope, body);
    run->out = outer;
    if (flow == FLOW_NEXT) return value_from_buffer(run, &text, safe, out) ? FLOW_NEXT : FLOW_FAIL;
    buffer_clear(&text);
    return flow;
}

/* ---- assignment ---- */

static bool set_namespace(Run *run, Value target, const String *attr, Value v) {
    if (target.type != V_NAMESPACE) return run_fail(run, "cannot assign attribute on non-namespace object");
    if (attr->length && attr->data[0] == '_')
        return run_fail(run, "Chat templates cannot store underscore-prefixed attributes on a namespace");
    return value_dict_set(run, target.dict, value_string(attr), v);
}

static bool assign(Run *run, Scope *scope, const Node *target, Value v) {
    if (target->kind == N_NAME) {
        *slot_of(scope, target->name.ref) = v;
        return true;
    }
    if (target->kind == N_NSREF) return set_namespace(run, *slot_of(scope, target->name.ref), target->name.attr, v);
    List *parts;
    if (!value_iterable(v)) return run_fail(run, "cannot unpack non-iterable %s object", value_type_name(v));
    if (!value_to_list(run, v, &parts)) return false;
    if (parts->n > target->items.n) return run_fail(run, "too many values to unpack (expected %u)", target->items.n);
    if (parts->n < target->items.n)
        return run_fail(run, "not enough values to unpack (expected %u, got %zu)", target->items.n, parts->n);
    for (uint32_t i = 0; i < target->items.n; i++)
        if (!assign(run, scope, target->items.items[i], parts->items[i])) return false;
    return true;
}

/* Only a namespace takes attributes; checked before the value is evaluated, as jinja2 does. */
static bool check_namespaces(Run *run, Scope *scope, const Node *target) {
    if (target->kind == N_NSREF && slot_of(scope, target->name.ref)->type != V_NAMESPACE)
        return run_fail(run, "cannot assign attribute on non-namespace object");
    for (uint32_t i = 0; target->kind == N_TUPLE && i < target->items.n; i++)
        if (!check_namespaces(run, scope, target->items.items[i])) return false;
    return true;
}

/* Blocks look names up by text: tell them what the top level has set. */
static bool export_names(Run *run, Scope *scope, const Node *target) {
    if (run->program->blocks.n == 0) return true;
    if (target->kind == N_NAME)
        return value_dict_set(run, run->context->exported, value_string(target->name.name),
                              *slot_of(scope, target->name.ref));
    for (uint32_t i = 0; target->kind == N_TUPLE && i < target->items.n; i++)
        if (!export_names(run, scope, target->items.items[i])) return false;
    return true;
}

static bool exec_set(Run *run, Scope *scope, const Node *n) {
    Value v;
    return check_namespaces(run, scope, n->set.target) && eval(run, scope, n->set.value, &v) &&
           assign(run, scope, n->set.target, v) && (!n->set.toplevel || export_names(run, scope, n->set.target));
}

static Flow exec_set_block(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->set.scope, scope);
    Value v;
    if (!inner) return FLOW_FAIL;
    Flow flow = capture(run, inner, &n->set.body, run->autoescape, &v);
    if (flow != FLOW_NEXT) return flow;
    bool ok = (!n->set.value || apply_chain(run, inner, n->set.value, v, &v)) && assign(run, scope, n->set.target, v) &&
              (!n->set.toplevel || export_names(run, scope, n->set.target));
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

/* ---- loops ---- */

typedef struct LoopFilter {
    const Node *node;
    Scope *scope;
    Iterator *source;
} LoopFilter;

/* The items of a "for ... if": tested one by one, when the loop asks for them. */
static int next_filtered(Run *run, Iterator *it, Value *out) {
    LoopFilter *f = it->state;
    int got;
    while ((got = iterator_next(run, f->source, out)) > 0) {
        Value test;
        if (!assign(run, f->scope, f->node->loop.target, *out) || !eval(run, f->scope, f->node->loop.test, &test))
            return -1;
        if (value_truth(test)) return 1;
    }
    return got;
}

static Iterator *filter_loop(Run *run, Scope *scope, const Node *n, Iterator *source) {
    LoopFilter *f = run_take(run, 1, sizeof *f);
    Iterator *it = f ? iterator_new(run, next_filtered, "generator") : NULL;
    if (!it || !(f->scope = scope_start(run, n->loop.test_scope, scope))) return NULL;
    f->node = n;
    f->source = source;
    it->state = f;
    it->generator = true;
    return it;
}

static Loop *loop_new(Run *run, Scope *scope, const Node *n, Value iterable, int64_t depth0) {
    Loop *loop = run_take(run, 1, sizeof *loop);
    if (!loop || !(loop->it = value_iterate(run, iterable))) return NULL;
    if (n->loop.test) {
        if (!(loop->it = filter_loop(run, scope, n, loop->it))) return NULL;
        iterable = (Value){.type = V_ITERATOR, .iterator = loop->it};
    }
    loop->node = n;
    loop->outer = scope;
    loop->iterable = iterable;
    loop->index0 = -1;
    loop->length = -1;
    loop->depth0 = depth0;
    return loop;
}

/* The next item, which may have been looked at before. */
static int loop_next(Run *run, Loop *loop, Value *out) {
    int got = 1;
    if (loop->after.type != V_MISSING) {
        *out = loop->after;
        loop->after = (Value){.type = V_MISSING};
    } else
        got = iterator_next(run, loop->it, out);
    if (got <= 0) return got;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return 1;
}

static int loop_peek(Run *run, Loop *loop) {
    if (loop->after.type != V_MISSING) return 1;
    Value item; /* what a filter has rejected may be left in it */
    int got = iterator_next(run, loop->it, &item);
    if (got > 0) loop->after = item;
    return got;
}

static bool loop_length(Run *run, Loop *loop) {
    if (loop->length >= 0) return true;
    if (value_has_length(loop->iterable)) return value_length(run, loop->iterable, &loop->length);
    List *rest;
    if (!value_to_list(run, (Value){.type = V_ITERATOR, .iterator = loop->it}, &rest)) return false;
    loop->it = value_iterate(run, value_list(rest));
    loop->length = (int64_t)rest->n + loop->index0 + 1 + (loop->after.type != V_MISSING);
    return loop->it != NULL;
}

/* `completed`: some iteration ran to its end. jinja2 runs else when none did, so also after only continue or break. */
static Flow loop_body(Run *run, Scope *inner, Loop *loop, bool *completed) {
    const Node *n = loop->node;
    Value item;
    int got;
    while ((got = loop_next(run, loop, &item)) > 0) {
        if (!assign(run, inner, n->loop.target, item) || !scope_enter(run, inner)) return FLOW_FAIL;
        Flow flow = exec_all(run, inner, &n->loop.body);
        if (flow == FLOW_FAIL) return flow;
        if (flow == FLOW_BREAK) break;
        if (flow == FLOW_NEXT) *completed = true;
    }
    return got < 0 ? FLOW_FAIL : FLOW_NEXT;
}

static Flow run_loop(Run *run, Scope *scope, const Node *n, Value iterable, int64_t depth0) {
    Loop *loop = loop_new(run, scope, n, iterable, depth0);
    Scope *inner = loop ? scope_new(run, n->loop.scope, scope) : NULL;
    if (!inner) return FLOW_FAIL;
    if (n->loop.loop_slot >= 0) inner->slots[n->loop.loop_slot] = (Value){.type = V_LOOP, .loop = loop};
    bool completed = false;
    Flow flow = loop_body(run, inner, loop, &completed);
    if (flow == FLOW_FAIL) return flow;
    for (uint32_t i = 0; i < n->loop.scope->n; i++) inner->slots[i] = (Value){.type = V_MISSING};
    if (completed || n->loop.otherwise.n == 0) return FLOW_NEXT;
    Scope *rest = scope_start(run, n->loop.else_scope, scope);
    return rest ? exec_all(run, rest, &n->loop.otherwise) : FLOW_FAIL;
}

static Flow exec_for(Run *run, Scope *scope, const Node *n) {
    Value iterable;
    if (!eval(run, scope, n->loop.iter, &iterable)) return FLOW_FAIL;
    return run_loop(run, scope, n, iterable, 0);
}

bool jinja_call_loop(Run *run, Loop *loop, const Args *args, Value *out) {
    if (!loop->node->loop.recursive)
        return run_fail(run, "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_keywords) return run_fail(run, "loop() takes one argument, the items to go through");
    Buffer text = {0}, *outer = run->out;
    if (!run_enter(run)) return false;
    run->out = &text;
    Flow flow = run_loop(run, loop->outer, loop->node, args->positional[0], loop->depth0 + 1);
    run->out = outer;
    run_leave(run);
    if (flow != FLOW_FAIL) return value_from_buffer(run, &text, run->autoescape, out);
    buffer_clear(&text);
    return false;
}

static int loop_neighbour(Run *run, Loop *loop, bool next, Value *out) {
    int got = next ? loop_peek(run, loop) : loop->index0 > 0;
    if (got > 0)
        *out = next ? loop->after : loop->before;
    else if (got == 0 && !value_undefined_hint(run, next ? "there is no next item" : "there is no previous item", out))
        return -1;
    return got < 0 ? -1 : 1;
}

static bool is_text(const char *name, size_t length, const char *text) {
    return strlen(text) == length && memcmp(name, text, length) == 0;
}

int jinja_loop_attribute(Run *run, Loop *loop, const char *name, size_t length, Value *out) {
    int64_t index0 = loop->index0;
    if (is_text(name, length, "index"))
        *out = value_int(index0 + 1);
    else if (is_text(name, length, "index0"))
        *out = value_int(index0);
    else if (is_text(name, length, "first"))
        *out = value_bool(index0 == 0);
    else if (is_text(name, length, "depth"))
        *out = value_int(loop->depth0 + 1);
    else if (is_text(name, length, "depth0"))
        *out = value_int(loop->depth0);
    else if (is_text(name, length, "previtem"))
        return loop_neighbour(run, loop, false, out);
    else if (is_text(name, length, "nextitem"))
        return loop_neighbour(run, loop, true, out);
    else if (is_text(name, length, "last")) {
        int got = loop_peek(run, loop);
        *out = value_bool(got == 0);
        return got < 0 ? -1 : 1;
    } else if (is_text(name, length, "length") || is_text(name, length, "revindex") ||
               is_text(name, length, "revindex0")) {
        if (!loop_length(run, loop)) return -1;
        int64_t back = name[0] == 'l' ? 0 : is_text(name, length, "revindex") ? index0 : index0 + 1;
        *out = value_int(loop->length - back);
    } else
        return 0;
    return 1;
}

/* ---- macros ---- */

/* Positional arguments, then keywords by name; *caller_found as in jinja2's Macro.__call__. */
static bool bind_params(Run *run, const MacroNode *m, const Args *args, Scope *scope, bool *used, bool *caller_found) {
    *caller_found = m->explicit_caller && args->n >= m->params.n;
    for (uint32_t i = 0; i < m->params.n; i++) {
        const Node *param = m->params.items[i];
        Value v = {.type = V_MISSING};
        if (i < args->n)
            v = args->positional[i];
        else {
            const String *name = param->name.name;
            for (size_t k = 0; k < args->n_keywords; k++) {
                if (used[k] || args->names[k]->length != name->length ||
                    memcmp(args->names[k]->data, name->data, name->length) != 0)
                    continue;
                used[k] = true;
                v = args->keywords[k];
            }
            if (is_text(name->data, name->length, "caller")) *caller_found = true;
        }
        scope->slots[param->name.ref.slot] = v;
    }
    return run_charge(run, m->params.n);
}

static bool bind_rest(Run *run, const MacroNode *m, const Args *args, Scope *scope, bool *used, bool caller_found) {
    if (m->caller >= 0 && !caller_found) {
        Value *slot = &scope->slots[m->caller];
        for (size_t k = 0; k < args->n_keywords; k++) {
            if (used[k] || !is_text(args->names[k]->data, args->names[k]->length, "caller")) continue;
            used[k] = true;
            *slot = args->keywords[k];
        }
        if ((slot->type == V_MISSING || slot->type == V_NONE) && !value_undefined_hint(run, "No caller defined", slot))
            return false;
    }
    Dict *kwargs = m->kwargs >= 0 ? value_dict_new(run, 0) : NULL;
    List *varargs = m->varargs >= 0 ? value_list_new(run, 0) : NULL;
    if (run->failed) return false;
    for (size_t k = 0; k < args->n_keywords; k++) {
        const String *name = args->names[k];
        if (used[k]) continue;
        if (!kwargs)
            return run_fail(run, "macro takes no keyword argument '%.*s'", (int)(name->length < 60 ? name->length : 60),
                            name->data);
        if (!value_dict_set(run, kwargs, value_string(name), args->keywords[k])) return false;
    }
    if (args->n > m->params.n && !varargs)
        return run_fail(run, "macro takes not more than %u argument(s)", m->params.n);
    for (size_t i = m->params.n; varargs && i < args->n; i++)
        if (!value_list_add(run, varargs, args->positional[i])) return false;
    if (kwargs) scope->slots[m->kwargs] = (Value){.type = V_DICT, .dict = kwargs};
    if (varargs) scope->slots[m->varargs] = value_tuple(varargs);
    return true;
}

static bool fill_defaults(Run *run, const MacroNode *m, Scope *scope) {
    for (uint32_t i = 0; i < m->params.n; i++) {
        const Node *param = m->params.items[i];
        Value *slot = &scope->slots[param->name.ref.slot], v;
        if (slot->type != V_MISSING) continue;
        uint32_t first_default = m->params.n - m->defaults.n;
        if (i >= first_default) {
            if (!eval(run, scope, m->defaults.items[i - first_default], &v)) return false;
        } else {
            const String *name = param->name.name;
            char *hint = run_take(run, 1, name->length + 40);
            if (!hint) return false;
            memcpy(hint, "parameter '", 11);
            memcpy(hint + 11, name->data, name->length);
            memcpy(hint + 11 + name->length, "' was not provided", 19);
            if (!value_undefined_hint(run, hint, &v)) return false;
        }
        *slot = v;
    }
    return true;
}

bool jinja_call_macro(Run *run, const Macro *macro, const Args *args, Value *out) {
    const MacroNode *m = macro->node;
    Scope *scope = scope_new(run, m->scope, macro->closure);
    bool *used = scope ? run_take(run, args->n_keywords + 1, sizeof *used) : NULL;
    bool caller_found;
    if (!used || !run_enter(run)) return false;
    if (!bind_params(run, m, args, scope, used, &caller_found) || !bind_rest(run, m, args, scope, used, caller_found) ||
        !scope_enter(run, scope) || !fill_defaults(run, m, scope))
        return false;
    bool ok = capture(run, scope, &m->body, run->autoescape, out) == FLOW_NEXT;
    run_leave(run);
    return ok;
}

static bool macro_value(Run *run, Scope *scope, const MacroNode *node, Value *out) {
    Macro *macro = run_take(run, 1, sizeof *macro);
    if (!macro) return false;
    *macro = (Macro){node, scope};
    *out = (Value){.type = V_MACRO, .macro = macro};
    return true;
}

static bool exec_macro(Run *run, Scope *scope, const Node *n) {
    Value *slot = slot_of(scope, n->macro.macro.ref);
    if (!macro_value(run, scope, &n->macro.macro, slot)) return false;
    if (!n->macro.toplevel || run->program->blocks.n == 0) return true;
    return value_dict_set(run, run->context->exported, value_string(n->macro.macro.name), *slot);
}

static bool exec_call_block(Run *run, Scope *scope, const Node *n) {
    Value caller, v;
    Args none = {0};
    if (!macro_value(run, scope, &n->macro.macro, &caller)) return false;
    if (!n->macro.call) return jinja_call_macro(run, caller.macro, &none, &v) && emit(run, v);
    if (eval_call(run, scope, n->macro.call, caller, &v)) return value_print(run, run->out, v);
    locate(run, n->macro.call);
    return false;
}

bool jinja_call(Run *run, Value callee, const Args *args, Value *out) {
    switch (callee.type) {
    case V_UNDEFINED: return value_fail_undefined(run, callee);
    case V_MACRO: return jinja_call_macro(run, callee.macro, args, out);
    case V_LOOP: return jinja_call_loop(run, callee.loop, args, out);
    case V_BLOCK: return jinja_call_block(run, callee.block, out);
    case V_FUNCTION: return jinja_call_function(run, callee.function, NONE, args, out);
    case V_METHOD: return jinja_call_function(run, callee.method->def, callee.method->self, args, out);
    case V_JOINER:
        if (callee.joiner->used)
            *out = callee.joiner->separator;
        else if (!value_text_ref(run, "", 0, out))
            return false;
        callee.joiner->used = true;
        return true;
    default: return run_fail(run, "'%s' object is not callable", value_type_name(callee));
    }
}

/* ---- blocks ---- */

static bool block_context(Run *run, Scope *scope, Context *out) {
    const Context *outer = run->context;
    Dict *all = value_dict_new(run, outer->variables->n + outer->exported->n), *own = value_dict_new(run, 0);
    if (!all || !own) return false;
    const Dict *sources[2] = {outer->variables, outer->exported};
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < sources[i]->n; k++)
            if (!value_dict_set(run, all, sources[i]->keys[k], sources[i]->values[k])) return false;
    Dict *seen = value_dict_new(run, 0); /* the innermost scope wins, also when it has no value */
    for (; seen && scope; scope = scope->parent)
        for (uint32_t i = 0; i < scope->info->n; i++) {
            const ScopeVar *var = &scope->info->vars[i];
            Value name = value_string(var->name), ignored;
            bool found;
            if (!var->stored) continue;
            if (!value_dict_get(run, seen, name, &ignored, &found)) return false;
            if (found) continue;
            if (!value_dict_set(run, seen, name, NONE)) return false;
            if (scope->slots[i].type != V_MISSING && !value_dict_set(run, all, name, scope->slots[i])) return false;
        }
    *out = (Context){all, own};
    return seen != NULL;
}

static bool set_self(Run *run, Scope *scope, int32_t self_slot, int32_t super_slot) {
    if (self_slot >= 0) scope->slots[self_slot] = (Value){.type = V_SELF};
    if (super_slot < 0) return true;
    return value_undefined_hint(run, "there is no parent block", &scope->slots[super_slot]);
}

static Flow run_block(Run *run, const Node *n, Context *context) {
    Context *outer = run->context;
    run->context = context;
    Scope *inner = scope_start(run, n->block.scope, NULL);
    Flow flow = FLOW_FAIL;
    if (inner && set_self(run, inner, n->block.self_slot, n->block.super_slot))
        flow = exec_all(run, inner, &n->block.body);
    run->context = outer;
    return flow;
}

static Flow exec_block(Run *run, Scope *scope, const Node *n) {
    if (n->block.required) {
        run_fail(run, "Required block '%.*s' not found", (int)n->block.name->length, n->block.name->data);
        return FLOW_FAIL;
    }
    if (!n->block.scoped) return run_block(run, n, run->context);
    Context *context = run_take(run, 1, sizeof *context);
    if (!context || !block_context(run, scope, context)) return FLOW_FAIL;
    return run_block(run, n, context);
}

bool jinja_self_block(Run *run, const char *name, size_t length, Value *out, bool *found) {
    *found = false;
    for (uint32_t i = 0; i < run->program->blocks.n; i++) {
        const Node *n = run->program->blocks.items[i];
        if (n->block.name->length != length || memcmp(n->block.name->data, name, length) != 0) continue;
        BlockRef *block = run_take(run, 1, sizeof *block);
        if (!block) return false;
        *block = (BlockRef){n, run->context};
        *out = (Value){.type = V_BLOCK, .block = block};
        *found = true;
    }
    return true;
}

bool jinja_call_block(Run *run, const BlockRef *block, Value *out) {
    Buffer text = {0}, *outer = run->out;
    if (!run_enter(run)) return false;
    run->out = &text;
    Flow flow = run_block(run, block->node, block->context);
    run->out = outer;
    run_leave(run);
    if (flow != FLOW_FAIL) return value_from_buffer(run, &text, run->autoescape, out);
    buffer_clear(&text);
    return false;
}

/* ---- statements ---- */

static Flow exec_if(Run *run, Scope *scope, const Node *n) {
    Value test;
    if (!eval(run, scope, n->branch.test, &test)) return FLOW_FAIL;
    if (value_truth(test)) return exec_all(run, scope, &n->branch.body);
    for (uint32_t i = 0; i < n->branch.elifs.n; i++) {
        const Node *branch = n->branch.elifs.items[i];
        if (!eval(run, scope, branch->branch.test, &test)) return FLOW_FAIL;
        if (value_truth(test)) return exec_all(run, scope, &branch->branch.body);
    }
    return exec_all(run, scope, &n->branch.otherwise);
}

static Flow exec_filter_block(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->wrap.scope, scope);
    Value v;
    if (!inner) return FLOW_FAIL;
    Flow flow = capture(run, inner, &n->wrap.body, run->autoescape, &v);
    if (flow != FLOW_NEXT) return flow;
    return apply_chain(run, inner, n->wrap.filter, v, &v) && value_print(run, run->out, v) ? FLOW_NEXT : FLOW_FAIL;
}

static Flow exec_autoescape(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->wrap.scope, scope);
    Value v;
    if (!inner || !eval(run, inner, n->wrap.filter, &v)) return FLOW_FAIL;
    bool outer = run->autoescape;
    run->autoescape = value_truth(v);
    Flow flow = exec_all(run, inner, &n->wrap.body);
    run->autoescape = outer;
    return flow;
}

static Flow exec_with(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->with.scope, scope);
    if (!inner) return FLOW_FAIL;
    for (uint32_t i = 0; i < n->with.targets.n; i++) {
        Value v;
        if (!eval(run, scope, n->with.values.items[i], &v) || !assign(run, inner, n->with.targets.items[i], v))
            return FLOW_FAIL;
    }
    return exec_all(run, inner, &n->with.body);
}

static Flow refuse(Run *run, const Node *n) {
    run_fail(run, "{%% %s %%} is not possible: a chat template stands alone, there are no other templates",
             n->refused.tag);
    return FLOW_FAIL;
}

static Flow flow_of(bool ok) {
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

static Flow exec_node(Run *run, Scope *scope, const Node *n) {
    switch (n->kind) {
    case N_OUTPUT: return exec_output(run, scope, n);
    case N_FOR: return exec_for(run, scope, n);
    case N_IF: return exec_if(run, scope, n);
    case N_SET: return flow_of(exec_set(run, scope, n));
    case N_SET_BLOCK: return exec_set_block(run, scope, n);
    case N_MACRO: return flow_of(exec_macro(run, scope, n));
    case N_CALL_BLOCK: return flow_of(exec_call_block(run, scope, n));
    case N_FILTER_BLOCK: return exec_filter_block(run, scope, n);
    case N_WITH: return exec_with(run, scope, n);
    case N_BLOCK: return exec_block(run, scope, n);
    case N_AUTOESCAPE: return exec_autoescape(run, scope, n);
    case N_REFUSED: return refuse(run, n);
    case N_BREAK: return FLOW_BREAK;
    case N_CONTINUE: return FLOW_CONTINUE;
    default: return FLOW_FAIL;
    }
}

static Flow exec_all(Run *run, Scope *scope, const NodeList *list) {
    Flow flow = FLOW_NEXT;
    if (!run_enter(run)) return FLOW_FAIL;
    for (uint32_t i = 0; i < list->n && flow == FLOW_NEXT; i++) {
        flow = run_charge(run, 1) ? exec_node(run, scope, list->items[i]) : FLOW_FAIL;
        if (flow == FLOW_FAIL) locate(run, list->items[i]);
    }
    run_leave(run);
    return flow;
}

/* ---- the run ---- */

void jinja_run_begin(Run *run, const JinjaProgram *program, Error *err) {
    *run = (Run){.err = err, .program = program, .step_limit = STEP_LIMIT, .depth_limit = DEPTH_LIMIT};
    run->output_limit = OUTPUT_LIMIT;
    jinja_heap_init(&run->heap, HEAP_LIMIT);
}

void jinja_run_end(Run *run) {
    jinja_heap_clear(&run->heap);
}

bool jinja_run(Run *run, Dict *variables, Buffer *out) {
    Dict *exported = value_dict_new(run, 0);
    Context context = {variables, exported};
    if (!exported) return false;
    Buffer text = {0};
    run->context = &context;
    run->out = &text;
    Scope *scope = scope_start(run, run->program->scope, NULL);
    bool ok = scope && set_self(run, scope, run->program->self_slot, -1) &&
              exec_all(run, scope, &run->program->body) != FLOW_FAIL;
    if (ok) buffer_append(out, buffer_string(&text), text.length);
    buffer_clear(&text);
    run->context = NULL;
    run->out = NULL;
    return ok && !out->failed ? true : ok ? run_memory(run) : false;
}
