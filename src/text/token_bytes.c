/* What one token stands for in the middle of a text, byte for byte: half a character's bytes too, which no decoded text
 * can show. The decoder's steps say how the vocabulary is spelled. */
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static void append_byte_level(Buffer *out, const char *token, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = (size_t)utf8_decode(token + i, n - i, &code); /* tokens are valid UTF-8 */
        int byte = code_to_byte(code);
        if (byte >= 0)
            buffer_byte(out, (char)byte);
        else
            buffer_append(out, token + i, length);
        i += length;
    }
}

/* <0x0A> */
static bool is_byte_token(const char *token, size_t n, char *byte) {
    if (n != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') return false;
    char digits[3] = {token[3], token[4], '\0'}, *end;
    *byte = (char)strtol(digits, &end, 16);
    return end == digits + 2;
}

/* The first step that spells tokens decides; others join or trim, which is not a token's own. */
static void append_spelled(const Decoder *d, Buffer *out, const char *token, size_t n) {
    char byte;
    for (size_t i = 0; i < d->n; i++) {
        const DecoderStep *s = &d->steps[i];
        if (s->kind == DECODE_BYTE_LEVEL) {
            append_byte_level(out, token, n);
            return;
        }
        if (s->kind == DECODE_BYTE_FALLBACK && is_byte_token(token, n, &byte)) {
            buffer_byte(out, byte);
            return;
        }
    }
    for (size_t i = 0; i < d->n; i++) {
        const DecoderStep *s = &d->steps[i];
        size_t prefix = s->prefix ? strlen(s->prefix) : 0;
        if (s->kind == DECODE_REPLACE && s->literal) {
            decode_append_replaced(out, token, n, s->literal, s->content);
            return;
        }
        if (s->kind == DECODE_METASPACE) {
            decode_append_replaced(out, token, n, s->prefix, " ");
            return;
        }
        if (s->kind == DECODE_WORDPIECE && prefix > 0) {
            bool goes_on = n > prefix && memcmp(token, s->prefix, prefix) == 0;
            buffer_append(out, token + (goes_on ? prefix : 0), n - (goes_on ? prefix : 0));
            return;
        }
    }
    buffer_append(out, token, n);
}

void tokenizer_bytes(const Tokenizer *t, int32_t id, Buffer *out) {
    size_t n;
    const char *token = tokenizer_token(t, id, &n);
    if (!token) return;
    if (added_by_id(&t->added, id))
        buffer_append(out, token, n);
    else
        append_spelled(&t->decoder, out, token, n);
}
