/* An answer's phases, of which a request may lack the first three: the start, where reasoning may be opened or the
 * grammar begun; reasoning (everything may come, until the budget closes it); white space after it; and the grammar.
 *
 * At the start a token may begin both the opening mark and the grammar (a "<"), so both are followed until one of them
 * has another byte. An end token may come where the grammar may end, and never inside of reasoning, for then there
 * would be no answer. */
#include "engine/constraint.h"
#include "base/json_scan.h"
#include "base/memory.h"

#include <string.h>

typedef enum Phase { PHASE_START, PHASE_REASONING, PHASE_BLANK, PHASE_GRAMMAR } Phase;

struct Constraint {
    const Request *request;
    const Tokenizer *tokenizer;
    int vocab;
    GrammarRun *run; /* NULL: without a grammar everything may come after reasoning */
    bool fits;       /* the grammar has taken what came at the start */
    Phase phase;
    int n_tokens, n_thoughts, n_forced; /* so far */
    Buffer seen;                        /* bytes of the answer before the grammar; of long thoughts the last */
    uint32_t *mask;                     /* [words] */
    size_t words;
};

bool constraint_is_needed(const Request *r) {
    return r->grammar || r->reasoning_close || (r->min_tokens > 0 && r->n_end_ids > 0);
}

Constraint *constraint_new(const Request *r, int vocab, const Tokenizer *t, Error *err) {
    Constraint *c = mem_zeroed(1, sizeof *c);
    if (!c) {
        error_memory(err, "a grammar");
        return NULL;
    }
    *c = (Constraint){.request = r, .tokenizer = t, .vocab = vocab, .words = ((size_t)vocab + 31) / 32, .fits = true};
    c->phase = !r->reasoning_close ? PHASE_GRAMMAR : r->reasoning_open ? PHASE_START : PHASE_REASONING;
    if (!(c->mask = mem_array(c->words, sizeof *c->mask))) error_memory(err, "a grammar");
    if (c->mask && r->grammar) c->run = grammar_run_new(r->grammar, r->tree, err);
    if (c->mask && (c->run || !r->grammar)) return c;
    constraint_free(c);
    return NULL;
}

void constraint_free(Constraint *c) {
    if (!c) return;
    grammar_run_free(c->run);
    buffer_clear(&c->seen);
    mem_free(c->mask);
    mem_free(c);
}

static void allow(Constraint *c, int32_t id) {
    if (id >= 0 && id < c->vocab) c->mask[id / 32] |= 1u << id % 32;
}

static void forbid(Constraint *c, int32_t id) {
    if (id >= 0 && id < c->vocab) c->mask[id / 32] &= ~(1u << id % 32);
}

static bool is_forcing(const Constraint *c) {
    const Request *r = c->request;
    return c->n_forced > 0 || (r->n_forced > 0 && c->n_thoughts >= r->budget);
}

static void allow_all_but_ends(Constraint *c) {
    memset(c->mask, 0xFF, c->words * sizeof *c->mask);
    for (int i = 0; i < c->request->n_end_ids; i++) forbid(c, c->request->end_ids[i]);
}

static void allow_thoughts(Constraint *c) {
    const Request *r = c->request;
    if (is_forcing(c) && c->n_forced < r->n_forced) {
        memset(c->mask, 0, c->words * sizeof *c->mask);
        allow(c, r->forced[c->n_forced]);
    } else {
        allow_all_but_ends(c);
    }
}

static bool is_blank(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && json_is_space(text[i])) i++;
    return i == n;
}

/* White space may come before the grammar begins, but only tokens of nothing else, and not for ever. */
static void allow_blanks(Constraint *c) {
    static const char *const blanks[] = {"\n\n", "\n", " "};
    if (c->phase != PHASE_BLANK) return;
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        IdList ids = {0};
        bool one = tokenizer_encode(c->tokenizer, blanks[i], strlen(blanks[i]), 0, &ids, NULL) && ids.n == 1;
        if (one) allow(c, ids.ids[0]);
        id_list_clear(&ids);
    }
}

static bool any_allowed(const Constraint *c) {
    for (size_t i = 0; i < c->words; i++)
        if (c->mask[i]) return true;
    return false;
}

static bool is_short(const Constraint *c) {
    return c->n_tokens < c->request->min_tokens;
}

static bool allow_grammar(Constraint *c, Error *err) {
    const Request *r = c->request;
    const uint32_t *tokens = grammar_run_allowed(c->run, err);
    if (!tokens) return false;
    memcpy(c->mask, tokens, c->words * sizeof *c->mask);
    bool may_end = grammar_run_can_end(c->run) && (!is_short(c) || grammar_run_must_end(c->run));
    for (int i = 0; i < r->n_end_ids; i++) {
        if (may_end)
            allow(c, r->end_ids[i]);
        else
            forbid(c, r->end_ids[i]);
    }
    return true;
}

static bool allow_start(Constraint *c, Error *err) {
    const char *rest = c->request->reasoning_open + c->seen.length;
    if (!c->fits)
        memset(c->mask, 0, c->words * sizeof *c->mask);
    else if (!allow_grammar(c, err))
        return false;
    token_tree_allow(c->request->tree, rest, strlen(rest), c->mask);
    return true;
}

bool constraint_allowed(Constraint *c, const uint32_t **allowed, Error *err) {
    const Request *r = c->request;
    *allowed = NULL;
    if (c->phase == PHASE_REASONING) {
        allow_thoughts(c);
        *allowed = c->mask;
        return true;
    }
    if (!c->run) {
        if (!is_short(c)) return true;
        allow_all_but_ends(c);
        *allowed = c->mask;
        return true;
    }
    if (c->phase == PHASE_START ? !allow_start(c, err) : !allow_grammar(c, err)) return false;
    allow_blanks(c);
    for (int i = 0; i < r->sampling.n_suppressed; i++) forbid(c, r->sampling.suppressed[i]);
    *allowed = c->mask;
    return any_allowed(c) ||
           error_set(err, "no token of this model's vocabulary can go on with the answer that the request asks for");
}

static bool see(Constraint *c, int32_t id, Error *err) {
    tokenizer_bytes(c->tokenizer, id, &c->seen);
    return !c->seen.failed || error_memory(err, "a grammar");
}

static void forget_seen(Constraint *c, size_t n) {
    c->seen.length -= n;
    memmove(c->seen.data, c->seen.data + n, c->seen.length + 1);
}

static bool begins_with(const char *text, size_t n, const char *beginning, size_t m) {
    return m <= n && memcmp(text, beginning, m) == 0;
}

/* Where a mark begins in what was seen, NULL: nowhere. */
static const char *find_mark(const Constraint *c, const char *mark) {
    size_t n = strlen(mark);
    for (size_t i = 0; i + n <= c->seen.length; i++)
        if (memcmp(c->seen.data + i, mark, n) == 0) return c->seen.data + i;
    return NULL;
}

/* The closing mark ends the reasoning; what its last token has after it is white space at most, or belongs to the
 * grammar. */
static bool look_for_close(Constraint *c, Error *err) {
    const char *close = c->request->reasoning_close, *found = find_mark(c, close);
    size_t n = strlen(close);
    if (!found) { /* only the end can still become the mark */
        if (c->seen.length > 4 * n + 64) forget_seen(c, c->seen.length - n);
        return true;
    }
    const char *rest = found + n;
    size_t left = c->seen.length - (size_t)(rest - c->seen.data);
    c->phase = PHASE_BLANK;
    if (is_blank(rest, left) || !c->run) return true;
    while (is_blank(rest, 1)) rest++, left--;
    c->phase = PHASE_GRAMMAR;
    return grammar_run_text(c->run, rest, left) ||
           error_set(err, "the model went on after its reasoning with what the request does not allow");
}

/* The grammar begins anew, for it may have taken a part of the mark. */
static bool begin_reasoning(Constraint *c, size_t n_mark, Error *err) {
    c->phase = PHASE_REASONING;
    forget_seen(c, n_mark);
    if (c->run) {
        grammar_run_free(c->run);
        if (!(c->run = grammar_run_new(c->request->grammar, c->request->tree, err))) return false;
    }
    return look_for_close(c, err);
}

/* White space may come before the mark where no grammar says what comes. */
static bool take_start(Constraint *c, int32_t id, Error *err) {
    const char *open = c->request->reasoning_open;
    size_t n_open = strlen(open), n;
    if (!see(c, id, err)) return false;
    while (!c->run && c->seen.length > 0 && is_blank(c->seen.data, 1)) forget_seen(c, 1);
    n = c->seen.length;
    c->fits = c->run && c->fits && grammar_run_token(c->run, id);
    if (begins_with(c->seen.data, n, open, n_open)) return begin_reasoning(c, n_open, err);
    if (n == 0 || begins_with(open, n_open, c->seen.data, n)) return true;
    c->phase = PHASE_GRAMMAR;
    return c->fits || !c->run || error_set(err, "a token came that the grammar does not have");
}

bool constraint_accept(Constraint *c, int32_t id, Error *err) {
    bool forced = is_forcing(c); /* it was chosen by what held before it */
    c->n_tokens++;
    if (c->phase == PHASE_REASONING) {
        c->n_thoughts++;
        if (forced) c->n_forced++;
        return see(c, id, err) && look_for_close(c, err);
    }
    if (request_ends(c->request, id)) return true;
    if (c->phase == PHASE_START) return take_start(c, id, err);
    if (!c->run) return true;
    if (c->phase == PHASE_BLANK) {
        grammar_run_token(c->run, id); /* refused: it is the one token of white space, which is not the grammar's */
        c->phase = PHASE_GRAMMAR;
        return true;
    }
    return grammar_run_token(c->run, id) || error_set(err, "a token came that the grammar does not have");
}

bool constraint_is_complete(const Constraint *c) {
    return c->phase == PHASE_GRAMMAR && c->run && grammar_run_must_end(c->run);
}
