/* A piece becomes characters, characters become ids, and the pair with the lowest rank (leftmost first) is merged until
 * no pair has a merge. Short pieces keep their pairs' ranks in an array and search it; long ones go through a queue.
 * Words repeat, so what they became is remembered for the length of one call. */
#include "text/bpe.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

enum {
    SHORT = 40,         /* symbols up to which searching the array is quicker */
    CACHED_LENGTH = 64, /* bytes */
    CACHE_START = 1 << 8,
    CACHE_MOST = 1 << 16,
};

/* ---- from characters to ids ---- */

typedef struct Starter {
    const Bpe *bpe;
    BpeScratch *scratch;
    bool pending; /* an unknown token not yet written: following ones may fuse with it */
    Error *err;
} Starter;

static bool put_symbol(Starter *s, int32_t id) {
    return id_list_push(&s->scratch->symbols, id) || error_memory(s->err, "symbols");
}

static bool flush_unknown(Starter *s) {
    bool pending = s->pending;
    s->pending = false;
    return !pending || put_symbol(s, s->bpe->unknown);
}

/* A character that is no token. As in the reference, bytes do not flush an unknown token that waits. */
static bool put_unknown(Starter *s, const char *text, size_t n) {
    const Bpe *b = s->bpe;
    if (b->byte_fallback) {
        size_t known = 0;
        while (known < n && b->byte_ids[(unsigned char)text[known]] >= 0) known++;
        if (known == n) {
            for (size_t i = 0; i < n; i++) {
                if (!put_symbol(s, b->byte_ids[(unsigned char)text[i]])) return false;
            }
            return true;
        }
    }
    if (b->unknown == -1) return true;
    if (b->unknown == -2)
        return error_set(s->err, "the unknown token \"%s\" is not in the vocabulary", b->unknown_token);
    if (s->pending && !b->fuse_unknown && !flush_unknown(s)) return false;
    s->pending = true;
    return true;
}

static bool put_character(Starter *s, const char *text, size_t n, uint32_t code, bool first, bool last) {
    const Bpe *b = s->bpe;
    if ((!first && b->prefix) || (last && b->suffix)) {
        Buffer *joined = &s->scratch->text;
        buffer_reset(joined);
        if (!first && b->prefix) buffer_text(joined, b->prefix);
        buffer_append(joined, text, n);
        if (last && b->suffix) buffer_text(joined, b->suffix);
        if (joined->failed) return error_memory(s->err, "symbols");
        text = joined->data;
        n = joined->length;
        code = BPE_DIRECT;
    }
    int32_t id = code < BPE_DIRECT ? b->direct[code] : vocab_find(b->vocab, text, n);
    if (id < 0) return put_unknown(s, text, n);
    return flush_unknown(s) && put_symbol(s, id);
}

static bool start_symbols(const Bpe *b, BpeScratch *scratch, const char *text, size_t n, Error *err) {
    Starter s = {b, scratch, false, err};
    scratch->symbols.n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        int length = utf8_decode(text + i, n - i, &code);
        if (length == 0) return error_set(err, "invalid UTF-8");
        if (!put_character(&s, text + i, (size_t)length, code, i == 0, i + (size_t)length == n)) return false;
        i += (size_t)length;
    }
    return flush_unknown(&s);
}

/* ---- merging ---- */

static const Merge *find_merge(const Bpe *b, int32_t left, int32_t right) {
    uint64_t key = bpe_merge_key(left, right);
    for (uint64_t at = bpe_merge_slot(b, key);; at = (at + 1) & b->mask) {
        const Merge *m = &b->merges[at];
        if (m->key == key) return m;
        if (m->key == 0) return NULL;
    }
}

static void merge_short(const Bpe *b, IdList *symbols) {
    uint32_t ranks[SHORT];
    int32_t merged[SHORT], *ids = symbols->ids;
    size_t n = symbols->n;
    for (size_t i = 0; i + 1 < n; i++) {
        const Merge *m = find_merge(b, ids[i], ids[i + 1]);
        ranks[i] = m ? m->rank : UINT32_MAX;
        merged[i] = m ? m->id : 0;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (ranks[i] < ranks[best]) best = i;
        }
        if (ranks[best] == UINT32_MAX) break;
        ids[best] = merged[best];
        n--;
        memmove(ids + best + 1, ids + best + 2, (n - best - 1) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (n - best - 1) * sizeof *ranks);
        memmove(merged + best, merged + best + 1, (n - best - 1) * sizeof *merged);
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const Merge *m = find_merge(b, ids[i], ids[i + 1]);
            ranks[i] = m ? m->rank : UINT32_MAX;
            merged[i] = m ? m->id : 0;
        }
    }
    symbols->n = n;
}

static bool link_symbols(BpeScratch *s) {
    size_t n = s->symbols.n;
    if (n > INT32_MAX) return false;
    if (n > s->links_capacity) {
        mem_free(s->previous);
        mem_free(s->next);
        s->previous = mem_array(n, sizeof *s->previous);
        s->next = mem_array(n, sizeof *s->next);
        s->links_capacity = s->previous && s->next ? n : 0;
        if (!s->links_capacity) return false;
    }
    for (size_t i = 0; i < n; i++) {
        s->previous[i] = (int32_t)i - 1;
        s->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    return true;
}

/* Queues the pair that begins at `position`, if it has a merge. */
static bool queue_pair(const Bpe *b, BpeScratch *s, int32_t position) {
    if (position < 0 || s->next[position] < 0) return true;
    const Merge *m = find_merge(b, s->symbols.ids[position], s->symbols.ids[s->next[position]]);
    return !m || merge_queue_push(&s->queue, m->rank, (uint32_t)position);
}

/* A removed symbol has the id -1. Entries of pairs that have changed since are dropped when they come up. */
static bool merge_long(const Bpe *b, BpeScratch *s) {
    if (!link_symbols(s)) return false;
    int32_t *ids = s->symbols.ids;
    size_t n = s->symbols.n;
    for (size_t i = 0; i + 1 < n; i++) {
        if (!queue_pair(b, s, (int32_t)i)) return false;
    }
    uint32_t rank, at;
    while (merge_queue_pop(&s->queue, &rank, &at)) {
        int32_t right = ids[at] < 0 ? -1 : s->next[at];
        if (right < 0) continue;
        const Merge *m = find_merge(b, ids[at], ids[right]);
        if (!m || m->rank != rank) continue;
        ids[at] = m->id;
        ids[right] = -1;
        s->next[at] = s->next[right];
        if (s->next[right] >= 0) s->previous[s->next[right]] = (int32_t)at;
        if (!queue_pair(b, s, s->previous[at]) || !queue_pair(b, s, (int32_t)at)) return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0) ids[kept++] = ids[i];
    }
    s->symbols.n = kept;
    return true;
}

/* ---- remembered words ---- */

static CachedWord *cache_slot(const BpeScratch *s, const char *text, size_t n, uint32_t hash) {
    for (size_t at = hash & (s->cache_size - 1);; at = (at + 1) & (s->cache_size - 1)) {
        CachedWord *w = &s->cache[at];
        if (w->n_ids == 0) return w;
        if (w->hash == hash && w->length == n && memcmp(s->cached_text.data + w->text, text, n) == 0) return w;
    }
}

static bool cache_grow(BpeScratch *s) {
    size_t size = s->cache_size ? s->cache_size * 4 : CACHE_START, old_size = s->cache_size;
    CachedWord *old = s->cache, *cache = mem_zeroed(size, sizeof *cache);
    if (!cache) return false;
    s->cache = cache;
    s->cache_size = size;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].n_ids) *cache_slot(s, s->cached_text.data + old[i].text, old[i].length, old[i].hash) = old[i];
    }
    mem_free(old);
    return true;
}

/* Remembering is only speed: without memory for it nothing is lost. */
static void cache_store(BpeScratch *s, const char *text, size_t n, uint32_t hash) {
    if (2 * s->n_cached >= s->cache_size && (s->cache_size == CACHE_MOST || !cache_grow(s))) return;
    CachedWord *w = cache_slot(s, text, n, hash);
    size_t text_at = s->cached_text.length, ids_at = s->cached_ids.n;
    buffer_append(&s->cached_text, text, n);
    if (s->cached_text.failed || !id_list_append(&s->cached_ids, s->symbols.ids, s->symbols.n)) return;
    *w = (CachedWord){hash, (uint32_t)text_at, (uint32_t)n, (uint32_t)ids_at, (uint32_t)s->symbols.n + 1};
    s->n_cached++;
}

static bool encode_word(const Bpe *b, BpeScratch *s, const char *text, size_t n, IdList *out, Error *err) {
    uint32_t hash = 0;
    if (n <= CACHED_LENGTH) {
        hash = vocab_hash(vocab_key(text, n));
        const CachedWord *w = s->cache_size ? cache_slot(s, text, n, hash) : NULL;
        if (w && w->n_ids == 1) return true; /* characters that became nothing */
        if (w && w->n_ids)
            return id_list_append(out, s->cached_ids.ids + w->ids, w->n_ids - 1) || error_memory(err, "ids");
    }
    int32_t whole = b->ignore_merges ? vocab_find(b->vocab, text, n) : -1;
    if (whole >= 0) return id_list_push(out, whole) || error_memory(err, "ids");
    if (!start_symbols(b, s, text, n, err)) return false;
    if (s->symbols.n <= SHORT) {
        merge_short(b, &s->symbols);
    } else if (!merge_long(b, s)) {
        return error_memory(err, "merging");
    }
    if (n <= CACHED_LENGTH) cache_store(s, text, n, hash);
    return id_list_append(out, s->symbols.ids, s->symbols.n) || error_memory(err, "ids");
}

bool bpe_encode(const Bpe *b, BpeScratch *s, const char *text, size_t n, IdList *out, Error *err) {
    while (n > CACHED_LENGTH && b->cuts.usable) {
        size_t length = bpe_cuts_next(&b->cuts, text, n);
        if (!encode_word(b, s, text, length, out, err)) return false;
        text += length;
        n -= length;
    }
    return n == 0 || encode_word(b, s, text, n, out, err);
}

void bpe_scratch_clear(BpeScratch *s) {
    id_list_clear(&s->symbols);
    id_list_clear(&s->cached_ids);
    mem_free(s->previous);
    mem_free(s->next);
    mem_free(s->cache);
    merge_queue_clear(&s->queue);
    buffer_clear(&s->text);
    buffer_clear(&s->cached_text);
    *s = (BpeScratch){0};
}
