/* Granite (arXiv:2405.04324), dense: llama with four multipliers. The scores are multiplied by attention_multiplier
 * instead of 1 / sqrt(head_dim), and the logits divided by logits_scaling. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"granite", NULL};

static bool granite_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    if (!standard_blueprint(c, &defaults, b)) return false;
    float scale = (float)config_number_or(c, "attention_multiplier", 1);
    float residual = (float)config_number_or(c, "residual_multiplier", 1);
    double divisor = config_number_or(c, "logits_scaling", 1);
    b->embedding_scale = (float)config_number_or(c, "embedding_multiplier", 1);
    b->logit_scale = (float)(1 / divisor);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].attention.scale = scale;
        b->layers[i].residual_scale = residual;
    }
    if (scale == 0 || residual == 0 || divisor == 0 || b->embedding_scale == 0)
        return config_fail(c, "has a multiplier or \"logits_scaling\" that is 0");
    return config_ok(c);
}

const Family family_granite = {"granite", model_types, NULL, standard_skipped_tensors, granite_blueprint, NULL};
