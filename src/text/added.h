/* Added tokens: texts that are cut out before anything else looks at the input. */
#ifndef LOCKSTEP_TEXT_ADDED_H
#define LOCKSTEP_TEXT_ADDED_H

#include "base/json.h"
#include "text/normalize.h"
#include "text/pieces.h"
#include "text/prefix_matcher.h"
#include "text/vocab.h"

typedef struct AddedToken {
    char *content;
    uint32_t length;
    char *shown; /* what decoding gives: of a normalized token its normalized text, as in the reference */
    uint32_t shown_length;
    bool hidden; /* skipped with the special tokens: special, and no other text is shown for it */
    int32_t id;  /* given to added_add: >= 0 is kept, where the text has no id yet */
    bool single_word, lstrip, rstrip, normalized, special;
    bool normal; /* with `normalized`: its text is what the normalizer gives, and is matched as it stands */
} AddedToken;

typedef struct AddedTokens {
    AddedToken *tokens; /* in the order they were added */
    uint32_t n, capacity;
    uint32_t *slots;               /* hash of content to 1 + index */
    uint32_t n_slots, id_end;      /* id_end: 1 + the largest id */
    uint32_t *by_id;               /* 1 + index, from prepare on */
    PrefixMatcher raw, normalized; /* matched before and after the normalizer */
} AddedTokens;

/* Adds one; its id is the one its text has in the vocabulary or among the added, else the next free one. */
bool added_add(AddedTokens *a, const Vocab *vocab, AddedToken token, Error *err);
/* One token's text and flags; its content still belongs to v, its id is -1. */
bool added_read(const JsonValue *v, AddedToken *out, Error *err);
/* tokenizer.json's "added_tokens". */
bool added_load(AddedTokens *a, const JsonValue *list, const Vocab *vocab, Error *err);
/* After the last one was added. */
bool added_prepare(AddedTokens *a, const Normalizer *normalizer, NormalizeScratch *scratch, Error *err);
void added_clear(AddedTokens *a);

const AddedToken *added_find(const AddedTokens *a, const char *text, size_t n);
const AddedToken *added_by_id(const AddedTokens *a, int32_t id);
/* Appends the pieces of text[0..n), which lies at `base` in out's text: ids where tokens match, text between them.
 * `origin` as in Piece. */
bool added_split(const AddedTokens *a, const PrefixMatcher *m, const char *text, size_t n, size_t base, size_t origin,
                 Pieces *out);

#endif
