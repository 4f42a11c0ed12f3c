/* GGUF marks the beginning of a word in a WordPiece vocabulary with U+2581 and leaves the continuations bare; the
 * family's own files leave the beginnings bare and mark the continuations with "##". Whether text becomes lower case is
 * a key of new files only; where it is absent, a vocabulary without a capital letter is one of lower case. A unigram
 * vocabulary has its character map as bytes. */
#include "convert/gguf_encoder_vocab.h"
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

enum { NORMAL = 1 };

static const char MARK[] = "\xE2\x96\x81";

static const GgufValue *find_tokens(const GgufModel *m) {
    return gguf_find(m->file, "tokenizer.ggml.tokens");
}

static bool is_normal(const GgufModel *m, uint64_t id) {
    double type = NORMAL;
    gguf_item_number(gguf_find(m->file, "tokenizer.ggml.token_type"), id, &type);
    return type == NORMAL;
}

/* ---- WordPiece ---- */

static bool has_capitals(const GgufModel *m) {
    uint64_t at = 0;
    const char *text;
    size_t n;
    for (uint64_t id = 0; gguf_next_string(find_tokens(m), &at, &text, &n); id++)
        for (size_t i = 0; is_normal(m, id) && i < n; i++)
            if (text[i] >= 'A' && text[i] <= 'Z') return true;
    return false;
}

static bool is_on(const GgufModel *m, const char *key, bool absent) {
    bool on = absent;
    gguf_bool(gguf_find(m->file, key), &on);
    return on;
}

void gguf_wordpiece_normalizer(const GgufModel *m, Buffer *out) {
    const char *said = "tokenizer.ggml.normalizer.lowercase";
    bool lower = is_on(m, said, gguf_find(m->file, said) || !has_capitals(m));
    bool strip = is_on(m, "tokenizer.ggml.normalizer.strip_accents", lower);
    buffer_printf(out,
                  "{\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, "
                  "\"strip_accents\": %s, \"lowercase\": %s}",
                  strip ? "true" : "false", lower ? "true" : "false");
}

/* Old converters left "[unused7]" as it is. */
static void write_word(const GgufModel *m, uint64_t id, const char *text, size_t n, Buffer *out) {
    bool begins = n >= 3 && memcmp(text, MARK, 3) == 0, bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    Buffer word = {0};
    if (is_normal(m, id) && !begins && !bracketed) buffer_text(&word, "##");
    buffer_append(&word, begins ? text + 3 : text, begins ? n - 3 : n);
    out->failed = out->failed || word.failed;
    json_write_string(out, word.failed ? "" : word.data, word.failed ? 0 : word.length, false);
    buffer_clear(&word);
}

bool gguf_wordpiece_model(const GgufModel *m, Buffer *out, Error *err) {
    uint64_t at = 0, unknown = 0;
    const char *text, *separator = "";
    size_t n;
    buffer_text(out, "{\n    \"type\": \"WordPiece\",\n    \"unk_token\": ");
    gguf_uint(gguf_find(m->file, "tokenizer.ggml.unknown_token_id"), &unknown);
    for (uint64_t id = 0; gguf_next_string(find_tokens(m), &at, &text, &n); id++)
        if (id == unknown) write_word(m, id, text, n, out);
    buffer_text(out, ",\n    \"continuing_subword_prefix\": \"##\",\n    \"max_input_chars_per_word\": 100,\n"
                     "    \"vocab\": {");
    at = 0;
    for (uint64_t id = 0; gguf_next_string(find_tokens(m), &at, &text, &n); id++) {
        buffer_printf(out, "%s\n      ", separator);
        write_word(m, id, text, n, out);
        buffer_printf(out, ": %" PRIu64, id);
        separator = ",";
    }
    buffer_text(out, "\n    }\n  }");
    return !out->failed || error_memory(err, "tokenizer.json");
}

/* ---- unigram ---- */

static void write_base64(const uint8_t *bytes, uint64_t n, Buffer *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (uint64_t i = 0; i < n; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16;
        if (i + 1 < n) word |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < n) word |= bytes[i + 2];
        for (int j = 0; j < 4; j++) buffer_byte(out, i + (uint64_t)j <= n ? digits[word >> (18 - 6 * j) & 63] : '=');
    }
}

bool gguf_unigram_normalizer(const GgufModel *m, Buffer *out, Error *err) {
    const GgufValue *map = gguf_find(m->file, "tokenizer.ggml.precompiled_charsmap");
    buffer_text(out, "{\"type\": \"Sequence\", \"normalizers\": [");
    if (map && (map->kind != GGUF_ARRAY || (map->item != GGUF_U8 && map->item != GGUF_I8)))
        return error_set(err, "has a map of characters that is no list of bytes");
    if (map && map->count) {
        buffer_text(out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"");
        write_base64(map->data, map->count, out);
        buffer_text(out, "\"}, ");
    }
    buffer_text(out, "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" \"}]}");
    return true;
}

bool gguf_unigram_model(const GgufModel *m, Buffer *out, Error *err) {
    const GgufValue *scores = gguf_find(m->file, "tokenizer.ggml.scores");
    uint64_t at = 0, unknown = 0;
    const char *text;
    size_t n;
    gguf_uint(gguf_find(m->file, "tokenizer.ggml.unknown_token_id"), &unknown);
    buffer_printf(out, "{\n    \"type\": \"Unigram\",\n    \"unk_id\": %" PRIu64 ",\n    \"vocab\": [", unknown);
    for (uint64_t id = 0; gguf_next_string(find_tokens(m), &at, &text, &n); id++) {
        double score;
        if (!gguf_item_number(scores, id, &score)) return error_set(err, "has no score for each of its tokens");
        buffer_text(out, id ? ",\n      [" : "\n      [");
        json_write_string(out, text, n, false);
        buffer_text(out, ", ");
        json_write_double(out, score);
        buffer_byte(out, ']');
    }
    buffer_text(out, "\n    ],\n    \"byte_fallback\": false\n  }");
    return !out->failed || error_memory(err, "tokenizer.json");
}
