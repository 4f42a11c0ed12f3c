/* Spark 2.5: llama with gelu, q, k and v in one matrix, a gate per head on attention's output, and three sliding layers
 * before each full one, each kind with rope settings of its own. The reference is mlx-lm, which has rope without
 * scaling only. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"spark2_5", NULL};

static const char *const irrelevant_keys[] = {"rope_theta", NULL}; /* each kind of layer has its own */

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    standard_fuse_qkv(&a, "model.layers.*.self_attn.q_k_v_proj");
    a.o.name = "model.layers.*.self_attn.out_proj";
    a.gate = (LinearSpec){.name = "model.layers.*.self_attn.g_proj", .bias = a.o.bias};
    a.gate_kind = GATE_HEAD;
    a.gate_act = ACT_SIGMOID;
    if (!config_bool_or(c, "headwise_attn_output_gate", true))
        config_fail(c, "\"headwise_attn_output_gate\" is false, which no reference runs");
    if (strcmp(config_string_or(c, "gate_attn_act_mode", "sigmoid"), "sigmoid") != 0)
        config_fail(c, "\"gate_attn_act_mode\" is not \"sigmoid\", which no reference runs");
    return a;
}

static bool read_rope(const Config *c, Blueprint *b, int index, const char *kind, int head_dim) {
    Config section = rope_section(c), own = rope_kind_section(&section, kind);
    RopeInput in = {.theta = 10000, .dims = rope_partial_dims(&own, &own, head_dim, 1), .max_position = b->max_context};
    if (!config_ok(c) || !rope_read(&own, &in, &b->ropes[index])) return false;
    return strcmp(b->ropes[index].rule, "default") == 0 ||
           config_fail(c, "has %s rope, which no reference runs for this family", b->ropes[index].rule);
}

static bool spark_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 8192, .act = "gelu", .tie = TIE_YES};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embedding";
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    int n_layers = standard_layer_count(c), window = config_size(c, "sliding_window");
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    for (int i = 0; i < n_layers; i++) {
        LayerKind kind = standard_layer_kind(c, n_layers, i, i % 4 == 3 ? LAYER_FULL : LAYER_SLIDING);
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        b->layers[i].attention.rope = kind == LAYER_SLIDING;
        if (kind == LAYER_SLIDING) b->layers[i].attention.window = window;
        if (kind != LAYER_SLIDING && kind != LAYER_FULL)
            return config_fail(c, "\"layer_types\" item %d is no kind of layer that this family has", i);
    }
    return read_rope(c, b, 0, "full_attention", attention.head_dim) &&
           read_rope(c, b, 1, "sliding_attention", attention.head_dim) && config_ok(c);
}

const Family family_spark = {"spark", model_types, irrelevant_keys, NULL, spark_blueprint, NULL};
