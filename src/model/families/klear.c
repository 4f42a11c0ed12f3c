/* Klear (Kwai-Klear, 2025): Qwen 3's attention; experts by sigmoid scores with a correction, and a shared one, which a
 * softmax of two more outputs weighs against each other. The reference is mlx-lm. */
#include "model/standard.h"

static const char *const model_types[] = {"Klear", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef",
                                              "max_window_layers",    "sliding_window", /* read by no reference */
                                              "use_sliding_window",   NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    int width = config_size(c, "moe_intermediate_size");
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SIGMOID,
                          .n_experts = config_size(c, "num_experts"),
                          .n_chosen = config_size(c, "num_experts_per_tok"),
                          .renormalise = config_bool_or(c, "norm_topk_prob", false)};
    e.correction = "model.layers.*.mlp.expert_bias";
    e.shared = standard_shared_experts(c, mlp, width, config_size(c, "n_shared_experts"));
    e.mix = (LinearSpec){.name = "model.layers.*.mlp.coefficient", .bias = true};
    return e;
}

static bool klear_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.tie = TIE_NO};
    if (!standard_blueprint(c, &defaults, b)) return false;
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    for (int i = 0; i < b->n_layers; i++) {
        standard_head_norms(&b->layers[i].attention, SPAN_HEAD, b->final_norm.eps);
        if (standard_sparse_layer(c, i)) standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_klear = {"klear", model_types, irrelevant_keys, standard_skipped_tensors, klear_blueprint, NULL};
