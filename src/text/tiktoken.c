/* Byte-level vocabularies without merges: *.tiktoken (lines of base64 and rank) and Mistral's tekken.json. Two
 * neighbours join whenever together they are a token, lowest rank first, which is what the ranked table of bpe_ranked.c
 * does; a word that is a token as a whole stays whole. The files of the first kind do not hold their expression: it
 * belongs to the program that ships them, so the known ones are kept here. */
#include "base/memory.h"
#include "text/bytelevel.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

typedef struct RankedToken {
    size_t start, length; /* in `bytes`, already in the byte-level alphabet */
    uint32_t rank;
} RankedToken;

typedef struct RankedVocab {
    Buffer bytes;
    RankedToken *tokens;
    size_t n, capacity;
} RankedVocab;

static void ranked_clear(RankedVocab *v) {
    buffer_clear(&v->bytes);
    mem_free(v->tokens);
}

static bool decode_base64(const char *text, size_t n, Buffer *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t before = out->length;
    uint32_t bits = 0;
    int have = 0;
    while (n && text[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        have += 6;
        if (have < 8) continue;
        have -= 8;
        char byte = (char)(bits >> have);
        bytelevel_append(out, &byte, 1);
    }
    return out->length > before; /* a token without bytes would match nowhere and everywhere */
}

static bool add_token(RankedVocab *v, const char *base64, size_t n, uint64_t rank, Error *err) {
    if (rank >= VOCAB_MAX_ID) return error_set(err, "token %zu has no valid rank", v->n);
    size_t start = v->bytes.length;
    if (!decode_base64(base64, n, &v->bytes)) return error_set(err, "token %zu is not base64", v->n);
    RankedToken *tokens = mem_room(v->tokens, v->n, &v->capacity, sizeof *tokens);
    if (!tokens) return error_memory(err, "the vocabulary");
    v->tokens = tokens;
    if (v->bytes.failed) return error_memory(err, "the vocabulary");
    v->tokens[v->n++] = (RankedToken){start, v->bytes.length - start, (uint32_t)rank};
    return true;
}

/* The id of a token is its rank plus `first`. */
static bool build_subword(Subword *s, const RankedVocab *v, uint32_t first, Error *err) {
    VocabEntry *entries = mem_array(v->n, sizeof *entries);
    bool ok = entries || error_memory(err, "the vocabulary");
    for (size_t i = 0; ok && i < v->n; i++) {
        const RankedToken *token = &v->tokens[i];
        entries[i] =
            (VocabEntry){v->bytes.data + token->start, (uint32_t)token->length, (int32_t)(token->rank + first)};
    }
    ok = ok && vocab_build(&s->vocab, entries, v->n, false, err);
    mem_free(entries);
    uint32_t *ranks = ok ? mem_array((size_t)s->vocab.size, sizeof *ranks) : NULL;
    if (ok && !ranks) ok = error_memory(err, "merges");
    for (int32_t id = 0; ok && id < s->vocab.size; id++) ranks[id] = s->vocab.by_id[id] ? (uint32_t)id : BPE_NO_RANK;
    ok = ok && bpe_load_ranked(&s->bpe, &s->vocab, ranks, err);
    mem_free(ranks);
    s->kind = SUBWORD_BPE;
    s->bpe.ignore_merges = true;
    if (ok) bpe_finish(&s->bpe);
    return ok;
}

static bool add_special(Tokenizer *t, const char *text, int32_t id, Error *err) {
    AddedToken token = {.content = (char *)text, .length = (uint32_t)strlen(text), .id = id, .special = true};
    return added_add(&t->added, &t->subword.vocab, token, err);
}

/* ---- *.tiktoken ---- */

static bool read_line(RankedVocab *v, const char *line, size_t n, Error *err) {
    const char *space = memchr(line, ' ', n);
    uint64_t rank = 0;
    if (n == 0) return true;
    if (!space || space + 1 == line + n) return error_set(err, "token %zu: the line is not base64 and a rank", v->n);
    for (const char *p = space + 1; p < line + n; p++) {
        if (*p < '0' || *p > '9' || rank > VOCAB_MAX_ID) return error_set(err, "token %zu has no valid rank", v->n);
        rank = rank * 10 + (uint64_t)(*p - '0');
    }
    return add_token(v, line, (size_t)(space - line), rank, err);
}

static bool read_lines(RankedVocab *v, const char *text, size_t n, Error *err) {
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        size_t length = end ? (size_t)(end - text) - i : n - i, next = i + length + 1;
        while (length && (text[i + length - 1] == '\r' || text[i + length - 1] == ' ')) length--;
        if (!read_line(v, text + i, length, err)) return false;
        i = next;
    }
    return v->n > 0 || error_set(err, "no tokens in it");
}

/* Families that ship such files, by what their tokenizer_config.json calls its class; the first is for all others. */
static const struct {
    const char *class, *expression;
} expressions[] = {
    {"", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
         "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, /* cl100k, Llama 3, GLM 4 */
    {"QWen", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
             "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"TikTokenTokenizer", /* Kimi */
     "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&"
     "&[^\\p{Han}]]+"
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
     "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

/* Qwen 1 keeps its special tokens in its program: they follow the vocabulary. */
static bool add_qwen_specials(Tokenizer *t, Error *err) {
    static const char *const names[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    int32_t id = t->subword.vocab.size;
    for (int i = 0; i < 3; i++) {
        if (!add_special(t, names[i], id++, err)) return false;
    }
    for (int i = 0; i < 205; i++) {
        char name[32];
        snprintf(name, sizeof name, "<|extra_%d|>", i);
        if (!add_special(t, name, id++, err)) return false;
    }
    return true;
}

bool tokenizer_from_tiktoken(Tokenizer *t, const char *text, size_t n, const JsonValue *config, Error *err) {
    const char *class = json_string(json_get(config, "tokenizer_class"));
    size_t which = sizeof expressions / sizeof expressions[0] - 1;
    while (which && !(class && strstr(class, expressions[which].class))) which--;
    const char *expression = expressions[which].expression;
    RankedVocab v = {0};
    bool ok = read_lines(&v, text, n, err) && build_subword(&t->subword, &v, 0, err);
    ranked_clear(&v);
    ok = ok && pretokenizer_split_bytes(&t->pretokenizer, expression, strlen(expression), err);
    ok = ok && decoder_load(&t->decoder, NULL, true, err);
    return ok && (strcmp(expressions[which].class, "QWen") != 0 || add_qwen_specials(t, err));
}

/* ---- tekken.json ---- */

static bool read_tokens(RankedVocab *v, const JsonValue *list, uint64_t most, Error *err) {
    if (!list || list->type != JSON_ARRAY) return error_set(err, "\"vocab\" is not an array");
    for (uint32_t i = 0; i < list->length && i < most; i++) {
        const JsonValue *bytes = json_get(&list->items[i], "token_bytes");
        int64_t rank;
        if (!json_string(bytes) || !json_int(json_get(&list->items[i], "rank"), &rank) || rank < 0) {
            return error_set(err, "vocab[%u] has no \"rank\" and \"token_bytes\"", i);
        }
        if (!add_token(v, bytes->text, bytes->length, (uint64_t)rank, err)) return false;
    }
    return v->n > 0 || error_set(err, "\"vocab\" is empty");
}

/* The list of version 3, for files from before it was written down in them. */
static const char *const tekken_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

static bool add_tekken_specials(Tokenizer *t, const JsonValue *list, uint32_t n_special, Error *err) {
    enum { N_KNOWN = sizeof tekken_specials / sizeof tekken_specials[0] };
    bool given = list && list->type == JSON_ARRAY && list->length;
    for (uint32_t i = 0; given && i < list->length; i++) {
        const char *text = json_string(json_get(&list->items[i], "token_str"));
        int64_t rank;
        if (!text || !json_int(json_get(&list->items[i], "rank"), &rank) || rank < 0 || rank >= n_special) {
            return error_set(err, "special_tokens[%u] has no \"rank\" and \"token_str\"", i);
        }
        if (!add_special(t, text, (int32_t)rank, err)) return false;
    }
    for (uint32_t i = given ? list->length : 0; i < n_special; i++) {
        char name[32];
        snprintf(name, sizeof name, "<SPECIAL_%u>", i);
        if (!add_special(t, !given && i < N_KNOWN ? tekken_specials[i] : name, (int32_t)i, err)) return false;
    }
    return true;
}

static bool read_count(const JsonValue *config, const char *key, int64_t *out, Error *err) {
    if (json_int(json_get(config, key), out) && *out >= 0 && *out < VOCAB_MAX_ID) return true;
    return error_set(err, "config.%s is not a count", key);
}

bool tokenizer_from_tekken(Tokenizer *t, const JsonValue *root, Error *err) {
    const JsonValue *config = json_get(root, "config"), *expression = json_get(config, "pattern");
    int64_t size, n_special;
    if (!json_string(expression)) return error_set(err, "config.pattern is not a string");
    if (!read_count(config, "default_vocab_size", &size, err)) return false;
    if (!read_count(config, "default_num_special_tokens", &n_special, err)) return false;
    if (n_special > size) return error_set(err, "config: more special tokens than tokens");
    RankedVocab v = {0};
    bool ok = read_tokens(&v, json_get(root, "vocab"), (uint64_t)(size - n_special), err);
    ok = ok && build_subword(&t->subword, &v, (uint32_t)n_special, err);
    ranked_clear(&v);
    ok = ok && pretokenizer_split_bytes(&t->pretokenizer, expression->text, expression->length, err);
    ok = ok && decoder_load(&t->decoder, NULL, true, err);
    ok = ok && add_tekken_specials(t, json_get_set(root, "special_tokens"), (uint32_t)n_special, err);
    const AddedToken *bos = ok ? added_find(&t->added, "<s>", 3) : NULL;
    return ok && postprocessor_set(&t->postprocessor, bos ? bos->id : -1, -1, err);
}
