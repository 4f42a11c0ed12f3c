/* Unigram: the cut of a piece whose tokens have the greatest total score, as SentencePiece has it. */
#ifndef LOCKSTEP_TEXT_UNIGRAM_H
#define LOCKSTEP_TEXT_UNIGRAM_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

/* A node of the trie; children of one node are neighbours, sorted by byte. */
typedef struct TrieNode {
    uint32_t children; /* index of the first */
    uint16_t n_children;
    unsigned char byte;
    int32_t id; /* -1: no token ends here */
} TrieNode;

typedef struct UnigramOptions {
    int32_t unknown; /* its id; -1: none */
    double least;    /* the lowest score that counts; a character that is no token has ten less */
    bool byte_fallback;
    bool single; /* scores add up in single precision, as SentencePiece does it; tokenizers does it in double */
} UnigramOptions;

typedef struct Unigram {
    const Vocab *vocab;
    double *scores; /* per id */
    double unknown_score;
    int32_t unknown;
    bool byte_fallback, single;
    int32_t byte_ids[256];
    TrieNode *nodes;
    size_t n_nodes;
} Unigram;

/* The best way to reach an offset. */
typedef struct UnigramStep {
    double score;
    int32_t id;      /* -1: not reached */
    uint32_t length; /* bytes of the last token */
} UnigramStep;

typedef struct UnigramScratch {
    UnigramStep *steps;
    size_t capacity;
    IdList reversed;
} UnigramScratch;

bool unigram_load(Unigram *u, const JsonValue *model, const Vocab *vocab, Error *err);
/* From scores per id (copied); NaN: the token never matches text. */
bool unigram_load_scores(Unigram *u, const Vocab *vocab, const double *scores, UnigramOptions options, Error *err);
void unigram_clear(Unigram *u);
bool unigram_encode(const Unigram *u, UnigramScratch *scratch, const char *text, size_t n, IdList *out, Error *err);
void unigram_scratch_clear(UnigramScratch *scratch);

#endif
