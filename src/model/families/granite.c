/* Granite (arXiv:2405.04324), dense, and Granite 3 mixtures: llama with four multipliers. The scores are multiplied by
 * attention_multiplier instead of 1 / sqrt(head_dim), and the logits divided by logits_scaling. A mixture weighs its
 * experts by a softmax over those chosen; Hugging Face keeps gate and up of all of them in one tensor. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"granite", "granitemoe", NULL};

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

static bool granite_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    bool mixture = strcmp(config_string_or(c, "model_type", ""), "granitemoe") == 0;
    if (!standard_blueprint(c, &defaults, b)) return false;
    float scale = (float)config_number_or(c, "attention_multiplier", 1);
    float residual = (float)config_number_or(c, "residual_multiplier", 1);
    double divisor = config_number_or(c, "logits_scaling", 1);
    ExpertsSpec e = mixture ? read_experts(c, &b->layers[0].mlp) : (ExpertsSpec){0};
    b->embedding_scale = (float)config_number_or(c, "embedding_multiplier", 1);
    b->logit_scale = (float)(1 / divisor);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].attention.scale = scale;
        b->layers[i].residual_scale = residual;
        if (mixture) standard_use_experts(&b->layers[i], &e);
    }
    if (scale == 0 || residual == 0 || divisor == 0 || b->embedding_scale == 0)
        return config_fail(c, "has a multiplier or \"logits_scaling\" that is 0");
    return config_ok(c);
}

const Family family_granite = {"granite",         model_types, irrelevant_keys, standard_skipped_tensors,
                               granite_blueprint, NULL};
