/* WordPiece (longest match first, as BERT has it) and WordLevel (whole words only). */
#ifndef LOCKSTEP_TEXT_WORDPIECE_H
#define LOCKSTEP_TEXT_WORDPIECE_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

typedef struct WordPiece {
    const Vocab *vocab;
    char *unknown_token, *prefix;
    int32_t unknown;                /* -1: not in the vocabulary */
    size_t max_characters, longest; /* of a word; bytes of the longest token */
} WordPiece;

bool wordpiece_load(WordPiece *w, const JsonValue *model, bool word_level, const Vocab *vocab, Error *err);
void wordpiece_clear(WordPiece *w);
bool wordpiece_encode(const WordPiece *w, Buffer *work, const char *text, size_t n, IdList *out, Error *err);
bool wordlevel_encode(const WordPiece *w, const char *text, size_t n, IdList *out, Error *err);

#endif
