/* Gear: Gemma 3's layers, embedding scale and local rope, with weight - 1 in every norm, and layers that convolve keys
 * and values in place of attention. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"gear", NULL};

static const char *const irrelevant_keys[] = {"hidden_act", NULL}; /* hidden_activation counts */

static const char *const skipped_tensors[] = {"*rotary_emb.inv_freq", "*embed_scale", NULL};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    double scalar = config_number_or(c, "query_pre_attn_scalar", a.head_dim);
    if (scalar <= 0) config_fail(c, "\"query_pre_attn_scalar\" is %g, expected more than 0", scalar);
    a.scale = (float)(1 / sqrt(scalar));
    a.softcap = (float)config_number_or(c, "attn_logit_softcapping", 0);
    standard_head_norms(&a, SPAN_HEAD, b->final_norm.eps);
    a.q_norm.norm.plus = a.k_norm.norm.plus = 1;
    if (config_bool_or(c, "use_bidirectional_attention", false))
        config_fail(c, "\"use_bidirectional_attention\" is true, which no reference runs");
    return a;
}

/* The layer that convolves, from one that attends. */
static void convolve(const Config *c, LayerSpec *layer) {
    AttentionSpec *a = &layer->attention;
    int width = a->n_kv_heads * a->head_dim;
    bool bias = a->q.bias;
    layer->mixer = &mixer_conv_gate;
    a->kernel = config_size_or(c, "conv_L_cache", 3);
    a->q.name = "model.layers.*.local_mixer.q_proj";
    a->k.name = "model.layers.*.local_mixer.k_proj";
    a->v.name = "model.layers.*.local_mixer.v_proj";
    a->o.name = "model.layers.*.local_mixer.o_proj";
    a->q_norm.norm.weight = "model.layers.*.local_mixer.q_norm.weight";
    a->k_norm.norm.weight = "model.layers.*.local_mixer.k_norm.weight";
    a->k_conv = (ConvSpec){.name = "model.layers.*.local_mixer.key_conv.weight",
                           .bias = bias ? "model.layers.*.local_mixer.key_conv.bias" : NULL,
                           .total = width};
    a->v_conv = (ConvSpec){.name = "model.layers.*.local_mixer.value_conv.weight",
                           .bias = bias ? "model.layers.*.local_mixer.value_conv.bias" : NULL,
                           .total = width};
}

static bool is_convolution(const Config *c, int n_layers, int layer) {
    const JsonValue *types = config_array(c, "layer_types", n_layers);
    return types && json_equals(json_item(types, (uint32_t)layer), "conv_mixer");
}

static bool read_layers(const Config *c, const AttentionSpec *a, const MlpSpec *m, Blueprint *b) {
    int window = config_size_or(c, "sliding_window", 512);
    config_size_or(c, "conv_L_cache", 3);
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        *layer = standard_layer(a, m, b->final_norm.eps);
        standard_norm_around(layer, 1);
        if (is_convolution(c, b->n_layers, i)) {
            convolve(c, layer);
            continue;
        }
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, LAYER_FULL);
        layer->attention.rope = kind == LAYER_SLIDING;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return true;
}

static bool gear_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.act = "gelu_pytorch_tanh", .tie = TIE_YES};
    standard_model(c, &defaults, b);
    b->embedding_scale = (float)sqrt((double)b->hidden);
    b->final_norm.plus = 1;
    b->logit_softcap = (float)config_number_or(c, "final_logit_softcapping", 0);
    AttentionSpec attention = read_attention(c, &defaults, b);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    mlp.activation = standard_activation(c, "hidden_activation", defaults.act);
    mlp.gate.bias = mlp.up.bias = mlp.down.bias = false;
    int n_layers = standard_layer_count(c);
    double theta = config_number_or(c, "rope_theta", 1e6), local = config_number_or(c, "rope_local_base_freq", 10000);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    return read_layers(c, &attention, &mlp, b) && standard_kind_ropes(c, b, attention.head_dim, theta, local) &&
           config_ok(c);
}

const Family family_gear = {"gear", model_types, irrelevant_keys, skipped_tensors, gear_blueprint, NULL};
