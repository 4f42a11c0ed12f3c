/* The config reader. Keys are recorded by the address of their value, so a key of a section and one of the root that
 * share a name stay apart, and the final sweep is a walk over the tree.
 *
 * Invariant: a value is recorded exactly when some reader was told it. */
#include "model/config.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What savers write into every config and no forward pass reads. */
static const char *const generic_keys[] = {"_attn_implementation",
                                           "_attn_implementation_autoset",
                                           "_name_or_path",
                                           "_commit_hash",
                                           "add_cross_attention",
                                           "architectures",
                                           "attention_dropout",
                                           "auto_map",
                                           "bad_words_ids",
                                           "begin_suppress_tokens",
                                           "bos_token_id",
                                           "cache_implementation",
                                           "chunk_size_feed_forward",
                                           "cross_attention_hidden_size",
                                           "decoder_start_token_id",
                                           "diversity_penalty",
                                           "do_sample",
                                           "dtype",
                                           "early_stopping",
                                           "encoder_no_repeat_ngram_size",
                                           "eos_token_id",
                                           "exponential_decay_length_penalty",
                                           "finetuning_task",
                                           "forced_bos_token_id",
                                           "forced_eos_token_id",
                                           "id2label",
                                           "initializer_range",
                                           "is_decoder",
                                           "is_encoder_decoder",
                                           "is_matryoshka", /* engine/matryoshka.c reads these three */
                                           "label2id",
                                           "length_penalty",
                                           "matryoshka_dimensions",
                                           "matryoshka_dims",
                                           "max_length",
                                           "min_length",
                                           "model_type",
                                           "no_repeat_ngram_size",
                                           "num_beam_groups",
                                           "num_beams",
                                           "num_labels", /* standard_labels reads it where it counts */
                                           "num_return_sequences",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "output_scores",
                                           "pad_token_id",
                                           "prefix",
                                           "problem_type",
                                           "pruned_heads",
                                           "remove_invalid_values",
                                           "repetition_penalty",
                                           "return_dict",
                                           "return_dict_in_generate",
                                           "sbert_ce_default_activation_function", /* engine/cross_encoder.c */
                                           "sep_token_id",
                                           "sentence_transformers", /* likewise */
                                           "suppress_tokens",
                                           "task_specific_params",
                                           "temperature",
                                           "tf_legacy_loss",
                                           "tie_encoder_decoder",
                                           "tokenizer_class",
                                           "top_k",
                                           "top_p",
                                           "torch_dtype",
                                           "torchscript",
                                           "transformers.js_config",
                                           "transformers_version",
                                           "typical_p",
                                           "unsloth_fixed",
                                           "unsloth_version",
                                           "use_bfloat16",
                                           "use_cache",
                                           NULL};

void config_init(Config *c, ConfigRecord *record, const JsonValue *root) {
    *record = (ConfigRecord){0};
    *c = (Config){record, root, ""};
}

void config_clear(ConfigRecord *record) {
    mem_free(record->used);
    *record = (ConfigRecord){0};
}

bool config_ok(const Config *c) {
    return !c->record->failed;
}

bool config_fail(const Config *c, const char *format, ...) {
    char text[sizeof c->record->error.text];
    va_list args;
    if (c->record->failed) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->record->failed = true;
    return error_set(&c->record->error, "config.json: %s", text);
}

static const ConfigUse *find_use(const ConfigRecord *r, const JsonValue *v) {
    for (int i = 0; i < r->n; i++)
        if (r->used[i].value == v) return &r->used[i];
    return NULL;
}

static void record_use(const Config *c, const JsonValue *v, bool section) {
    ConfigRecord *r = c->record;
    if (find_use(r, v)) return;
    if (r->n == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 64;
        ConfigUse *used = mem_resize(r->used, (size_t)capacity, sizeof *used);
        if (!used) {
            if (!r->failed) error_memory(&r->error, "the config");
            r->failed = true;
            return;
        }
        r->used = used;
        r->capacity = capacity;
    }
    r->used[r->n++] = (ConfigUse){v, section};
}

bool config_is_null(const Config *c, const char *key) {
    const JsonValue *v = json_get(c->object, key);
    return v && v->type == JSON_NULL;
}

bool config_has(const Config *c, const char *key) {
    return json_get_set(c->object, key) != NULL;
}

/* The value of a key, recorded; NULL when absent or null. */
static const JsonValue *take(const Config *c, const char *key) {
    const JsonValue *v = json_get_set(c->object, key);
    if (v) record_use(c, v, false);
    return v;
}

/* "config.json: "rope_scaling.factor" is "x", expected ..." */
static void fail_value(const Config *c, const char *key, const JsonValue *v, const char *expected) {
    Buffer shown = {0};
    json_write(&shown, v, NULL);
    config_fail(c, "\"%s%s\" is %.80s, expected %s", c->path, key, buffer_string(&shown), expected);
    buffer_clear(&shown);
}

static void fail_absent(const Config *c, const char *key) {
    config_fail(c, "has no \"%s%s\", which this model needs", c->path, key);
}

int config_size(const Config *c, const char *key) {
    if (!config_has(c, key)) fail_absent(c, key);
    return config_size_or(c, key, 1);
}

static int read_whole(const Config *c, const char *key, int fallback, int least, const char *expected) {
    const JsonValue *v = take(c, key);
    int64_t n;
    if (!v) return fallback;
    if (json_int(v, &n) && n >= least && n <= CONFIG_MAX_SIZE) return (int)n;
    fail_value(c, key, v, expected);
    return 1;
}

int config_size_or(const Config *c, const char *key, int fallback) {
    return read_whole(c, key, fallback, 1, "a whole number from 1 to 268435456");
}

int config_count_or(const Config *c, const char *key, int fallback) {
    return read_whole(c, key, fallback, 0, "a whole number from 0 to 268435456");
}

double config_number(const Config *c, const char *key) {
    if (!config_has(c, key)) fail_absent(c, key);
    return config_number_or(c, key, 1);
}

double config_number_or(const Config *c, const char *key, double fallback) {
    const JsonValue *v = take(c, key);
    double d;
    if (!v) return fallback;
    if (json_number(v, &d) && isfinite(d)) return d;
    fail_value(c, key, v, "a number");
    return 1;
}

int config_size_unless_null(const Config *c, const char *key, int absent) {
    return config_is_null(c, key) ? 0 : config_size_or(c, key, absent);
}

double config_number_unless_null(const Config *c, const char *key, double absent) {
    return config_is_null(c, key) ? 0 : config_number_or(c, key, absent);
}

bool config_bool_or(const Config *c, const char *key, bool fallback) {
    const JsonValue *v = take(c, key);
    bool b;
    if (!v) return fallback;
    if (json_bool(v, &b)) return b;
    fail_value(c, key, v, "true or false");
    return fallback;
}

const char *config_string_or(const Config *c, const char *key, const char *fallback) {
    const JsonValue *v = take(c, key);
    if (!v) return fallback;
    if (json_string(v)) return json_string(v);
    fail_value(c, key, v, "a string");
    return fallback;
}

const JsonValue *config_array(const Config *c, const char *key, int n) {
    const JsonValue *v = take(c, key);
    if (!v) return NULL;
    if (v->type == JSON_ARRAY && (n < 0 || v->length == (uint32_t)n)) return v;
    if (v->type == JSON_ARRAY)
        config_fail(c, "\"%s%s\" has %u items, expected %d", c->path, key, v->length, n);
    else
        fail_value(c, key, v, "a list");
    return NULL;
}

double config_number_at(const Config *c, const char *key, int n, int i) {
    const JsonValue *list = config_array(c, key, n), *v = list ? json_item(list, (uint32_t)i) : NULL;
    double d;
    if (v && json_number(v, &d) && isfinite(d)) return d;
    if (list)
        fail_value(c, key, list, "a list of numbers");
    else
        fail_absent(c, key);
    return 1;
}

int config_size_at(const Config *c, const char *key, int n, int i) {
    double d = config_number_at(c, key, n, i);
    if (d >= 1 && d <= CONFIG_MAX_SIZE && d == floor(d)) return (int)d;
    config_fail(c, "\"%s%s\" item %d is %g, expected a whole number from 1 to 268435456", c->path, key, i, d);
    return 1;
}

double config_number_each(const Config *c, const char *key, int i, double fallback) {
    const JsonValue *v = json_get(c->object, key);
    double d;
    if (!v || v->type != JSON_ARRAY) return config_number_or(c, key, fallback);
    take(c, key);
    const JsonValue *item = i >= 0 && (uint32_t)i < v->length ? json_item(v, (uint32_t)i) : NULL;
    if (!item || item->type == JSON_NULL) return fallback;
    if (json_number(item, &d) && isfinite(d)) return d;
    fail_value(c, key, v, "a number or a list of them");
    return 1;
}

int config_size_each(const Config *c, const char *key, int i, int fallback) {
    double d = config_number_each(c, key, i, fallback);
    if (d >= 0 && d <= CONFIG_MAX_SIZE && d == floor(d)) return (int)d;
    config_fail(c, "\"%s%s\" has %g, expected whole numbers", c->path, key, d);
    return 1;
}

Config config_section(const Config *c, const char *key) {
    Config section = {c->record, json_get_set(c->object, key), ""};
    snprintf(section.path, sizeof section.path, "%.20s%.40s.", c->path, key);
    if (section.object && section.object->type != JSON_OBJECT) {
        fail_value(c, key, section.object, "an object");
        section.object = NULL;
    }
    if (section.object) record_use(c, section.object, true);
    return section;
}

Config config_text(const Config *c) {
    Config text = config_section(c, "text_config");
    return text.object ? text : *c;
}

const Tensor *config_tensor(const Config *c, const char *name, int layer) {
    return c->record->names ? names_tensor(c->record->names, name, layer, -1, "") : NULL;
}

bool config_has_tensor(const Config *c, const char *name, int layer) {
    char expanded[NAME_MAX_BYTES];
    return c->record->names && names_expand(c->record->names, name, layer, -1, "", expanded);
}

const char *config_tensor_root(const Config *c) {
    return c->record->names ? c->record->names->root.model : "";
}

int64_t config_tensor_size(const Config *c, const char *name, int layer, int axis) {
    const Tensor *t = c->record->names ? names_tensor(c->record->names, name, layer, -1, "") : NULL;
    return t && axis < t->n_dims ? t->shape[axis] : 0;
}

const JsonValue *config_whole(const Config *c, const char *key) {
    return take(c, key);
}

static bool listed(const char *const *list, const char *key) {
    for (; list && *list; list++)
        if (strcmp(*list, key) == 0) return true;
    return false;
}

static bool ignored(const ConfigLists *lists, const char *key) {
    for (int i = 0; i < lists->n_ignore; i++)
        if (strcmp(lists->ignore[i], key) == 0) return true;
    return false;
}

/* A text model means the same alone and as a section of a multimodal one. */
static bool known_without_effect(const ConfigLists *lists, const char *name) {
    static const char section[] = "text_config.";
    const char *inside = strncmp(name, section, sizeof section - 1) == 0 ? name + sizeof section - 1 : name;
    return listed(generic_keys, inside) || listed(lists->irrelevant, name) || listed(lists->irrelevant, inside);
}

/* Appends the keys nobody knows, dotted, to `unknown`. Only objects that were opened as sections are entered. */
static void sweep(const ConfigRecord *r, const JsonValue *object, const char *path, const ConfigLists *lists,
                  Buffer *unknown, int *n) {
    for (uint32_t i = 0; i < object->length; i++) {
        const JsonMember *m = &object->members[i];
        const ConfigUse *use = find_use(r, &m->value);
        char name[256], inside[260];
        snprintf(name, sizeof name, "%s%s", path, m->key);
        if (m->value.type == JSON_NULL || ignored(lists, name)) continue;
        if (use && use->section) {
            snprintf(inside, sizeof inside, "%s.", name);
            sweep(r, &m->value, inside, lists, unknown, n);
        } else if (!use && !known_without_effect(lists, name)) {
            buffer_printf(unknown, "%s%s", *n ? " " : "", name);
            ++*n;
        }
    }
}

bool config_finish(const Config *c, const ConfigLists *lists, Error *err) {
    Buffer unknown = {0};
    int n = 0;
    if (c->record->failed) return error_set(err, "%s", c->record->error.text);
    sweep(c->record, c->object, "", lists, &unknown, &n);
    bool ok = n == 0;
    if (unknown.failed)
        ok = error_memory(err, "the config");
    else if (n == 1)
        error_set(
            err,
            "config.json: the key \"%.200s\" is not known for the %s family, and passing over it could make the answers"
            " wrong; if it does not matter, add --ignore-config %.200s",
            unknown.data, lists->family, unknown.data);
    else if (n > 1)
        error_set(
            err,
            "config.json: %d keys are not known for the %s family, and passing over them could make the answers wrong:"
            " %.400s; for each that does not matter, add --ignore-config KEY",
            n, lists->family, unknown.data);
    buffer_clear(&unknown);
    return ok;
}
