/* Mixtral (Jiang et al., arXiv:2401.04088): Mistral's attention, and a few of some experts for every token, weighed by
 * a softmax over those chosen. */
#include "model/standard.h"

static const char *const model_types[] = {"mixtral", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise",
                                              NULL};

static bool mixtral_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .theta = 1e6, .max_position = 131072};
    if (!standard_blueprint(c, &defaults, b)) return false;
    const MlpSpec mlp = b->layers[0].mlp;
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp.width, mlp.activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX_CHOSEN,
                          .n_experts = config_size_or(c, "num_local_experts", 8),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2)};
    int window = config_size_or(c, "sliding_window", 0);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].attention.window = window;
        standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_mixtral = {"mixtral", model_types, irrelevant_keys, NULL, mixtral_blueprint, NULL};
