/* One block of bytes, two arrays by id, and an open-addressed table of (hash, id): a look-up touches a slot and, on
 * equal hashes, the token itself. */
#include "text/vocab.h"
#include "base/memory.h"

#include <string.h>

uint32_t vocab_hash(const char *text, size_t n) {
    uint64_t h = n * 0x9E3779B97F4A7C15u;
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
        text += 8;
        n -= 8;
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < n; i++) rest |= (uint64_t)(unsigned char)text[i] << (8 * i);
    h = (h ^ rest) * 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

static VocabSlot *slot_for(const Vocab *v, const char *text, size_t n, uint32_t hash) {
    for (uint32_t at = hash & v->mask;; at = (at + 1) & v->mask) {
        VocabSlot *slot = &v->slots[at];
        if (slot->id < 0) return slot;
        if (slot->hash == hash && slot->length == n && memcmp(v->bytes + slot->start, text, n) == 0) return slot;
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
    v->slots = mem_array(slots, sizeof *v->slots);
    if (!v->bytes || !v->tokens || !v->by_id || !v->slots) return error_memory(err, "the vocabulary");
    memset(v->slots, 0xFF, slots * sizeof *v->slots);
    return true;
}

bool vocab_build(Vocab *v, const VocabEntry *entries, size_t n, Error *err) {
    *v = (Vocab){0};
    if (n > VOCAB_MAX_ID) return error_set(err, "the vocabulary has %zu tokens", n);
    if (!allocate(v, entries, n, err)) {
        vocab_clear(v);
        return false;
    }
    uint32_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const VocabEntry *e = &entries[i];
        uint32_t hash = vocab_hash(e->text, e->length);
        VocabSlot *slot = slot_for(v, e->text, e->length, hash);
        memcpy(v->bytes + used, e->text, e->length);
        v->bytes[used + e->length] = 0;
        v->tokens[i] = (VocabToken){used, e->length, e->id};
        *slot = (VocabSlot){hash, used, e->length, e->id};
        v->by_id[e->id] = (uint32_t)i + 1;
        used += e->length + 1;
    }
    v->count = (int32_t)n;
    return true;
}

void vocab_clear(Vocab *v) {
    mem_free(v->bytes);
    mem_free(v->tokens);
    mem_free(v->by_id);
    mem_free(v->slots);
    *v = (Vocab){0};
}

void vocab_prefetch_slot(const Vocab *v, uint32_t hash) {
    __builtin_prefetch(&v->slots[hash & v->mask]);
}

void vocab_prefetch_text(const Vocab *v, uint32_t hash) {
    const VocabSlot *slot = &v->slots[hash & v->mask];
    if (slot->id >= 0) __builtin_prefetch(v->bytes + slot->start);
}

int32_t vocab_find_hashed(const Vocab *v, const char *text, size_t n, uint32_t hash) {
    return slot_for(v, text, n, hash)->id;
}

int32_t vocab_find(const Vocab *v, const char *text, size_t n) {
    return v->slots ? slot_for(v, text, n, vocab_hash(text, n))->id : -1;
}

const char *vocab_token(const Vocab *v, int32_t id, size_t *n) {
    if (id < 0 || id >= v->size || !v->by_id[id]) return NULL;
    const VocabToken *t = &v->tokens[v->by_id[id] - 1];
    if (n) *n = t->length;
    return v->bytes + t->start;
}
