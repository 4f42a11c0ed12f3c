/* RWKV cuts a text from the left, each time by the longest token that it begins with, whatever words there are. That is
 * WordPiece without a mark of continuations over a text that is one word; its bytes, since tokens may end inside of a
 * character, are spelled in the alphabet of byte-level vocabularies. GGUF has the tokens as Python writes bytes
 * ("\\xff", "\\n"). */
#include "convert/gguf_rwkv_vocab.h"
#include "base/hex.h"
#include "base/json.h"
#include "text/bytelevel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3 };

/* Python writes small letters. */
static int small_hex_digit(char c) {
    return c >= 'A' && c <= 'F' ? -1 : hex_digit(c);
}

/* One byte of an escaped text; *at moves on. False where the escape is none of Python's. */
static bool read_byte(const char *text, size_t n, size_t *at, char *out) {
    static const char letters[] = "tnr\\\'\"", values[] = "\t\n\r\\\'\"";
    char c = text[(*at)++];
    *out = c;
    if (c != '\\') return true;
    if (*at == n) return false;
    c = text[(*at)++];
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter) {
        *out = values[letter - letters];
        return true;
    }
    int high = c == 'x' && *at + 2 <= n ? small_hex_digit(text[*at]) : -1,
        low = high >= 0 ? small_hex_digit(text[*at + 1]) : -1;
    if (low < 0) return false;
    *at += 2;
    *out = (char)(high << 4 | low);
    return true;
}

static bool spell(const char *text, size_t n, Buffer *out) {
    for (size_t at = 0; at < n;) {
        char byte;
        if (!read_byte(text, n, &at, &byte)) return false;
        bytelevel_append(out, &byte, 1);
    }
    return n > 0;
}

bool gguf_rwkv_model(const GgufModel *m, Buffer *out, Error *err) {
    const GgufValue *tokens = gguf_find(m->file, "tokenizer.ggml.tokens"),
                    *types = gguf_find(m->file, "tokenizer.ggml.token_type");
    uint64_t at = 0;
    const char *text, *separator = "";
    size_t n;
    Buffer word = {0};
    bool ok = true;
    buffer_text(out, "{\n    \"type\": \"WordPiece\",\n    \"unk_token\": \"[UNK]\",\n"
                     "    \"continuing_subword_prefix\": \"\",\n    \"max_input_chars_per_word\": 2147483647,\n"
                     "    \"vocab\": {");
    for (uint64_t id = 0; ok && gguf_next_string(tokens, &at, &text, &n); id++) {
        double type = NORMAL;
        gguf_item_number(types, id, &type);
        if (type != NORMAL && type != CONTROL) continue; /* a row of the embedding without a token */
        buffer_reset(&word);
        if (type == CONTROL)
            buffer_append(&word, text, n);
        else if (!spell(text, n, &word))
            ok = error_set(err, "its token %" PRIu64 " (\"%.*s\") is not spelled as Python spells bytes", id,
                           n < 60 ? (int)n : 60, text);
        buffer_printf(out, "%s\n      ", separator);
        json_write_string(out, buffer_string(&word), word.length, false);
        buffer_printf(out, ": %" PRIu64, id);
        out->failed = out->failed || word.failed;
        separator = ",";
    }
    buffer_clear(&word);
    buffer_text(out, "\n    }\n  }");
    return ok && (!out->failed || error_memory(err, "tokenizer.json"));
}
