/* A GGUF vocabulary written as Hugging Face's files. tokenizer.json is built so that it behaves as the original: tokens
 * and merges in order, control and user-defined tokens as added tokens (they split the text before anything else), the
 * pre-tokeniser by name from a table, the begin-of-text token in the post-processor. What GGUF does not keep (stripping
 * of white space around an added token) can not come back. */
#include "convert/gguf_tokenizer.h"
#include "base/json.h"
#include "base/utf8.h"
#include "convert/gguf_encoder_vocab.h"
#include "convert/gguf_rwkv_vocab.h"
#include "convert/gguf_spm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4, TOKEN_UNUSED = 5 };

static const GgufValue *find(const GgufModel *m, const char *key) {
    char full[128];
    snprintf(full, sizeof full, "tokenizer.ggml.%s", key);
    return gguf_find(m->file, full);
}

/* ---- ids and texts ---- */

/* The text of token `id`; false when there is none. */
static bool token_text(const GgufModel *m, uint64_t id, const char **text, size_t *n) {
    const GgufValue *tokens = find(m, "tokens");
    uint64_t at = 0;
    for (uint64_t i = 0; gguf_next_string(tokens, &at, text, n); i++)
        if (i == id) return true;
    return false;
}

/* The id that `key` names, checked; false when the file does not name one. */
static bool named_id(const GgufModel *m, const char *key, uint64_t *id) {
    const GgufValue *tokens = find(m, "tokens");
    return gguf_uint(find(m, key), id) && tokens && *id < tokens->count;
}

/* The ends of text come first. The spelling of the separator is GGUF's own. */
static const char *const id_keys[] = {
    "bos_token_id",       "eos_token_id",     "eot_token_id",     "eom_token_id",  "cls_token_id",
    "seperator_token_id", "unknown_token_id", "padding_token_id", "mask_token_id", NULL};

enum { N_ENDS = 6 };

static bool check_ids(const GgufModel *m, Error *err) {
    uint64_t id;
    for (int i = 0; id_keys[i]; i++)
        if (find(m, id_keys[i]) && !named_id(m, id_keys[i], &id))
            return error_set(err, "metadata tokenizer.ggml.%s is not the id of a token", id_keys[i]);
    return true;
}

static bool check_strings(const GgufValue *v, const char *what, Error *err) {
    uint64_t at = 0, i = 0;
    const char *text;
    size_t n;
    if (!v || v->kind != GGUF_ARRAY || (v->item != GGUF_STRING && v->count))
        return error_set(err, "has no list of %s", what);
    for (; gguf_next_string(v, &at, &text, &n); i++)
        if (utf8_valid(text, n) != n) return error_set(err, "number %" PRIu64 " of its %s is not UTF-8", i, what);
    return true;
}

static bool check_vocabulary(const GgufModel *m, const PreTokenizer *pre, Error *err) {
    const GgufValue *tokens = find(m, "tokens"), *types = find(m, "token_type");
    if (!check_strings(tokens, "tokens", err)) return false;
    bool merges = pre->kind == VOCAB_BYTES || pre->kind == VOCAB_SPACED;
    if (merges && !check_strings(find(m, "merges"), "merges", err)) return false;
    if ((int64_t)tokens->count > m->size[SIZE_VOCAB])
        return error_set(err, "has %" PRIu64 " tokens, but embeddings for %" PRId64, tokens->count,
                         m->size[SIZE_VOCAB]);
    double type;
    if (types && (types->count != tokens->count || (types->count && !gguf_item_number(types, 0, &type))))
        return error_set(err, "has token types that do not belong to its tokens");
    return check_ids(m, err);
}

static bool is_true(const GgufModel *m, const char *key, bool absent) {
    bool v = absent;
    gguf_bool(find(m, key), &v);
    return v;
}

static bool is_text(const GgufValue *v, const char *text) {
    return v && v->kind == GGUF_STRING && v->count == strlen(text) && memcmp(v->data, text, v->count) == 0;
}

static void unknown_name(const GgufValue *pre, Error *err) {
    Buffer names = {0};
    pre_tokenizer_names(&names);
    error_set(err, "its pre-tokeniser \"%.*s\" is not known; known: %s", pre->count < 60 ? (int)pre->count : 60,
              (const char *)pre->data, buffer_string(&names));
    buffer_clear(&names);
}

static const PreTokenizer *check_bytes_kind(const GgufModel *m, Error *err) {
    const GgufValue *pre = find(m, "pre");
    const PreTokenizer *found = NULL;
    if (!pre || pre->kind != GGUF_STRING)
        error_set(err, "does not name its pre-tokeniser (tokenizer.ggml.pre): convert the model anew");
    else if (is_true(m, "add_space_prefix", false))
        error_set(err, "puts a space before the text (tokenizer.ggml.add_space_prefix), which can not be imported yet");
    else if (!(found = pre_tokenizer_find((const char *)pre->data, pre->count)))
        unknown_name(pre, err);
    return found;
}

/* Finds the row of the table, or refuses the vocabulary. */
static const PreTokenizer *check_kind(const GgufModel *m, Error *err) {
    const GgufValue *model = find(m, "model");
    if (is_text(model, "gpt2")) return check_bytes_kind(m, err);
    if (is_text(model, "llama")) return pre_tokenizer_spm(is_true(m, "add_space_prefix", true), false);
    if (is_text(model, "gemma4")) return pre_tokenizer_spm(false, true);
    if (is_text(model, "bert")) return &pre_tokenizer_wordpiece;
    if (is_text(model, "t5")) return &pre_tokenizer_unigram;
    if (is_text(model, "rwkv")) return &pre_tokenizer_greedy;
    if (!model || model->kind != GGUF_STRING)
        error_set(err, "has no tokenizer (tokenizer.ggml.model)");
    else
        error_set(err,
                  "its tokenizer is \"%.*s\", which can not be imported yet; known: gpt2 (byte-level BPE), llama "
                  "(SentencePiece BPE), gemma4, bert (WordPiece), t5 (SentencePiece unigram), rwkv",
                  model->count < 40 ? (int)model->count : 40, (const char *)model->data);
    return NULL;
}

/* ---- tokenizer.json ---- */

/* Control and user-defined tokens, and the ends of text whatever their type: old converters wrote them as normal. */
static int added_type(const GgufModel *m, uint64_t id) {
    double type = TOKEN_NORMAL;
    gguf_item_number(find(m, "token_type"), id, &type);
    bool greedy = is_text(find(m, "model"), "rwkv"); /* whose end of turn is an empty line like any other */
    for (int i = 0; i < N_ENDS && !greedy; i++) {
        uint64_t named;
        if (named_id(m, id_keys[i], &named) && named == id) return TOKEN_CONTROL;
    }
    if (type == TOKEN_UNKNOWN) return TOKEN_CONTROL;
    return type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNUSED ? (int)type : TOKEN_NORMAL;
}

static void write_added_tokens(const GgufModel *m, Buffer *out) {
    uint64_t at = 0;
    const char *text, *separator = "";
    size_t n;
    buffer_text(out, "  \"added_tokens\": [");
    for (uint64_t id = 0; gguf_next_string(find(m, "tokens"), &at, &text, &n); id++) {
        int type = added_type(m, id);
        if (n == 0 || (type != TOKEN_CONTROL && type != TOKEN_USER_DEFINED)) continue;
        buffer_printf(out, "%s\n    {\"id\": %" PRIu64 ", \"content\": ", separator, id);
        json_write_string(out, text, n, false);
        buffer_printf(out,
                      ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                      "\"special\": %s}",
                      type == TOKEN_CONTROL ? "true" : "false");
        separator = ",";
    }
    buffer_text(out, "\n  ],\n");
}

static void write_special(Buffer *out, const char *text, size_t n, int type_id) {
    buffer_text(out, "{\"SpecialToken\": {\"id\": ");
    json_write_string(out, text, n, false);
    buffer_printf(out, ", \"type_id\": %d}}", type_id);
}

typedef struct Ends {
    const char *bos, *eos; /* NULL: not added */
    size_t n_bos, n_eos;
    uint64_t bos_id, eos_id;
} Ends;

/* Encoders' first and last tokens have names of their own in older files. */
static bool end_id(const GgufModel *m, const char *key, const char *other, uint64_t *id) {
    return named_id(m, key, id) || named_id(m, other, id);
}

static Ends read_ends(const GgufModel *m, const PreTokenizer *pre) {
    Ends e = {0};
    bool both = pre->kind == VOCAB_WORDPIECE || pre->kind == VOCAB_UNIGRAM;
    if (!is_true(m, "add_bos_token", pre->adds_bos) || !end_id(m, "bos_token_id", "cls_token_id", &e.bos_id) ||
        !token_text(m, e.bos_id, &e.bos, &e.n_bos))
        e.bos = NULL;
    if (!is_true(m, "add_eos_token", both) || !end_id(m, "eos_token_id", "seperator_token_id", &e.eos_id) ||
        !token_text(m, e.eos_id, &e.eos, &e.n_eos))
        e.eos = NULL;
    return e;
}

static void write_sequence(Buffer *out, const Ends *e, const char *id, int type_id) {
    if (e->bos) {
        write_special(out, e->bos, e->n_bos, type_id);
        buffer_text(out, ", ");
    }
    buffer_printf(out, "{\"Sequence\": {\"id\": \"%s\", \"type_id\": %d}}", id, type_id);
    if (e->eos) {
        buffer_text(out, ", ");
        write_special(out, e->eos, e->n_eos, type_id);
    }
}

static void write_template_token(Buffer *out, const char *text, size_t n, uint64_t id) {
    json_write_string(out, text, n, false);
    buffer_text(out, ": {\"id\": ");
    json_write_string(out, text, n, false);
    buffer_printf(out, ", \"ids\": [%" PRIu64 "], \"tokens\": [", id);
    json_write_string(out, text, n, false);
    buffer_text(out, "]}");
}

static void write_post_processor(Buffer *out, const PreTokenizer *pre, const Ends *e) {
    buffer_text(out, "  \"post_processor\": ");
    if (!e->bos && !e->eos && pre->kind != VOCAB_BYTES) {
        buffer_text(out, "null,\n");
        return;
    }
    if (!e->bos && !e->eos) {
        buffer_text(out,
                    "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": false, \"use_regex\": "
                    "true},\n");
        return;
    }
    buffer_text(out, "{\"type\": \"TemplateProcessing\", \"single\": [");
    write_sequence(out, e, "A", 0);
    buffer_text(out, "], \"pair\": [");
    write_sequence(out, e, "A", 0);
    buffer_text(out, ", ");
    write_sequence(out, e, "B", 1);
    buffer_text(out, "], \"special_tokens\": {");
    if (e->bos) write_template_token(out, e->bos, e->n_bos, e->bos_id);
    if (e->bos && e->eos && e->bos_id != e->eos_id) buffer_text(out, ", ");
    if (e->eos && !(e->bos && e->bos_id == e->eos_id)) write_template_token(out, e->eos, e->n_eos, e->eos_id);
    buffer_text(out, "}},\n");
}

static void write_vocab(const GgufModel *m, Buffer *out) {
    uint64_t at = 0;
    const char *text, *separator = "";
    size_t n;
    buffer_text(out, "    \"vocab\": {");
    for (uint64_t id = 0; gguf_next_string(find(m, "tokens"), &at, &text, &n); id++) {
        if (added_type(m, id) == TOKEN_UNUSED) continue; /* a row of the embedding without a token: [PAD...] */
        buffer_printf(out, "%s\n      ", separator);
        json_write_string(out, text, n, false);
        buffer_printf(out, ": %" PRIu64, id);
        separator = ",";
    }
    buffer_text(out, "\n    },\n");
}

/* "a b" as ["a", "b"]. Spaces inside a piece are spelled otherwise in a byte-level vocabulary. */
static bool write_merges(const GgufModel *m, Buffer *out, Error *err) {
    uint64_t at = 0;
    const char *text, *separator = "";
    size_t n;
    buffer_text(out, "    \"merges\": [");
    while (gguf_next_string(find(m, "merges"), &at, &text, &n)) {
        const char *space = n > 2 ? memchr(text + 1, ' ', n - 2) : NULL;
        if (!space) return error_set(err, "its merge \"%.*s\" is not two pieces", n < 60 ? (int)n : 60, text);
        size_t first = (size_t)(space - text);
        buffer_printf(out, "%s\n      [", separator);
        json_write_string(out, text, first, false);
        buffer_text(out, ", ");
        json_write_string(out, space + 1, n - first - 1, false);
        buffer_byte(out, ']');
        separator = ",";
    }
    buffer_text(out, "\n    ]\n");
    return true;
}

static void write_unknown(const GgufModel *m, const PreTokenizer *pre, Buffer *out) {
    uint64_t id = 0;
    const char *text;
    size_t n;
    named_id(m, "unknown_token_id", &id);
    buffer_text(out, "    \"unk_token\": ");
    if (pre->kind != VOCAB_BYTES && token_text(m, id, &text, &n))
        json_write_string(out, text, n, false);
    else
        buffer_text(out, "null");
}

static bool write_bpe(const GgufModel *m, const PreTokenizer *pre, Buffer *out, Error *err) {
    bool spaced = pre->kind != VOCAB_BYTES;
    buffer_text(out, "{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n");
    write_unknown(m, pre, out);
    buffer_printf(out,
                  ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                  "    \"fuse_unk\": %s,\n    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
                  spaced ? "true" : "false", spaced ? "true" : "false", pre->ignore_merges ? "true" : "false");
    write_vocab(m, out);
    if (pre->kind == VOCAB_SPM ? !gguf_spm_merges(m, out, err) : !write_merges(m, out, err)) return false;
    buffer_text(out, "  }");
    return true;
}

static bool write_model(const GgufModel *m, const PreTokenizer *pre, Buffer *out, Error *err) {
    buffer_text(out, "  \"model\": ");
    if (pre->kind == VOCAB_WORDPIECE) return gguf_wordpiece_model(m, out, err);
    if (pre->kind == VOCAB_UNIGRAM) return gguf_unigram_model(m, out, err);
    if (pre->kind == VOCAB_GREEDY) return gguf_rwkv_model(m, out, err);
    return write_bpe(m, pre, out, err);
}

static bool write_normalizer(const GgufModel *m, const PreTokenizer *pre, Buffer *out, Error *err) {
    buffer_text(out, "  \"normalizer\": ");
    if (pre->kind == VOCAB_WORDPIECE)
        gguf_wordpiece_normalizer(m, out);
    else if (pre->kind == VOCAB_UNIGRAM)
        return gguf_unigram_normalizer(m, out, err);
    else
        buffer_text(out, pre->normalizer);
    return true;
}

bool gguf_tokenizer_json(const GgufModel *m, Buffer *out, Error *err) {
    const PreTokenizer *pre = check_kind(m, err);
    if (!pre || !check_vocabulary(m, pre, err)) return false;
    Ends ends = read_ends(m, pre);
    buffer_text(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    write_added_tokens(m, out);
    if (!write_normalizer(m, pre, out, err)) return false;
    buffer_printf(out, ",\n  \"pre_tokenizer\": %s,\n", pre->json);
    write_post_processor(out, pre, &ends);
    buffer_printf(out, "  \"decoder\": %s,\n", pre->decoder);
    if (!write_model(m, pre, out, err)) return false;
    buffer_text(out, "\n}\n");
    return !out->failed || error_memory(err, "tokenizer.json");
}

/* ---- the small files ---- */

static void write_token_field(const GgufModel *m, const char *field, const char *key, Buffer *out) {
    uint64_t id;
    const char *text;
    size_t n;
    if (!named_id(m, key, &id) || !token_text(m, id, &text, &n)) return;
    buffer_printf(out, "  \"%s\": ", field);
    json_write_string(out, text, n, false);
    buffer_text(out, ",\n");
}

static const GgufValue *template_of(const GgufModel *m, const char *suffix, size_t n) {
    char key[128];
    snprintf(key, sizeof key, "tokenizer.chat_template%s%.*s", n ? "." : "", (int)(n < 64 ? n : 64), suffix);
    const GgufValue *v = gguf_find(m->file, key);
    return v && v->kind == GGUF_STRING && !is_text(v, "rwkv-world") ? v : NULL; /* which is a name, no template */
}

static void write_template(Buffer *out, const char *name, size_t n, const GgufValue *text, const char *separator) {
    buffer_printf(out, "%s\n    {\"name\": ", separator);
    json_write_string(out, name, n, false);
    buffer_text(out, ", \"template\": ");
    json_write_string(out, (const char *)text->data, text->count, false);
    buffer_byte(out, '}');
}

static bool has_named_templates(const GgufModel *m) {
    const GgufValue *names = gguf_find(m->file, "tokenizer.chat_templates");
    return names && names->kind == GGUF_ARRAY && names->count > 0;
}

static void write_templates(const GgufModel *m, Buffer *out) {
    const GgufValue *plain = template_of(m, "", 0);
    const char *name;
    size_t n;
    uint64_t at = 0;
    if (!has_named_templates(m)) {
        if (!plain) return;
        buffer_text(out, "  \"chat_template\": ");
        json_write_string(out, (const char *)plain->data, plain->count, false);
        buffer_text(out, ",\n");
        return;
    }
    buffer_text(out, "  \"chat_template\": [");
    if (plain) write_template(out, "default", 7, plain, "");
    const char *separator = plain ? "," : "";
    while (gguf_next_string(gguf_find(m->file, "tokenizer.chat_templates"), &at, &name, &n)) {
        const GgufValue *text = template_of(m, name, n);
        if (!text) continue;
        write_template(out, name, n, text, separator);
        separator = ",";
    }
    buffer_text(out, "\n  ],\n");
}

/* Texts that are copied to JSON have to be text. */
static bool check_templates(const GgufModel *m, Error *err) {
    for (int i = 0; i < gguf_n_keys(m->file); i++) {
        const char *key = gguf_key(m->file, i);
        const GgufValue *v = gguf_find(m->file, key);
        if (strncmp(key, "tokenizer.chat_template", 23) != 0 || v->kind != GGUF_STRING) continue;
        if (utf8_valid((const char *)v->data, v->count) != v->count)
            return error_set(err, "metadata %.100s is not UTF-8", key);
    }
    return true;
}

bool gguf_tokenizer_config(const GgufModel *m, Buffer *out, Error *err) {
    const PreTokenizer *pre = check_kind(m, err);
    if (!pre || !check_vocabulary(m, pre, err) || !check_templates(m, err)) return false;
    Ends ends = read_ends(m, pre);
    buffer_text(out, "{\n");
    write_token_field(m, "bos_token", "bos_token_id", out);
    write_token_field(m, "eos_token", "eos_token_id", out);
    write_token_field(m, "unk_token", "unknown_token_id", out);
    write_token_field(m, "pad_token", "padding_token_id", out);
    write_token_field(m, "cls_token", "cls_token_id", out);
    write_token_field(m, "sep_token", "seperator_token_id", out);
    write_token_field(m, "mask_token", "mask_token_id", out);
    buffer_printf(out, "  \"add_bos_token\": %s,\n  \"add_eos_token\": %s,\n", ends.bos ? "true" : "false",
                  ends.eos ? "true" : "false");
    write_templates(m, out);
    buffer_printf(out,
                  "  \"add_prefix_space\": false,\n  \"clean_up_tokenization_spaces\": false,\n"
                  "  \"model_max_length\": %" PRId64 ",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n",
                  m->context);
    return !out->failed || error_memory(err, "tokenizer_config.json");
}

bool gguf_generation_config(const GgufModel *m, Buffer *out, Error *err) {
    static const char *const end_keys[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    uint64_t ends[3], id;
    int n = 0;
    if (!check_ids(m, err)) return false;
    for (int i = 0; i < 3; i++) {
        bool fresh = named_id(m, end_keys[i], &id);
        for (int j = 0; j < n; j++) fresh = fresh && ends[j] != id;
        if (fresh) ends[n++] = id;
    }
    const char *separator = "{";
    if (named_id(m, "bos_token_id", &id)) {
        buffer_printf(out, "%s\n  \"bos_token_id\": %" PRIu64, separator, id);
        separator = ",";
    }
    for (int i = 0; i < n; i++) {
        const char *before = i ? ", " : n > 1 ? "\n  \"eos_token_id\": [" : "\n  \"eos_token_id\": ";
        buffer_printf(out, "%s%s%" PRIu64 "%s", i ? "" : separator, before, ends[i], n > 1 && i == n - 1 ? "]" : "");
        separator = ",";
    }
    if (named_id(m, "padding_token_id", &id)) {
        buffer_printf(out, "%s\n  \"pad_token_id\": %" PRIu64, separator, id);
        separator = ",";
    }
    buffer_printf(out, "%s\n}\n", *separator == '{' ? "{" : "");
    return !out->failed || error_memory(err, "generation_config.json");
}

bool gguf_chat_template(const GgufModel *m, Buffer *out, Error *err) {
    const GgufValue *plain = template_of(m, "", 0);
    if (plain && !has_named_templates(m)) buffer_append(out, plain->data, plain->count);
    return !out->failed || error_memory(err, "chat_template.jinja");
}
