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
    MERGE_GROUP = 32,
};

/* ---- loading ---- */

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Where the search for a pair begins. */
static uint64_t merge_slot(const Bpe *b, int32_t left, int32_t right) {
    return (pair_of(left, right) * 0x9E3779B97F4A7C15u >> 32) & b->mask;
}

static const Merge *find_merge(const Bpe *b, int32_t left, int32_t right) {
    uint64_t pair = pair_of(left, right);
    for (uint64_t at = merge_slot(b, left, right);; at = (at + 1) & b->mask) {
        const Merge *m = &b->merges[at];
        if (m->pair == pair) return m;
        if (m->pair == UINT64_MAX) return NULL;
    }
}

static void put_merge(Bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    uint64_t pair = pair_of(left, right), at = merge_slot(b, left, right);
    while (b->merges[at].pair != UINT64_MAX && b->merges[at].pair != pair) at = (at + 1) & b->mask;
    b->merges[at] = (Merge){pair, rank, id};
}

/* "a b", or ["a", "b"]. */
static bool merge_parts(const JsonValue *v, const char *part[2], size_t length[2]) {
    if (v->type == JSON_STRING) {
        const char *space = memchr(v->text, ' ', v->length);
        if (!space) return false;
        part[0] = v->text;
        length[0] = (size_t)(space - v->text);
        part[1] = space + 1;
        length[1] = v->length - length[0] - 1;
        return memchr(part[1], ' ', length[1]) == NULL;
    }
    if (v->type != JSON_ARRAY || v->length != 2) return false;
    for (int i = 0; i < 2; i++) {
        if (v->items[i].type != JSON_STRING) return false;
        part[i] = v->items[i].text;
        length[i] = v->items[i].length;
    }
    return true;
}

static size_t merge_bytes(const JsonValue *v) {
    size_t bytes = v->type == JSON_STRING ? v->length : 0;
    for (uint32_t i = 0; v->type == JSON_ARRAY && i < v->length; i++) {
        if (v->items[i].type == JSON_STRING) bytes += v->items[i].length;
    }
    return bytes;
}

/* A merge being looked up: its two parts and what they join to. */
typedef struct Lookup {
    const char *text[3];
    size_t length[3];
    uint32_t hash[3];
    int32_t id[3];
} Lookup;

/* Fills in the texts of merge `rank`; the joined one is appended to `joined`, whose memory must not move. */
static bool read_merge(const Bpe *b, const JsonValue *v, uint32_t rank, Lookup *l, Buffer *joined, Error *err) {
    if (!merge_parts(v, l->text, l->length)) return error_set(err, "merge %u is not a pair of tokens", rank);
    size_t skip = b->prefix ? strlen(b->prefix) : 0;
    if (l->length[1] < skip) {
        return error_set(err, "merge %u: \"%.*s\" lacks the prefix", rank, (int)l->length[1], l->text[1]);
    }
    l->length[2] = l->length[0] + l->length[1] - skip;
    l->text[2] = joined->data + joined->length;
    buffer_append(joined, l->text[0], l->length[0]);
    buffer_append(joined, l->text[1] + skip, l->length[1] - skip);
    for (int k = 0; k < 3; k++) l->hash[k] = vocab_hash(l->text[k], l->length[k]);
    return true;
}

static bool find_parts(const Bpe *b, uint32_t rank, Lookup *l, Error *err) {
    for (int k = 0; k < 3; k++) {
        l->id[k] = vocab_find_hashed(b->vocab, l->text[k], l->length[k], l->hash[k]);
        if (l->id[k] >= 0) continue;
        return error_set(err, "merge %u (\"%.*s\" \"%.*s\") uses a token that is not in the vocabulary", rank,
                         (int)l->length[0], l->text[0], (int)l->length[1], l->text[1]);
    }
    __builtin_prefetch(&b->merges[merge_slot(b, l->id[0], l->id[1])], 1);
    return true;
}

/* Merges `first` to before `end`. Hundreds of thousands of look-ups miss every cache, so each step asks for the memory
 * of the next one for a whole group of merges: twice as quick as one merge after the other. */
static bool load_group(Bpe *b, const JsonValue *merges, uint32_t first, uint32_t end, Buffer *joined, Error *err) {
    Lookup group[MERGE_GROUP] = {0};
    size_t bytes = 0;
    for (uint32_t i = first; i < end; i++) bytes += merge_bytes(&merges->items[i]);
    buffer_reset(joined);
    if (!buffer_reserve(joined, bytes)) return error_memory(err, "merges");
    for (uint32_t i = first; i < end; i++) {
        Lookup *l = &group[i - first];
        if (!read_merge(b, &merges->items[i], i, l, joined, err)) return false;
        for (int k = 0; k < 3; k++) vocab_prefetch_slot(b->vocab, l->hash[k]);
    }
    for (uint32_t i = 0; i < end - first; i++) {
        for (int k = 0; k < 3; k++) vocab_prefetch_text(b->vocab, group[i].hash[k]);
    }
    for (uint32_t i = first; i < end; i++) {
        if (!find_parts(b, i, &group[i - first], err)) return false;
    }
    for (uint32_t i = first; i < end; i++) {
        const Lookup *l = &group[i - first];
        put_merge(b, l->id[0], l->id[1], i, l->id[2]);
    }
    return true;
}

static bool allocate_merges(Bpe *b, size_t n) {
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)n) slots *= 2;
    b->merges = mem_array(slots, sizeof *b->merges);
    if (!b->merges) return false;
    memset(b->merges, 0xFF, slots * sizeof *b->merges);
    b->mask = slots - 1;
    return true;
}

static bool load_merges(Bpe *b, const JsonValue *merges, Error *err) {
    uint32_t n = merges ? merges->length : 0;
    if (merges && merges->type != JSON_ARRAY) return error_set(err, "model.merges is not an array");
    if (!allocate_merges(b, n)) return error_memory(err, "merges");
    Buffer joined = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i += MERGE_GROUP) {
        ok = load_group(b, merges, i, i + MERGE_GROUP < n ? i + MERGE_GROUP : n, &joined, err);
    }
    buffer_clear(&joined);
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

static void fill_tables(Bpe *b) {
    for (int i = 0; i < 256; i++) {
        static const char digits[] = "0123456789ABCDEF";
        char token[6] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        b->byte_ids[i] = vocab_find(b->vocab, token, 6);
    }
    for (uint32_t i = 0; i < BPE_DIRECT; i++) {
        char text[4];
        b->direct[i] = vocab_find(b->vocab, text, (size_t)utf8_encode(i, text));
    }
}

bool bpe_load(Bpe *b, const JsonValue *model, const Vocab *vocab, Error *err) {
    *b = (Bpe){.vocab = vocab, .unknown = -1};
    bool ok = load_text(model, "unk_token", &b->unknown_token, err) &&
              load_text(model, "continuing_subword_prefix", &b->prefix, err) &&
              load_text(model, "end_of_word_suffix", &b->suffix, err) &&
              load_flag(model, "fuse_unk", &b->fuse_unknown, err) &&
              load_flag(model, "byte_fallback", &b->byte_fallback, err) &&
              load_flag(model, "ignore_merges", &b->ignore_merges, err) &&
              load_merges(b, json_get_set(model, "merges"), err);
    if (!ok) {
        bpe_clear(b);
        return false;
    }
    if (b->unknown_token) {
        int32_t id = vocab_find(vocab, b->unknown_token, strlen(b->unknown_token));
        b->unknown = id < 0 ? -2 : id;
    }
    fill_tables(b);
    return true;
}

bool bpe_set_merges(Bpe *b, const Vocab *vocab, const Merge *merges, size_t n) {
    *b = (Bpe){.vocab = vocab, .unknown = -1};
    if (!allocate_merges(b, n)) return false;
    for (size_t i = 0; i < n; i++) {
        put_merge(b, (int32_t)(merges[i].pair >> 32), (int32_t)merges[i].pair, merges[i].rank, merges[i].id);
    }
    fill_tables(b);
    return true;
}

void bpe_clear(Bpe *b) {
    mem_free(b->merges);
    mem_free(b->unknown_token);
    mem_free(b->prefix);
    mem_free(b->suffix);
    *b = (Bpe){0};
}

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

bool bpe_encode(const Bpe *b, BpeScratch *s, const char *text, size_t n, IdList *out, Error *err) {
    if (n == 0) return true;
    uint32_t hash = 0;
    if (n <= CACHED_LENGTH) {
        hash = vocab_hash(text, n);
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
