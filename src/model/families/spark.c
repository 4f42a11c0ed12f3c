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

static bool read_ropes(const Config *c, Blueprint *b, int head_dim) {
    if (!standard_kind_ropes(c, b, head_dim, 10000, 10000)) return false;
    for (int i = 0; i < b->n_ropes; i++)
        if (strcmp(b->ropes[i].rule, "default") != 0)
            return config_fail(c, "has %s rope, which no reference runs for this family", b->ropes[i].rule);
    return true;
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
        LayerKind kind = standard_layer_kind(c, n_layers, i, standard_pattern_kind(i, 4));
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        b->layers[i].attention.rope = kind == LAYER_SLIDING;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return read_ropes(c, b, attention.head_dim) && config_ok(c);
}

const Family family_spark = {"spark", model_types, irrelevant_keys, NULL, spark_blueprint, NULL};
