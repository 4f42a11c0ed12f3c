/* Leftmost, then longest match. A match that single_word rejects still consumes its text, as in the reference; lstrip
 * and rstrip widen a match over white space. */
#include "text/added.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ADDED = 1 << 20 };

/* ---- the list ---- */

static uint32_t *slot_for(const AddedTokens *a, const char *text, size_t n) {
    uint32_t at = vocab_hash(vocab_key(text, n)) & (a->n_slots - 1);
    for (;; at = (at + 1) & (a->n_slots - 1)) {
        if (a->slots[at] == 0) return &a->slots[at];
        const AddedToken *t = &a->tokens[a->slots[at] - 1];
        if (t->length == n && memcmp(t->content, text, n) == 0) return &a->slots[at];
    }
}

const AddedToken *added_find(const AddedTokens *a, const char *text, size_t n) {
    uint32_t index = a->n_slots ? *slot_for(a, text, n) : 0;
    return index ? &a->tokens[index - 1] : NULL;
}

const AddedToken *added_by_id(const AddedTokens *a, int32_t id) {
    uint32_t index = id >= 0 && (uint32_t)id < a->id_end ? a->by_id[id] : 0;
    return index ? &a->tokens[index - 1] : NULL;
}

static bool grow(AddedTokens *a) {
    uint32_t capacity = a->capacity ? a->capacity * 2 : 16;
    AddedToken *tokens = mem_resize(a->tokens, capacity, sizeof *tokens);
    if (!tokens) return false;
    a->tokens = tokens;
    uint32_t *slots = mem_zeroed(2 * (size_t)capacity, sizeof *slots);
    if (!slots) return false;
    mem_free(a->slots);
    a->slots = slots;
    a->n_slots = 2 * capacity;
    a->capacity = capacity;
    for (uint32_t i = 0; i < a->n; i++) *slot_for(a, tokens[i].content, tokens[i].length) = i + 1;
    return true;
}

static int32_t next_id(const AddedTokens *a, const Vocab *vocab) {
    return (int32_t)a->id_end > vocab->count ? (int32_t)a->id_end : vocab->count;
}

/* The later flags hold; special once is special for good. */
static void replace_flags(AddedToken *same, AddedToken token) {
    token.special |= same->special;
    token.content = same->content;
    token.id = same->id;
    *same = token;
}

bool added_add(AddedTokens *a, const Vocab *vocab, AddedToken token, Error *err) {
    if (token.length == 0) return true;
    AddedToken *same = (AddedToken *)added_find(a, token.content, token.length);
    if (same) {
        replace_flags(same, token);
        return true;
    }
    if (a->n == MAX_ADDED) return error_set(err, "more than %d added tokens", MAX_ADDED);
    if ((a->n == a->capacity || !a->tokens) && !grow(a)) return error_memory(err, "added tokens");
    int32_t known = vocab_find(vocab, token.content, token.length);
    if (known >= 0)
        token.id = known;
    else if (token.id < 0)
        token.id = next_id(a, vocab);
    if (token.id >= VOCAB_MAX_ID)
        return error_set(err, "the added token \"%.100s\" has an id out of range", token.content);
    token.content = mem_string(token.content, token.length);
    if (!token.content) return error_memory(err, "added tokens");
    *slot_for(a, token.content, token.length) = a->n + 1;
    a->tokens[a->n++] = token;
    if ((uint32_t)token.id >= a->id_end) a->id_end = (uint32_t)token.id + 1;
    return true;
}

static bool read_flag(const JsonValue *v, const char *key, bool *out, Error *err) {
    const JsonValue *flag = json_get_set(v, key);
    return !flag || json_bool(flag, out) || error_set(err, "\"%s\" is not true or false", key);
}

bool added_read(const JsonValue *v, AddedToken *t, Error *err) {
    *t = (AddedToken){.id = -1};
    const JsonValue *content = json_get(v, "content");
    if (!content || content->type != JSON_STRING) return error_set(err, "\"content\" is not a string");
    t->content = (char *)content->text; /* added_add copies it */
    t->length = content->length;
    t->normalized = true;
    if (!read_flag(v, "special", &t->special, err)) return false;
    t->normalized = !t->special;
    return read_flag(v, "single_word", &t->single_word, err) && read_flag(v, "lstrip", &t->lstrip, err) &&
           read_flag(v, "rstrip", &t->rstrip, err) && read_flag(v, "normalized", &t->normalized, err);
}

bool added_load(AddedTokens *a, const JsonValue *list, const Vocab *vocab, Error *err) {
    if (!list) return true;
    if (list->type != JSON_ARRAY) return error_set(err, "added_tokens is not an array");
    for (uint32_t i = 0; i < list->length; i++) {
        AddedToken token;
        if (!added_read(&list->items[i], &token, err)) return error_prefix(err, "added_tokens[%u]", i);
        if (!added_add(a, vocab, token, err)) return false;
    }
    return true;
}

/* ---- the matchers ---- */

static int compare_patterns(const void *x, const void *y) {
    const AddedPattern *a = x, *b = y;
    uint32_t n = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, n);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* Sorts; of equal patterns the first added stays. */
static void matcher_finish(AddedMatcher *m) {
    qsort(m->patterns, m->n, sizeof *m->patterns, compare_patterns);
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const AddedPattern *last = n ? &m->patterns[n - 1] : NULL;
        if (last && last->length == m->patterns[i].length &&
            memcmp(last->text, m->patterns[i].text, last->length) == 0) {
            mem_free(m->patterns[i].text);
        } else {
            m->patterns[n++] = m->patterns[i];
        }
    }
    m->n = n;
    for (uint32_t byte = 0, i = 0; byte <= 256; byte++) {
        while (i < n && (unsigned char)m->patterns[i].text[0] < byte) i++;
        m->first[byte] = i;
    }
}

static void matcher_clear(AddedMatcher *m) {
    for (uint32_t i = 0; i < m->n; i++) mem_free(m->patterns[i].text);
    mem_free(m->patterns);
    *m = (AddedMatcher){0};
}

/* Special tokens come before the others: that decides which of two equal patterns counts. */
static uint32_t *order_tokens(const AddedTokens *a) {
    uint32_t *order = mem_array(a->n, sizeof *order), n = 0;
    for (int pass = 0; order && pass < 2; pass++) {
        for (uint32_t i = 0; i < a->n; i++) {
            if (a->tokens[i].special == (pass == 0)) order[n++] = i;
        }
    }
    return order;
}

static bool show_token(const AddedTokens *a, AddedToken *t, const Buffer *text) {
    t->shown = mem_string(buffer_string(text), text->length);
    t->shown_length = (uint32_t)text->length;
    const AddedToken *same = added_find(a, buffer_string(text), text->length);
    t->hidden = same && same->special;
    return t->shown != NULL;
}

static bool add_pattern(AddedTokens *a, uint32_t token, uint32_t order, const Normalizer *normalizer,
                        NormalizeScratch *scratch, Error *err) {
    AddedToken *t = &a->tokens[token];
    AddedMatcher *m = t->normalized ? &a->normalized : &a->raw;
    Buffer text = {0};
    buffer_append(&text, t->content, t->length);
    size_t origin = 0;
    bool ok = !text.failed || error_memory(err, "added tokens");
    if (ok && t->normalized) ok = normalize(normalizer, scratch, &text, &origin, err);
    ok = ok && (show_token(a, t, &text) || error_memory(err, "added tokens"));
    if (ok && text.length) {
        char *copy = mem_string(text.data, text.length);
        ok = copy || error_memory(err, "added tokens");
        if (ok) m->patterns[m->n++] = (AddedPattern){copy, (uint32_t)text.length, token, order};
    }
    buffer_clear(&text);
    return ok;
}

bool added_prepare(AddedTokens *a, const Normalizer *normalizer, NormalizeScratch *scratch, Error *err) {
    a->raw.patterns = mem_array(a->n, sizeof *a->raw.patterns);
    a->normalized.patterns = mem_array(a->n, sizeof *a->normalized.patterns);
    uint32_t *order = order_tokens(a);
    a->by_id = mem_zeroed(a->id_end, sizeof *a->by_id);
    bool ok = (a->raw.patterns && a->normalized.patterns && order && a->by_id) || error_memory(err, "added tokens");
    for (uint32_t i = 0; ok && i < a->n; i++) {
        ok = add_pattern(a, order[i], i, normalizer, scratch, err);
    }
    for (uint32_t i = 0; ok && i < a->n; i++) a->by_id[a->tokens[i].id] = i + 1;
    mem_free(order);
    if (!ok) return false;
    matcher_finish(&a->raw);
    matcher_finish(&a->normalized);
    return true;
}

void added_clear(AddedTokens *a) {
    for (uint32_t i = 0; i < a->n; i++) {
        mem_free(a->tokens[i].content);
        mem_free(a->tokens[i].shown);
    }
    mem_free(a->tokens);
    mem_free(a->slots);
    mem_free(a->by_id);
    matcher_clear(&a->raw);
    matcher_clear(&a->normalized);
    *a = (AddedTokens){0};
}

/* ---- matching ---- */

/* The first pattern in [low, high) whose byte `depth` is at least `byte`; all share the bytes before it. */
static uint32_t lower_bound(const AddedMatcher *m, uint32_t low, uint32_t high, uint32_t depth, unsigned byte) {
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const AddedPattern *p = &m->patterns[middle];
        if (p->length <= depth || (unsigned char)p->text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest pattern at the start of text, or NULL. */
static const AddedPattern *match_at(const AddedMatcher *m, const char *text, size_t n) {
    unsigned byte = (unsigned char)text[0];
    uint32_t low = m->first[byte], high = m->first[byte + 1];
    const AddedPattern *best = NULL;
    for (uint32_t depth = 1; low < high; depth++) {
        if (m->patterns[low].length == depth) best = &m->patterns[low++];
        if (depth == n || low == high) break;
        byte = (unsigned char)text[depth];
        low = lower_bound(m, low, high, depth, byte);
        high = lower_bound(m, low, high, depth, byte + 1);
    }
    return best;
}

static bool is_word(uint32_t code) {
    return unicode_in(&unicode_word, code);
}

/* The start of the character that ends at `end` > 0. */
static size_t character_before(const char *text, size_t end) {
    size_t i = end - 1;
    while (i > 0 && (text[i] & 0xC0) == 0x80) i--;
    return i;
}

static bool word_before(const char *text, size_t end) {
    if (end == 0) return false;
    size_t i = character_before(text, end);
    uint32_t code = 0;
    utf8_decode(text + i, end - i, &code);
    return is_word(code);
}

static bool word_after(const char *text, size_t n, size_t start) {
    uint32_t code = 0;
    return start < n && utf8_decode(text + start, n - start, &code) && is_word(code);
}

static size_t skip_space_left(const char *text, size_t end) {
    while (end > 0) {
        size_t i = character_before(text, end);
        uint32_t code = 0;
        utf8_decode(text + i, end - i, &code);
        if (!unicode_in(&unicode_space, code)) break;
        end = i;
    }
    return end;
}

static size_t skip_space_right(const char *text, size_t n, size_t start) {
    while (start < n) {
        uint32_t code = 0;
        int length = utf8_decode(text + start, n - start, &code);
        if (length == 0 || !unicode_in(&unicode_space, code)) break;
        start += (size_t)length;
    }
    return start;
}

bool added_split(const AddedTokens *a, const AddedMatcher *m, const char *text, size_t n, size_t base, size_t origin,
                 Pieces *out) {
    size_t done = 0, i = 0;
    while (m->n && i < n) {
        unsigned byte = (unsigned char)text[i];
        const AddedPattern *p = m->first[byte] < m->first[byte + 1] ? match_at(m, text + i, n - i) : NULL;
        if (!p) {
            i++;
            continue;
        }
        size_t start = i, end = i + p->length;
        const AddedToken *t = &a->tokens[p->token];
        i = end;
        if (t->single_word && (word_before(text, start) || word_after(text, n, end))) continue;
        if (t->lstrip) {
            start = skip_space_left(text, start);
            if (start < done) start = done;
        }
        if (t->rstrip) end = skip_space_right(text, n, end);
        if (start > done && !pieces_add(out, (Piece){base + done, start - done, -1, pieces_origin(origin, done)}))
            return false;
        Piece piece = {base + start, end - start, t->id, pieces_origin(origin, start)};
        if (start < end && !pieces_add(out, piece)) return false; /* else its blanks went with the token before it */
        done = end;
    }
    return pieces_add(out, (Piece){base + done, n > done ? n - done : 0, -1, pieces_origin(origin, done)});
}
