/* generation_config.json, config.json and tokenizer_config.json, where they speak about generating.
 *
 * End tokens are a union: checkpoints whose chat ends with <|im_end|> often name only the pre-training end of text in
 * one of the files. */
#include "engine/defaults.h"

#include <stdio.h>
#include <string.h>

static bool has_id(const IdList *list, int32_t id) {
    for (size_t i = 0; i < list->n; i++)
        if (list->ids[i] == id) return true;
    return false;
}

static bool add_id(IdList *list, int64_t id, int vocab, Error *err) {
    if (id < 0 || id >= vocab || has_id(list, (int32_t)id)) return true;
    return id_list_push(list, (int32_t)id) || error_memory(err, "a list of ids");
}

/* An integer or a list of integers. */
static bool add_ids(IdList *list, const JsonValue *v, const char *what, int vocab, Error *err) {
    uint32_t n = v->type == JSON_ARRAY ? v->length : 1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t id;
        if (!json_int(v->type == JSON_ARRAY ? json_item(v, i) : v, &id))
            return error_set(err, "%s must be an integer or a list of integers", what);
        if (!add_id(list, id, vocab, err)) return false;
    }
    return true;
}

static bool read_end_ids(const Checkpoint *checkpoint, int vocab, IdList *out, Error *err) {
    const JsonValue *v = json_get_set(checkpoint_generation_config(checkpoint), "eos_token_id");
    if (v) return add_ids(out, v, "generation_config.json: eos_token_id", vocab, err);
    v = json_get_set(checkpoint_config(checkpoint), "eos_token_id");
    if (!v) v = json_get_set(json_get(checkpoint_config(checkpoint), "text_config"), "eos_token_id");
    return !v || add_ids(out, v, "config.json: eos_token_id", vocab, err);
}

/* The eos_token of tokenizer_config.json: a string, or an added token with a "content". The file may be absent; whether
 * it is sound is the tokenizer's to say, which has read it before. */
static bool read_tokenizer_end(const char *folder, const Tokenizer *tokenizer, int vocab, IdList *out, Error *err) {
    Buffer path = {0};
    buffer_printf(&path, "%s/tokenizer_config.json", folder);
    JsonDoc *doc = path.failed ? NULL : json_parse_file(path.data, 0, NULL);
    const JsonValue *v = doc ? json_get_set(json_root(doc), "eos_token") : NULL;
    const char *token = json_string(v && v->type == JSON_OBJECT ? json_get(v, "content") : v);
    bool ok = !token || add_id(out, tokenizer_find(tokenizer, token), vocab, err);
    json_free(doc);
    buffer_clear(&path);
    return ok;
}

/* Ids without text, which a family's vocabulary was padded with: the first and the last of each run. */
typedef struct PaddedVocabulary {
    const char *model_type;
    int32_t runs[5][2]; /* ended by {0, 0} */
} PaddedVocabulary;

static const PaddedVocabulary padded_vocabularies[] = {
    {"phi3small", {{100256, 100256}, {100258, 100260}, {100264, 100265}, {100267, 100351}}}};

/* Never chosen. A trace shows their logits all the same. */
static bool add_padding_ids(const Checkpoint *checkpoint, int vocab, IdList *out, Error *err) {
    const char *type = json_string(json_get(checkpoint_config(checkpoint), "model_type"));
    for (size_t i = 0; type && i < sizeof padded_vocabularies / sizeof *padded_vocabularies; i++) {
        const PaddedVocabulary *p = &padded_vocabularies[i];
        if (strcmp(p->model_type, type) != 0) continue;
        for (int r = 0; p->runs[r][1]; r++)
            for (int32_t id = p->runs[r][0]; id <= p->runs[r][1]; id++)
                if (!add_id(out, id, vocab, err)) return false;
    }
    return true;
}

static bool read_number(const JsonValue *config, const char *key, float *out, bool *given, Error *err) {
    const JsonValue *v = json_get_set(config, key);
    double number;
    if (!v) return true;
    if (!json_number(v, &number)) return error_set(err, "generation_config.json: %s must be a number", key);
    *out = (float)number;
    *given = true;
    return true;
}

static bool read_sampling(const JsonValue *config, Sampling *out, Error *err) {
    Sampling s = SAMPLING_GREEDY;
    float top_k = 0;
    bool given = false, other = false, samples = false;
    s.temperature = 1;
    if (!read_number(config, "temperature", &s.temperature, &given, err) ||
        !read_number(config, "top_p", &s.top_p, &given, err) || !read_number(config, "top_k", &top_k, &given, err) ||
        !read_number(config, "min_p", &s.min_p, &given, err) ||
        !read_number(config, "repetition_penalty", &s.repetition_penalty, &other, err))
        return false;
    s.top_k = top_k > 0 && top_k < 1e9f ? (int)top_k : 0;
    const JsonValue *do_sample = json_get_set(config, "do_sample");
    if (do_sample && !json_bool(do_sample, &samples))
        return error_set(err, "generation_config.json: do_sample must be true or false");
    if (do_sample ? !samples : !given) s.temperature = 0;
    *out = s;
    return true;
}

bool defaults_read(const Checkpoint *checkpoint, const Tokenizer *tokenizer, int vocab, Defaults *out, Error *err) {
    const JsonValue *generation = checkpoint_generation_config(checkpoint);
    const JsonValue *suppressed = json_get_set(generation, "suppress_tokens");
    Defaults d = {.sampling = SAMPLING_GREEDY};
    if (!read_end_ids(checkpoint, vocab, &d.end_ids, err) || !read_sampling(generation, &d.sampling, err)) goto fail;
    if (suppressed && !add_ids(&d.suppressed, suppressed, "generation_config.json: suppress_tokens", vocab, err))
        goto fail;
    if (!add_padding_ids(checkpoint, vocab, &d.suppressed, err)) goto fail;
    if (tokenizer && !read_tokenizer_end(checkpoint_folder(checkpoint), tokenizer, vocab, &d.end_ids, err)) goto fail;
    *out = d;
    return true;
fail:
    defaults_clear(&d);
    return false;
}

void defaults_clear(Defaults *d) {
    id_list_clear(&d->end_ids);
    id_list_clear(&d->suppressed);
    *d = (Defaults){.sampling = SAMPLING_GREEDY};
}
