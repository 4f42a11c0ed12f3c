/* A SentencePiece BPE vocabulary has no list of merges: any two neighbouring pieces may become the piece that both
 * make, the best score first. tokenizer.json wants them listed, so every piece is cut in all ways whose halves are
 * pieces too, in the order that transformers gives them (by score; within one score the longer left half, then the
 * longer right half; within one piece by the halves' ids). */
#include "convert/gguf_spm.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/vocab.h"

#include <stdlib.h>

enum { NORMAL = 1, MAX_PIECE = 512 };

typedef struct Cut {
    float score;
    uint32_t left, right;               /* ids */
    uint32_t left_length, right_length; /* in characters */
    uint32_t order;
} Cut;

typedef struct Cuts {
    Cut *items;
    size_t n, capacity;
} Cuts;

static bool is_normal(const GgufModel *m, uint64_t id) {
    double type = NORMAL;
    gguf_item_number(gguf_find(m->file, "tokenizer.ggml.token_type"), id, &type);
    return type == NORMAL;
}

/* The normal pieces alone: no merge makes a control token or goes through one. */
static bool build_pieces(const GgufModel *m, Vocab *vocab, Error *err) {
    const GgufValue *tokens = gguf_find(m->file, "tokenizer.ggml.tokens");
    VocabEntry *entries = mem_array(tokens->count ? tokens->count : 1, sizeof *entries);
    uint64_t at = 0;
    const char *text;
    size_t n, length;
    if (!entries) return error_memory(err, "the vocabulary");
    n = 0;
    for (uint64_t id = 0; gguf_next_string(tokens, &at, &text, &length); id++)
        if (is_normal(m, id) && length > 0 && length <= MAX_PIECE)
            entries[n++] = (VocabEntry){text, (uint32_t)length, (int32_t)id};
    bool ok = vocab_build(vocab, entries, n, false, err);
    mem_free(entries);
    return ok;
}

static uint32_t count_characters(const char *text, size_t n) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) count += (text[i] & 0xC0) != 0x80;
    return count;
}

static bool add_cuts(const Vocab *vocab, const char *text, size_t n, float score, Cuts *cuts, Error *err) {
    uint32_t characters = count_characters(text, n), left_length = 1;
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xC0) == 0x80) continue;
        int32_t left = vocab_find(vocab, text, i), right = left < 0 ? -1 : vocab_find(vocab, text + i, n - i);
        uint32_t length = left_length++;
        if (right < 0) continue;
        Cut *items = mem_room(cuts->items, cuts->n, &cuts->capacity, sizeof *items);
        if (!items) return error_memory(err, "merges");
        cuts->items = items;
        items[cuts->n++] =
            (Cut){score, (uint32_t)left, (uint32_t)right, length, characters - length, (uint32_t)cuts->n};
    }
    return true;
}

static int by_ids(const void *x, const void *y) {
    const Cut *a = x, *b = y;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

static int by_score(const void *x, const void *y) {
    const Cut *a = x, *b = y;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->left_length != b->left_length) return a->left_length > b->left_length ? -1 : 1;
    if (a->right_length != b->right_length) return a->right_length > b->right_length ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static bool collect(const GgufModel *m, const Vocab *vocab, Cuts *cuts, Error *err) {
    const GgufValue *scores = gguf_find(m->file, "tokenizer.ggml.scores");
    uint64_t at = 0;
    const char *text;
    size_t n;
    for (uint64_t id = 0; gguf_next_string(gguf_find(m->file, "tokenizer.ggml.tokens"), &at, &text, &n); id++) {
        double score = 0;
        size_t first = cuts->n;
        if (!is_normal(m, id) || n > MAX_PIECE) continue;
        if (!gguf_item_number(scores, id, &score)) return error_set(err, "has no score for each of its tokens");
        if (!add_cuts(vocab, text, n, (float)score, cuts, err)) return false;
        if (cuts->n - first > 1) qsort(cuts->items + first, cuts->n - first, sizeof *cuts->items, by_ids);
        for (size_t i = first; i < cuts->n; i++) cuts->items[i].order = (uint32_t)i;
    }
    if (cuts->n > 1) qsort(cuts->items, cuts->n, sizeof *cuts->items, by_score);
    return true;
}

static void write_piece(const Vocab *vocab, uint32_t id, Buffer *out) {
    size_t n;
    const char *text = vocab_token(vocab, (int32_t)id, &n);
    json_write_string(out, text, n, false);
}

bool gguf_spm_merges(const GgufModel *m, Buffer *out, Error *err) {
    Vocab vocab = {0};
    Cuts cuts = {0};
    bool ok = build_pieces(m, &vocab, err) && collect(m, &vocab, &cuts, err);
    if (ok) buffer_text(out, "    \"merges\": [");
    for (size_t i = 0; ok && i < cuts.n; i++) {
        buffer_text(out, i ? ",\n      [" : "\n      [");
        write_piece(&vocab, cuts.items[i].left, out);
        buffer_text(out, ", ");
        write_piece(&vocab, cuts.items[i].right, out);
        buffer_byte(out, ']');
    }
    if (ok) buffer_text(out, "\n    ]\n");
    vocab_clear(&vocab);
    mem_free(cuts.items);
    return ok;
}
