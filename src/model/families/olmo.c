/* OLMo (Groeneveld et al., arXiv:2402.00838): llama with layer norms that have no weights, and q, k and v limited to
 * -clip_qkv .. clip_qkv after their projections. The reference is transformers; mlx-lm reads another, older layout. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"olmo", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", NULL};

static bool olmo_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    static const NormSpec norm = {.kind = NORM_LAYER, .eps = 1e-5f};
    if (!standard_blueprint(c, &defaults, b)) return false;
    float clip = (float)config_number_or(c, "clip_qkv", 0);
    if (config_has(c, "clip_qkv") && !(clip > 0)) return config_fail(c, "\"clip_qkv\" is not more than 0");
    b->final_norm = norm;
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].mixer_norm = b->layers[i].ffn_norm = norm;
        b->layers[i].attention.clip = clip;
    }
    return config_ok(c);
}

const Family family_olmo = {"olmo", model_types, irrelevant_keys, standard_skipped_tensors, olmo_blueprint, NULL};
