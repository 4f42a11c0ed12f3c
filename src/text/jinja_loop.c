/* For loops and their `loop` object. Items come from an iterator one at a time, so that looking ahead (loop.last,
 * loop.nextitem) and the condition of a "for ... if" run exactly when they would in jinja2. */
#include "text/jinja_exec.h"
#include "text/jinja_builtins.h"

#include <string.h>

static bool is_text(const char *name, size_t length, const char *text) {
    return strlen(text) == length && memcmp(name, text, length) == 0;
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
        if (!jinja_assign(run, f->scope, f->node->loop.target, *out) ||
            !jinja_eval(run, f->scope, f->node->loop.test, &test))
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
        if (!jinja_assign(run, inner, n->loop.target, item) || !scope_enter(run, inner)) return FLOW_FAIL;
        Flow flow = jinja_exec(run, inner, &n->loop.body);
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
    return rest ? jinja_exec(run, rest, &n->loop.otherwise) : FLOW_FAIL;
}

Flow jinja_exec_for(Run *run, Scope *scope, const Node *n) {
    Value iterable;
    if (!jinja_eval(run, scope, n->loop.iter, &iterable)) return FLOW_FAIL;
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
