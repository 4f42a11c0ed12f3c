/* Tokens sorted by their bytes are the walk of their tree: each new token shares the bytes of the one before as far as
 * they agree, and adds nodes for the rest. */
#include "text/token_tree.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct Spelled {
    const char *bytes;
    uint32_t n;
    int32_t id;
} Spelled;

static int compare_spelled(const void *a, const void *b) {
    const Spelled *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order != 0) return order;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool in_list(const int32_t *ids, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

static bool spell_tokens(TokenTree *t, const Tokenizer *tokenizer, const int32_t *kept, size_t n_kept) {
    Buffer all = {0};
    t->start = mem_zeroed((size_t)t->vocab + 1, sizeof *t->start);
    for (int32_t id = 0; t->start && id < t->vocab; id++) {
        t->start[id] = (uint32_t)all.length;
        bool hidden = tokenizer_is_special(tokenizer, id) && !in_list(kept, n_kept, id);
        if (id < tokenizer_size(tokenizer) && !hidden) tokenizer_bytes(tokenizer, id, &all);
        t->start[id + 1] = (uint32_t)all.length;
    }
    t->bytes = all.data;
    return t->start && !all.failed && (all.length == 0 || all.data);
}

static uint32_t common_bytes(const Spelled *a, const Spelled *b) {
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n]) n++;
    return n;
}

static void close_nodes(TokenTree *t, uint32_t *open, uint32_t from, uint32_t to) {
    for (uint32_t d = from; d < to; d++) t->nodes[open[d]].skip = (uint32_t)t->n;
}

/* open[d]: the node at depth d + 1 on the way to the last token. */
static bool add_nodes(TokenTree *t, const Spelled *list, size_t n) {
    uint32_t *open = mem_array((size_t)t->deepest + 1, sizeof *open), depth = 0;
    size_t capacity = 0;
    bool ok = open != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        uint32_t common = i > 0 ? common_bytes(&list[i - 1], &list[i]) : 0;
        close_nodes(t, open, common, depth);
        for (depth = common; ok && depth < list[i].n; depth++) {
            TokenNode *nodes = mem_room(t->nodes, t->n, &capacity, sizeof *nodes);
            if (!(ok = nodes != NULL)) break;
            t->nodes = nodes;
            open[depth] = (uint32_t)t->n;
            nodes[t->n++] =
                (TokenNode){.first = -1, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)list[i].bytes[depth]};
        }
        if (!ok) break;
        TokenNode *last = &t->nodes[open[depth - 1]];
        t->same[list[i].id] = last->first;
        last->first = list[i].id;
    }
    if (ok) close_nodes(t, open, 0, depth);
    mem_free(open);
    return ok;
}

static bool grow_tree(TokenTree *t) {
    enum { LONGEST = 4096 }; /* bytes: what is longer is never chosen under a grammar */
    Spelled *list = mem_array((size_t)t->vocab, sizeof *list);
    size_t n = 0;
    t->same = mem_array((size_t)t->vocab, sizeof *t->same);
    for (int32_t id = 0; list && t->same && id < t->vocab; id++) {
        uint32_t length = t->start[id + 1] - t->start[id];
        t->same[id] = -1;
        if (length == 0 || length > LONGEST) continue;
        list[n++] = (Spelled){t->bytes + t->start[id], length, id};
        if ((int)length > t->deepest) t->deepest = (int)length;
    }
    if (list) qsort(list, n, sizeof *list, compare_spelled);
    bool ok = list && t->same && add_nodes(t, list, n);
    mem_free(list);
    return ok;
}

TokenTree *token_tree_new(const Tokenizer *tokenizer, int vocab, const int32_t *kept, size_t n_kept, Error *err) {
    TokenTree *t = mem_zeroed(1, sizeof *t);
    if (t) t->vocab = vocab;
    if (t && spell_tokens(t, tokenizer, kept, n_kept) && grow_tree(t)) return t;
    token_tree_free(t);
    error_memory(err, "the vocabulary's tree");
    return NULL;
}

void token_tree_free(TokenTree *t) {
    if (!t) return;
    mem_free(t->nodes);
    mem_free(t->same);
    mem_free(t->bytes);
    mem_free(t->start);
    mem_free(t);
}

void token_tree_allow(const TokenTree *t, const char *text, size_t n, uint32_t *mask) {
    for (size_t i = 0; i < t->n;) {
        const TokenNode *node = &t->nodes[i];
        if (node->depth <= n && node->byte != (uint8_t)text[node->depth - 1]) {
            i = node->skip;
            continue;
        }
        for (int32_t id = node->first; id >= 0; id = t->same[id]) mask[id / 32] |= 1u << id % 32;
        i++;
    }
}
