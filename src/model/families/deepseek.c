/* DeepSeek-MoE (Dai et al., arXiv:2401.06066), the first: llama's attention, dense layers first, then many small
 * experts, weighed by their share of a softmax over all, and a few for every token. The reference is mlx-lm. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"deepseek", NULL};

static const char *const irrelevant_keys[] = {"aux_loss_alpha", "seq_aux", "pretraining_tp", "ep_size", NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    int width = config_size_or(c, "moe_intermediate_size", 1407);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size(c, "n_routed_experts"),
                          .n_chosen = config_size(c, "num_experts_per_tok")};
    e.shared = standard_shared_experts(c, mlp, width, config_count_or(c, "n_shared_experts", 0));
    const char *score = config_string_or(c, "scoring_func", "softmax");
    if (strcmp(score, "softmax") != 0) config_fail(c, "\"scoring_func\" is \"%.40s\": known is softmax", score);
    if (config_bool_or(c, "norm_topk_prob", false))
        config_fail(c, "\"norm_topk_prob\" is on, which the reference does not do for this family");
    return e;
}

static bool deepseek_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.tie = TIE_NO};
    if (!standard_blueprint(c, &defaults, b)) return false;
    int first = config_count_or(c, "first_k_dense_replace", 0), every = config_size_or(c, "moe_layer_freq", 1);
    if (!config_has(c, "n_routed_experts")) return config_ok(c);
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    for (int i = first; i < b->n_layers; i++)
        if (i % every == 0) standard_use_experts(&b->layers[i], &e);
    return config_ok(c);
}

const Family family_deepseek = {"deepseek",         model_types, irrelevant_keys, standard_skipped_tensors,
                                deepseek_blueprint, NULL};
