/* The whole way: added tokens are cut out of the raw text, what lies between is normalized, added tokens are cut out of
 * that, the rest goes through pre-tokenizer and model, and the post-processor puts its ids around. All that changes
 * during a call is on the call's own scratch, so that many threads may share a tokenizer. */
#define _POSIX_C_SOURCE 200809L
#include "text/tokenizer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct EncodeScratch {
    NormalizeScratch normalize;
    PretokenizeScratch pretokenize;
    SubwordScratch subword;
    Pieces raw, pieces; /* spans of the input; pieces of the normalized text */
    Buffer text;
} EncodeScratch;

static void scratch_clear(EncodeScratch *s) {
    normalize_scratch_clear(&s->normalize);
    pretokenize_scratch_clear(&s->pretokenize);
    subword_scratch_clear(&s->subword);
    pieces_clear(&s->raw);
    pieces_clear(&s->pieces);
    buffer_clear(&s->text);
}

/* ---- loading ---- */

/* What transformers adds to the file's tokens: {"added_tokens_decoder": {"id": {"content": ...}}}. */
static bool load_config(Tokenizer *t, const JsonValue *config, Error *err) {
    const JsonValue *decoder = json_get_set(config, "added_tokens_decoder");
    for (uint32_t i = 0; decoder && decoder->type == JSON_OBJECT && i < decoder->length; i++) {
        const JsonValue *token = &decoder->members[i].value, *content = json_get(token, "content");
        if (!content || content->type != JSON_STRING || added_find(&t->added, content->text, content->length)) continue;
        JsonValue list = {.type = JSON_ARRAY, .length = 1, .items = (JsonValue *)token};
        if (!added_load(&t->added, &list, &t->subword.vocab, err)) return false;
    }
    return true;
}

static bool load_parts(Tokenizer *t, const JsonValue *root, const JsonValue *config, Error *err) {
    if (root->type != JSON_OBJECT) return error_set(err, "not a JSON object");
    if (!subword_load(&t->subword, json_get(root, "model"), err)) return false;
    if (!normalizer_load(&t->normalizer, json_get(root, "normalizer"), err)) return false;
    if (!pretokenizer_load(&t->pretokenizer, json_get(root, "pre_tokenizer"), err)) return false;
    if (!postprocessor_load(&t->postprocessor, json_get(root, "post_processor"), err)) return false;
    bool byte_level = pretokenizer_is_byte_level(&t->pretokenizer) || normalizer_is_byte_level(&t->normalizer);
    if (!decoder_load(&t->decoder, json_get(root, "decoder"), byte_level, err)) return false;
    if (!added_load(&t->added, json_get_set(root, "added_tokens"), &t->subword.vocab, err)) return false;
    if (config && !load_config(t, config, err)) return error_prefix(err, "tokenizer_config.json");
    NormalizeScratch scratch = {0};
    bool ok = added_prepare(&t->added, &t->normalizer, &scratch, err);
    normalize_scratch_clear(&scratch);
    return ok;
}

static Tokenizer *build(const JsonDoc *json, const JsonDoc *config, Error *err) {
    Tokenizer *t = mem_zeroed(1, sizeof *t);
    if (!t) {
        error_memory(err, "the tokenizer");
        return NULL;
    }
    if (load_parts(t, json_root(json), config ? json_root(config) : NULL, err)) return t;
    tokenizer_free(t);
    return NULL;
}

Tokenizer *tokenizer_parse(const char *json, size_t n, const char *config, size_t n_config, Error *err) {
    JsonDoc *doc = json_parse(json, n, 0, err), *config_doc = NULL;
    Tokenizer *t = NULL;
    if (!doc) {
        error_prefix(err, "tokenizer.json");
    } else if (config && !(config_doc = json_parse(config, n_config, 0, err))) {
        error_prefix(err, "tokenizer_config.json");
    } else if (!(t = build(doc, config_doc, err))) {
        error_prefix(err, "tokenizer.json");
    }
    json_free(doc);
    json_free(config_doc);
    return t;
}

static bool join_path(char *out, size_t size, const char *folder, const char *name, Error *err) {
    int n = snprintf(out, size, "%s/%s", folder, name);
    return (n > 0 && (size_t)n < size) || error_set(err, "%.200s...: the path is too long", folder);
}

Tokenizer *tokenizer_load(const char *folder, Error *err) {
    char path[4096], config_path[4096];
    if (!join_path(path, sizeof path, folder, "tokenizer.json", err)) return NULL;
    if (!join_path(config_path, sizeof config_path, folder, "tokenizer_config.json", err)) return NULL;
    JsonDoc *doc = json_parse_file(path, 0, err), *config = NULL;
    if (!doc) return NULL;
    bool has_config = access(config_path, F_OK) == 0;
    if (has_config) config = json_parse_file(config_path, 0, err);
    Tokenizer *t = NULL;
    if (config || !has_config) {
        t = build(doc, config, err);
        if (!t) error_prefix(err, "%s", path);
    }
    json_free(doc);
    json_free(config);
    return t;
}

void tokenizer_free(Tokenizer *t) {
    if (!t) return;
    subword_clear(&t->subword);
    normalizer_clear(&t->normalizer);
    pretokenizer_clear(&t->pretokenizer);
    postprocessor_clear(&t->postprocessor);
    decoder_clear(&t->decoder);
    added_clear(&t->added);
    mem_free(t);
}

/* ---- encoding ---- */

/* Normalizes one span of the input and cuts the normalized added tokens out of it. */
static bool normalize_span(const Tokenizer *t, EncodeScratch *s, const char *text, Piece span, Error *err) {
    buffer_reset(&s->text);
    buffer_append(&s->text, text + span.start, span.length);
    if (s->text.failed) return error_memory(err, "text");
    if (!normalize(&t->normalizer, &s->normalize, &s->text, &span.origin, err)) return false;
    size_t base = s->pieces.text.length;
    buffer_append(&s->pieces.text, s->text.data, s->text.length);
    bool ok = !s->pieces.text.failed && added_split(&t->added, &t->added.normalized, buffer_string(&s->text),
                                                    s->text.length, base, span.origin, &s->pieces);
    return ok || error_memory(err, "pieces");
}

static bool cut_added(const Tokenizer *t, EncodeScratch *s, const char *text, size_t n, Error *err) {
    uint32_t first;
    size_t origin = (size_t)utf8_decode(text, n, &first);
    if (!added_split(&t->added, &t->added.raw, text, n, 0, origin, &s->raw)) return error_memory(err, "pieces");
    for (size_t i = 0; i < s->raw.n; i++) {
        Piece span = s->raw.items[i];
        if (span.id < 0) {
            if (!normalize_span(t, s, text, span, err)) return false;
        } else if (!pieces_add(&s->pieces, (Piece){s->pieces.text.length, 0, span.id, span.origin})) {
            return error_memory(err, "pieces");
        }
    }
    return true;
}

static bool encode(const Tokenizer *t, EncodeScratch *s, const char *text, size_t n, IdList *out, Error *err) {
    if (!cut_added(t, s, text, n, err)) return false;
    if (!pretokenize(&t->pretokenizer, &s->pretokenize, &s->pieces, err)) return false;
    for (size_t i = 0; i < s->pieces.n; i++) {
        Piece piece = s->pieces.items[i];
        if (piece.id >= 0) {
            if (!id_list_push(out, piece.id)) return error_memory(err, "ids");
        } else if (!subword_encode(&t->subword, &s->subword, s->pieces.text.data + piece.start, piece.length, out,
                                   err)) {
            return false;
        }
    }
    return true;
}

bool tokenizer_encode(const Tokenizer *t, const char *text, size_t n, unsigned flags, IdList *out, Error *err) {
    size_t valid = utf8_valid(text, n), before = out->n;
    if (valid != n) return error_set(err, "the text is not valid UTF-8 at byte %zu", valid);
    EncodeScratch scratch = {0};
    bool ok = encode(t, &scratch, text, n, out, err);
    if (ok && (flags & ENCODE_SPECIAL)) ok = postprocess(&t->postprocessor, out, before, err);
    if (!ok) out->n = before;
    scratch_clear(&scratch);
    return ok;
}

/* ---- tokens ---- */

int32_t tokenizer_size(const Tokenizer *t) {
    int32_t added = (int32_t)t->added.id_end, model = t->subword.vocab.size;
    return added > model ? added : model;
}

int32_t tokenizer_find(const Tokenizer *t, const char *token) {
    size_t n = strlen(token);
    const AddedToken *added = added_find(&t->added, token, n);
    return added ? added->id : vocab_find(&t->subword.vocab, token, n);
}

bool tokenizer_is_special(const Tokenizer *t, int32_t id) {
    const AddedToken *added = added_by_id(&t->added, id);
    return added && added->special;
}

const char *tokenizer_token(const Tokenizer *t, int32_t id, size_t *n) {
    const AddedToken *added = added_by_id(&t->added, id);
    if (!added) return vocab_token(&t->subword.vocab, id, n);
    if (n) *n = added->shown_length;
    return added->shown;
}
