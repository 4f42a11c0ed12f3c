/* Reading quantization_config, method by method. A key that is not known stops loading, as in the rest of config.json:
 * what it asks for may be how the weights are meant. */
#include "model/published.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    const JsonValue *block;
    const IgnoredKeys *ignored;
    Published *out;
    Error *err;
} Reader;

typedef struct Method {
    const char *name;
    bool (*read)(Reader *r);
    const char *const *used, *const *without_effect; /* keys; NULL-terminated */
} Method;

static bool fail(Reader *r, const char *key, const char *text) {
    const JsonValue *v = json_get(r->block, key);
    char found[24];
    if (v && (v->type == JSON_INT || v->type == JSON_FLOAT))
        snprintf(found, sizeof found, "%g", v->number);
    else if (v && v->type == JSON_BOOL)
        snprintf(found, sizeof found, "%s", v->boolean ? "true" : "false");
    else
        snprintf(found, sizeof found, "%s", !v ? "absent" : json_string(v) ? json_string(v) : "something else");
    return error_set(r->err, "config.json: quantization_config.%s is %s, expected %s", key, found, text);
}

/* ---- reading keys ---- */

static bool read_flag(Reader *r, const char *key, bool fallback, bool *out) {
    const JsonValue *v = json_get_set(r->block, key);
    *out = fallback;
    return !v || json_bool(v, out) || fail(r, key, "true or false");
}

/* True when the key is absent or false. */
static bool want_false(Reader *r, const char *key) {
    bool on;
    return read_flag(r, key, false, &on) && (!on || fail(r, key, "false"));
}

/* A text that is one of `allowed`, which messages repeat; absent: the first. */
static bool read_choice(Reader *r, const char *key, const char *const *allowed, const char *expected, int *out) {
    const JsonValue *v = json_get_set(r->block, key);
    for (*out = 0; v && allowed[*out]; ++*out)
        if (json_equals(v, allowed[*out])) return true;
    *out = v ? *out : 0;
    return !v || fail(r, key, expected);
}

static bool read_bits(Reader *r, const char *key, unsigned allowed, const char *expected, int *out) {
    int64_t n;
    const JsonValue *v = json_get_set(r->block, key);
    if (!v || !json_int(v, &n) || n < 1 || n > 8 || !(allowed >> n & 1)) return fail(r, key, expected);
    *out = (int)n;
    return true;
}

/* -1, as these files have it for a whole row, is 0 here. */
static bool read_group(Reader *r, const char *key, int64_t fallback, int64_t *out) {
    const JsonValue *v = json_get_set(r->block, key);
    *out = fallback;
    if (!v) return true;
    if (!json_int(v, out) || *out == 0 || *out < -1 || *out > INT32_MAX) return fail(r, key, "-1 or a size of groups");
    if (*out == -1) *out = 0;
    return true;
}

static bool read_list(Reader *r, const char *key, ModuleListKind kind, ModuleList *out) {
    return module_list_read(json_get_set(r->block, key), key, kind, out, r->err);
}

static bool read_skipped(Reader *r, const char *key) {
    return r->out->skipped.n > 0 || read_list(r, key, MODULES_SKIPPED, &r->out->skipped);
}

static bool add_rule(Reader *r, const PublishedRule *rule) {
    Published *p = r->out;
    PublishedRule *more = mem_resize(p->rules, (size_t)p->n_rules + 1, sizeof *more);
    if (!more) return error_memory(r->err, "the quantisation");
    p->rules = more;
    p->rules[p->n_rules++] = *rule;
    return true;
}

/* Every module that is not skipped. */
static bool add_only_rule(Reader *r, const PublishedWeights *weights) {
    return add_rule(r, &(PublishedRule){{MODULES_TARGETS, NULL, 0}, *weights});
}

static void add_note(Published *p, const char *text) {
    size_t n = strlen(p->note);
    snprintf(p->note + n, sizeof p->note - n, "%s", text);
}

static bool is_listed(const char *const *list, const char *key) {
    for (; list && *list; list++)
        if (strcmp(*list, key) == 0) return true;
    return false;
}

static bool is_ignored(const IgnoredKeys *ignored, const char *key) {
    static const char section[] = "quantization_config.";
    for (int i = 0; ignored && i < ignored->n; i++)
        if (strncmp(ignored->keys[i], section, sizeof section - 1) == 0 &&
            strcmp(ignored->keys[i] + sizeof section - 1, key) == 0)
            return true;
    return false;
}

static bool check_keys(Reader *r, const char *where, const char *const *used, const char *const *without_effect) {
    for (uint32_t i = 0; i < r->block->length; i++) {
        const JsonMember *m = &r->block->members[i];
        if (m->value.type == JSON_NULL || is_listed(used, m->key) || is_listed(without_effect, m->key) ||
            is_ignored(r->ignored, m->key))
            continue;
        return error_set(
            r->err,
            "config.json: the key \"%.80s\" of %s is not known for quant_method %s, and passing over it could "
            "make the answers wrong; if it does not matter, add --ignore-config quantization_config.%.80s",
            m->key, where, r->out->method, m->key);
    }
    return true;
}

/* ---- AWQ and GPTQ ---- */

static const char *const awq_used[] = {
    "quant_method", "bits", "group_size", "zero_point", "format", "version", "modules_to_not_convert", NULL};
static const char *const gptq_used[] = {
    "quant_method",     "bits",     "group_size", "checkpoint_format",      "format", "desc_act", "sym", "dynamic",
    "is_marlin_format", "rotation", "pack_dtype", "modules_to_not_convert", NULL};

/* How the codes were found, and what runs them elsewhere. */
static const char *const gptq_without_effect[] = {"damp_percent",
                                                  "damp_auto_increment",
                                                  "true_sequential",
                                                  "static_groups",
                                                  "model_name_or_path",
                                                  "model_file_base_name",
                                                  "tokenizer",
                                                  "dataset",
                                                  "use_cuda_fp16",
                                                  "model_seqlen",
                                                  "block_name_to_quantize",
                                                  "module_name_preceding_first_block",
                                                  "batch_size",
                                                  "pad_token_id",
                                                  "use_exllama",
                                                  "disable_exllama",
                                                  "max_input_length",
                                                  "exllama_config",
                                                  "cache_block_outputs",
                                                  "modules_in_block_to_quantize",
                                                  "meta",
                                                  "backend",
                                                  "do_fuse",
                                                  "fuse_max_seq_len",
                                                  "modules_to_fuse",
                                                  "act_group_aware",
                                                  "use_safetensors",
                                                  "lm_head",
                                                  "mse",
                                                  "offload_to_disk",
                                                  "pack_impl",
                                                  "nsamples",
                                                  "seqlen",
                                                  "iters",
                                                  "lr",
                                                  "minmax_lr",
                                                  "amp",
                                                  "train_bs",
                                                  "data_type",
                                                  "enable_quanted_input",
                                                  "enable_minmax_tuning",
                                                  "low_gpu_mem_usage",
                                                  "gradient_accumulate_steps",
                                                  "scale_dtype",
                                                  "autoround_version",
                                                  "provider",
                                                  "quant_block_list",
                                                  "to_quant_block_names",
                                                  "desc_act",
                                                  "sym",
                                                  NULL};

static bool read_awq(Reader *r) {
    static const char *const versions[] = {"gemm", "GEMM", NULL};
    static const char expected[] = "gemm, the only layout of AutoAWQ that is known here";
    PublishedWeights w = {.storage = STORED_AWQ, .asymmetric = true};
    bool zero_point;
    int version;
    if (!read_bits(r, "bits", 1u << 4, "4", &w.bits) || !read_group(r, "group_size", 128, &w.group) ||
        !read_flag(r, "zero_point", true, &zero_point) || !read_choice(r, "version", versions, expected, &version) ||
        !read_choice(r, "format", versions, expected, &version))
        return false;
    if (!zero_point) return fail(r, "zero_point", "true: the gemm layout has zero points");
    snprintf(r->out->note, sizeof r->out->note, "awq (AutoAWQ gemm)");
    return read_skipped(r, "modules_to_not_convert") && add_only_rule(r, &w);
}

static bool read_gptq(Reader *r) {
    static const char *const formats[] = {"gptq", "gptq_v2", NULL}, *const words[] = {"int32", NULL};
    static const char expected[] = "gptq or gptq_v2, the layouts that are known here";
    const char *key = json_get_set(r->block, "checkpoint_format") ? "checkpoint_format" : "format";
    PublishedWeights w = {.storage = STORED_GPTQ, .asymmetric = true};
    int format, word;
    bool flag;
    if (!read_bits(r, "bits", 1u << 2 | 1u << 3 | 1u << 4 | 1u << 8, "2, 3, 4 or 8", &w.bits) ||
        !read_group(r, "group_size", 128, &w.group) || !read_choice(r, key, formats, expected, &format) ||
        !read_choice(r, "pack_dtype", words, "int32", &word) || !want_false(r, "is_marlin_format") ||
        !read_flag(r, "desc_act", false, &flag) || !read_flag(r, "sym", true, &flag))
        return false;
    if (json_get_set(r->block, "rotation")) return fail(r, "rotation", "nothing: rotated weights are not known here");
    r->out->zeros_less_one = format == 0;
    r->out->sizes_vary = json_get_set(r->block, "dynamic") != NULL;
    snprintf(r->out->note, sizeof r->out->note, "gptq (%s)", format == 0 ? "gptq, zero points less one" : "gptq_v2");
    return read_skipped(r, "modules_to_not_convert") && add_only_rule(r, &w);
}

/* ---- FP8 ---- */

static const char *const fp8_used[] = {"quant_method",   "activation_scheme", "weight_block_size",      "fmt",
                                       "ignored_layers", "expert_dtype",      "modules_to_not_convert", NULL};
static const char *const fp8_without_effect[] = {"dequantize", "modules_to_convert",  "is_checkpoint_fp8_serialized",
                                                 "scale_fmt",  "activation_scale_ub", "kv_cache_scheme",
                                                 NULL};

static bool read_block_size(Reader *r, const JsonValue *v, const char *key, PublishedWeights *w) {
    int64_t n[2];
    if (!v) return true;
    for (uint32_t i = 0; i < 2; i++)
        if (v->type != JSON_ARRAY || v->length != 2 || !json_int(json_item(v, i), &n[i]) || n[i] < 1 || n[i] > 1 << 20)
            return fail(r, key, "two sizes");
    w->block_rows = (int)n[0];
    w->block_cols = (int)n[1];
    return true;
}

static bool read_fp8(Reader *r) {
    static const char *const formats[] = {"e4m3", "float8_e4m3fn", NULL}, *const experts[] = {"fp8", NULL},
                             *const schemes[] = {"dynamic", "static", NULL};
    PublishedWeights w = {.storage = STORED_FP8, .bits = 8};
    int which;
    if (!read_choice(r, "fmt", formats, "e4m3", &which) || !read_choice(r, "expert_dtype", experts, "fp8", &which) ||
        !read_choice(r, "activation_scheme", schemes, "dynamic or static", &which) ||
        !read_block_size(r, json_get_set(r->block, "weight_block_size"), "weight_block_size", &w))
        return false;
    snprintf(r->out->note, sizeof r->out->note,
             "%s (e4m3); weights only: inputs are not rounded to the %s 8-bit floats that the config asks for",
             r->out->method, schemes[which]);
    return read_skipped(r, "modules_to_not_convert") && read_skipped(r, "ignored_layers") && add_only_rule(r, &w);
}

/* ---- gpt-oss and BitNet ---- */

static const char *const mxfp4_used[] = {"quant_method", "modules_to_not_convert", NULL};
static const char *const mxfp4_without_effect[] = {"dequantize", NULL};

static bool read_mxfp4(Reader *r) {
    PublishedWeights w = {.storage = STORED_BLOCKS, .bits = 4, .group = 32};
    snprintf(r->out->note, sizeof r->out->note, "mxfp4 (blocks)");
    return read_skipped(r, "modules_to_not_convert") && add_only_rule(r, &w);
}

static const char *const bitnet_used[] = {"quant_method",
                                          "linear_class",
                                          "quantization_mode",
                                          "use_rms_norm",
                                          "rms_norm_eps",
                                          "modules_to_not_convert",
                                          NULL};

static bool read_bitnet(Reader *r) {
    static const char *const classes[] = {"bitlinear", "autobitlinear", NULL}, *const modes[] = {"offline", "online",
                                                                                                 NULL};
    PublishedWeights w = {.storage = STORED_TERNARY, .bits = 2};
    int linear_class, mode;
    if (!read_choice(r, "linear_class", classes, "bitlinear or autobitlinear", &linear_class) ||
        !read_choice(r, "quantization_mode", modes, "offline or online", &mode) || !want_false(r, "use_rms_norm"))
        return false;
    if (mode == 1 && linear_class == 0) return fail(r, "linear_class", "autobitlinear, which alone has an online mode");
    if (mode == 1) w.storage = STORED_ONLINE;
    r->out->skips_head = !json_get_set(r->block, "modules_to_not_convert");
    r->out->inverse = linear_class == 0;
    snprintf(r->out->note, sizeof r->out->note,
             "bitnet (%s, %s); weights only: inputs are not rounded to 8 bits as BitNet layers do",
             classes[linear_class], modes[mode]);
    return read_skipped(r, "modules_to_not_convert") && add_only_rule(r, &w);
}

/* ---- compressed-tensors ---- */

static const char *const ct_used[] = {"quant_method",    "format",           "config_groups",   "ignore",
                                      "sparsity_config", "transform_config", "kv_cache_scheme", NULL};
static const char *const ct_without_effect[] = {"quantization_status", "global_compression_ratio", "version",
                                                "run_compressed", NULL};
static const char *const ct_group_used[] = {"targets", "weights", "input_activations", "output_activations",
                                            "format",  NULL};
static const char *const ct_weights_used[] = {"num_bits",   "type",    "symmetric",       "strategy",
                                              "group_size", "dynamic", "block_structure", NULL};
static const char *const ct_weights_without_effect[] = {"observer",    "observer_kwargs", "actorder",
                                                        "scale_dtype", "zp_dtype",        NULL};

/* The formats, and the storage of 8 bits or fewer that each has for integers and for floats. */
static const struct CompressedFormat {
    const char *name;
    PublishedStorage integers, floats;
} ct_formats[] = {
    {"pack-quantized", STORED_PACKED, STORED_FLOATS},      {"int-quantized", STORED_BYTES, STORED_FLOATS},
    {"float-quantized", STORED_FLOATS, STORED_FP8},        {"naive-quantized", STORED_BYTES, STORED_FP8},
    {"nvfp4-pack-quantized", STORED_FLOATS, STORED_NVFP4}, {"mxfp4-pack-quantized", STORED_FLOATS, STORED_MXFP4},
    {"mxfp8-quantized", STORED_FLOATS, STORED_MXFP8},      {"dense", STORED_FLOATS, STORED_FLOATS},
    {"mixed-precision", STORED_FLOATS, STORED_FLOATS},
};

static const struct CompressedFormat *find_format(const JsonValue *v) {
    for (size_t i = 0; i < sizeof ct_formats / sizeof *ct_formats; i++)
        if (json_equals(v, ct_formats[i].name)) return &ct_formats[i];
    return NULL;
}

static bool read_strategy(Reader *r, PublishedWeights *w) {
    static const char *const strategies[] = {"tensor", "channel", "group", "block", "tensor_group", NULL};
    const JsonValue *said = json_get_set(r->block, "strategy");
    int64_t group;
    int strategy;
    if (!read_choice(r, "strategy", strategies, "tensor, channel, group, block or tensor_group", &strategy) ||
        !read_group(r, "group_size", 0, &group))
        return false;
    if (!said && group) strategy = 2;
    if (strategy == 2 || strategy == 4) {
        if (group == 0) return fail(r, "group_size", "a size of groups");
        w->group = group;
    }
    return strategy != 3 || (read_block_size(r, json_get_set(r->block, "block_structure"), "block_structure", w) &&
                             (w->block_rows || fail(r, "block_structure", "two sizes")));
}

/* The "weights" of a group. */
static bool read_scheme(Reader *r, const struct CompressedFormat *format, PublishedWeights *w) {
    static const char *const types[] = {"int", "float", NULL};
    int type;
    bool symmetric;
    if (!check_keys(r, "weights in config_groups", ct_weights_used, ct_weights_without_effect) ||
        !read_choice(r, "type", types, "int or float", &type) || !read_flag(r, "symmetric", true, &symmetric) ||
        !want_false(r, "dynamic") || !read_strategy(r, w) ||
        !read_bits(r, "num_bits", 0x17C, "2, 3, 4, 5, 6 or 8", &w->bits))
        return false;
    w->storage = type == 0 ? format->integers : format->floats;
    w->asymmetric = !symmetric;
    bool four = w->storage == STORED_NVFP4 || w->storage == STORED_MXFP4;
    bool eight = w->storage == STORED_FP8 || w->storage == STORED_MXFP8;
    if (w->storage == STORED_FLOATS || (four && w->bits != 4) || (eight && w->bits != 8) ||
        ((four || eight) && w->asymmetric))
        return error_set(r->err, "config.json: weights of %d bits and type %s%s are not known in the format %s",
                         w->bits, types[type], w->asymmetric ? " with zero points" : "", format->name);
    return true;
}

static void note_activations(Published *p, const JsonValue *block, const char *key, const char *what) {
    const JsonValue *args = json_get_set(block, key), *dynamic = json_get_set(args, "dynamic");
    int64_t bits = 0;
    bool on = false;
    char said[80], text[160];
    if (!args) return;
    json_int(json_get(args, "num_bits"), &bits);
    if (dynamic && !json_bool(dynamic, &on)) on = true;
    snprintf(said, sizeof said, "%s (%d bits, %s)", what, (int)bits, on ? "dynamic" : "static");
    bool first = !strstr(p->note, "weights only");
    snprintf(text, sizeof text, first ? "; weights only: the config's %s are not applied" : ", nor are its %s", said);
    if (!strstr(p->note, said)) add_note(p, text);
}

static bool read_config_group(Reader *r, const JsonValue *group, const JsonValue *whole_format) {
    const JsonValue *own = json_get_set(group, "format"), *said = own ? own : whole_format;
    const struct CompressedFormat *format = find_format(said);
    PublishedRule rule = {.weights = {.storage = STORED_FLOATS}};
    Reader inner = *r;
    inner.block = group;
    if (!group || group->type != JSON_OBJECT)
        return error_set(r->err, "config.json: quantization_config.config_groups has a group that is not an object");
    if (!check_keys(&inner, "config_groups", ct_group_used, NULL)) return false;
    if (!format)
        return error_set(
            r->err,
            "config.json: compressed-tensors has the format \"%.40s\"; known: pack-quantized, int-quantized, "
            "float-quantized, naive-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized",
            json_string(said) ? json_string(said) : "?");
    note_activations(r->out, group, "input_activations", "input activations");
    note_activations(r->out, group, "output_activations", "output activations");
    const JsonValue *weights = json_get_set(group, "weights");
    if (!weights) return true;
    inner.block = weights;
    if (weights->type != JSON_OBJECT) return error_set(r->err, "config.json: \"weights\" is not an object");
    if (!read_scheme(&inner, format, &rule.weights) ||
        !module_list_read(json_get_set(group, "targets"), "targets", MODULES_TARGETS, &rule.targets, r->err))
        return false;
    if (rule.targets.n > 0 && add_rule(r, &rule)) return true;
    if (rule.targets.n == 0) error_set(r->err, "config.json: a group of config_groups has no \"targets\"");
    module_list_clear(&rule.targets);
    return false;
}

/* A section that must be absent, empty, or have one of these as its "format". */
static bool want_empty(Reader *r, const char *key) {
    const JsonValue *v = json_get_set(r->block, key);
    if (!v || (v->type == JSON_OBJECT && v->length == 0) || json_equals(json_get(v, "format"), "dense")) return true;
    return error_set(r->err, "config.json: quantization_config.%s asks for more than weights; that is not known here",
                     key);
}

static bool read_compressed(Reader *r) {
    const JsonValue *groups = json_get_set(r->block, "config_groups"), *format = json_get_set(r->block, "format");
    if (!want_empty(r, "sparsity_config") || !want_empty(r, "transform_config") ||
        !read_list(r, "ignore", MODULES_TARGETS, &r->out->skipped))
        return false;
    if (!groups || groups->type != JSON_OBJECT || groups->length == 0) return fail(r, "config_groups", "an object");
    snprintf(r->out->note, sizeof r->out->note, "compressed-tensors (%.40s)",
             json_string(format) ? json_string(format) : "?");
    for (uint32_t i = 0; i < groups->length; i++)
        if (!read_config_group(r, &groups->members[i].value, format)) return false;
    note_activations(r->out, r->block, "kv_cache_scheme", "keys and values");
    return true;
}

/* ---- all of them ---- */

static const Method methods[] = {
    {"awq", read_awq, awq_used, gptq_without_effect},
    {"gptq", read_gptq, gptq_used, gptq_without_effect},
    {"fp8", read_fp8, fp8_used, fp8_without_effect},
    {"fbgemm_fp8", read_fp8, fp8_used, fp8_without_effect},
    {"compressed-tensors", read_compressed, ct_used, ct_without_effect},
    {"mxfp4", read_mxfp4, mxfp4_used, mxfp4_without_effect},
    {"bitnet", read_bitnet, bitnet_used, NULL},
};

bool published_read(const JsonValue *block, const IgnoredKeys *ignored, Published *out, Error *err) {
    const JsonValue *said = json_get_set(block, "quant_method");
    const Method *method = NULL;
    Published p = {0};
    Reader r = {block, ignored, &p, err};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (json_equals(said, methods[i].name)) method = &methods[i];
    if (!method)
        return error_set(err,
                         "config.json: weights quantised by \"%.40s\" are not supported; supported: awq, gptq, fp8, "
                         "fbgemm_fp8, compressed-tensors, mxfp4, bitnet, and MLX's and GGUF's forms",
                         json_string(said) ? json_string(said) : "?");
    p.method = method->name;
    if (check_keys(&r, "quantization_config", method->used, method->without_effect) && method->read(&r)) {
        *out = p;
        return true;
    }
    published_clear(&p);
    return false;
}

void published_clear(Published *p) {
    for (int i = 0; i < p->n_rules; i++) module_list_clear(&p->rules[i].targets);
    mem_free(p->rules);
    module_list_clear(&p->skipped);
    *p = (Published){0};
}

bool published_module(const Published *p, const char *module, const PublishedWeights **out, Error *err) {
    ModuleMatch skipped, best = MATCH_NONE;
    *out = NULL;
    if (!module_list_match(&p->skipped, module, &skipped, err)) return false;
    if (skipped != MATCH_NONE) return true;
    for (int i = 0; i < p->n_rules; i++) {
        ModuleMatch match = MATCH_CLASS;
        const PublishedRule *rule = &p->rules[i];
        if (rule->targets.n && !module_list_match(&rule->targets, module, &match, err)) return false;
        if (match <= best) continue;
        best = match;
        *out = &rule->weights;
    }
    return true;
}
