/* Qwen 2 and 3 mixtures: the dense models' attention; in most layers many small experts, and in Qwen 2 one more for
 * every token behind a gate of its own. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"qwen2_moe", "qwen3_moe", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef", "max_window_layers",
                                              "qkv_bias", /* Qwen 2: always */
                                              NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp, bool third) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", third ? 768 : 1408),
                                     mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, "num_experts", third ? 128 : 60),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", third ? 8 : 4),
                          .renormalise = config_bool_or(c, "norm_topk_prob", false)};
    if (third) return e;
    e.shared = *mlp;
    e.shared.width = config_size_or(c, "shared_expert_intermediate_size", 5632);
    e.shared.gate.name = "model.layers.*.mlp.shared_expert.gate_proj";
    e.shared.up.name = "model.layers.*.mlp.shared_expert.up_proj";
    e.shared.down.name = "model.layers.*.mlp.shared_expert.down_proj";
    e.shared_gate.name = "model.layers.*.mlp.shared_expert_gate";
    return e;
}

static bool qwen_moe_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 32768};
    bool third = strcmp(config_string_or(c, "model_type", ""), "qwen3_moe") == 0;
    if (!standard_blueprint(c, &defaults, b)) return false;
    if (config_bool_or(c, "use_sliding_window", false) && config_has(c, "sliding_window"))
        return config_fail(c, "\"use_sliding_window\" is on, which no reference runs for this family");
    config_size_or(c, "sliding_window", 0);
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp, third);
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        if (third)
            standard_head_norms(a, SPAN_HEAD, b->final_norm.eps);
        else
            a->q.bias = a->k.bias = a->v.bias = true;
        if (standard_sparse_layer(c, i)) standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_qwen_moe = {"qwen_moe", model_types, irrelevant_keys, NULL, qwen_moe_blueprint, NULL};
