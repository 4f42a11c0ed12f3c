/* OLMoE (Muennighoff et al., arXiv:2409.02060): llama with a norm over all heads of q and over all of k, and a few of
 * many small experts for every token. The reference is transformers; mlx-lm has no clip_qkv. */
#include "model/standard.h"

static const char *const model_types[] = {"olmoe", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef", NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, mlp->width, mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, "num_experts", 64),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 8),
                          .renormalise = config_bool_or(c, "norm_topk_prob", false)};
    return e;
}

static bool olmoe_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 4096};
    if (!standard_blueprint(c, &defaults, b)) return false;
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    double clip = config_number_or(c, "clip_qkv", 0);
    if (config_has(c, "clip_qkv") && !(clip > 0))
        return config_fail(c, "\"clip_qkv\" is %g, expected more than 0", clip);
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        standard_head_norms(a, SPAN_ALL, b->final_norm.eps);
        a->clip = (float)clip;
        standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_olmoe = {"olmoe", model_types, irrelevant_keys, standard_skipped_tensors, olmoe_blueprint, NULL};
