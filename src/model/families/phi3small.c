/* Phi-3-small (arXiv:2404.14219): layer norms and biases, q, k and v by key-value head in one matrix, gate and up in
 * alternate rows of another with limits on both (gegelu), scales after muP, and layers whose heads see the last few
 * blocks of positions and, further back, every few blocks, each head others. transformers has no such class; the
 * reference is mlx-lm's with its three faults patched (docs/families.md), and a NumPy program of ours
 * (tests/goldens/mlx/phi3small-numpy). Ids that its tokenizer has no text for are never sampled; logits show them. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"phi3small", NULL};

static const char *const irrelevant_keys[] = {"attention_dropout_prob",
                                              "embedding_dropout_prob",
                                              "ffn_dropout_prob", /* of training */
                                              "reorder_weights",
                                              "blocksparse_triton_kernel_block_size",
                                              "gegelu_pad_to_256",
                                              "pad_sequence_to_multiple_of_64", /* of kernels */
                                              "hidden_act",
                                              "rms_norm_eps",
                                              "rope_theta",          /* names of other families' settings */
                                              "ff_dim_multiplier",   /* ff_intermediate_size counts */
                                              "dummy_token_indices", /* engine/defaults.c has them */
                                              NULL};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    double attn = config_number_or(c, "mup_attn_multiplier", 1);
    if (config_bool_or(c, "mup_use_scaling", true)) a.scale = (float)(attn / a.head_dim);
    standard_fuse_qkv_groups(&a, "model.layers.*.self_attn.query_key_value");
    a.o.name = "model.layers.*.self_attn.dense";
    a.q.bias = a.k.bias = a.v.bias = a.o.bias = true; /* whatever attention_bias says */
    return a;
}

static BlockPattern read_pattern(const Config *c) {
    BlockPattern p = {.block = config_size_or(c, "blocksparse_block_size", 64),
                      .local = config_size_or(c, "blocksparse_num_local_blocks", 16),
                      .stride = config_size_or(c, "blocksparse_vert_stride", 8)};
    if (p.block != 32 && p.block != 64) config_fail(c, "\"blocksparse_block_size\" is %d, expected 32 or 64", p.block);
    if (config_bool_or(c, "blocksparse_homo_head_pattern", false))
        config_fail(c, "\"blocksparse_homo_head_pattern\" is true, which no reference runs");
    return p;
}

static MlpSpec read_mlp(const Config *c) {
    static const char fused[] = "model.layers.*.mlp.up_proj";
    int width = config_size(c, "ff_intermediate_size");
    float limit = (float)config_number(c, "gegelu_limit");
    if (limit <= 0) config_fail(c, "\"gegelu_limit\" is %g, expected more than 0", (double)limit);
    return (MlpSpec){.width = width,
                     .activation = ACT_GELU_QUICK,
                     .gate = {.name = fused, .bias = true, .rows = {2 * (int64_t)width, 0, 1, 2}},
                     .up = {.name = fused, .bias = true, .rows = {2 * (int64_t)width, 1, 1, 2}},
                     .down = {.name = "model.layers.*.mlp.down_proj", .bias = true},
                     .gate_limit = limit,
                     .up_limit = limit,
                     .up_plus = 1};
}

static LayerSpec read_layer(const AttentionSpec *a, const MlpSpec *m, float eps) {
    LayerSpec layer = standard_layer(a, m, eps);
    layer.mixer_norm =
        standard_layer_norm("model.layers.*.input_layernorm.weight", "model.layers.*.input_layernorm.bias", eps);
    layer.ffn_norm = standard_layer_norm("model.layers.*.post_attention_layernorm.weight",
                                         "model.layers.*.post_attention_layernorm.bias", eps);
    return layer;
}

static bool read_rope(const Config *c, Blueprint *b, int head_dim) {
    Config section = rope_section(c);
    RopeInput in = {
        .theta = config_number_or(c, "rope_embedding_base", 1e6), .dims = head_dim, .max_position = b->max_context};
    float scale = (float)config_number_or(c, "rope_position_scale", 1);
    if (!config_ok(c) || !rope_read(&section, &in, &b->ropes[0])) return false;
    if (strcmp(b->ropes[0].rule, "default") != 0)
        return config_fail(c, "has %s rope, which no reference runs for this family", b->ropes[0].rule);
    for (int i = 0; i < head_dim / 2; i++) b->ropes[0].table.inv_freq[i] *= scale;
    return true;
}

static void read_scales(const Config *c, Blueprint *b) {
    double width = config_number_or(c, "mup_width_multiplier", 8);
    b->embedding_scale = (float)config_number_or(c, "mup_embedding_multiplier", 10); /* 0 and null: none */
    b->logit_scale = width != 0 ? (float)(1 / width) : 1;
}

static bool phi3small_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 8192, .tie = TIE_YES};
    standard_model(c, &defaults, b);
    float eps = (float)config_number_or(c, "layer_norm_epsilon", 1e-5);
    b->final_norm = standard_layer_norm("model.final_layernorm.weight", "model.final_layernorm.bias", eps);
    read_scales(c, b);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    BlockPattern pattern = read_pattern(c);
    MlpSpec mlp = read_mlp(c);
    int every = config_size(c, "dense_attention_every_n_layers");
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i] = read_layer(&attention, &mlp, eps);
        if (i % every == 0) b->layers[i].attention.blocks = pattern;
    }
    return read_rope(c, b, attention.head_dim) && config_ok(c);
}

const Family family_phi3small = {"phi3small",         model_types, irrelevant_keys, standard_skipped_tensors,
                                 phi3small_blueprint, NULL};
