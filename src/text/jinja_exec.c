/* Statements: they print into run->out, which is the rendering or the text that a macro, a set block or a filter block
 * captures. Also the run as a whole and its limits. */
#include "text/jinja_exec.h"
#include "text/jinja_builtins.h"

#include <string.h>

enum {
    STEP_LIMIT = 20 << 20,
    DEPTH_LIMIT = 1500,
    HEAP_LIMIT = 256 << 20,
    OUTPUT_LIMIT = 32 << 20,
    EMIT_LIMIT = 256 << 20,
};

/* ---- printing ---- */

bool jinja_emit(Run *run, Value v) {
    size_t before = run->out->length;
    if (run->autoescape && !value_escape(run, v, &v)) return false;
    if (!value_print(run, run->out, v)) return false;
    run->emitted += run->out->length - before;
    if (run->out->failed) return run_memory(run);
    if (run->out->length <= OUTPUT_LIMIT && run->emitted <= EMIT_LIMIT) return true;
    return run_fail(run, "the template writes more than %d MB; it was stopped", OUTPUT_LIMIT >> 20);
}

bool jinja_put_text(Run *run, Value v) {
    if (v.type != V_STRING) return run_fail(run, "expected a string here, %s found", value_type_name(v));
    run->emitted += v.string->length;
    return value_print(run, run->out, v);
}

static Flow exec_output(Run *run, Scope *scope, const Node *n) {
    for (uint32_t i = 0; i < n->items.n; i++) {
        const Node *item = n->items.items[i];
        Value v = item->constant;
        if (item->kind == N_DATA) {
            run->emitted += v.string->length;
            buffer_append(run->out, v.string->data, v.string->length);
            if (run->out->length <= OUTPUT_LIMIT && run->emitted <= EMIT_LIMIT && !run->out->failed) continue;
            run_error(run, "the template writes more than %d MB; it was stopped", OUTPUT_LIMIT >> 20);
        } else if (jinja_eval(run, scope, item, &v) && jinja_emit(run, v))
            continue;
        jinja_locate(run, item);
        return FLOW_FAIL;
    }
    return FLOW_NEXT;
}

/* Runs a body with its output captured. */
Flow jinja_capture(Run *run, Scope *scope, const NodeList *body, bool safe, Value *out) {
    Buffer text = {0}, *outer = run->out;
    run->out = &text;
    Flow flow = jinja_exec(run, scope, body);
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

bool jinja_assign(Run *run, Scope *scope, const Node *target, Value v) {
    if (target->kind == N_NAME) {
        *scope_slot(scope, target->name.ref) = v;
        return true;
    }
    if (target->kind == N_NSREF) return set_namespace(run, *scope_slot(scope, target->name.ref), target->name.attr, v);
    List *parts;
    if (!value_iterable(v)) return run_fail(run, "cannot unpack non-iterable %s object", value_type_name(v));
    if (!value_to_list(run, v, &parts)) return false;
    if (parts->n > target->items.n) return run_fail(run, "too many values to unpack (expected %u)", target->items.n);
    if (parts->n < target->items.n)
        return run_fail(run, "not enough values to unpack (expected %u, got %zu)", target->items.n, parts->n);
    for (uint32_t i = 0; i < target->items.n; i++)
        if (!jinja_assign(run, scope, target->items.items[i], parts->items[i])) return false;
    return true;
}

/* Only a namespace takes attributes; checked before the value is evaluated, as jinja2 does. */
static bool check_namespaces(Run *run, Scope *scope, const Node *target) {
    if (target->kind == N_NSREF && scope_slot(scope, target->name.ref)->type != V_NAMESPACE)
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
                              *scope_slot(scope, target->name.ref));
    for (uint32_t i = 0; target->kind == N_TUPLE && i < target->items.n; i++)
        if (!export_names(run, scope, target->items.items[i])) return false;
    return true;
}

static bool exec_set(Run *run, Scope *scope, const Node *n) {
    Value v;
    return check_namespaces(run, scope, n->set.target) && jinja_eval(run, scope, n->set.value, &v) &&
           jinja_assign(run, scope, n->set.target, v) && (!n->set.toplevel || export_names(run, scope, n->set.target));
}

static Flow exec_set_block(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->set.scope, scope);
    Value v;
    if (!inner) return FLOW_FAIL;
    Flow flow = jinja_capture(run, inner, &n->set.body, run->autoescape, &v);
    if (flow != FLOW_NEXT) return flow;
    bool ok = (!n->set.value || jinja_apply_chain(run, inner, n->set.value, v, &v)) &&
              jinja_assign(run, scope, n->set.target, v) &&
              (!n->set.toplevel || export_names(run, scope, n->set.target));
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

/* ---- statements ---- */

static Flow exec_if(Run *run, Scope *scope, const Node *n) {
    Value test;
    if (!jinja_eval(run, scope, n->branch.test, &test)) return FLOW_FAIL;
    if (value_truth(test)) return jinja_exec(run, scope, &n->branch.body);
    for (uint32_t i = 0; i < n->branch.elifs.n; i++) {
        const Node *branch = n->branch.elifs.items[i];
        if (!jinja_eval(run, scope, branch->branch.test, &test)) return FLOW_FAIL;
        if (value_truth(test)) return jinja_exec(run, scope, &branch->branch.body);
    }
    return jinja_exec(run, scope, &n->branch.otherwise);
}

static Flow exec_filter_block(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->wrap.scope, scope);
    Value v;
    if (!inner) return FLOW_FAIL;
    Flow flow = jinja_capture(run, inner, &n->wrap.body, run->autoescape, &v);
    if (flow != FLOW_NEXT) return flow;
    return jinja_apply_chain(run, inner, n->wrap.filter, v, &v) && jinja_put_text(run, v) ? FLOW_NEXT : FLOW_FAIL;
}

static Flow exec_autoescape(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->wrap.scope, scope);
    Value v;
    if (!inner || !jinja_eval(run, inner, n->wrap.filter, &v)) return FLOW_FAIL;
    bool outer = run->autoescape;
    run->autoescape = value_truth(v);
    Flow flow = jinja_exec(run, inner, &n->wrap.body);
    run->autoescape = outer;
    return flow;
}

static Flow exec_with(Run *run, Scope *scope, const Node *n) {
    Scope *inner = scope_start(run, n->with.scope, scope);
    if (!inner) return FLOW_FAIL;
    for (uint32_t i = 0; i < n->with.targets.n; i++) {
        Value v;
        if (!jinja_eval(run, scope, n->with.values.items[i], &v) ||
            !jinja_assign(run, inner, n->with.targets.items[i], v))
            return FLOW_FAIL;
    }
    return jinja_exec(run, inner, &n->with.body);
}

static Flow refuse(Run *run, const Node *n) {
    run_error(run, "{%% %s %%} is not possible: a chat template stands alone, there are no other templates",
              n->refused.tag);
    return FLOW_FAIL;
}

static Flow flow_of(bool ok) {
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

static Flow exec_node(Run *run, Scope *scope, const Node *n) {
    switch (n->kind) {
    case N_OUTPUT: return exec_output(run, scope, n);
    case N_FOR: return jinja_exec_for(run, scope, n);
    case N_IF: return exec_if(run, scope, n);
    case N_SET: return flow_of(exec_set(run, scope, n));
    case N_SET_BLOCK: return exec_set_block(run, scope, n);
    case N_MACRO: return flow_of(jinja_exec_macro(run, scope, n));
    case N_CALL_BLOCK: return flow_of(jinja_exec_call_block(run, scope, n));
    case N_FILTER_BLOCK: return exec_filter_block(run, scope, n);
    case N_WITH: return exec_with(run, scope, n);
    case N_BLOCK: return jinja_exec_block(run, scope, n);
    case N_AUTOESCAPE: return exec_autoescape(run, scope, n);
    case N_REFUSED: return refuse(run, n);
    case N_BREAK: return FLOW_BREAK;
    case N_CONTINUE: return FLOW_CONTINUE;
    default: return FLOW_FAIL;
    }
}

Flow jinja_exec(Run *run, Scope *scope, const NodeList *list) {
    Flow flow = FLOW_NEXT;
    if (!run_enter(run)) return FLOW_FAIL;
    for (uint32_t i = 0; i < list->n && flow == FLOW_NEXT; i++) {
        flow = run_charge(run, 1) ? exec_node(run, scope, list->items[i]) : FLOW_FAIL;
        if (flow == FLOW_FAIL) jinja_locate(run, list->items[i]);
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
    bool ok = scope && jinja_set_self(run, scope, run->program->self_slot, -1) &&
              jinja_exec(run, scope, &run->program->body) != FLOW_FAIL;
    if (ok) buffer_append(out, buffer_string(&text), text.length);
    buffer_clear(&text);
    run->context = NULL;
    run->out = NULL;
    return ok && !out->failed ? true : ok ? run_memory(run) : false;
}
