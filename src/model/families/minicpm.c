/* MiniCPM (arXiv:2404.06395): llama with embeddings times scale_emb, each half's result times scale_depth /
 * sqrt(layers) and the head's input divided by hidden_size / dim_model_base. The reference is mlx-lm; transformers has
 * no MiniCPM. An absent rope_theta is the authors' 10000. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"minicpm", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", "mup_denominator", /* of its drafter */ NULL};

static bool minicpm_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    if (!standard_blueprint(c, &defaults, b)) return false;
    float residual = (float)(config_number(c, "scale_depth") / sqrt((double)b->n_layers));
    int base = config_size(c, "dim_model_base");
    b->embedding_scale = (float)config_number(c, "scale_emb");
    b->head_scale = (float)((double)base / b->hidden);
    for (int i = 0; i < b->n_layers; i++) b->layers[i].mixer_scale = b->layers[i].ffn_scale = residual;
    if (residual == 0 || b->embedding_scale == 0) return config_fail(c, "has \"scale_depth\" or \"scale_emb\" 0");
    return config_ok(c);
}

const Family family_minicpm = {"minicpm",         model_types, irrelevant_keys, standard_skipped_tensors,
                               minicpm_blueprint, NULL};
