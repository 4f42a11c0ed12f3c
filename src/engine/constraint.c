/* Three phases: waiting for the opening (everything may come, until the budget forces it), white space after it, and
 * the grammar. An end token may come where the grammar may end, and never while the opening is awaited, for then there
 * would be no answer. */
#include "engine/constraint.h"
#include "base/memory.h"

#include <string.h>

typedef enum Phase { PHASE_WAITING, PHASE_BLANK, PHASE_GRAMMAR } Phase;

struct Constraint {
    const Request *request;
    const Tokenizer *tokenizer;
    int vocab;
    GrammarRun *run; /* NULL: without a grammar everything may come after the opening */
    Phase phase;
    int n_tokens, n_forced; /* so far */
    Buffer seen;            /* bytes of the answer while the opening is awaited */
    uint32_t *mask;         /* [words] */
    size_t words;
};

Constraint *constraint_new(const Request *r, int vocab, const Tokenizer *t, Error *err) {
    Constraint *c = mem_zeroed(1, sizeof *c);
    if (!c) {
        error_memory(err, "a grammar");
        return NULL;
    }
    *c = (Constraint){.request = r, .tokenizer = t, .vocab = vocab, .words = ((size_t)vocab + 31) / 32};
    c->phase = r->opening ? PHASE_WAITING : PHASE_GRAMMAR;
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
    return c->n_forced > 0 || (r->n_forced > 0 && c->n_tokens >= r->budget);
}

static void allow_while_waiting(Constraint *c) {
    const Request *r = c->request;
    bool forced = is_forcing(c) && c->n_forced < r->n_forced;
    memset(c->mask, forced ? 0 : 0xFF, c->words * sizeof *c->mask);
    if (forced) allow(c, r->forced[c->n_forced]);
    for (int i = 0; i < r->n_end_ids && !forced; i++) forbid(c, r->end_ids[i]);
}

static bool is_blank(const char *text, size_t n) {
    return strspn(text, " \t\r\n") >= n;
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

bool constraint_allowed(Constraint *c, const uint32_t **allowed, Error *err) {
    const Request *r = c->request;
    *allowed = NULL;
    if (c->phase == PHASE_WAITING) {
        allow_while_waiting(c);
        *allowed = c->mask;
        return true;
    }
    if (!c->run) return true;
    const uint32_t *tokens = grammar_run_allowed(c->run, err);
    if (!tokens) return false;
    memcpy(c->mask, tokens, c->words * sizeof *c->mask);
    for (int i = 0; i < r->n_end_ids; i++) {
        if (grammar_run_can_end(c->run))
            allow(c, r->end_ids[i]);
        else
            forbid(c, r->end_ids[i]);
    }
    allow_blanks(c);
    for (int i = 0; i < r->sampling.n_suppressed; i++) forbid(c, r->sampling.suppressed[i]);
    *allowed = c->mask;
    return any_allowed(c) ||
           error_set(err, "no token of this model's vocabulary can go on with the answer that the request asks for");
}

/* The opening ends the waiting; what its last token has after it is white space at most, or belongs to the grammar. */
static bool look_for_opening(Constraint *c, int32_t id, Error *err) {
    const char *opening = c->request->opening;
    size_t n = strlen(opening);
    tokenizer_bytes(c->tokenizer, id, &c->seen);
    buffer_byte(&c->seen, '\0');
    if (c->seen.failed) return error_memory(err, "a grammar");
    c->seen.length--;
    const char *found = strstr(c->seen.data, opening);
    if (!found) {
        if (c->seen.length > 4 * n + 64) { /* only its end can still become the opening */
            memmove(c->seen.data, c->seen.data + c->seen.length - n, n);
            c->seen.length = n;
        }
        return true;
    }
    const char *rest = found + n;
    size_t left = strlen(rest);
    c->phase = PHASE_BLANK;
    if (is_blank(rest, left) || !c->run) return true;
    size_t blank = strspn(rest, " \t\r\n");
    c->phase = PHASE_GRAMMAR;
    return grammar_run_text(c->run, rest + blank, left - blank) ||
           error_set(err, "the model went on after its reasoning with what the request does not allow");
}

bool constraint_accept(Constraint *c, int32_t id, Error *err) {
    bool forced = is_forcing(c); /* it was chosen by what held before it */
    c->n_tokens++;
    if (c->phase == PHASE_WAITING) {
        if (forced) c->n_forced++;
        return look_for_opening(c, id, err);
    }
    if (!c->run || request_ends(c->request, id)) return true;
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
