/* Nemotron 3 and 4, Minitron (arXiv:2402.16819): layer norms that keep weight - 1, half of each head rotated, an mlp
 * without a gate and with a squared relu. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"nemotron", NULL};

static const char *const irrelevant_keys[] = {"hidden_dropout", "kv_channels", /* the width of a head, again */ NULL};

static bool nemotron_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 4096, .act = "relu2"};
    if (!standard_layers(c, &defaults, b, 1)) return false;
    standard_layer_norms(b, true, 1);
    for (int i = 0; i < b->n_layers; i++) b->layers[i].mlp.gate = (LinearSpec){.name = NULL};
    return standard_partial_rope(c, &defaults, b, 0.5, false) && config_ok(c);
}

const Family family_nemotron = {"nemotron",         model_types, irrelevant_keys, standard_skipped_tensors,
                                nemotron_blueprint, NULL};
