/* What the parts of the evaluator share: scopes, expressions (jinja_eval.c), statements (jinja_exec.c), loops
 * (jinja_loop.c), macros and blocks (jinja_macro.c). */
#ifndef LOCKSTEP_TEXT_JINJA_EXEC_H
#define LOCKSTEP_TEXT_JINJA_EXEC_H

#include "text/jinja_eval.h"

/* How a statement ended: break and continue travel up to their loop. */
typedef enum Flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL } Flow;

/* ---- jinja_eval.c ---- */
/* Puts line and source text before the error, unless it has them. */
void jinja_locate(Run *run, const Node *n);
Value *scope_slot(Scope *scope, Ref ref);
Scope *scope_new(Run *run, const ScopeInfo *info, Scope *parent); /* all slots without a value */
bool scope_enter(Run *run, Scope *scope); /* loads what comes from outside; parameters are left alone */
Scope *scope_start(Run *run, const ScopeInfo *info, Scope *parent); /* new and entered */
bool jinja_eval(Run *run, Scope *scope, const Node *n, Value *out);
/* A CALL node; `caller`, unless missing, is passed as the keyword of that name. */
bool jinja_eval_call(Run *run, Scope *scope, const Node *n, Value caller, Value *out);
/* The filters of a filter or set block, from the innermost on, over the captured text. */
bool jinja_apply_chain(Run *run, Scope *scope, const Node *n, Value text, Value *out);

/* ---- jinja_exec.c ---- */
Flow jinja_exec(Run *run, Scope *scope, const NodeList *list);
bool jinja_emit(Run *run, Value v);     /* prints a value, escaped when autoescape is on */
bool jinja_put_text(Run *run, Value v); /* what call and filter blocks give: a string, never escaped */
/* Runs a body and takes its output as a string. */
Flow jinja_capture(Run *run, Scope *scope, const NodeList *body, bool safe, Value *out);
bool jinja_assign(Run *run, Scope *scope, const Node *target, Value v);

/* ---- jinja_loop.c ---- */
Flow jinja_exec_for(Run *run, Scope *scope, const Node *n);

/* ---- jinja_macro.c ---- */
bool jinja_exec_macro(Run *run, Scope *scope, const Node *n);
bool jinja_exec_call_block(Run *run, Scope *scope, const Node *n);
Flow jinja_exec_block(Run *run, Scope *scope, const Node *n);
/* The special names of the root and of blocks, where they are used (slot -1: not). */
bool jinja_set_self(Run *run, Scope *scope, int32_t self_slot, int32_t super_slot);

#endif
