/* Phi-1, 1.5 and 2 (Gunasekar et al., arXiv:2306.11644): one layer norm, whose output attention and an mlp without a
 * gate both read; part of each head rotated; a bias everywhere, on the head too. The reference is transformers; mlx-lm
 * has no qk_layernorm and no rope_scaling, and another default for partial_rotary_factor. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"phi", NULL};

static const char *const irrelevant_keys[] = {"embd_pdrop", "resid_pdrop", NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", NULL};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden, float eps) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.o.name = "model.layers.*.self_attn.dense";
    if (!config_bool_or(c, "qk_layernorm", false)) return a;
    a.q_norm.norm = standard_layer_norm("model.layers.*.self_attn.q_layernorm.weight",
                                        "model.layers.*.self_attn.q_layernorm.bias", eps);
    a.k_norm.norm = standard_layer_norm("model.layers.*.self_attn.k_layernorm.weight",
                                        "model.layers.*.self_attn.k_layernorm.bias", eps);
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "intermediate_size", 8192));
    m.gate = (LinearSpec){0};
    m.up.name = "model.layers.*.mlp.fc1";
    m.down.name = "model.layers.*.mlp.fc2";
    return m;
}

static bool phi_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-5, .act = "gelu_new", .tie = TIE_NO, .attention_bias = true, .mlp_bias = true};
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps;
    b->head.bias = true;
    b->final_norm = standard_layer_norm("model.final_layernorm.weight", "model.final_layernorm.bias", eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden, eps);
    MlpSpec mlp = read_mlp(c, &defaults);
    LayerSpec layer = standard_layer(&attention, &mlp, eps);
    layer.parallel = true;
    layer.mixer_norm =
        standard_layer_norm("model.layers.*.input_layernorm.weight", "model.layers.*.input_layernorm.bias", eps);
    layer.ffn_norm = (NormSpec){0};
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    Config section = rope_section(c);
    int dims = rope_partial_dims(c, &section, attention.head_dim, 0.5);
    return standard_rope(c, &defaults, b, 0, dims, false) && config_ok(c);
}

const Family family_phi = {"phi", model_types, irrelevant_keys, skipped_tensors, phi_blueprint, NULL};
