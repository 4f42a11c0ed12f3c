/* What sequences have read, kept for later prompts that begin alike. Reusing it changes no byte of an answer, since a
 * row depends on nothing but its prefix: docs/arithmetic.md, "Cache keys". */
#ifndef LOCKSTEP_ENGINE_PREFIX_H
#define LOCKSTEP_ENGINE_PREFIX_H

#include "state/state.h"
#include "text/tokenizer.h"

/* A state together with the ids it was made from. All zero: nothing was run. */
typedef struct Prefix {
    State *state;
    IdList ids; /* [state_length(state)] */
} Prefix;

void prefix_clear(Prefix *p); /* forgets everything and frees */
/* Forgets what was run, and keeps the memory for running it again on `side`. */
void prefix_restart(Prefix *p, int side);

typedef struct PrefixCounts {
    uint64_t hits, misses;            /* lookups that reused something, that did not; */
    uint64_t misses_cut, misses_side; /* of those: an entry begins alike, but its state can not be cut there, or is of
                                         the other rotary side; the rest: none begins alike */
    uint64_t bypassed;                /* prompts that must be read whole, so nobody looked */
    uint64_t evicted;                 /* entries dropped for memory */
    uint64_t tokens;                  /* that were not computed again */
} PrefixCounts;

/* Entries are prefixes that nobody is writing to. Where every layer keeps all positions, an entry serves any prompt
 * that begins like it, up to where they part. Otherwise (windows, recurrent state) it serves only where its state can
 * still be cut, mostly at its own length, so a sequence leaves snapshots on its way. Entries share pages with one
 * another and with running sequences. */
typedef struct PrefixCache PrefixCache;

/* `budget`: bytes that all states of this shape together may hold, running ones included, before entries are dropped,
 * the longest unused first. The shape must outlive it. */
PrefixCache *prefix_cache_new(const StateShape *shape, size_t budget, Error *err);
void prefix_cache_free(PrefixCache *c);

/* Fills the empty *out with a state on `side` that has read the longest beginning of ids [n] that an entry has, at most
 * n - 1 of them, because the last token must be run to give logits. */
bool prefix_cache_take(PrefixCache *c, int side, const int32_t *ids, int n, Prefix *out, Error *err);
/* The same, without anybody's entries. */
bool prefix_cache_fresh(PrefixCache *c, int side, Prefix *out, Error *err);
/* How much prefix_cache_take would reuse. */
int prefix_cache_find(const PrefixCache *c, int side, const int32_t *ids, int n);
/* Keeps a copy of what *p is now. */
void prefix_cache_snapshot(PrefixCache *c, const Prefix *p);
/* Takes over *p, which is empty afterwards. An entry that only holds a beginning of it, and serves no other prompt than
 * it would, is dropped. Without memory for it, it is freed: a cache may forget. */
void prefix_cache_give(PrefixCache *c, Prefix *p);
/* Drops entries until the states hold at most `bytes`, or no entry is left. */
void prefix_cache_shrink(PrefixCache *c, size_t bytes);
/* Whether states keep every position of every layer, so that snapshots are needless. */
bool prefix_cache_is_whole(const PrefixCache *c);
size_t prefix_cache_bytes(const PrefixCache *c); /* held by all states made here and not freed */
size_t prefix_cache_budget(const PrefixCache *c);
const PrefixCounts *prefix_cache_counts(const PrefixCache *c);

#endif
