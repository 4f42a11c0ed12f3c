/* OLMo 2 and 3 (arXiv:2501.00656): llama with a norm after each half instead of before it, and norms over all queries
 * and all keys of a row. OLMo 3 has three sliding layers for every full one; rotary scaling is for full layers alone.
 */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"olmo2", "olmo3", NULL};

static void put_norms(Blueprint *b) {
    for (int i = 0; i < b->n_layers; i++) {
        standard_norm_after(&b->layers[i]);
        standard_head_norms(&b->layers[i].attention, SPAN_ALL, b->final_norm.eps);
    }
}

static bool second_blueprint(const Config *c, const StandardDefaults *d, Blueprint *b) {
    if (!standard_blueprint(c, d, b)) return false;
    put_norms(b);
    return config_ok(c);
}

/* Full layers use rope 0 and sliding ones rope 1. */
static bool put_windows(const Config *c, Blueprint *b) {
    int window = config_size_unless_null(c, "sliding_window", 4096);
    for (int i = 0; i < b->n_layers; i++) {
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, standard_pattern_kind(i, 4));
        b->layers[i].attention.rope = kind == LAYER_SLIDING;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return true;
}

static bool third_blueprint(const Config *c, const StandardDefaults *d, Blueprint *b) {
    double theta = config_number_or(c, "rope_theta", d->theta);
    if (!standard_layers(c, d, b, 2)) return false;
    put_norms(b);
    return put_windows(c, b) && standard_kind_ropes(c, b, b->layers[0].attention.head_dim, theta, theta) &&
           config_ok(c);
}

static bool olmo_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults olmo2 = {.norm_eps = 1e-5};
    static const StandardDefaults olmo3 = {.norm_eps = 1e-5, .theta = 500000};
    return strcmp(config_string_or(c, "model_type", ""), "olmo3") == 0 ? third_blueprint(c, &olmo3, b)
                                                                       : second_blueprint(c, &olmo2, b);
}

const Family family_olmo2 = {"olmo2", model_types, NULL, standard_skipped_tensors, olmo_blueprint, NULL};
