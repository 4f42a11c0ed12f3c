/* The two long lists of tokenizer.json, model.vocab and model.merges: hundreds of thousands of entries, taken from the
 * JSON reader one by one, so that no tree of them is ever built. */
#ifndef LOCKSTEP_TEXT_MODEL_LISTS_H
#define LOCKSTEP_TEXT_MODEL_LISTS_H

#include "base/json.h"
#include "text/vocab.h"

/* Texts belong to the JSON document. */
typedef struct MergeText {
    const char *text[2]; /* left, right */
    uint32_t length[2];
} MergeText;

typedef struct ModelLists {
    VocabEntry *entries; /* of a vocabulary that is an object; a Unigram's array stays in the document */
    size_t n_entries, entries_capacity;
    MergeText *merges;
    size_t n_merges, merges_capacity;
} ModelLists;

enum { MODEL_TAPS = 2 };

/* The taps that fill *lists, which is all zero. */
void model_lists_taps(ModelLists *lists, JsonTap taps[MODEL_TAPS]);
void model_lists_clear(ModelLists *lists);

#endif
