/* Mellum (JetBrains), a mixture of experts: Qwen 3's norms of queries and keys and its router, sliding and full layers
 * with rope settings of their own, and dense layers where mlp_layer_types says so. The reference is transformers;
 * mlx-lm leaves linear scaling and partial rotation out. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"mellum", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef", /* of training */
                                              "num_mtp_layers",
                                              "num_nextn_predict_layers",
                                              "mtp_layer_types",
                                              "mtp_mlp_layer_types", /* more tokens at once */
                                              NULL};

static const char *const skipped_tensors[] = {"*mtp*", NULL};

static ExpertsSpec read_experts(const Config *c, Activation act) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", 896), act);
    const char *count = config_has(c, "num_experts") ? "num_experts" : "num_local_experts";
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, count, 64),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 8),
                          .renormalise = config_bool_or(c, "norm_topk_prob", true)};
    return e;
}

static bool read_ropes(const Config *c, Blueprint *b, int head_dim) {
    double theta = config_number_or(c, "rope_theta", 10000); /* of sections without one */
    bool given = config_has(c, "rope_parameters");
    return standard_kind_ropes(c, b, head_dim, given ? theta : 500000, given ? theta : 10000);
}

static bool mellum_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .max_position = 131072, .tie = TIE_NO, .vocab = 98304, .heads = 32, .kv_heads = 4, .head_dim = 128};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    standard_head_norms(&attention, SPAN_HEAD, b->final_norm.eps);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 7168));
    ExpertsSpec experts = read_experts(c, mlp.activation);
    int n_layers = standard_layer_count(c), window = config_size_or(c, "sliding_window", 1024);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    for (int i = 0; i < n_layers; i++) {
        LayerKind kind = standard_layer_kind(c, n_layers, i, LAYER_FULL);
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        b->layers[i].attention.rope = kind == LAYER_SLIDING;
        if (standard_has_experts(c, n_layers, i, true)) b->layers[i].ffn = &ffn_experts;
        b->layers[i].experts = experts;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return read_ropes(c, b, attention.head_dim) && config_ok(c);
}

const Family family_mellum = {"mellum", model_types, irrelevant_keys, skipped_tensors, mellum_blueprint, NULL};
