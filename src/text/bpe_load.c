/* Loading a model. Merges name their tokens by text, so each costs three look-ups in a vocabulary far larger than any
 * cache. Two things make them cheap: what a merge gives is nearly always the token of the merge before or the one
 * after that, which is tried first; and the other two are looked up for a group of merges at a time, each step asking
 * for the memory that the next one needs. */
#include "base/memory.h"
#include "base/utf8.h"
#include "text/bpe.h"

#include <string.h>

enum { MERGE_GROUP = 32 };

typedef struct MergeLoader {
    Bpe *bpe;
    const MergeText *merges;
    size_t skip;    /* bytes of the continuation prefix, which the right part loses */
    uint32_t guess; /* index in the vocabulary of the last token that a merge gave */
    Buffer joined;
} MergeLoader;

/* A merge on its way: keys, then ids, of its left and right part, and the id of what they join to. */
typedef struct Lookup {
    uint64_t key[2];
    int32_t id[3];
} Lookup;

static void put_merge(Bpe *b, Merge merge) {
    uint64_t at = bpe_merge_slot(b, merge.key);
    while (b->merges[at].key != 0 && b->merges[at].key != merge.key) at = (at + 1) & b->mask;
    b->merges[at] = merge;
}

/* The right part without the prefix that marks a piece as not the first of its word. */
static size_t right_length(const MergeLoader *l, const MergeText *m) {
    return m->length[1] - l->skip;
}

static bool is_joined(const MergeLoader *l, uint32_t index, const MergeText *m) {
    const Vocab *v = l->bpe->vocab;
    if (index >= (uint32_t)v->count) return false;
    const VocabToken *t = &v->tokens[index];
    const char *text = v->bytes + t->start;
    size_t left = m->length[0], right = right_length(l, m);
    return t->length == left + right && memcmp(text, m->text[0], left) == 0 &&
           memcmp(text + left, m->text[1] + l->skip, right) == 0;
}

/* The id of both parts together; -1 when they are no token. */
static int32_t find_joined(MergeLoader *l, const MergeText *m) {
    const Vocab *v = l->bpe->vocab;
    if (is_joined(l, l->guess, m)) return v->tokens[l->guess].id;
    if (is_joined(l, l->guess + 1, m)) return v->tokens[++l->guess].id;
    buffer_reset(&l->joined);
    buffer_append(&l->joined, m->text[0], m->length[0]);
    buffer_append(&l->joined, m->text[1] + l->skip, right_length(l, m));
    int32_t id = vocab_find(v, buffer_string(&l->joined), l->joined.length);
    if (id >= 0) l->guess = v->by_id[id] - 1;
    return id;
}

static bool find_parts(MergeLoader *l, size_t rank, Lookup *found, Error *err) {
    const MergeText *m = &l->merges[rank];
    if (m->length[1] < l->skip)
        return error_set(err, "merge %zu: \"%.*s\" lacks the prefix", rank, (int)m->length[1], m->text[1]);
    for (int k = 0; k < 2; k++) {
        found->id[k] = vocab_find_key(l->bpe->vocab, m->text[k], m->length[k], found->key[k]);
    }
    found->id[2] = find_joined(l, m);
    if (l->joined.failed) return error_memory(err, "merges");
    if (found->id[0] < 0 || found->id[1] < 0 || found->id[2] < 0) {
        return error_set(err, "merge %zu (\"%.*s\" \"%.*s\") uses a token that is not in the vocabulary", rank,
                         (int)m->length[0], m->text[0], (int)m->length[1], m->text[1]);
    }
    __builtin_prefetch(&l->bpe->merges[bpe_merge_slot(l->bpe, bpe_merge_key(found->id[0], found->id[1]))], 1);
    return true;
}

/* Merges `first` to before `end`. */
static bool load_group(MergeLoader *l, size_t first, size_t end, Error *err) {
    Lookup group[MERGE_GROUP];
    const Vocab *v = l->bpe->vocab;
    for (size_t i = first; i < end; i++) {
        const MergeText *m = &l->merges[i];
        uint64_t *key = group[i - first].key;
        for (int k = 0; k < 2; k++) {
            key[k] = vocab_key(m->text[k], m->length[k]);
            vocab_prefetch_slot(v, key[k]);
        }
    }
    for (size_t i = 0; i < end - first; i++) {
        for (int k = 0; k < 2; k++) vocab_prefetch_token(v, group[i].key[k]);
    }
    for (size_t i = 0; i < end - first; i++) {
        for (int k = 0; k < 2; k++) vocab_prefetch_text(v, group[i].key[k]);
    }
    for (size_t i = first; i < end; i++) {
        if (!find_parts(l, i, &group[i - first], err)) return false;
    }
    for (size_t i = first; i < end; i++) {
        const int32_t *id = group[i - first].id;
        put_merge(l->bpe, (Merge){bpe_merge_key(id[0], id[1]), (uint32_t)i, id[2]});
    }
    return true;
}

static bool allocate_merges(Bpe *b, size_t n) {
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)n) slots *= 2;
    b->merges = mem_zeroed(slots, sizeof *b->merges);
    b->mask = slots - 1;
    return b->merges != NULL;
}

static bool load_merges(Bpe *b, const ModelLists *lists, Error *err) {
    size_t n = lists->n_merges;
    if (n >= UINT32_MAX) return error_set(err, "model.merges has %zu entries", n);
    if (!allocate_merges(b, n)) return error_memory(err, "merges");
    MergeLoader loader = {.bpe = b, .merges = lists->merges, .skip = b->prefix ? strlen(b->prefix) : 0};
    bool ok = true;
    for (size_t i = 0; ok && i < n; i += MERGE_GROUP) {
        ok = load_group(&loader, i, i + MERGE_GROUP < n ? i + MERGE_GROUP : n, err);
    }
    buffer_clear(&loader.joined);
    return ok;
}

static bool load_text(const JsonValue *model, const char *key, char **out, Error *err) {
    const JsonValue *v = json_get_set(model, key);
    if (!v) return true;
    if (v->type != JSON_STRING) return error_set(err, "model.%s is not a string", key);
    if (v->length == 0 && strcmp(key, "unk_token") != 0) return true;
    *out = mem_string(v->text, v->length);
    return *out || error_memory(err, "the vocabulary");
}

static bool load_flag(const JsonValue *model, const char *key, bool *out, Error *err) {
    const JsonValue *v = json_get_set(model, key);
    return !v || json_bool(v, out) || error_set(err, "model.%s is not true or false", key);
}

/* Whether every character leaves a symbol behind: without an unknown token those that are none vanish, and what stood
 * around them can merge. */
static bool keeps_characters(const Bpe *b) {
    if (b->unknown != -1) return true;
    int known = 0;
    while (known < 256 && b->byte_ids[known] >= 0) known++;
    return b->byte_fallback && known == 256;
}

void bpe_finish(Bpe *b) {
    for (int i = 0; i < 256; i++) {
        static const char digits[] = "0123456789ABCDEF";
        char token[6] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        b->byte_ids[i] = vocab_find(b->vocab, token, 6);
    }
    for (uint32_t i = 0; i < BPE_DIRECT; i++) {
        char text[4];
        b->direct[i] = vocab_find(b->vocab, text, (size_t)utf8_encode(i, text));
    }
    b->cuts.usable = false;
    if (!b->prefix && !b->suffix && !b->ignore_merges && keeps_characters(b))
        bpe_cuts_find(&b->cuts, b->vocab, b->unknown);
}

bool bpe_load(Bpe *b, const JsonValue *model, const ModelLists *lists, const Vocab *vocab, Error *err) {
    const JsonValue *merges = json_get_set(model, "merges");
    *b = (Bpe){.vocab = vocab, .unknown = -1};
    bool ok = (!merges || merges->type == JSON_ARRAY) || error_set(err, "model.merges is not an array");
    ok = ok && load_text(model, "unk_token", &b->unknown_token, err) &&
         load_text(model, "continuing_subword_prefix", &b->prefix, err) &&
         load_text(model, "end_of_word_suffix", &b->suffix, err) &&
         load_flag(model, "fuse_unk", &b->fuse_unknown, err) &&
         load_flag(model, "byte_fallback", &b->byte_fallback, err) &&
         load_flag(model, "ignore_merges", &b->ignore_merges, err) && load_merges(b, lists, err);
    if (!ok) {
        bpe_clear(b);
        return false;
    }
    if (b->unknown_token) {
        int32_t id = vocab_find(vocab, b->unknown_token, strlen(b->unknown_token));
        b->unknown = id < 0 ? -2 : id;
    }
    bpe_finish(b);
    return true;
}

bool bpe_set_merges(Bpe *b, const Vocab *vocab, const Merge *merges, size_t n) {
    *b = (Bpe){.vocab = vocab, .unknown = -1};
    if (!allocate_merges(b, n)) return false;
    for (size_t i = 0; i < n; i++) put_merge(b, merges[i]);
    return true;
}

void bpe_clear(Bpe *b) {
    mem_free(b->merges);
    mem_free(b->unknown_token);
    mem_free(b->prefix);
    mem_free(b->suffix);
    *b = (Bpe){0};
}
