/* Granite 3 mixtures (IBM, 2024): llama with a multiplier on the embedding, on the scores, on each half's result and on
 * the logits; experts weighed by a softmax over those chosen, gate and up of all of them in one tensor. */
#include "model/standard.h"

static const char *const model_types[] = {"granitemoe", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef", NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    static const char in[] = "model.layers.*.block_sparse_moe.input_linear";
    int64_t width = mlp->width;
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp->width, mlp->activation);
    e.router.name = "model.layers.*.block_sparse_moe.router.layer";
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX_CHOSEN,
                          .n_experts = config_size_or(c, "num_local_experts", 8),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2)};
    standard_take_rows(&e.gate[1], in, 2 * width, 0, width);
    standard_take_rows(&e.up[1], in, 2 * width, width, width);
    e.down[1].name = "model.layers.*.block_sparse_moe.output_linear";
    return e;
}

static bool granitemoe_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    if (!standard_blueprint(c, &defaults, b)) return false;
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    double scores = config_number_or(c, "attention_multiplier", 1), logits = config_number_or(c, "logits_scaling", 1);
    double residual = config_number_or(c, "residual_multiplier", 1);
    if (logits == 0) return config_fail(c, "\"logits_scaling\" is 0, and logits are divided by it");
    b->embedding_scale = (float)config_number_or(c, "embedding_multiplier", 1);
    b->logit_scale = (float)(1 / logits);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].attention.scale = (float)scores;
        b->layers[i].residual_scale = (float)residual;
        standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_granitemoe = {"granitemoe", model_types, irrelevant_keys, NULL, granitemoe_blueprint, NULL};
