/* A list of entries, looked at from end to end: comparing ids is nothing beside the rows that a hit saves, and entries
 * that do not begin alike part at their first ids. The list is in order of last use, the latest first, so what memory
 * asks for goes from its end.
 *
 * Entries are never written: a hit is a clone, which shares pages until it writes. */
#include "engine/prefix.h"
#include "base/memory.h"

#include <string.h>

struct PrefixCache {
    const StateShape *shape;
    StateAccount account;
    size_t budget;
    Prefix *entries; /* latest use first */
    size_t n, capacity;
    bool whole;
    PrefixCounts counts;
};

void prefix_clear(Prefix *p) {
    state_free(p->state);
    id_list_clear(&p->ids);
    *p = (Prefix){0};
}

void prefix_restart(Prefix *p, int side) {
    state_restart(p->state, side);
    p->ids.n = 0;
}

static bool shape_is_whole(const StateShape *shape) {
    for (int i = 0; i < shape->n_layers; i++) {
        const LayerShape *l = &shape->layers[i];
        if (l->window > 0 || l->chunk > 0 || l->recurrent > 0) return false;
    }
    return true;
}

PrefixCache *prefix_cache_new(const StateShape *shape, size_t budget, Error *err) {
    PrefixCache *c = mem_zeroed(1, sizeof *c);
    if (!c) {
        error_memory(err, "the prefix cache");
        return NULL;
    }
    c->shape = shape;
    c->budget = budget;
    c->whole = shape_is_whole(shape);
    return c;
}

void prefix_cache_free(PrefixCache *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n; i++) prefix_clear(&c->entries[i]);
    mem_free(c->entries);
    mem_free(c);
}

/* ---- finding ---- */

static int common_length(const IdList *entry, const int32_t *ids, int n) {
    int common = 0;
    while (common < n && (size_t)common < entry->n && entry->ids[common] == ids[common]) common++;
    return common;
}

/* How many of ids [n] an entry gives; fewer than n, for the last token must be run. */
static int entry_serves(const Prefix *e, int side, const int32_t *ids, int n) {
    if (state_side(e->state) != side) return 0;
    int common = common_length(&e->ids, ids, n - 1);
    return common > 0 && state_can_cut(e->state, common) ? common : 0;
}

static int find(const PrefixCache *c, int side, const int32_t *ids, int n, size_t *entry) {
    int best = 0;
    for (size_t i = 0; i < c->n; i++) {
        int common = entry_serves(&c->entries[i], side, ids, n);
        if (common <= best) continue;
        best = common;
        *entry = i;
    }
    return best;
}

int prefix_cache_find(const PrefixCache *c, int side, const int32_t *ids, int n) {
    size_t entry;
    return find(c, side, ids, n, &entry);
}

static void move_to_front(PrefixCache *c, size_t i) {
    Prefix used = c->entries[i];
    memmove(c->entries + 1, c->entries, i * sizeof *c->entries);
    c->entries[0] = used;
}

/* A prefix of its own with the first n ids of another. */
static bool prefix_clone(const Prefix *from, int n, Prefix *out, Error *err) {
    Prefix p = {.state = state_clone(from->state, n, err)};
    if (!p.state) return false;
    if (!id_list_append(&p.ids, from->ids.ids, (size_t)n)) {
        prefix_clear(&p);
        return error_memory(err, "a prefix");
    }
    *out = p;
    return true;
}

static bool new_prefix(PrefixCache *c, int side, Prefix *out, Error *err) {
    State *state = state_new(c->shape, err);
    if (!state) return false;
    state_charge(state, &c->account);
    state_restart(state, side);
    *out = (Prefix){.state = state};
    return true;
}

bool prefix_cache_fresh(PrefixCache *c, int side, Prefix *out, Error *err) {
    c->counts.bypassed++;
    return new_prefix(c, side, out, err);
}

static void count_miss(PrefixCache *c, int side, const int32_t *ids, int n) {
    bool cut = false, other = false;
    for (size_t i = 0; i < c->n; i++) {
        const Prefix *e = &c->entries[i];
        if (common_length(&e->ids, ids, n - 1) == 0) continue;
        cut = cut || state_side(e->state) == side;
        other = other || state_side(e->state) != side;
    }
    c->counts.misses++;
    c->counts.misses_cut += cut;
    c->counts.misses_side += !cut && other;
}

bool prefix_cache_take(PrefixCache *c, int side, const int32_t *ids, int n, Prefix *out, Error *err) {
    size_t entry = 0;
    int common = find(c, side, ids, n, &entry);
    if (common == 0) {
        count_miss(c, side, ids, n);
        return new_prefix(c, side, out, err);
    }
    if (!prefix_clone(&c->entries[entry], common, out, err)) return false;
    c->counts.hits++;
    c->counts.tokens += (uint64_t)common;
    move_to_front(c, entry);
    return true;
}

/* ---- keeping ---- */

static void drop(PrefixCache *c, size_t i) {
    prefix_clear(&c->entries[i]);
    memmove(c->entries + i, c->entries + i + 1, (c->n - i - 1) * sizeof *c->entries);
    c->n--;
}

/* Whether `longer` serves every prompt that e does. */
static bool is_superseded(const Prefix *e, const Prefix *longer) {
    return e->ids.n <= longer->ids.n && state_side(e->state) == state_side(longer->state) &&
           common_length(&longer->ids, e->ids.ids, (int)e->ids.n) == (int)e->ids.n &&
           state_can_cut(longer->state, (int)e->ids.n);
}

void prefix_cache_give(PrefixCache *c, Prefix *p) {
    Prefix given = *p;
    *p = (Prefix){0};
    if (!given.state || given.ids.n == 0 || state_spoiled(given.state)) {
        prefix_clear(&given);
        return;
    }
    for (size_t i = c->n; i-- > 0;)
        if (is_superseded(&c->entries[i], &given)) drop(c, i);
    Prefix *entries = mem_room(c->entries, c->n, &c->capacity, sizeof *entries);
    if (!entries) {
        prefix_clear(&given);
        return;
    }
    c->entries = entries;
    c->entries[c->n++] = given;
    move_to_front(c, c->n - 1);
    prefix_cache_shrink(c, c->budget);
}

void prefix_cache_snapshot(PrefixCache *c, const Prefix *p) {
    Prefix copy;
    if (c->budget > 0 && p->ids.n > 0 && prefix_clone(p, (int)p->ids.n, &copy, &(Error){{0}}))
        prefix_cache_give(c, &copy);
}

void prefix_cache_shrink(PrefixCache *c, size_t bytes) {
    while (c->account.bytes > bytes && c->n > 0) {
        drop(c, c->n - 1);
        c->counts.evicted++;
    }
}

bool prefix_cache_is_whole(const PrefixCache *c) {
    return c->whole;
}

size_t prefix_cache_bytes(const PrefixCache *c) {
    return c->account.bytes;
}

size_t prefix_cache_budget(const PrefixCache *c) {
    return c->budget;
}

const PrefixCounts *prefix_cache_counts(const PrefixCache *c) {
    return &c->counts;
}
