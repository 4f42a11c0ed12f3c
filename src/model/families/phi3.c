/* Phi-3, 3.5 and 4 (arXiv:2404.14219), dense: llama with q, k and v in one matrix and gate and up in another, a window
 * over all layers, and longrope past 4k. The reference is transformers; mlx-lm ignores the window, and has the long
 * table at every length. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"phi3", NULL};

static const char *const irrelevant_keys[] = {"embd_pdrop", "resid_pdrop",           /* of training */
                                              "full_attn_mod", "interpolate_factor", /* Phi-4; read by no reference */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", NULL};

/* Both references take the original length from the top level, or 4096, and never from rope_scaling. */
static bool read_rope(const Config *c, Blueprint *b, int head_dim) {
    Config section = rope_section(c);
    config_size_or(&section, "original_max_position_embeddings", 1);
    RopeInput in = {.theta = config_number_or(c, "rope_theta", 10000),
                    .dims = rope_partial_dims(c, &section, head_dim, 1),
                    .max_position = b->max_context,
                    .original = config_size_or(c, "original_max_position_embeddings", 4096),
                    .interleaved = config_bool_or(c, "rope_traditional", false)};
    if (!config_ok(c) || !rope_read(&section, &in, &b->ropes[0])) return false;
    const char *rule = b->ropes[0].rule;
    return !strcmp(rule, "default") || !strcmp(rule, "longrope") || !strcmp(rule, "linear") ||
           config_fail(c, "has %s rope, which Phi-3 does not have; known for it: longrope (su), linear", rule);
}

static bool phi3_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 4096};
    standard_model(c, &defaults, b);
    b->head.bias = config_bool_or(c, "lm_head_bias", false);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    int n_layers = standard_layer_count(c), window = config_size_or(c, "sliding_window", 0);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    if (window < b->max_context) attention.window = window;
    standard_fuse_qkv(&attention, "model.layers.*.self_attn.qkv_proj");
    standard_fuse_gate_up(&mlp, "model.layers.*.mlp.gate_up_proj");
    for (int i = 0; i < n_layers; i++) b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
    return read_rope(c, b, attention.head_dim) && config_ok(c);
}

const Family family_phi3 = {"phi3", model_types, irrelevant_keys, skipped_tensors, phi3_blueprint, NULL};
