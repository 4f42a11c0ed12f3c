/* One block of bytes, an array of tokens, one from ids to tokens, and an open-addressed table from texts to both. Most
 * tokens are short, and then their key is their text: a look-up touches a slot and nothing else. Of a longer one it
 * goes on to the token and its bytes. */
#include "text/vocab.h"
#include "base/memory.h"

#include <string.h>

enum { GROUP = 16, SHORT = 7 };

static const uint64_t LONG_KEY = 1ull << 63;

static uint64_t bytes4(const char *s) {
    uint32_t word;
    memcpy(&word, s, 4);
    return word;
}

static uint64_t bytes8(const char *s) {
    uint64_t word;
    memcpy(&word, s, 8);
    return word;
}

/* Without a loop over bytes: the parts overlap. */
static uint64_t short_key(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    uint64_t key = (uint64_t)n << 56;
    if (n >= 4) return key | bytes4(text) | bytes4(text + n - 4) << 8 * (n - 4);
    return n ? key | (uint64_t)s[n - 1] << 16 | (uint64_t)s[n / 2] << 8 | s[0] : key;
}

uint64_t vocab_key(const char *text, size_t n) {
    if (n <= SHORT) return short_key(text, n);
    uint64_t h = n * 0x9E3779B97F4A7C15u;
    const char *last = text + n - 8;
    for (; text < last; text += 8) {
        h = (h ^ bytes8(text)) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    h = (h ^ bytes8(last)) * 0xD6E8FEB86659FD93u;
    return (h ^ h >> 32) | LONG_KEY;
}

static bool is_token(const Vocab *v, uint32_t index, const char *text, size_t n) {
    const VocabToken *t = &v->tokens[index];
    return t->length == n && memcmp(v->bytes + t->start, text, n) == 0;
}

static VocabSlot *slot_for(const Vocab *v, const char *text, size_t n, uint64_t key) {
    for (uint32_t at = vocab_hash(key) & v->mask;; at = (at + 1) & v->mask) {
        VocabSlot *slot = &v->slots[at];
        if (slot->token == 0) return slot;
        if (slot->key == key && (n <= SHORT || is_token(v, slot->token - 1, text, n))) return slot;
    }
}

static bool allocate(Vocab *v, const VocabEntry *entries, size_t n, Error *err) {
    uint64_t bytes = 0;
    int32_t largest = -1;
    for (size_t i = 0; i < n; i++) {
        if (entries[i].id < 0 || entries[i].id >= VOCAB_MAX_ID) {
            return error_set(err, "token \"%.100s\" has the id %d, which is out of range", entries[i].text,
                             (int)entries[i].id);
        }
        if (entries[i].id > largest) largest = entries[i].id;
        bytes += (uint64_t)entries[i].length + 1;
    }
    if (bytes >= UINT32_MAX) return error_set(err, "the vocabulary has over 4 GB of text");
    uint32_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    v->size = largest + 1;
    v->mask = slots - 1;
    v->bytes = mem_array(bytes + 1, 1);
    v->tokens = mem_array(n, sizeof *v->tokens);
    v->by_id = mem_zeroed((size_t)v->size, sizeof *v->by_id);
    v->slots = mem_zeroed(slots, sizeof *v->slots);
    return (v->bytes && v->tokens && v->by_id && v->slots) || error_memory(err, "the vocabulary");
}

/* A text that is there already gets another id. */
static void change_id(Vocab *v, VocabSlot *slot, int32_t id) {
    if (v->by_id[slot->id] == slot->token) v->by_id[slot->id] = 0;
    v->by_id[id] = slot->token;
    v->tokens[slot->token - 1].id = id;
    slot->id = id;
}

static void add_token(Vocab *v, const VocabEntry *e, uint64_t key, bool distinct, uint32_t *used) {
    VocabSlot *slot = slot_for(v, e->text, e->length, key);
    if (slot->token && distinct) {
        change_id(v, slot, e->id);
        return;
    }
    memcpy(v->bytes + *used, e->text, e->length);
    v->bytes[*used + e->length] = 0;
    v->tokens[v->count++] = (VocabToken){*used, e->length, e->id};
    *slot = (VocabSlot){key, (uint32_t)v->count, e->id};
    v->by_id[e->id] = (uint32_t)v->count;
    *used += e->length + 1;
}

bool vocab_build(Vocab *v, const VocabEntry *entries, size_t n, bool distinct, Error *err) {
    *v = (Vocab){0};
    if (n > VOCAB_MAX_ID) return error_set(err, "the vocabulary has %zu tokens", n);
    if (!allocate(v, entries, n, err)) {
        vocab_clear(v);
        return false;
    }
    uint32_t used = 0;
    uint64_t keys[GROUP];
    for (size_t i = 0; i < n; i += GROUP) { /* in groups, so that the slots are fetched side by side */
        size_t group = n - i < GROUP ? n - i : GROUP;
        for (size_t k = 0; k < group; k++) {
            keys[k] = vocab_key(entries[i + k].text, entries[i + k].length);
            vocab_prefetch_slot(v, keys[k]);
        }
        for (size_t k = 0; k < group; k++) add_token(v, &entries[i + k], keys[k], distinct, &used);
    }
    return true;
}

void vocab_clear(Vocab *v) {
    mem_free(v->bytes);
    mem_free(v->tokens);
    mem_free(v->by_id);
    mem_free(v->slots);
    *v = (Vocab){0};
}

void vocab_prefetch_slot(const Vocab *v, uint64_t key) {
    __builtin_prefetch(&v->slots[vocab_hash(key) & v->mask]);
}

/* The token in the first slot that a long text is looked for in, or NULL. */
static const VocabToken *first_token(const Vocab *v, uint64_t key) {
    uint32_t token = key & LONG_KEY ? v->slots[vocab_hash(key) & v->mask].token : 0;
    return token ? &v->tokens[token - 1] : NULL;
}

void vocab_prefetch_token(const Vocab *v, uint64_t key) {
    const VocabToken *t = first_token(v, key);
    if (t) __builtin_prefetch(t);
}

void vocab_prefetch_text(const Vocab *v, uint64_t key) {
    const VocabToken *t = first_token(v, key);
    if (t) __builtin_prefetch(v->bytes + t->start);
}

int32_t vocab_find_key(const Vocab *v, const char *text, size_t n, uint64_t key) {
    const VocabSlot *slot = slot_for(v, text, n, key);
    return slot->token ? slot->id : -1;
}

int32_t vocab_find(const Vocab *v, const char *text, size_t n) {
    return v->slots ? vocab_find_key(v, text, n, vocab_key(text, n)) : -1;
}

const char *vocab_token(const Vocab *v, int32_t id, size_t *n) {
    if (id < 0 || id >= v->size || !v->by_id[id]) return NULL;
    const VocabToken *t = &v->tokens[v->by_id[id] - 1];
    if (n) *n = t->length;
    return v->bytes + t->start;
}
