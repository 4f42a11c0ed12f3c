/* Expressions: walks the tree and gives a value. A scope of the template is a row of slots; entering one loads its
 * outer values as jinja2's compiled functions do (see jinja_scope.c). The first failure on the way up is given the line
 * and the text of the innermost expression. */
#include "text/jinja_eval.h"

#include "text/jinja_exec.h"
#include "text/jinja_builtins.h"

#include <string.h>

enum { QUOTED = 80 };

/* ---- errors ---- */

/* Puts line and source text before the message, once. */
void jinja_locate(Run *run, const Node *n) {
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

Value *scope_slot(Scope *scope, Ref ref) {
    for (uint16_t i = 0; i < ref.hops; i++) scope = scope->parent;
    return &scope->slots[ref.slot];
}

/* Loads what comes from outside; parameters are left alone. */
bool scope_enter(Run *run, Scope *scope) {
    for (uint32_t i = 0; i < scope->info->n; i++) {
        const ScopeVar *var = &scope->info->vars[i];
        Value *slot = &scope->slots[i];
        if (var->load == LOAD_RESOLVE) {
            if (!resolve_variable(run, var->name, slot)) return false;
        } else if (var->load == LOAD_ALIAS)
            *slot = *scope_slot(scope->parent, var->outer);
        else if (var->load == LOAD_UNDEFINED)
            *slot = (Value){.type = V_MISSING};
    }
    return true;
}

Scope *scope_new(Run *run, const ScopeInfo *info, Scope *parent) {
    Scope *scope = run_take(run, 1, sizeof *scope + info->n * sizeof(Value));
    if (!scope) return NULL;
    scope->slots = (Value *)(scope + 1);
    scope->parent = parent;
    scope->info = info;
    return scope;
}

Scope *scope_start(Run *run, const ScopeInfo *info, Scope *parent) {
    Scope *scope = scope_new(run, info, parent);
    return scope && scope_enter(run, scope) ? scope : NULL;
}

/* ---- expressions ---- */

static bool eval_items(Run *run, Scope *scope, const NodeList *items, List **out) {
    List *list = value_list_new(run, items->n);
    if (!list) return false;
    for (uint32_t i = 0; i < items->n; i++)
        if (!jinja_eval(run, scope, items->items[i], &list->items[i])) return false;
    list->n = items->n;
    *out = list;
    return true;
}

static bool eval_dict(Run *run, Scope *scope, const NodeList *items, Value *out) {
    Dict *d = value_dict_new(run, items->n / 2);
    if (!d) return false;
    for (uint32_t i = 0; i < items->n; i += 2) {
        Value key, v;
        if (!jinja_eval(run, scope, items->items[i], &key) || !jinja_eval(run, scope, items->items[i + 1], &v) ||
            !value_dict_set(run, d, key, v))
            return false;
    }
    *out = (Value){.type = V_DICT, .dict = d};
    return true;
}

static bool eval_name(Run *run, Scope *scope, const Node *n, Value *out) {
    *out = *scope_slot(scope, n->name.ref);
    return out->type != V_MISSING || value_undefined_name(run, value_string(n->name.name), out);
}

static bool eval_sign(Run *run, Scope *scope, const Node *n, Value *out) {
    Value v;
    if (!jinja_eval(run, scope, n->binary.left, &v)) return false;
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
    if (!jinja_eval(run, scope, n->compare.first, &left)) return false;
    bool result = true;
    for (uint32_t i = 0; i < n->compare.rest.n && result; i++) {
        if (!jinja_eval(run, scope, n->compare.rest.items[i], &right) ||
            !compare_once(run, (CompareOp)n->compare.ops[i], left, right, &result))
            return false;
        left = right;
    }
    *out = value_bool(result);
    return true;
}

static bool eval_cond(Run *run, Scope *scope, const Node *n, Value *out) {
    Value test;
    if (!jinja_eval(run, scope, n->cond.test, &test)) return false;
    if (value_truth(test)) return jinja_eval(run, scope, n->cond.then, out);
    if (n->cond.otherwise) return jinja_eval(run, scope, n->cond.otherwise, out);
    return value_undefined_hint(run, "the inline if-expression evaluated to false and no else section was defined.",
                                out);
}

static bool eval_optional(Run *run, Scope *scope, const Node *n, Value *out) {
    *out = (Value){.type = V_MISSING};
    return !n || jinja_eval(run, scope, n, out);
}

static bool eval_getitem(Run *run, Scope *scope, const Node *n, Value *out) {
    Value object, key, start, stop, step;
    if (!jinja_eval(run, scope, n->get.object, &object)) return false;
    const Node *k = n->get.key;
    if (k->kind != N_SLICE) return jinja_eval(run, scope, k, &key) && jinja_getitem(run, object, key, out);
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
        if (!jinja_eval(run, scope, args->dyn_args, &v)) return false;
        Iterator *it = value_iterate(run, v);
        int got = it ? 1 : -1;
        while (got > 0 && (got = iterator_next(run, it, &item)) > 0)
            if (!value_list_add(run, list->positional, item)) return false;
        if (got < 0) return false;
    }
    if (!args->dyn_kwargs) return true;
    if (!jinja_eval(run, scope, args->dyn_kwargs, &v)) return false;
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
        if (!jinja_eval(run, scope, args->positional.items[i], &v) || !value_list_add(run, list.positional, v))
            return false;
    for (uint32_t i = 0; i < args->n_keywords; i++)
        if (!jinja_eval(run, scope, args->keywords[i].value, &v) || !add_keyword(run, &list, args->keywords[i].name, v))
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

bool jinja_eval_call(Run *run, Scope *scope, const Node *n, Value caller, Value *out) {
    Value callee;
    Args args;
    return jinja_eval(run, scope, n->call.target, &callee) && eval_args(run, scope, &n->call.args, caller, &args) &&
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
bool jinja_apply_chain(Run *run, Scope *scope, const Node *n, Value text, Value *out) {
    if (n->call.target && !jinja_apply_chain(run, scope, n->call.target, text, &text)) return false;
    if (apply_filter(run, scope, n, text, out)) return true;
    jinja_locate(run, n);
    return false;
}

static bool eval_test(Run *run, Scope *scope, const Node *n, Value *out) {
    Value v;
    Args args;
    bool result;
    if (!n->call.test) return fail_unknown(run, n, "test");
    if (!jinja_eval(run, scope, n->call.target, &v) ||
        !eval_args(run, scope, &n->call.args, (Value){.type = V_MISSING}, &args) ||
        !jinja_apply_test(run, n->call.test, v, &args, &result))
        return false;
    *out = value_bool(result);
    return true;
}

static bool eval_logic(Run *run, Scope *scope, const Node *n, Value *out) {
    if (!jinja_eval(run, scope, n->binary.left, out)) return false;
    if (value_truth(*out) != (n->kind == N_AND)) return true;
    return jinja_eval(run, scope, n->binary.right, out);
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
        return jinja_eval(run, scope, n->binary.left, &a) && jinja_eval(run, scope, n->binary.right, &b) &&
               jinja_binary(run, n->binary.op, a, b, out);
    case N_AND:
    case N_OR: return eval_logic(run, scope, n, out);
    case N_NOT:
        if (!jinja_eval(run, scope, n->binary.left, &a)) return false;
        *out = value_bool(!value_truth(a));
        return true;
    case N_NEG:
    case N_POS: return eval_sign(run, scope, n, out);
    case N_CONCAT: return eval_concat(run, scope, n, out);
    case N_COMPARE: return eval_compare(run, scope, n, out);
    case N_COND: return eval_cond(run, scope, n, out);
    case N_GETATTR: return jinja_eval(run, scope, n->get.object, &a) && jinja_getattr(run, a, n->get.attr, out);
    case N_GETITEM: return eval_getitem(run, scope, n, out);
    case N_CALL: return jinja_eval_call(run, scope, n, (Value){.type = V_MISSING}, out);
    case N_FILTER: return jinja_eval(run, scope, n->call.target, &a) && apply_filter(run, scope, n, a, out);
    case N_TEST: return eval_test(run, scope, n, out);
    default: return run_fail(run, "this is no expression");
    }
}

bool jinja_eval(Run *run, Scope *scope, const Node *n, Value *out) {
    bool ok = run_charge(run, 1) && run_enter(run);
    if (ok) {
        ok = eval_node(run, scope, n, out);
        run_leave(run);
    }
    if (!ok) jinja_locate(run, n);
    return ok;
}
