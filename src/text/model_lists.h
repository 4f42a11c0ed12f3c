/* The two long lists of tokenizer.json, model.vocab and model.merges: hundreds of thousands of entries, taken from the
 * JSON reader one by one, so that no tree of them is ever built. */
#ifndef LOCKSTEP_TEXT_MODEL_LISTS_H
#define LOCKSTEP_TEXT_MODEL_LISTS_H

#include "base/arena.h"
#include "base/json.h"
#include "text/vocab.h"

typedef struct MergeText {
    const char *text; /* the left token and right after it the right one */
    uint32_t length[2];
} MergeText;

typedef struct ModelLists {
    Arena texts;
    VocabEntry *entries; /* of a vocabulary that is an object; a Unigram's array stays in the document */
    size_t n_entries, entries_capacity;
    MergeText *merges;
    size_t n_merges, merges_capacity;
} ModelLists;

enum { MODEL_TAPS = 2 };

/* Empties *lists; the taps fill it. */
void model_lists_init(ModelLists *lists, JsonTap taps[MODEL_TAPS]);
void model_lists_clear(ModelLists *lists);

#endif
