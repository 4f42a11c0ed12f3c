/* The model of tokenizer.json: from a piece of text to ids. */
#ifndef LOCKSTEP_TEXT_SUBWORD_H
#define LOCKSTEP_TEXT_SUBWORD_H

#include "text/bpe.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

typedef enum SubwordKind { SUBWORD_BPE, SUBWORD_UNIGRAM, SUBWORD_WORDPIECE, SUBWORD_WORDLEVEL } SubwordKind;

typedef struct Subword {
    SubwordKind kind;
    Vocab vocab;
    Bpe bpe;
    Unigram unigram;
    WordPiece wordpiece; /* WordLevel, too */
} Subword;

typedef struct SubwordScratch {
    BpeScratch bpe;
    UnigramScratch unigram;
    Buffer text;
} SubwordScratch;

/* `lists` were taken from `model` while it was read. The address of *s must not change afterwards. */
bool subword_load(Subword *s, const JsonValue *model, const ModelLists *lists, Error *err);
void subword_clear(Subword *s);
bool subword_encode(const Subword *s, SubwordScratch *scratch, const char *text, size_t n, IdList *out, Error *err);
void subword_scratch_clear(SubwordScratch *scratch);

#endif
