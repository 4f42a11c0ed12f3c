/* A run is a pushdown automaton made deterministic as it goes. A stack is a place in the grammar and the stack to go on
 * with when its sequence ends; a state is the set of stacks that the bytes so far allow. Stacks and states are numbered
 * as they are met, and where a state goes by a byte is worked out once, so walking the vocabulary's tree costs a look
 * into a table for each node, and bytes that may not come cut off their subtrees. The mask of a state is kept, too: a
 * text inside of quotes stays in one state.
 *
 * When too much was numbered, everything but the present state is forgotten and met again as needed.
 *
 * All sequences wait while a mask is made, so the work of one is bounded: every place in the grammar is met once for a
 * set, however many ways lead there, and a grammar that needs more than the bounds is an error of its request. */
#include "base/memory.h"
#include "text/grammar_build.h"
#include "text/token_tree.h"

#include <string.h>

enum {
    NO_STACK = 0,
    DEAD = 0, /* the state that nothing leads out of */
    UNKNOWN = UINT32_MAX,
    MOST_STATES = 1 << 16,
    MOST_TABLES = 1 << 13, /* of 1 KB */
    MOST_STACKS = 1 << 20,
    MOST_MASK_BYTES = 16 << 20,
    MOST_PLACES = 1 << 15, /* met for one set */
    MOST_WORK = 1 << 19,   /* for one mask, in places met; WORK_* are the rest as so many places */
    WORK_STATE = 8,
    WORK_TABLE = 8,
    SCANNED_PER_WORK = 4, /* stacks looked at for a byte */
    FEW = 6,
    STACK_HEADS = 1 << 18,
    STATE_HEADS = 1 << 16,
};

typedef struct Stack {
    uint32_t item;   /* an item of the grammar; END without a parent: everything was taken */
    uint32_t parent; /* NO_STACK: the grammar's end */
    uint32_t next;   /* in its chain of the hash table */
    uint32_t met;    /* for the set of this number */
} Stack;

typedef struct RunState {
    uint32_t first, n; /* lists.items[first .. first + n): its stacks */
    uint32_t hash_next;
    bool can_end;
    uint8_t n_few, bytes[FEW]; /* where few of its bytes lead, as long as no more are worked out */
    uint32_t to[FEW];
    uint32_t *go;   /* [256] where its bytes lead; NULL: see `to` */
    uint32_t *mask; /* NULL: not made */
    ByteSet takes;
} RunState;

typedef struct IndexList {
    uint32_t *items;
    size_t n, capacity;
} IndexList;

struct GrammarRun {
    const Grammar *grammar;
    const TokenTree *tree;
    Stack *stacks; /* number 0 is none */
    size_t n_stacks, stack_capacity;
    RunState *states; /* number 0 is dead */
    size_t n_states, state_capacity;
    IndexList lists;                     /* the stacks of all states */
    IndexList set, todo;                 /* the state being made; places to go on from */
    uint32_t set_number;                 /* of the set being made */
    uint32_t *stack_heads, *state_heads; /* hash tables, 0: empty */
    uint32_t *walk;                      /* [deepest + 1] states on the way down the tree */
    size_t mask_bytes, n_tables, n_met, work;
    uint32_t now;
    bool failed, too_much; /* the reason of having failed: a bound, else memory */
};

static uint64_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

static bool index_push(GrammarRun *r, IndexList *l, uint32_t value) {
    uint32_t *items = mem_room(l->items, l->n, &l->capacity, sizeof *items);
    if (!items) {
        r->failed = true;
        return false;
    }
    l->items = items;
    items[l->n++] = value;
    return true;
}

static void stop_for_bound(GrammarRun *r) {
    r->failed = r->too_much = true;
}

static bool fail(const GrammarRun *r, Error *err) {
    if (!r || !r->too_much) return error_memory(err, "a grammar's run");
    return error_set(err,
                     "the grammar (a pattern, schema or list of choices) is too ambiguous: too many ways through it "
                     "have to be followed at once");
}

/* ---- stacks ---- */

static uint32_t stack_number(GrammarRun *r, uint32_t item, uint32_t parent) {
    uint32_t *head = &r->stack_heads[mix((uint64_t)item << 32 | parent) % STACK_HEADS];
    for (uint32_t s = *head; s; s = r->stacks[s].next)
        if (r->stacks[s].item == item && r->stacks[s].parent == parent) return s;
    if (r->n_stacks >= MOST_STACKS) stop_for_bound(r);
    Stack *stacks = r->failed ? NULL : mem_room(r->stacks, r->n_stacks, &r->stack_capacity, sizeof *stacks);
    if (!stacks) {
        r->failed = true;
        return NO_STACK;
    }
    r->stacks = stacks;
    stacks[r->n_stacks] = (Stack){item, parent, *head, 0};
    *head = (uint32_t)r->n_stacks;
    return (uint32_t)r->n_stacks++;
}

static void set_begin(GrammarRun *r) {
    r->set.n = r->todo.n = r->n_met = 0;
    r->set_number++;
}

/* Whether it is the first time for this set. */
static bool meet(GrammarRun *r, uint32_t stack) {
    if (r->failed || r->stacks[stack].met == r->set_number) return false;
    r->stacks[stack].met = r->set_number;
    r->work++;
    if (++r->n_met > MOST_PLACES || r->work > MOST_WORK) stop_for_bound(r);
    return !r->failed;
}

static void reach(GrammarRun *r, uint32_t item, uint32_t parent) {
    while (r->grammar->items[item].op == GRAMMAR_END && parent != NO_STACK) {
        item = r->stacks[parent].item;
        parent = r->stacks[parent].parent;
    }
    uint32_t stack = stack_number(r, item, parent);
    if (meet(r, stack)) index_push(r, &r->todo, stack);
}

/* Adds to the set all stacks that stand before bytes, from place `item` on. */
static void expand(GrammarRun *r, uint32_t item, uint32_t parent) {
    const Grammar *g = r->grammar;
    reach(r, item, parent);
    while (r->todo.n > 0 && !r->failed) {
        uint32_t number = r->todo.items[--r->todo.n];
        Stack at = r->stacks[number];
        if (g->items[at.item].op != GRAMMAR_RULE) {
            index_push(r, &r->set, number);
            continue;
        }
        const GrammarRule *rule = &g->rules[g->items[at.item].value];
        /* A sequence's last rule needs no way back, so what repeats does not grow. */
        bool last = g->items[at.item + 1].op == GRAMMAR_END;
        uint32_t back = last ? at.parent : stack_number(r, at.item + 1, at.parent);
        for (uint32_t a = 0; a < rule->n && !r->failed; a++) reach(r, rule->starts[a], back);
    }
}

/* ---- states ---- */

/* Of a set in any order. */
static uint32_t set_hash(const GrammarRun *r) {
    uint64_t hash = r->set.n;
    for (size_t i = 0; i < r->set.n; i++) hash += mix((uint64_t)r->set.items[i] + 1);
    return mix(hash) % STATE_HEADS;
}

/* Every stack that was met and stands before bytes is in the set. */
static bool state_is_set(const GrammarRun *r, const RunState *s) {
    bool same = s->n == r->set.n;
    for (uint32_t i = 0; same && i < s->n; i++) same = r->stacks[r->lists.items[s->first + i]].met == r->set_number;
    return same;
}

static void add_stack(GrammarRun *r, RunState *s, uint32_t stack) {
    GrammarItem item = r->grammar->items[r->stacks[stack].item];
    index_push(r, &r->lists, stack);
    if (item.op == GRAMMAR_END) s->can_end = true;
    for (int w = 0; item.op == GRAMMAR_BYTES && w < 8; w++) s->takes.bits[w] |= r->grammar->sets[item.value].bits[w];
}

static uint32_t state_new_number(GrammarRun *r, uint32_t *head) {
    RunState *states = mem_room(r->states, r->n_states, &r->state_capacity, sizeof *states);
    if (!states) {
        r->failed = true;
        return DEAD;
    }
    r->states = states;
    RunState *s = &states[r->n_states];
    *s = (RunState){.first = (uint32_t)r->lists.n, .n = (uint32_t)r->set.n, .hash_next = *head};
    *head = (uint32_t)r->n_states++;
    for (size_t i = 0; i < r->set.n && !r->failed; i++) add_stack(r, s, r->set.items[i]);
    r->work += WORK_STATE;
    return *head;
}

/* The state of the gathered set. */
static uint32_t state_number(GrammarRun *r) {
    if (r->failed || r->set.n == 0) return DEAD;
    uint32_t *head = &r->state_heads[set_hash(r)];
    for (uint32_t s = *head; s; s = r->states[s].hash_next)
        if (state_is_set(r, &r->states[s])) return s;
    return state_new_number(r, head);
}

static bool has_byte(const ByteSet *set, unsigned byte) {
    return set->bits[byte / 32] >> byte % 32 & 1;
}

static void remember(GrammarRun *r, RunState *s, unsigned byte, uint32_t to) {
    if (!s->go && s->n_few < FEW) {
        s->bytes[s->n_few] = (uint8_t)byte;
        s->to[s->n_few++] = to;
        return;
    }
    if (!s->go) {
        if (!(s->go = mem_array(256, sizeof *s->go))) {
            r->failed = true;
            return;
        }
        memset(s->go, 0xFF, 256 * sizeof *s->go);
        for (int i = 0; i < FEW; i++) s->go[s->bytes[i]] = s->to[i];
        r->n_tables++;
        r->work += WORK_TABLE;
    }
    s->go[byte] = to;
}

static uint32_t remembered(const RunState *s, unsigned byte) {
    if (s->go) return s->go[byte];
    for (int i = 0; i < s->n_few; i++)
        if (s->bytes[i] == byte) return s->to[i];
    return UNKNOWN;
}

/* Narrows `alike` to the bytes that are in the set just if the byte is. Whether the byte is. */
static bool narrow(ByteSet *alike, const ByteSet *set, unsigned byte) {
    bool has = has_byte(set, byte);
    for (int w = 0; w < 8; w++) alike->bits[w] &= has ? set->bits[w] : ~set->bits[w];
    return has;
}

static void remember_alike(GrammarRun *r, RunState *s, const ByteSet *alike, uint32_t to) {
    for (unsigned w = 0; w < 8; w++)
        for (uint32_t bits = alike->bits[w]; bits; bits &= bits - 1)
            remember(r, s, 32 * w + (unsigned)__builtin_ctz(bits), to);
}

/* For all bytes at once that go the same way, as letters mostly do. */
static uint32_t work_out(GrammarRun *r, uint32_t from, unsigned byte) {
    const Grammar *g = r->grammar;
    uint32_t first = r->states[from].first, n = r->states[from].n;
    ByteSet alike = r->states[from].takes;
    set_begin(r);
    r->work += n / SCANNED_PER_WORK;
    if (r->work > MOST_WORK) stop_for_bound(r);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        Stack stack = r->stacks[r->lists.items[first + i]];
        GrammarItem item = g->items[stack.item];
        bool bytes = item.op == GRAMMAR_BYTES;
        if (bytes && narrow(&alike, &g->sets[item.value], byte)) expand(r, stack.item + 1, stack.parent);
    }
    uint32_t to = state_number(r);
    if (!r->failed) remember_alike(r, &r->states[from], &alike, to);
    return r->failed ? DEAD : to;
}

static inline uint32_t go(GrammarRun *r, uint32_t from, unsigned byte) {
    if (from == DEAD || !has_byte(&r->states[from].takes, byte)) return DEAD;
    uint32_t to = remembered(&r->states[from], byte);
    return to != UNKNOWN ? to : work_out(r, from, byte);
}

/* ---- forgetting ---- */

static void drop_states(GrammarRun *r) {
    for (size_t i = 1; i < r->n_states; i++) {
        mem_free(r->states[i].mask);
        mem_free(r->states[i].go);
    }
    r->n_states = 1;
    r->lists.n = 0;
    r->mask_bytes = r->n_tables = 0;
    memset(r->state_heads, 0, STATE_HEADS * sizeof *r->state_heads);
}

/* The number that a stack gets in the new list, after its parents; `renamed` has those that were kept before. */
static uint32_t keep_stack(GrammarRun *r, const Stack *old, uint32_t number, uint32_t *renamed, IndexList *chain) {
    chain->n = 0;
    for (; number != NO_STACK && !renamed[number]; number = old[number].parent)
        if (!index_push(r, chain, number)) return NO_STACK;
    uint32_t parent = renamed[number];
    while (chain->n > 0 && !r->failed) {
        number = chain->items[--chain->n];
        renamed[number] = parent = stack_number(r, old[number].item, parent);
    }
    return parent;
}

static void keep_state(GrammarRun *r, const Stack *old, uint32_t *renamed, const IndexList *kept) {
    IndexList chain = {0};
    set_begin(r);
    for (size_t i = 0; i < kept->n && !r->failed; i++) {
        uint32_t stack = keep_stack(r, old, kept->items[i], renamed, &chain);
        if (meet(r, stack)) index_push(r, &r->set, stack);
    }
    r->now = state_number(r);
    mem_free(chain.items);
}

/* Only the present state stays. */
static void forget(GrammarRun *r) {
    IndexList kept = {0};
    const RunState *now = &r->states[r->now];
    for (uint32_t i = 0; i < now->n; i++) index_push(r, &kept, r->lists.items[now->first + i]);
    Stack *old = r->stacks;
    uint32_t *renamed = mem_zeroed(r->n_stacks, sizeof *renamed);
    drop_states(r);
    memset(r->stack_heads, 0, STACK_HEADS * sizeof *r->stack_heads);
    r->stacks = NULL;
    r->n_stacks = 1;
    r->stack_capacity = 0;
    if (!(r->stacks = mem_room(NULL, 0, &r->stack_capacity, sizeof *r->stacks)) || !renamed) r->failed = true;
    r->now = DEAD;
    if (!r->failed) keep_state(r, old, renamed, &kept);
    mem_free(old);
    mem_free(renamed);
    mem_free(kept.items);
}

static void forget_when_full(GrammarRun *r) {
    bool full = r->n_states > MOST_STATES || r->n_tables > MOST_TABLES || r->n_stacks > MOST_STACKS / 2 ||
                r->mask_bytes > MOST_MASK_BYTES;
    if (full && r->now != DEAD) forget(r);
}

/* ---- the run ---- */

GrammarRun *grammar_run_new(const Grammar *g, const TokenTree *t, Error *err) {
    GrammarRun *r = mem_zeroed(1, sizeof *r);
    if (!r) goto fail;
    *r = (GrammarRun){.grammar = grammar_hold(g), .tree = t, .n_stacks = 1, .n_states = 1};
    r->stacks = mem_room(NULL, 0, &r->stack_capacity, sizeof *r->stacks);
    r->states = mem_room(NULL, 0, &r->state_capacity, sizeof *r->states);
    r->stack_heads = mem_zeroed(STACK_HEADS, sizeof *r->stack_heads);
    r->state_heads = mem_zeroed(STATE_HEADS, sizeof *r->state_heads);
    r->walk = mem_array(t ? (size_t)t->deepest + 1 : 1, sizeof *r->walk);
    if (!r->stacks || !r->states || !r->stack_heads || !r->state_heads || !r->walk) goto fail;
    r->states[DEAD] = (RunState){0};
    const GrammarRule *root = &g->rules[g->root];
    set_begin(r);
    for (uint32_t a = 0; a < root->n; a++) expand(r, root->starts[a], NO_STACK);
    r->now = state_number(r);
    if (r->failed) goto fail;
    return r;
fail:
    fail(r, err);
    grammar_run_free(r);
    return NULL;
}

bool grammar_can_start(const Grammar *g, Error *err) {
    GrammarRun *r = grammar_run_new(g, NULL, err);
    grammar_run_free(r);
    return r != NULL;
}

void grammar_run_free(GrammarRun *r) {
    if (!r) return;
    if (r->states && r->state_heads) drop_states(r);
    mem_free(r->states);
    mem_free(r->stacks);
    mem_free(r->lists.items);
    mem_free(r->set.items);
    mem_free(r->todo.items);
    mem_free(r->stack_heads);
    mem_free(r->state_heads);
    mem_free(r->walk);
    grammar_free(r->grammar);
    mem_free(r);
}

static void walk_tree(GrammarRun *r, uint32_t *mask) {
    const TokenTree *t = r->tree;
    r->walk[0] = r->now;
    for (size_t i = 0; i < t->n && !r->failed;) {
        const TokenNode *node = &t->nodes[i];
        uint32_t to = go(r, r->walk[node->depth - 1], node->byte);
        if (to == DEAD) {
            i = node->skip;
            continue;
        }
        r->walk[node->depth] = to;
        for (int32_t id = node->first; id >= 0; id = t->same[id]) mask[id / 32] |= 1u << id % 32;
        i++;
    }
}

const uint32_t *grammar_run_allowed(GrammarRun *r, Error *err) {
    size_t words = ((size_t)r->tree->vocab + 31) / 32;
    r->work = 0;
    forget_when_full(r);
    uint32_t *mask = r->states[r->now].mask;
    if (mask) return mask;
    mask = r->failed || r->now == DEAD ? NULL : mem_zeroed(words, sizeof *mask);
    if (mask) walk_tree(r, mask);
    if (!mask || r->failed) {
        mem_free(mask);
        fail(r, err);
        return NULL;
    }
    r->states[r->now].mask = mask;
    r->mask_bytes += words * sizeof *mask;
    return mask;
}

bool grammar_can_begin(const Grammar *g, const TokenTree *t, Error *err) {
    GrammarRun *r = grammar_run_new(g, t, err);
    bool ok = r && grammar_run_allowed(r, err);
    grammar_run_free(r);
    return ok;
}

bool grammar_run_can_end(const GrammarRun *r) {
    return r->states[r->now].can_end;
}

bool grammar_run_must_end(const GrammarRun *r) {
    const RunState *s = &r->states[r->now];
    return s->can_end && set_is_empty(&s->takes);
}

bool grammar_run_text(GrammarRun *r, const char *text, size_t n) {
    uint32_t state = r->now;
    r->work = 0;
    for (size_t i = 0; i < n && state != DEAD && !r->failed; i++) state = go(r, state, (unsigned char)text[i]);
    if (state == DEAD || r->failed) return false;
    r->now = state;
    return true;
}

bool grammar_run_token(GrammarRun *r, int32_t id) {
    if (id < 0 || id >= r->tree->vocab) return false;
    uint32_t start = r->tree->start[id], end = r->tree->start[id + 1];
    return end > start && grammar_run_text(r, r->tree->bytes + start, end - start);
}
