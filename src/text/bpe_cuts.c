/* SentencePiece's vocabularies come without a pre-tokenizer: a whole document is one piece, and merging it is a matter
 * of a queue as long as the document. But a merge joins its two parts to a token, so where no token has a character x
 * followed by U+2581 (the sign for a blank), no merge ever reaches across such a place, and what lies left and right of
 * it becomes the same ids alone. Llama's vocabulary has no such x at all, Gemma's has one, for "> </". Cut there, a
 * document becomes words, which are short and repeat.
 *
 * A character may enter the merging as other text than its own: as bytes, "<0xE2>", or as the unknown token. When a
 * token has one of those before the sign, nothing is cut. */
#include "text/bpe_cuts.h"
#include "base/utf8.h"

#include <ctype.h>
#include <string.h>

static const char blank[] = "\xE2\x96\x81";
enum { BLANK = 3, BYTE_TOKEN = 6 };

/* Where the sign stands at or after `from`; n when it does not. */
static size_t find_blank(const char *text, size_t n, size_t from) {
    while (from + BLANK <= n) {
        const char *at = memchr(text + from, blank[0], n - from - BLANK + 1);
        if (!at) break;
        from = (size_t)(at - text);
        if (at[1] == blank[1] && at[2] == blank[2]) return from;
        from++;
    }
    return n;
}

static uint32_t character_before(const char *text, size_t end) {
    size_t start = end - 1;
    while (start > 0 && (text[start] & 0xC0) == 0x80) start--;
    uint32_t code = 0;
    utf8_decode(text + start, end - start, &code);
    return code;
}

static bool ends_with_byte(const char *text, size_t n) {
    const char *s = text + n - BYTE_TOKEN;
    return n >= BYTE_TOKEN && memcmp(s, "<0x", 3) == 0 && isxdigit((unsigned char)s[3]) &&
           isxdigit((unsigned char)s[4]) && s[5] == '>';
}

static bool ends_with_token(const char *text, size_t n, const Vocab *vocab, int32_t id) {
    size_t length = 0;
    const char *token = vocab_token(vocab, id, &length);
    return token && n >= length && memcmp(text + n - length, token, length) == 0;
}

static bool is_binding(const BpeCuts *c, uint32_t code) {
    for (int i = 0; i < c->n_binding; i++) {
        if (c->binding[i] == code) return true;
    }
    return false;
}

/* A token that has text[0..n) before a sign. */
static void note_token(BpeCuts *c, const char *text, size_t n, const Vocab *vocab, int32_t unknown) {
    uint32_t code = character_before(text, n);
    bool full = !is_binding(c, code) && c->n_binding == CUTS_MOST_BINDING;
    if (full || ends_with_byte(text, n) || ends_with_token(text, n, vocab, unknown))
        c->usable = false;
    else if (!is_binding(c, code))
        c->binding[c->n_binding++] = code;
}

void bpe_cuts_find(BpeCuts *c, const Vocab *vocab, int32_t unknown) {
    *c = (BpeCuts){.usable = vocab_find(vocab, blank, BLANK) >= 0};
    for (int32_t i = 0; c->usable && i < vocab->count; i++) {
        const VocabToken *t = &vocab->tokens[i];
        const char *text = vocab->bytes + t->start;
        for (size_t at = find_blank(text, t->length, 1); c->usable && at < t->length;
             at = find_blank(text, t->length, at + 1)) {
            note_token(c, text, at, vocab, unknown);
        }
    }
}

size_t bpe_cuts_next(const BpeCuts *c, const char *text, size_t n) {
    for (size_t at = find_blank(text, n, 1); at < n; at = find_blank(text, n, at + 1)) {
        if (!is_binding(c, character_before(text, at))) return at;
    }
    return n;
}
