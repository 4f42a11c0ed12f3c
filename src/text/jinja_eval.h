/* Running a compiled template. Between jinja_run_begin and jinja_run_end all values belong to the run. */
#ifndef LOCKSTEP_TEXT_JINJA_EVAL_H
#define LOCKSTEP_TEXT_JINJA_EVAL_H

#include "text/jinja_parse.h"
#include "text/jinja_value.h"

/* The slots of one scope while it is active; closures keep it reachable. */
typedef struct Args Args;
typedef struct Scope Scope;
struct Scope {
    Value *slots;
    Scope *parent;
    const ScopeInfo *info;
};

/* Variables by name: what the caller gave over the globals, and what the top level of the template set. */
struct Context {
    Dict *variables, *exported;
};

struct Macro {
    const MacroNode *node;
    Scope *closure;
};

struct Loop {
    const Node *node; /* of a recursive loop: what loop(...) runs again */
    Scope *outer;
    Iterator *it;
    Value iterable, before, current, after, changed; /* MISSING: none */
    int64_t index0, length, depth0;                  /* length -1: not known yet */
};

struct BlockRef {
    const Node *node;
    Context *context;
};

void jinja_run_begin(Run *run, const JinjaProgram *program, Error *err);
void jinja_run_end(Run *run);
/* Appends the rendering to out, nothing on failure. */
bool jinja_run(Run *run, Dict *variables, Buffer *out);

/* The members of `loop`; 0 when there is no such name, -1 failed. */
int jinja_loop_attribute(Run *run, Loop *loop, const char *name, size_t length, Value *out);
bool jinja_call_macro(Run *run, const Macro *macro, const Args *args, Value *out);
bool jinja_call_loop(Run *run, Loop *loop, const Args *args, Value *out);
bool jinja_call_block(Run *run, const BlockRef *block, Value *out);
bool jinja_self_block(Run *run, const char *name, size_t length, Value *out, bool *found);

#endif
