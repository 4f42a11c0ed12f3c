/* Phi-3.5-MoE and Phi-mini-MoE (arXiv:2404.14219): layer norms, biases, longrope with a scale of its own for each
 * length, and experts chosen by the sparse mixer (arXiv:2310.00811): each by a softmax over those that are near enough
 * to the best one left. A row's rotary table and scale go by the length of its prefix, which is what both references
 * mean and neither does at every length. Without the bias keys, transformers has none and mlx-lm all: the tensors
 * decide. */
#include "model/standard.h"

static const char *const model_types[] = {"phimoe", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef",
                                              "input_jitter_noise", /* of training */
                                              "hidden_dropout", NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp->width, mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SPARSE_MIXER,
                          .n_experts = config_size_or(c, "num_local_experts", 16),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2),
                          .sparse_eps = (float)config_number_or(c, "router_jitter_noise", 0.01)};
    if (e.rule.n_chosen > e.rule.n_experts)
        config_fail(c, "\"num_experts_per_tok\" %d is more than \"num_local_experts\" %d", e.rule.n_chosen,
                    e.rule.n_experts);
    return e;
}

static LayerSpec read_layer(const LayerSpec *standard, float eps, int window) {
    LayerSpec layer = *standard;
    layer.mixer_norm =
        standard_layer_norm("model.layers.*.input_layernorm.weight", "model.layers.*.input_layernorm.bias", eps);
    layer.ffn_norm = standard_layer_norm("model.layers.*.post_attention_layernorm.weight",
                                         "model.layers.*.post_attention_layernorm.bias", eps);
    layer.attention.window = window;
    return layer;
}

static bool phimoe_blueprint(const Config *c, Blueprint *b) {
    const StandardDefaults defaults = {.norm_eps = 1e-5,
                                       .theta = 1e6,
                                       .max_position = 131072,
                                       .kv_heads = 8,
                                       .attention_bias =
                                           config_has_tensor(c, "model.layers.*.self_attn.q_proj.bias", 0)};
    if (!standard_blueprint(c, &defaults, b)) return false;
    float eps = b->final_norm.eps;
    int window = config_size_or(c, "sliding_window", 0);
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    b->head.bias = config_bool_or(c, "lm_head_bias", config_has_tensor(c, "lm_head.bias", -1));
    b->final_norm = standard_layer_norm("model.norm.weight", "model.norm.bias", eps);
    LayerSpec layer = read_layer(&b->layers[0], eps, window < b->max_context ? window : 0);
    standard_use_experts(&layer, &e);
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    return config_ok(c);
}

const Family family_phimoe = {"phimoe", model_types, irrelevant_keys, standard_skipped_tensors, phimoe_blueprint, NULL};
