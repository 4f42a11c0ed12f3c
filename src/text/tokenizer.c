/* The whole way: added tokens are cut out of the raw text, what lies between is normalized, added tokens are cut out of
 * that, the rest goes through pre-tokenizer and model, and the post-processor puts its ids around. All that changes
 * during a call is on the call's own scratch, so that many threads may share a tokenizer. */
#define _POSIX_C_SOURCE 200809L
#include "text/tokenizer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/tokenizer_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* What transformers adds to the file's tokens: {"added_tokens_decoder": {"id": {"content": ...}}}. Their ids hold where
 * the file says nothing: `keep_ids` is for files that know no added tokens. */
static bool load_config(Tokenizer *t, const JsonValue *config, bool keep_ids, Error *err) {
    bool clean_up = false; /* which transformers does not do for BPE: there it would eat spaces that are meant */
    json_bool(json_get_set(config, "clean_up_tokenization_spaces"), &clean_up);
    if (clean_up && t->subword.kind != SUBWORD_BPE && !decoder_add_cleanup(&t->decoder, err)) return false;
    const JsonValue *decoder = json_get_set(config, "added_tokens_decoder");
    for (uint32_t i = 0; decoder && decoder->type == JSON_OBJECT && i < decoder->length; i++) {
        const JsonMember *member = &decoder->members[i];
        const JsonValue *content = json_get(&member->value, "content");
        if (!content || content->type != JSON_STRING || added_find(&t->added, content->text, content->length)) continue;
        AddedToken token;
        if (!added_read(&member->value, &token, err))
            return error_prefix(err, "added_tokens_decoder.%.20s", member->key);
        if (keep_ids) token.id = atoi(member->key);
        if (!added_add(&t->added, &t->subword.vocab, token, err)) return false;
    }
    return true;
}

static bool load_parts(Tokenizer *t, const JsonValue *root, const ModelLists *lists, Error *err) {
    if (root->type != JSON_OBJECT) return error_set(err, "not a JSON object");
    if (!subword_load(&t->subword, json_get(root, "model"), lists, err)) return false;
    if (!normalizer_load(&t->normalizer, json_get(root, "normalizer"), err)) return false;
    if (!pretokenizer_load(&t->pretokenizer, json_get(root, "pre_tokenizer"), err)) return false;
    if (!postprocessor_load(&t->postprocessor, json_get(root, "post_processor"), err)) return false;
    bool byte_level = pretokenizer_is_byte_level(&t->pretokenizer) || normalizer_is_byte_level(&t->normalizer);
    if (!decoder_load(&t->decoder, json_get(root, "decoder"), byte_level, err)) return false;
    return added_load(&t->added, json_get_set(root, "added_tokens"), &t->subword.vocab, err);
}

/* The last step for every kind of file. Takes t over: it is returned, or freed. */
static Tokenizer *finish(Tokenizer *t, bool ok, const JsonValue *config, bool keep_ids, Error *err) {
    if (ok && config) ok = load_config(t, config, keep_ids, err) || error_prefix(err, "tokenizer_config.json");
    NormalizeScratch scratch = {0};
    ok = ok && added_prepare(&t->added, &t->normalizer, &scratch, err);
    normalize_scratch_clear(&scratch);
    if (ok) return t;
    tokenizer_free(t);
    return NULL;
}

static Tokenizer *tokenizer_new(Error *err) {
    Tokenizer *t = mem_zeroed(1, sizeof *t);
    if (!t) error_memory(err, "the tokenizer");
    return t;
}

static Tokenizer *build(const JsonDoc *json, const ModelLists *lists, const JsonDoc *config, Error *err) {
    Tokenizer *t = tokenizer_new(err);
    if (!t) return NULL;
    return finish(t, load_parts(t, json_root(json), lists, err), config ? json_root(config) : NULL, false, err);
}

Tokenizer *tokenizer_parse(const char *json, size_t n, const char *config, size_t n_config, Error *err) {
    ModelLists lists = {0};
    JsonTap taps[MODEL_TAPS];
    model_lists_taps(&lists, taps);
    JsonDoc *doc = json_parse_tapped(json, n, taps, MODEL_TAPS, err), *config_doc = NULL;
    Tokenizer *t = NULL;
    if (!doc) {
        error_prefix(err, "tokenizer.json");
    } else if (config && !(config_doc = json_parse(config, n_config, 0, err))) {
        error_prefix(err, "tokenizer_config.json");
    } else if (!(t = build(doc, &lists, config_doc, err))) {
        error_prefix(err, "tokenizer.json");
    }
    model_lists_clear(&lists);
    json_free(doc);
    json_free(config_doc);
    return t;
}

/* ---- files ---- */

typedef enum FileKind { FILE_JSON, FILE_TEKKEN, FILE_MODEL } FileKind;

/* In the order they are preferred; the last are SentencePiece models or tiktoken files, which their content tells. */
static const struct {
    const char *name;
    FileKind kind;
} file_names[] = {{"tokenizer.json", FILE_JSON},           {"tekken.json", FILE_TEKKEN},
                  {"tokenizer.model", FILE_MODEL},         {"spiece.model", FILE_MODEL},
                  {"sentencepiece.bpe.model", FILE_MODEL}, {"tiktoken.model", FILE_MODEL}};

static const char ending[] = ".tiktoken"; /* after those any file called so; of several the first by name */

static bool join_path(char *out, size_t size, const char *folder, const char *name, Error *err) {
    int n = snprintf(out, size, "%s/%s", folder, name);
    return (n > 0 && (size_t)n < size) || error_set(err, "%.200s...: the path is too long", folder);
}

static bool read_file(const char *path, Buffer *out, Error *err) {
    FILE *file = fopen(path, "rb");
    if (!file) return error_set(err, "%s", strerror(errno));
    size_t n;
    do {
        if (!buffer_reserve(out, 1 << 16)) break;
        n = fread(out->data + out->length, 1, 1 << 16, file);
        out->length += n;
    } while (n);
    bool ok =
        !out->failed ? !ferror(file) || error_set(err, "%s", strerror(errno)) : error_memory(err, "the tokenizer");
    fclose(file);
    return ok;
}

/* A line of base64 and a number: so begin tiktoken files, whatever they are called. */
static bool looks_like_tiktoken(const Buffer *b) {
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const char *text = buffer_string(b);
    size_t n = strspn(text, base64), digits = text[n] == ' ' ? strspn(text + n + 1, "0123456789") : 0;
    return n && digits && (text[n + 1 + digits] == '\n' || text[n + 1 + digits] == '\r');
}

static Tokenizer *load_model(const char *path, const JsonValue *config, Error *err) {
    Buffer bytes = {0};
    Tokenizer *t = read_file(path, &bytes, err) ? tokenizer_new(err) : NULL;
    if (t) {
        if (bytes.length) bytes.data[bytes.length] = 0;
        bool lines = looks_like_tiktoken(&bytes);
        bool ok =
            (lines ? tokenizer_from_tiktoken : tokenizer_from_sentencepiece)(t, bytes.data, bytes.length, config, err);
        t = finish(t, ok, config, lines, err);
    }
    buffer_clear(&bytes);
    return t;
}

static Tokenizer *load_tekken(const char *path, const JsonValue *config, Error *err) {
    JsonDoc *doc = json_parse_file(path, 0, err);
    Tokenizer *t = doc ? tokenizer_new(err) : NULL;
    if (t)
        t = finish(t, tokenizer_from_tekken(t, json_root(doc), err) || error_prefix(err, "%s", path), config, true,
                   err);
    json_free(doc);
    return t;
}

static Tokenizer *load_json(const char *path, const JsonDoc *config, Error *err) {
    ModelLists lists = {0};
    JsonTap taps[MODEL_TAPS];
    model_lists_taps(&lists, taps);
    JsonDoc *doc = json_parse_file_tapped(path, taps, MODEL_TAPS, err);
    Tokenizer *t = doc ? build(doc, &lists, config, err) : NULL;
    if (doc && !t) error_prefix(err, "%s", path);
    model_lists_clear(&lists);
    json_free(doc);
    return t;
}

static Tokenizer *load_file(FileKind kind, const char *path, const JsonDoc *config, Error *err) {
    const JsonValue *root = config ? json_root(config) : NULL;
    if (kind == FILE_JSON) return load_json(path, config, err);
    if (kind == FILE_TEKKEN) return load_tekken(path, root, err);
    Tokenizer *t = load_model(path, root, err);
    if (!t) error_prefix(err, "%s", path);
    return t;
}

/* The name of the file with that ending, at most size - 1 bytes; "" when there is none. */
static void find_by_ending(const char *folder, char *name, size_t size) {
    DIR *dir = opendir(folder);
    *name = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name), n_ending = sizeof ending - 1;
        if (n < n_ending || n >= size || strcmp(e->d_name + n - n_ending, ending) != 0) continue;
        if (!*name || strcmp(e->d_name, name) < 0) memcpy(name, e->d_name, n + 1);
    }
    if (dir) closedir(dir);
}

/* When there is none, the one that is usual: the message then names it. */
static bool find_file(const char *folder, char *path, size_t size, FileKind *kind, Error *err) {
    char name[256];
    for (size_t i = 0; i < sizeof file_names / sizeof file_names[0]; i++) {
        if (!join_path(path, size, folder, file_names[i].name, err)) return false;
        *kind = file_names[i].kind;
        if (access(path, F_OK) == 0) return true;
    }
    find_by_ending(folder, name, sizeof name);
    *kind = *name ? FILE_MODEL : FILE_JSON;
    return join_path(path, size, folder, *name ? name : file_names[0].name, err);
}

Tokenizer *tokenizer_load(const char *folder, Error *err) {
    char path[4096], config_path[4096];
    FileKind kind;
    if (!find_file(folder, path, sizeof path, &kind, err)) return NULL;
    if (!join_path(config_path, sizeof config_path, folder, "tokenizer_config.json", err)) return NULL;
    JsonDoc *config = NULL;
    if (access(config_path, F_OK) == 0 && !(config = json_parse_file(config_path, 0, err))) return NULL;
    Tokenizer *t = load_file(kind, path, config, err);
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

/* ---- pairs ---- */

/* How many of `max` ids two texts of *a and *b keep: the shorter one at most half, the longer, of equals the second,
 * the rest. */
static void cut_longest_first(size_t max, size_t *a, size_t *b) {
    size_t *shorter = *a > *b ? b : a, *longer = *a > *b ? a : b;
    if (*a + *b <= max) return;
    if (*shorter > max / 2) *shorter = max / 2;
    *longer = max - *shorter;
}

bool tokenizer_pair(const Tokenizer *t, const IdList *first, const IdList *second, size_t max, IdList *ids,
                    IdList *types, size_t *n_cut, Error *err) {
    const Postprocessor *p = &t->postprocessor;
    size_t added = postprocessor_pair_added(p), ids_before = ids->n, types_before = types->n;
    IdList a = *first, b = *second;
    if (p->pair.n == 0) return error_set(err, "the tokenizer's files do not say how two texts become a pair");
    if (max <= added) return error_set(err, "%zu tokens are too few for a pair: its special ones are %zu", max, added);
    cut_longest_first(max - added, &a.n, &b.n);
    *n_cut = first->n + second->n - a.n - b.n;
    if (postprocess_pair(p, &a, &b, ids, types, err)) return true;
    ids->n = ids_before;
    types->n = types_before;
    return false;
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
