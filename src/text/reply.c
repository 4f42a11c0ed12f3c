/* One pass over the answer, in one of three modes: text, reasoning, and inside what may be a call. `held` is what has
 * come and is not passed on; everything before `start` in it is gone, everything before `solid` is settled as text of
 * the present mode, and everything before `at` has been searched for marks. Between `solid` and `at` there is only
 * white space: it belongs to the text if text follows, and to nobody if a mark does.
 *
 * Each decision depends on the bytes up to a place and on nothing else. That is what makes the stream equal the whole,
 * so a new rule must never ask how much has come beyond the place it decides about. */
#include "text/reply.h"
#include "base/json_scan.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/toolcall_steps.h"

#include <string.h>

enum { MAX_CALL = 16 << 20 }; /* bytes that a call may have: far more than any context holds */

typedef enum Mode { MODE_TEXT, MODE_REASONING, MODE_CALL } Mode;

struct Reply {
    ReplyOptions options;
    ReplySink *sink;
    void *context;
    Buffer held;
    size_t start, solid, at;
    Mode mode, outer; /* outer: what a call that is none goes back to */
    bool fresh;       /* nothing but white space since the beginning, a block or a call */
    bool skip_space;  /* white space here is not text */
    bool after_call;  /* likewise, if nothing follows it */
    StepRun steps;
    size_t least; /* bytes that are text at least, if the call is none: a mark is not looked at twice */
    int n_calls;
};

Reply *reply_new(const ReplyOptions *options, ReplySink *sink, void *context, Error *err) {
    Reply *r = mem_zeroed(1, sizeof *r);
    if (!r) {
        error_memory(err, "the answer");
        return NULL;
    }
    r->options = *options;
    r->sink = sink;
    r->context = context;
    r->fresh = true;
    if (options->reasoning && options->reasoning_is_open) {
        r->mode = MODE_REASONING;
        r->skip_space = true;
    }
    return r;
}

void reply_free(Reply *r) {
    if (!r) return;
    buffer_clear(&r->held);
    steps_clear(&r->steps);
    mem_free(r);
}

int reply_calls(const Reply *r) {
    return r->n_calls;
}

/* ---- what is passed on ---- */

/* Everything up to `end`, which is not beyond `solid`. A character is never cut, unless the answer ends inside it. */
static bool release(Reply *r, size_t end, bool final, Error *err) {
    if (end == r->held.length && !final) end -= utf8_incomplete_tail(r->held.data + r->start, end - r->start);
    if (end <= r->start) return true;
    ReplyEvent e = {.part = r->mode == MODE_REASONING ? REPLY_REASONING : REPLY_TEXT,
                    .text = r->held.data + r->start,
                    .length = end - r->start};
    r->start = end;
    return r->sink(r->context, &e, err);
}

static bool emit_call(Reply *r, const Call *c, Error *err) {
    ReplyEvent e = {.part = REPLY_CALL,
                    .text = buffer_string(&c->name),
                    .length = c->name.length,
                    .call = r->n_calls++,
                    .id = buffer_string(&c->id),
                    .id_length = c->id.length};
    if (!r->sink(r->context, &e, err)) return false;
    e = (ReplyEvent){REPLY_ARGUMENTS, buffer_string(&c->arguments), c->arguments.length, e.call, NULL, 0};
    if (!r->sink(r->context, &e, err)) return false;
    e = (ReplyEvent){REPLY_CALL_END, "", 0, e.call, NULL, 0};
    return r->sink(r->context, &e, err);
}

/* ---- marks ---- */

/* Whether a mark counts in this mode and at this place. A closing mark that nothing opened counts where an answer
 * begins: some templates close the block in the prompt, and the model does so again. */
static bool applies(const Reply *r, const Mark *m) {
    if (m->start && !r->fresh) return false;
    switch (m->role) {
    case MARK_CALL: return r->mode == MODE_TEXT || (r->options.calls && r->options.calls->ends_reasoning);
    case MARK_CLOSE: return r->mode == MODE_REASONING || r->fresh;
    default: return r->mode == MODE_TEXT;
    }
}

typedef struct Match {
    const Mark *mark; /* the longest that stands here whole; NULL: none */
    bool open;        /* a longer one may still come */
} Match;

static void match_marks(const Reply *r, const Mark *marks, size_t at, Match *out) {
    size_t have = r->held.length - at;
    for (const Mark *m = marks; m && m->text; m++) {
        size_t n = strlen(m->text);
        if (!applies(r, m) || memcmp(m->text, r->held.data + at, n < have ? n : have) != 0) continue;
        if (n > have)
            out->open = true;
        else if (!out->mark || n > strlen(out->mark->text))
            out->mark = m;
    }
}

static void begin_block(Reply *r, Mode mode, size_t after) {
    r->start = r->solid = r->at = after;
    r->mode = mode;
    r->fresh = true;
    r->skip_space = true;
}

/* The text before the mark is passed on, the white space before it is not, and what follows depends on the mark. */
static bool take_mark(Reply *r, const Mark *m, Error *err) {
    size_t after = r->at + strlen(m->text);
    if (!release(r, r->solid, false, err)) return false;
    if (m->role == MARK_OPEN) {
        begin_block(r, MODE_REASONING, after);
    } else if (m->role == MARK_CLOSE) {
        begin_block(r, MODE_TEXT, after);
    } else if (m->role == MARK_DROP) {
        begin_block(r, MODE_TEXT, after);
        r->skip_space = false;
    } else {
        r->outer = r->mode;
        r->mode = MODE_CALL;
        steps_begin(&r->steps, m->steps);
        r->steps.at = r->at - r->start;
        r->least = r->steps.at + 1;
    }
    return true;
}

/* ---- modes ---- */

static bool any_applies(const Reply *r, const Mark *marks) {
    for (const Mark *m = marks; m->text; m++)
        if (applies(r, m)) return true;
    return false;
}

/* White space waits where a mark may follow, before which it is nobody's. */
static bool holds_space(const Reply *r) {
    return (r->options.calls && any_applies(r, r->options.calls->marks)) ||
           (r->options.reasoning && any_applies(r, r->options.reasoning->marks));
}

static void take_byte(Reply *r) {
    if (!json_is_space(r->held.data[r->at++])) {
        r->solid = r->at;
        r->fresh = r->skip_space = r->after_call = false;
    } else if (r->skip_space) {
        r->start = r->solid = r->at;
    } else if (!holds_space(r)) {
        r->solid = r->at;
    }
}

/* Goes on until a mark is taken (*more) or the text ends. */
static bool advance_text(Reply *r, bool final, bool *more, Error *err) {
    while (r->at < r->held.length) {
        Match match = {0};
        if (r->options.calls) match_marks(r, r->options.calls->marks, r->at, &match);
        if (r->options.reasoning) match_marks(r, r->options.reasoning->marks, r->at, &match);
        bool empty = match.mark && !*match.mark->text && json_is_space(r->held.data[r->at]);
        if (match.open && !final) break;
        if (match.mark && !empty) {
            *more = true;
            return take_mark(r, match.mark, err);
        }
        take_byte(r);
    }
    return release(r, r->solid, final, err);
}

/* What was read so far is no call: text up to where it went wrong. */
static void give_up(Reply *r, size_t bad) {
    size_t solid = r->start + (bad > r->least ? bad : r->least);
    r->at = solid;
    while (solid > r->start && json_is_space(r->held.data[solid - 1])) solid--;
    if (solid > r->start) r->fresh = r->skip_space = r->after_call = false;
    r->solid = solid;
    r->mode = r->outer;
}

static bool take_calls(Reply *r, Error *err) {
    if (r->steps.calls.failed) return error_memory(err, "a tool call");
    for (size_t i = 0; i < r->steps.calls.n; i++)
        if (!emit_call(r, &r->steps.calls.items[i], err)) return false;
    calls_reset(&r->steps.calls);
    r->start += r->steps.at;
    steps_rebase(&r->steps);
    r->least = 0;
    r->solid = r->at = r->start;
    r->outer = MODE_TEXT;
    r->after_call = r->fresh = true;
    r->skip_space = false;
    return true;
}

static bool advance_call(Reply *r, bool final, bool *more, Error *err) {
    size_t n = r->held.length - r->start;
    StepResult result = steps_run(&r->steps, r->held.data + r->start, n, final, r->options.tools);
    if (r->steps.calls.failed || r->steps.key.failed) return error_memory(err, "a tool call");
    *more = true;
    switch (result) {
    case STEPS_MORE:
        *more = final || n > MAX_CALL;
        if (*more) give_up(r, n);
        break;
    case STEPS_BAD: give_up(r, r->steps.at); break;
    case STEPS_CALL: return take_calls(r, err);
    case STEPS_DROPPED:
    case STEPS_DONE:
        begin_block(r, MODE_TEXT, r->start + r->steps.at);
        r->skip_space = false;
        r->fresh = result == STEPS_DONE;
        break;
    }
    return true;
}

static bool advance(Reply *r, bool final, Error *err) {
    for (bool more = true; more;) {
        more = false;
        bool ok = r->mode == MODE_CALL ? advance_call(r, final, &more, err) : advance_text(r, final, &more, err);
        if (!ok) return false;
    }
    return true;
}

/* Forgets what is gone from the front. */
static void compact(Reply *r) {
    Buffer *b = &r->held;
    if (r->start == 0) return;
    b->length -= r->start;
    memmove(b->data, b->data + r->start, b->length);
    r->solid -= r->start;
    r->at -= r->start;
    r->start = 0;
}

bool reply_push(Reply *r, const char *text, size_t n, Error *err) {
    buffer_append(&r->held, text, n);
    if (r->held.failed) return error_memory(err, "the answer");
    if (n == 0) return true;
    bool ok = advance(r, false, err);
    compact(r);
    return ok;
}

bool reply_finish(Reply *r, Error *err) {
    if (r->held.length == 0) return true;
    if (!advance(r, true, err)) return false;
    if (!r->after_call || !r->fresh) r->solid = r->held.length; /* white space at the end is text after all */
    bool ok = release(r, r->solid, true, err);
    r->start = r->held.length;
    compact(r);
    return ok;
}

/* ---- which special tokens decoding must keep ---- */

static bool holds(const char *text, const char *token, size_t n) {
    for (; text && *text; text++)
        if (strncmp(text, token, n) == 0) return true;
    return false;
}

static bool marks_need(const Mark *marks, const char *token, size_t n) {
    for (const Mark *m = marks; m->text; m++) {
        if (holds(m->text, token, n)) return true;
        for (const Step *s = m->steps; s && s->op != STEP_END; s++)
            if (holds(s->text, token, n)) return true;
    }
    return false;
}

bool reply_needs(const CallForm *calls, const ReasoningForm *reasoning, const char *token, size_t n) {
    if (n == 0) return false;
    return (calls && marks_need(calls->marks, token, n)) || (reasoning && marks_need(reasoning->marks, token, n));
}
