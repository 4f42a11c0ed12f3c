/* Tokens and their ids, both ways. */
#ifndef LOCKSTEP_TEXT_VOCAB_H
#define LOCKSTEP_TEXT_VOCAB_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { VOCAB_MAX_ID = 1 << 24 }; /* ids index arrays: a file may not make them arbitrarily large */

typedef struct VocabEntry {
    const char *text;
    uint32_t length;
    int32_t id;
} VocabEntry;

typedef struct VocabSlot {
    uint64_t key;   /* vocab_key of the text */
    uint32_t token; /* 1 + its index; 0: free */
    int32_t id;
} VocabSlot;

typedef struct VocabToken {
    uint32_t start, length; /* in bytes */
    int32_t id;
} VocabToken;

typedef struct Vocab {
    char *bytes; /* all tokens, a NUL after each */
    VocabToken *tokens;
    int32_t count;   /* tokens */
    int32_t size;    /* 1 + the largest id */
    uint32_t *by_id; /* 1 + index of its token; 0: an id without one */
    VocabSlot *slots;
    uint32_t mask;
} Vocab;

/* Copies the entries. Of two with one id the later gives the id its text. Of two with one text the later is found; the
 * earlier is as if it had not been there when `distinct`, else its id keeps the text. */
bool vocab_build(Vocab *v, const VocabEntry *entries, size_t n, bool distinct, Error *err);
void vocab_clear(Vocab *v);
int32_t vocab_find(const Vocab *v, const char *text, size_t n); /* -1 when absent */
const char *vocab_token(const Vocab *v, int32_t id, size_t *n); /* NULL when the id has none */

/* A text of up to 7 bytes as a number that no other text has; of a longer one, a hash. */
uint64_t vocab_key(const char *text, size_t n);
/* A well-mixed number to index tables by. */
static inline uint32_t vocab_hash(uint64_t key) {
    return (uint32_t)(key * 0x9E3779B97F4A7C15u >> 32);
}

/* vocab_find in steps, for many look-ups at once: each fetches what the next will read. */
void vocab_prefetch_slot(const Vocab *v, uint64_t key);
void vocab_prefetch_token(const Vocab *v, uint64_t key);
void vocab_prefetch_text(const Vocab *v, uint64_t key);
int32_t vocab_find_key(const Vocab *v, const char *text, size_t n, uint64_t key);

#endif
