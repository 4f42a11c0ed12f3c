/* Ling (inclusionAI, arXiv:2503.05139): q, k and v in one matrix, norms of heads, part of each head rotated, dense
 * layers first, then experts scored by softmax or sigmoid, with a correction in newer ones. The reference is mlx-lm:
 * experts of groups that are not kept compete with a score of 0. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"bailing_moe", NULL};

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

static RouterRule read_rule(const Config *c) {
    const char *score = config_string_or(c, "score_function", "softmax");
    RouterRule r = {.score = strcmp(score, "sigmoid") == 0 ? ROUTER_SIGMOID : ROUTER_SOFTMAX,
                    .n_experts = config_size(c, "num_experts"),
                    .n_chosen = config_size(c, "num_experts_per_tok"),
                    .n_groups = config_size_or(c, "n_group", 1),
                    .n_kept_groups = config_size_or(c, "topk_group", 4),
                    .rejected_zero = true,
                    .renormalise = config_bool_or(c, "norm_topk_prob", true),
                    .renormalise_eps = 1e-20f,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", 1)};
    if (r.n_chosen == 1) r.renormalise = false;
    if (r.score == ROUTER_SOFTMAX && strcmp(score, "softmax") != 0)
        config_fail(c, "\"score_function\" is \"%.40s\": known are softmax, sigmoid", score);
    if (r.n_groups > 1 && (r.n_experts % r.n_groups || r.n_kept_groups > r.n_groups))
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", r.n_experts, r.n_groups,
                    r.n_kept_groups);
    return r;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    int width = config_size(c, "moe_intermediate_size");
    int shared_width = config_size_or(c, "moe_shared_expert_intermediate_size", width);
    int n_shared = config_count_or(c, "num_shared_experts", 0);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.router.name = "model.layers.*.mlp.gate.gate_proj|model.layers.*.mlp.gate";
    e.rule = read_rule(c);
    for (int i = 0; i < 2; i++) e.gate[i].bias = e.up[i].bias = e.down[i].bias = mlp->up.bias;
    if (config_bool_or(c, "moe_router_enable_expert_bias", false)) e.correction = "model.layers.*.mlp.gate.expert_bias";
    if (config_bool_or(c, "moe_router_enable_shared_expert", true))
        e.shared = standard_shared_experts(c, mlp, shared_width, n_shared);
    return e;
}

/* How many dims of a head are rotated: said as a number, or as a part. */
static int rotated_dims(const Config *c, int head_dim) {
    Config section = rope_section(c);
    int part = rope_partial_dims(c, &section, head_dim, 1);
    return config_size_or(c, "rotary_dim", part);
}

static bool bailing_moe_blueprint(const Config *c, Blueprint *b) {
    const StandardDefaults d = {.mlp_bias = config_bool_or(c, "use_bias", false)};
    standard_model(c, &d, b);
    b->embedding.name = "model.word_embeddings";
    AttentionSpec attention = read_attention(c, &d, b);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    ExpertsSpec experts = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c), first = config_count_or(c, "first_k_dense_replace", 0);
    int dims = rotated_dims(c, attention.head_dim);
    b->n_extra_layers = standard_extra_layers(c, 0);
    if (config_bool_or(c, "norm_head", false) || config_bool_or(c, "norm_softmax", false))
        return config_fail(c, "\"norm_head\" or \"norm_softmax\" is on, which is not done here");
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        if (i >= first) standard_use_experts(&b->layers[i], &experts);
    }
    return standard_rope(c, &d, b, 0, dims, false) && config_ok(c);
}

const Family family_bailing_moe = {"bailing_moe",         model_types, irrelevant_keys, standard_skipped_tensors,
                                   bailing_moe_blueprint, NULL};
