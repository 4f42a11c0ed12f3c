/* Seed-OSS: llama with biases on q, k and v, and a key of its own for that of the output projection. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"seed_oss", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", "residual_dropout", NULL};

static bool seed_oss_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .max_position = 524288, .attention_bias = true, .kv_heads = 8, .head_dim = 128};
    if (!standard_blueprint(c, &defaults, b)) return false;
    bool bias = config_bool_or(c, "attention_out_bias", false);
    for (int i = 0; i < b->n_layers; i++) b->layers[i].attention.o.bias = bias;
    return config_ok(c);
}

const Family family_seed_oss = {"seed_oss",         model_types, irrelevant_keys, standard_skipped_tensors,
                                seed_oss_blueprint, NULL};
