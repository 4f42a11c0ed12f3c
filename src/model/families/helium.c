/* Helium: llama with interleaved rotary pairs, and no bias on the output projection whatever attention_bias says. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"helium", NULL};

static bool helium_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-8, .theta = 100000, .max_position = 4096, .kv_heads = 20, .head_dim = 128};
    if (!standard_blueprint(c, &defaults, b)) return false;
    b->ropes[0].table.interleaved = true;
    for (int i = 0; i < b->n_layers; i++) b->layers[i].attention.o.bias = false;
    return config_ok(c);
}

const Family family_helium = {"helium", model_types, NULL, standard_skipped_tensors, helium_blueprint, NULL};
