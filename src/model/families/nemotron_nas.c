/* Llama-Nemotron (arXiv:2411.19146): llama whose layers were searched one by one. block_configs says of each half of
 * each layer whether it is there, or one matrix instead, how many queries share a key, and how wide the mlp is. The
 * reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <stdio.h>

static const char *const model_types[] = {"nemotron-nas", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", "intermediate_size", /* block_configs says it */ NULL};

/* The section `half` of item i of block_configs. */
static Config block_section(const Config *c, const JsonValue *blocks, int i, const char *half) {
    Config section = {c->record, json_get(json_item(blocks, (uint32_t)i), half), ""};
    snprintf(section.path, sizeof section.path, "block_configs[%d].%s.", i, half);
    if (section.object && section.object->type == JSON_OBJECT) return section;
    config_fail(c, "\"block_configs\" item %d has no object \"%s\"", i, half);
    return (Config){c->record, NULL, ""};
}

/* Keys of a block that no reference acts on must say that there is nothing. */
static void refuse_unused(const Config *section) {
    static const char *const values[] = {"sparsify", "window_length", "num_sink_tokens", NULL};
    static const char *const flags[] = {"use_prefill_window_in_sink_attention", "unshifted_sink", NULL};
    for (const char *const *key = values; *key; key++)
        if (config_has(section, *key))
            config_fail(section, "\"%s%s\" is set, which no reference has", section->path, *key);
    for (const char *const *key = flags; *key; key++)
        if (config_bool_or(section, *key, false))
            config_fail(section, "\"%s%s\" is true, which no reference has", section->path, *key);
}

static void read_mixer(const Config *section, LayerSpec *layer) {
    int heads = layer->attention.n_heads;
    if (config_bool_or(section, "no_op", false)) {
        layer->mixer = NULL;
        layer->mixer_norm = (NormSpec){.kind = NORM_NONE};
    } else if (config_bool_or(section, "replace_with_linear", false)) {
        layer->mixer = &mixer_matrix;
        layer->mixer_matrix = (LinearSpec){.name = "model.layers.*.self_attn.linear", .bias = layer->attention.q.bias};
    } else {
        int group = config_size(section, "n_heads_in_group");
        refuse_unused(section);
        if (heads % group) config_fail(section, "%d heads do not divide into groups of %d", heads, group);
        layer->attention.n_kv_heads = heads / group > 0 ? heads / group : 1;
    }
}

/* Two thirds of mult * hidden, up to the next multiple of 256. */
static int mlp_width(const Config *section, int hidden) {
    double mult = rint(config_number(section, "ffn_mult") * 1e6) / 1e6, width = floor(2 * mult * hidden / 3);
    if (width >= 1 && width <= CONFIG_MAX_SIZE - 256) return ((int)width + 255) / 256 * 256;
    config_fail(section, "\"%sffn_mult\" is %g, which makes no width", section->path, mult);
    return 256;
}

static void read_ffn(const Config *section, int hidden, LayerSpec *layer) {
    if (config_bool_or(section, "no_op", false)) {
        layer->ffn = NULL;
        layer->ffn_norm = (NormSpec){.kind = NORM_NONE};
    } else if (config_bool_or(section, "replace_with_linear", false)) {
        layer->ffn = &ffn_matrix;
        layer->ffn_matrix = (LinearSpec){.name = "model.layers.*.mlp.linear", .bias = layer->mlp.up.bias};
    } else {
        layer->mlp.width = mlp_width(section, hidden);
        refuse_unused(section);
    }
}

static bool nemotron_nas_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .theta = 500000, .max_position = 131072};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, 1);
    int n_layers = standard_layer_count(c);
    const JsonValue *blocks = config_array(c, "block_configs", n_layers);
    if (!blocks) config_fail(c, "has no \"block_configs\", which this family needs");
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers && config_ok(c); i++) {
        Config mixer = block_section(c, blocks, i, "attention"), ffn = block_section(c, blocks, i, "ffn");
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        read_mixer(&mixer, &b->layers[i]);
        read_ffn(&ffn, b->hidden, &b->layers[i]);
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_nemotron_nas = {"nemotron-nas",         model_types, irrelevant_keys, standard_skipped_tensors,
                                    nemotron_nas_blueprint, NULL};
