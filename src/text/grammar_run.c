/* A run is a pushdown automaton made deterministic as it goes. A stack is a place in the grammar and the stack to go on
 * with when its sequence ends; a state is the set of stacks that the bytes so far allow. Stacks and states are numbered
 * as they are met, and where a state goes by a byte is worked out once, so walking the vocabulary's tree costs a look
 * into a table for each node, and bytes that may not come cut off their subtrees. The mask of a state is kept, too: a
 * text inside of quotes stays in one state.
 *
 * When too much was numbered, everything but the present state is forgotten and met again as needed. */
#include "base/memory.h"
#include "text/grammar_build.h"
#include "text/token_tree.h"

#include <string.h>

enum {
    NO_STACK = 0,
    DEAD = 0, /* the state that nothing leads out of */
    UNKNOWN = UINT32_MAX,
    MOST_STATES = 1 << 13, /* each has a table of 1 KB */
    MOST_STACKS = 1 << 20,
    MOST_MASK_BYTES = 16 << 20,
    MOST_DEPTH = 4096, /* of sequences within one another */
};

typedef struct Stack {
    uint32_t item;   /* an item of bytes, or END: everything was taken */
    uint32_t parent; /* NO_STACK: the grammar's end */
    uint32_t next;   /* in its chain of the hash table */
} Stack;

typedef struct RunState {
    uint32_t first, n; /* stacks[first .. first + n) of the state list, ascending */
    uint32_t hash_next;
    bool can_end;
    uint32_t *mask; /* NULL: not made */
    uint32_t go[256];
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
    RunState **states; /* number 0 is dead */
    size_t n_states, state_capacity;
    IndexList lists;                     /* the stacks of all states */
    IndexList set;                       /* the state being made */
    uint32_t *stack_heads, *state_heads; /* hash tables: [HEADS], 0: empty */
    uint32_t *walk;                      /* [deepest + 1] states on the way down the tree */
    size_t mask_bytes;
    uint32_t now;
    bool failed;
};

enum { HEADS = 1 << 14 };

static uint32_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(x >> 40) % HEADS;
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

/* ---- stacks ---- */

static uint32_t stack_number(GrammarRun *r, uint32_t item, uint32_t parent) {
    uint32_t *head = &r->stack_heads[mix((uint64_t)item << 32 | parent)];
    for (uint32_t s = *head; s; s = r->stacks[s].next)
        if (r->stacks[s].item == item && r->stacks[s].parent == parent) return s;
    Stack *stacks =
        r->n_stacks < MOST_STACKS ? mem_room(r->stacks, r->n_stacks, &r->stack_capacity, sizeof *stacks) : NULL;
    if (!stacks) {
        r->failed = true;
        return NO_STACK;
    }
    r->stacks = stacks;
    stacks[r->n_stacks] = (Stack){item, parent, *head};
    *head = (uint32_t)r->n_stacks;
    return (uint32_t)r->n_stacks++;
}

static void set_add(GrammarRun *r, uint32_t stack) {
    for (size_t i = 0; i < r->set.n; i++)
        if (r->set.items[i] == stack) return;
    index_push(r, &r->set, stack);
}

/* Adds to the set all stacks that stand before bytes, from place `item` on. */
static void expand(GrammarRun *r, uint32_t item, uint32_t parent, int depth) {
    const Grammar *g = r->grammar;
    while (!r->failed && g->items[item].op == GRAMMAR_END && parent != NO_STACK) {
        item = r->stacks[parent].item;
        parent = r->stacks[parent].parent;
    }
    if (depth > MOST_DEPTH) r->failed = true;
    if (r->failed) return;
    if (g->items[item].op != GRAMMAR_RULE) {
        set_add(r, stack_number(r, item, parent));
        return;
    }
    const GrammarRule *rule = &g->rules[g->items[item].value];
    /* A sequence's last rule needs no way back, so what repeats does not grow. */
    uint32_t back = g->items[item + 1].op == GRAMMAR_END ? parent : stack_number(r, item + 1, parent);
    for (uint32_t a = 0; a < rule->n && !r->failed; a++) expand(r, rule->starts[a], back, depth + 1);
}

/* ---- states ---- */

static void sort_set(GrammarRun *r) {
    for (size_t i = 1; i < r->set.n; i++) { /* a few */
        uint32_t value = r->set.items[i];
        size_t k = i;
        for (; k > 0 && r->set.items[k - 1] > value; k--) r->set.items[k] = r->set.items[k - 1];
        r->set.items[k] = value;
    }
}

static uint32_t set_hash(const GrammarRun *r) {
    uint64_t hash = r->set.n;
    for (size_t i = 0; i < r->set.n; i++) hash = (hash ^ r->set.items[i]) * 0x100000001B3u;
    return mix(hash);
}

static bool state_is_set(const GrammarRun *r, const RunState *s) {
    return s->n == r->set.n && memcmp(r->lists.items + s->first, r->set.items, s->n * sizeof(uint32_t)) == 0;
}

static uint32_t state_new_number(GrammarRun *r, uint32_t *head) {
    RunState **states = mem_room(r->states, r->n_states, &r->state_capacity, sizeof *states);
    if (states) r->states = states;
    RunState *s = states ? mem_array(1, sizeof *s) : NULL;
    if (!s) {
        r->failed = true;
        return DEAD;
    }
    *s = (RunState){.first = (uint32_t)r->lists.n, .n = (uint32_t)r->set.n, .hash_next = *head};
    memset(s->go, 0xFF, sizeof s->go);
    r->states[r->n_states] = s;
    *head = (uint32_t)r->n_states;
    for (size_t i = 0; i < r->set.n; i++) {
        const Stack *stack = &r->stacks[r->set.items[i]];
        if (r->grammar->items[stack->item].op == GRAMMAR_END) s->can_end = true;
        index_push(r, &r->lists, r->set.items[i]);
    }
    return (uint32_t)r->n_states++;
}

/* The state of the gathered set. */
static uint32_t state_number(GrammarRun *r) {
    if (r->failed || r->set.n == 0) return DEAD;
    sort_set(r);
    uint32_t *head = &r->state_heads[set_hash(r)];
    for (uint32_t s = *head; s; s = r->states[s]->hash_next)
        if (state_is_set(r, r->states[s])) return s;
    return state_new_number(r, head);
}

static bool takes(const Grammar *g, uint32_t item, unsigned byte) {
    if (g->items[item].op != GRAMMAR_BYTES) return false;
    return g->sets[g->items[item].value].bits[byte / 32] >> byte % 32 & 1;
}

static uint32_t work_out(GrammarRun *r, uint32_t from, unsigned byte) {
    r->set.n = 0;
    for (uint32_t i = 0; i < r->states[from]->n && !r->failed; i++) {
        Stack stack = r->stacks[r->lists.items[r->states[from]->first + i]];
        if (takes(r->grammar, stack.item, byte)) expand(r, stack.item + 1, stack.parent, 0);
    }
    uint32_t to = state_number(r);
    if (!r->failed) r->states[from]->go[byte] = to;
    return to;
}

static inline uint32_t go(GrammarRun *r, uint32_t from, unsigned byte) {
    if (from == DEAD) return DEAD;
    uint32_t to = r->states[from]->go[byte];
    return to != UNKNOWN ? to : work_out(r, from, byte);
}

/* ---- forgetting ---- */

static void drop_states(GrammarRun *r) {
    for (size_t i = 1; i < r->n_states; i++) {
        mem_free(r->states[i]->mask);
        mem_free(r->states[i]);
    }
    r->n_states = 1;
    r->lists.n = 0;
    r->mask_bytes = 0;
    memset(r->state_heads, 0, HEADS * sizeof *r->state_heads);
}

/* The number that a stack gets in the new list, after its parents. */
static uint32_t keep_stack(GrammarRun *r, const Stack *old, uint32_t number, IndexList *chain) {
    uint32_t parent = NO_STACK;
    chain->n = 0;
    for (; number != NO_STACK; number = old[number].parent)
        if (!index_push(r, chain, number)) return NO_STACK;
    while (chain->n > 0 && !r->failed) parent = stack_number(r, old[chain->items[--chain->n]].item, parent);
    return parent;
}

/* Only the present state stays. */
static void forget(GrammarRun *r) {
    IndexList kept = {0}, chain = {0};
    const RunState *now = r->states[r->now];
    for (uint32_t i = 0; i < now->n; i++) index_push(r, &kept, r->lists.items[now->first + i]);
    Stack *old = r->stacks;
    drop_states(r);
    memset(r->stack_heads, 0, HEADS * sizeof *r->stack_heads);
    r->stacks = NULL;
    r->n_stacks = 1;
    r->stack_capacity = 0;
    if (!(r->stacks = mem_room(NULL, 0, &r->stack_capacity, sizeof *r->stacks))) r->failed = true;
    r->set.n = 0;
    for (size_t i = 0; i < kept.n && !r->failed; i++) set_add(r, keep_stack(r, old, kept.items[i], &chain));
    r->now = state_number(r);
    mem_free(old);
    mem_free(kept.items);
    mem_free(chain.items);
}

static void forget_when_full(GrammarRun *r) {
    bool full = r->n_states > MOST_STATES || r->n_stacks > MOST_STACKS / 2 || r->mask_bytes > MOST_MASK_BYTES;
    if (full && r->now != DEAD) forget(r);
}

/* ---- the run ---- */

GrammarRun *grammar_run_new(const Grammar *g, const TokenTree *t, Error *err) {
    GrammarRun *r = mem_zeroed(1, sizeof *r);
    if (!r) goto fail;
    *r = (GrammarRun){.grammar = grammar_hold(g), .tree = t, .n_stacks = 1, .n_states = 1};
    r->stacks = mem_room(NULL, 0, &r->stack_capacity, sizeof *r->stacks);
    r->states = mem_room(NULL, 0, &r->state_capacity, sizeof *r->states);
    r->stack_heads = mem_zeroed(HEADS, sizeof *r->stack_heads);
    r->state_heads = mem_zeroed(HEADS, sizeof *r->state_heads);
    r->walk = mem_array((size_t)t->deepest + 1, sizeof *r->walk);
    if (!r->stacks || !r->states || !r->stack_heads || !r->state_heads || !r->walk) goto fail;
    r->states[DEAD] = NULL;
    const GrammarRule *root = &g->rules[g->root];
    for (uint32_t a = 0; a < root->n; a++) expand(r, root->starts[a], NO_STACK, 0);
    r->now = state_number(r);
    if (r->failed) goto fail;
    return r;
fail:
    grammar_run_free(r);
    error_memory(err, "a grammar's run");
    return NULL;
}

void grammar_run_free(GrammarRun *r) {
    if (!r) return;
    if (r->states && r->state_heads) drop_states(r);
    mem_free(r->states);
    mem_free(r->stacks);
    mem_free(r->lists.items);
    mem_free(r->set.items);
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
    forget_when_full(r);
    uint32_t *mask = r->now != DEAD && r->states[r->now]->mask ? r->states[r->now]->mask : NULL;
    if (mask) return mask;
    mask = r->failed || r->now == DEAD ? NULL : mem_zeroed(words, sizeof *mask);
    if (mask) walk_tree(r, mask);
    if (!mask || r->failed) {
        mem_free(mask);
        error_memory(err, "a grammar's run");
        return NULL;
    }
    r->states[r->now]->mask = mask;
    r->mask_bytes += words * sizeof *mask;
    return mask;
}

bool grammar_run_can_end(const GrammarRun *r) {
    return r->now != DEAD && r->states[r->now]->can_end;
}

bool grammar_run_must_end(const GrammarRun *r) {
    const RunState *s = r->now != DEAD ? r->states[r->now] : NULL;
    return s && s->n == 1 && s->can_end;
}

bool grammar_run_text(GrammarRun *r, const char *text, size_t n) {
    uint32_t state = r->now;
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
