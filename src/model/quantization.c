/* Reads the quantisation block. All of it is checked at once, so that looking a module up can not fail: an entry is the
 * default's own fields, an object or false for a module, and anything else is refused. */
#include "model/quantization.h"

#include <stdio.h>
#include <string.h>

/* Modes with the bits and group they have when none are written; `fixed` modes have no others. */
static const struct Mode {
    const char *name;
    WeightFormat format;
    int bits, group;
    bool fixed;
} modes[] = {
    {"affine", WEIGHT_AFFINE, 4, 64, false}, {"mxfp4", WEIGHT_MXFP4, 4, 32, true}, {"nvfp4", WEIGHT_NVFP4, 4, 16, true},
    {"mxfp8", WEIGHT_MXFP8, 8, 32, true},    {"q2_k", WEIGHT_Q2_K, 2, 16, true},   {"q3_k", WEIGHT_Q3_K, 3, 16, true},
    {"q4_k", WEIGHT_Q4_K, 4, 32, true},      {"q5_k", WEIGHT_Q5_K, 5, 32, true},   {"q6_k", WEIGHT_Q6_K, 6, 16, true},
};

static const struct Mode *find_mode(const char *name) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, name) == 0) return &modes[i];
    return NULL;
}

/* A whole number, or the fallback when absent; 0 for anything else. */
static int small_int(const JsonValue *entry, const char *key, int fallback) {
    const JsonValue *v = json_get_set(entry, key);
    int64_t n;
    if (!v) return fallback;
    return json_int(v, &n) && n > 0 && n <= 1024 ? (int)n : 0;
}

/* `where` names the entry in messages. A module's entry without a mode means affine, as in mlx-lm. */
static bool read_entry(const JsonValue *entry, const char *where, QuantSpec *out, Error *err) {
    const JsonValue *mode_value = json_get_set(entry, "mode");
    const char *name = mode_value ? json_string(mode_value) : "affine";
    const struct Mode *mode = name ? find_mode(name) : NULL;
    if (!mode)
        return error_set(
            err,
            "config.json: %s has the quantisation mode \"%.40s\"; known: affine, mxfp4, mxfp8, nvfp4, q2_k to q6_k",
            where, name ? name : "?");
    QuantSpec spec = {mode->format, small_int(entry, "bits", mode->bits), small_int(entry, "group_size", mode->group),
                      false};
    bool bits_ok = spec.bits >= 2 && spec.bits <= 8 && spec.bits != 7;
    bool group_ok = spec.group == 32 || spec.group == 64 || spec.group == 128;
    if (mode->fixed ? spec.bits != mode->bits || spec.group != mode->group : !bits_ok || !group_ok)
        return error_set(err, "config.json: %s: %s quantisation with %d bits in groups of %d is not known", where,
                         mode->name, spec.bits, spec.group);
    *out = spec;
    return true;
}

static bool read_module(const JsonMember *m, Error *err) {
    char where[160];
    QuantSpec spec;
    bool on;
    snprintf(where, sizeof where, "the quantisation of \"%.120s\"", m->key);
    if (json_bool(&m->value, &on) || m->value.type == JSON_NULL) return true; /* true: the default */
    if (m->value.type != JSON_OBJECT)
        return error_set(err, "config.json: %s is neither an object nor true or false", where);
    return read_entry(&m->value, where, &spec, err);
}

static bool is_default_field(const char *key) {
    return strcmp(key, "group_size") == 0 || strcmp(key, "bits") == 0 || strcmp(key, "mode") == 0 ||
           strcmp(key, "widened") == 0;
}

static bool read_widened(const JsonValue *block, Error *err) {
    const JsonValue *v = json_get_set(block, "widened");
    bool ok = !v || v->type == JSON_OBJECT;
    for (uint32_t i = 0; ok && v && i < v->length; i++) ok = v->members[i].value.type == JSON_STRING;
    return ok || error_set(err, "config.json: \"quantization\": \"widened\" is not an object of strings");
}

/* MLX's block: a default and modules that differ from it. */
static bool read_mlx(const JsonValue *block, Error *err) {
    QuantSpec spec;
    if (!read_entry(block, "\"quantization\"", &spec, err) || !read_widened(block, err)) return false;
    for (uint32_t i = 0; i < block->length; i++)
        if (!is_default_field(block->members[i].key) && !read_module(&block->members[i], err)) return false;
    return true;
}

bool quantization_read(const JsonValue *config, const IgnoredKeys *ignored, Quantization *out, Error *err) {
    const JsonValue *block = json_get_set(config, "quantization"), *other = json_get_set(config, "quantization_config");
    Quantization q = {0};
    if (!other) other = json_get_set(json_get_set(config, "text_config"), "quantization_config");
    bool published = json_get_set(other, "quant_method") != NULL;
    if (published && block)
        return error_set(err, "config.json: has \"quantization\" and another form in \"quantization_config\"");
    if (!block) block = other;
    if (block && block->type != JSON_OBJECT) return error_set(err, "config.json: \"quantization\" is not an object");
    if (published ? !published_read(block, ignored, &q.published, err) : block && !read_mlx(block, err)) return false;
    if (!published) q.object = block;
    *out = q;
    return true;
}

void quantization_clear(Quantization *q) {
    published_clear(&q->published);
    *q = (Quantization){0};
}

QuantSpec quantization_of(const Quantization *q, const char *module) {
    const JsonValue *entry = json_get_set(q->object, module);
    QuantSpec spec = {.off = true};
    bool on;
    if (entry && json_bool(entry, &on)) {
        if (!on) return spec;
        entry = NULL;
    }
    read_entry(entry ? entry : q->object, "", &spec, NULL);
    spec.off = false;
    return spec;
}

const char *quantization_widened(const Quantization *q, const char *module) {
    return q->object ? json_string(json_get_set(json_get_set(q->object, "widened"), module)) : NULL;
}
