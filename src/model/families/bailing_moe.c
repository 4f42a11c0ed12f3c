/* Ling (inclusionAI, arXiv:2503.05139): q, k and v in one matrix, norms of heads, part of each head rotated, dense
 * layers first, then experts scored by softmax or sigmoid, with a correction in newer ones. Ring's linear form
 * (bailing_moe_linear, arXiv:2510.19338) has lightning attention in all but the last layer of a group, with heads of
 * hidden / heads dims whatever head_dim says. The reference is mlx-lm: experts of groups that are not kept compete with
 * a score of 0. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"bailing_moe", "bailing_moe_linear", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "embedding_dropout",
                                              "output_dropout",
                                              "max_window_layers",
                                              "use_sliding_window", /* read by no reference */
                                              "sliding_window",
                                              "pretraining_tp",
                                              "router_dtype", /* all of it is f32 here */
                                              "use_rmsnorm",
                                              "mtp_loss_scaling_factor",
                                              "moe_router_enable_routed_scaling", /* read, but not used, by mlx-lm */
                                              NULL};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    standard_fuse_qkv(&a, "model.layers.*.attention.query_key_value");
    a.q.bias = a.k.bias = a.v.bias = config_bool_or(c, "use_qkv_bias", false);
    a.o = (LinearSpec){.name = "model.layers.*.attention.dense", .bias = config_bool_or(c, "use_bias", false)};
    if (!config_bool_or(c, "use_qk_norm", false)) return a;
    a.q_norm.norm = standard_rms("model.layers.*.attention.query_layernorm.weight", b->final_norm.eps);
    a.k_norm.norm = standard_rms("model.layers.*.attention.key_layernorm.weight", b->final_norm.eps);
    return a;
}

/* How many dims of a head are rotated: said as a number, or as a part. */
static int rotated_dims(const Config *c, int head_dim) {
    Config section = rope_section(c);
    int part = rope_partial_dims(c, &section, head_dim, 1);
    return config_size_or(c, "rotary_dim", part);
}

/* Lightning attention where no group of layers ends; the first two layers forget equally fast. */
static bool put_lightning(const Config *c, const StandardDefaults *d, Blueprint *b) {
    int heads = config_size(c, "num_attention_heads"), n = b->n_layers;
    Config section = rope_section(c);
    bool interleaved = config_bool_or(c, "rope_traditional", false);
    if (b->hidden % heads)
        return config_fail(c, "\"hidden_size\" %d is not divisible by \"num_attention_heads\" %d", b->hidden, heads);
    LightningSpec l = standard_ling_lightning(c, heads, b->hidden / heads, false, b->final_norm.eps);
    for (int i = 0; i < n; i++) {
        LayerSpec *layer = &b->layers[i];
        if (standard_ling_ends_group(c, n, i, 1)) continue;
        layer->mixer = &mixer_lightning;
        layer->lightning = l;
        layer->lightning.slope_scale = (float)(1 - (double)(i > 0 ? i - 1 : 0) / (n > 1 ? n - 1 : 1) + 1e-5);
    }
    return standard_rope(c, d, b, 1, rope_partial_dims(c, &section, l.head_dim, 1), interleaved);
}

static bool bailing_moe_blueprint(const Config *c, Blueprint *b) {
    const StandardDefaults d = {.mlp_bias = config_bool_or(c, "use_bias", false)};
    bool linear = strcmp(config_string_or(c, "model_type", ""), "bailing_moe_linear") == 0;
    bool interleaved = linear && config_bool_or(c, "rope_traditional", false);
    standard_model(c, &d, b);
    b->embedding.name = "model.word_embeddings";
    AttentionSpec attention = read_attention(c, &d, b);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    ExpertsSpec experts = standard_ling_experts(c, &mlp, "softmax", false);
    int n_layers = standard_layer_count(c), first = config_count_or(c, "first_k_dense_replace", 0);
    int dims = rotated_dims(c, attention.head_dim);
    b->n_extra_layers = standard_extra_layers(c, 0);
    if (config_bool_or(c, "norm_head", false) || config_bool_or(c, "norm_softmax", false))
        return config_fail(c, "\"norm_head\" or \"norm_softmax\" is on, which is not done here");
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, linear ? 2 : 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        if (i >= first) standard_use_experts(&b->layers[i], &experts);
    }
    return standard_rope(c, &d, b, 0, dims, interleaved) && (!linear || put_lightning(c, &d, b)) && config_ok(c);
}

const Family family_bailing_moe = {"bailing_moe",         model_types, irrelevant_keys, standard_skipped_tensors,
                                   bailing_moe_blueprint, NULL};
