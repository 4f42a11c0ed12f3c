/* Macros, call blocks and blocks: bodies that run in a scope of their own, with arguments, with a caller, or by name.
 */
#include "text/jinja_exec.h"
#include "text/jinja_builtins.h"

#include <stdio.h>
#include <string.h>

static bool is_text(const char *name, size_t length, const char *text) {
    return strlen(text) == length && memcmp(name, text, length) == 0;
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
            if (!jinja_eval(run, scope, m->defaults.items[i - first_default], &v)) return false;
        } else {
            const String *name = param->name.name;
            size_t size = name->length + sizeof "parameter '' was not provided";
            char *hint = run_take(run, 1, size);
            if (!hint) return false;
            snprintf(hint, size, "parameter '%.*s' was not provided", (int)name->length, name->data);
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
    bool ok = jinja_capture(run, scope, &m->body, run->autoescape, out) == FLOW_NEXT;
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

bool jinja_exec_macro(Run *run, Scope *scope, const Node *n) {
    Value *slot = scope_slot(scope, n->macro.macro.ref);
    if (!macro_value(run, scope, &n->macro.macro, slot)) return false;
    if (!n->macro.toplevel || run->program->blocks.n == 0) return true;
    return value_dict_set(run, run->context->exported, value_string(n->macro.macro.name), *slot);
}

bool jinja_exec_call_block(Run *run, Scope *scope, const Node *n) {
    Value caller, v;
    Args none = {0};
    if (!macro_value(run, scope, &n->macro.macro, &caller)) return false;
    if (!n->macro.call) return jinja_call_macro(run, caller.macro, &none, &v) && jinja_emit(run, v);
    if (jinja_eval_call(run, scope, n->macro.call, caller, &v)) return jinja_put_text(run, v);
    jinja_locate(run, n->macro.call);
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

bool jinja_set_self(Run *run, Scope *scope, int32_t self_slot, int32_t super_slot) {
    if (self_slot >= 0) scope->slots[self_slot] = (Value){.type = V_SELF};
    if (super_slot < 0) return true;
    return value_undefined_hint(run, "there is no parent block", &scope->slots[super_slot]);
}

static Flow run_block(Run *run, const Node *n, Context *context) {
    Context *outer = run->context;
    run->context = context;
    Scope *inner = scope_start(run, n->block.scope, NULL);
    Flow flow = FLOW_FAIL;
    if (inner && jinja_set_self(run, inner, n->block.self_slot, n->block.super_slot))
        flow = jinja_exec(run, inner, &n->block.body);
    run->context = outer;
    return flow;
}

Flow jinja_exec_block(Run *run, Scope *scope, const Node *n) {
    if (n->block.required) {
        run_error(run, "Required block '%.*s' not found", (int)n->block.name->length, n->block.name->data);
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
