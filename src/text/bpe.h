/* Byte-pair encoding of one piece of text, as tokenizer.json's model BPE has it. */
#ifndef LOCKSTEP_TEXT_BPE_H
#define LOCKSTEP_TEXT_BPE_H

#include "base/json.h"
#include "text/bpe_cuts.h"
#include "text/merge_queue.h"
#include "text/model_lists.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

typedef struct Merge {
    uint64_t key; /* bpe_merge_key of the pair; 0: free */
    uint32_t rank;
    int32_t id;
} Merge;

enum { BPE_DIRECT = 1024 };

typedef struct Bpe {
    const Vocab *vocab;
    Merge *merges; /* open-addressed */
    uint64_t mask;
    int32_t unknown;       /* -1: none; -2: named, but not in the vocabulary */
    char *unknown_token;   /* NULL: none */
    char *prefix, *suffix; /* of pieces inside a word, of a word's last piece; NULL: none */
    bool fuse_unknown, byte_fallback, ignore_merges;
    BpeCuts cuts;
    int32_t byte_ids[256];      /* of <0x00>..<0xFF>; -1: absent */
    int32_t direct[BPE_DIRECT]; /* ids of single characters below that; -1: absent */
} Bpe;

typedef struct CachedWord {
    uint32_t hash;
    uint32_t text, length; /* in `cached_text` */
    uint32_t ids, n_ids;   /* in `cached_ids`; n_ids + 1 is stored, 0: free */
} CachedWord;

/* What encoding needs beside the model; one per call. All zero is a valid start. */
typedef struct BpeScratch {
    IdList symbols;
    int32_t *previous, *next; /* positions, for long pieces */
    size_t links_capacity;
    MergeQueue queue;
    Buffer text, cached_text;
    IdList cached_ids;
    CachedWord *cache;
    size_t cache_size, n_cached;
} BpeScratch;

static inline uint64_t bpe_merge_key(int32_t left, int32_t right) {
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

/* Where the search for a pair begins. */
static inline uint64_t bpe_merge_slot(const Bpe *b, uint64_t key) {
    return (key * 0x9E3779B97F4A7C15u >> 32) & b->mask;
}

/* `model` is the JSON object, `lists` were taken from it; vocab must outlive the result. */
bool bpe_load(Bpe *b, const JsonValue *model, const ModelLists *lists, const Vocab *vocab, Error *err);
/* From ranks (per id; BPE_NO_RANK: the token takes no part in merging) in place of a list of merges. No option is set;
 * after they are, bpe_finish. */
#define BPE_NO_RANK UINT32_MAX
bool bpe_load_ranked(Bpe *b, const Vocab *vocab, const uint32_t *ranks, Error *err);
void bpe_finish(Bpe *b);
/* A model with these merges; false when out of memory. */
bool bpe_set_merges(Bpe *b, const Vocab *vocab, const Merge *merges, size_t n);
void bpe_clear(Bpe *b);
bool bpe_encode(const Bpe *b, BpeScratch *scratch, const char *text, size_t n, IdList *out, Error *err);
void bpe_scratch_clear(BpeScratch *scratch);

#endif
