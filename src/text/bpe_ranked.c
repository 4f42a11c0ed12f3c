/* A table of merges from a vocabulary in which every token has a rank: SentencePiece and tiktoken store no merges, two
 * neighbours may join whenever together they are a token, and the token of the lowest rank goes first. So every way to
 * cut a token in two tokens is a merge with the rank of the whole. Equal ranks are meant: then the leftmost pair goes
 * first. */
#include "base/memory.h"
#include "text/bpe.h"

#include <string.h>

typedef struct MergeList {
    Merge *items;
    size_t n, capacity;
} MergeList;

static bool push(MergeList *list, Merge merge) {
    Merge *items = mem_room(list->items, list->n, &list->capacity, sizeof *items);
    if (!items) return false;
    list->items = items;
    list->items[list->n++] = merge;
    return true;
}

/* Adds the cuts of one token. */
static bool cut_token(const Vocab *v, const VocabToken *token, const uint32_t *ranks, MergeList *out) {
    const char *text = v->bytes + token->start;
    for (uint32_t cut = 1; cut < token->length; cut++) {
        if ((text[cut] & 0xC0) == 0x80) continue;
        int32_t left = vocab_find(v, text, cut);
        if (left < 0 || ranks[left] == BPE_NO_RANK) continue;
        int32_t right = vocab_find(v, text + cut, token->length - cut);
        if (right < 0 || ranks[right] == BPE_NO_RANK) continue;
        if (!push(out, (Merge){bpe_merge_key(left, right), ranks[token->id], token->id})) return false;
    }
    return true;
}

bool bpe_load_ranked(Bpe *b, const Vocab *vocab, const uint32_t *ranks, Error *err) {
    MergeList list = {0};
    bool ok = true;
    for (int32_t i = 0; ok && i < vocab->count; i++) {
        const VocabToken *token = &vocab->tokens[i];
        if (ranks[token->id] != BPE_NO_RANK) ok = cut_token(vocab, token, ranks, &list);
    }
    ok = ok && bpe_set_merges(b, vocab, list.items, list.n);
    mem_free(list.items);
    return ok || error_memory(err, "merges");
}
