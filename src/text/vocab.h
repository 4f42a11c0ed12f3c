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
    uint32_t hash;
    uint32_t start, length; /* in bytes */
    int32_t id;             /* -1: free */
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

/* Copies the entries, whose texts are distinct. Of two entries with one id the later gives the id its text. */
bool vocab_build(Vocab *v, const VocabEntry *entries, size_t n, Error *err);
void vocab_clear(Vocab *v);
int32_t vocab_find(const Vocab *v, const char *text, size_t n); /* -1 when absent */
const char *vocab_token(const Vocab *v, int32_t id, size_t *n); /* NULL when the id has none */

/* The same in steps, for many look-ups at once: hash, then fetch what the look-up will need, then find. */
uint32_t vocab_hash(const char *text, size_t n);
void vocab_prefetch_slot(const Vocab *v, uint32_t hash);
void vocab_prefetch_text(const Vocab *v, uint32_t hash);
int32_t vocab_find_hashed(const Vocab *v, const char *text, size_t n, uint32_t hash);

#endif
