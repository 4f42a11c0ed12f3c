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

static bool add_pattern(AddedTokens *a, uint32_t token, const Normalizer *normalizer, NormalizeScratch *scratch,
                        Error *err) {
    AddedToken *t = &a->tokens[token];
    PrefixMatcher *m = t->normalized ? &a->normalized : &a->raw;
    Buffer text = {0};
    buffer_append(&text, t->content, t->length);
    size_t origin = 0;
    bool ok = !text.failed || error_memory(err, "added tokens");
    if (ok && t->normalized && !t->normal) ok = normalize(normalizer, scratch, &text, &origin, err);
    ok = ok && (show_token(a, t, &text) || error_memory(err, "added tokens"));
    if (ok && text.length)
        ok = prefix_matcher_add(m, text.data, text.length, token) || error_memory(err, "added tokens");
    buffer_clear(&text);
    return ok;
}

bool added_prepare(AddedTokens *a, const Normalizer *normalizer, NormalizeScratch *scratch, Error *err) {
    uint32_t *order = order_tokens(a);
    a->by_id = mem_zeroed(a->id_end, sizeof *a->by_id);
    bool ok = (order && a->by_id) || error_memory(err, "added tokens");
    for (uint32_t i = 0; ok && i < a->n; i++) ok = add_pattern(a, order[i], normalizer, scratch, err);
    for (uint32_t i = 0; ok && i < a->n; i++) a->by_id[a->tokens[i].id] = i + 1;
    mem_free(order);
    if (!ok) return false;
    prefix_matcher_finish(&a->raw);
    prefix_matcher_finish(&a->normalized);
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
    prefix_matcher_clear(&a->raw);
    prefix_matcher_clear(&a->normalized);
    *a = (AddedTokens){0};
}

/* ---- matching ---- */

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

bool added_split(const AddedTokens *a, const PrefixMatcher *m, const char *text, size_t n, size_t base, size_t origin,
                 Pieces *out) {
    size_t done = 0, i = 0;
    while (m->n && i < n) {
        const PrefixPattern *p = prefix_matcher_may(m, text[i]) ? prefix_matcher_at(m, text + i, n - i) : NULL;
        if (!p) {
            i++;
            continue;
        }
        size_t start = i, end = i + p->length;
        const AddedToken *t = &a->tokens[p->value];
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
