/* SmolLM3: llama in which every few layers have no rotary positions (no_rope_layers: 1 rotates, 0 does not). A window,
 * if the config puts one in use, is in the layers that layer_types names. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"smollm3", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", "max_window_layers", NULL}; /* read by no reference */

/* Whether layer i has rotary positions. */
static bool rotates(const Config *c, const JsonValue *list, int i, int interval) {
    int64_t n;
    bool b;
    if (!list) return (i + 1) % interval != 0;
    const JsonValue *item = json_item(list, (uint32_t)i);
    if (json_bool(item, &b)) return b;
    if (json_int(item, &n) && (n == 0 || n == 1)) return n == 1;
    return config_fail(c, "\"no_rope_layers\" item %d is neither 0 nor 1", i);
}

static bool smollm3_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.theta = 2e6, .max_position = 32768, .tie = TIE_YES, .kv_heads = 4};
    if (!standard_blueprint(c, &defaults, b)) return false;
    const JsonValue *list = config_array(c, "no_rope_layers", b->n_layers);
    int interval = config_size_or(c, "no_rope_layer_interval", 4);
    bool windows = config_bool_or(c, "use_sliding_window", false);
    int window = config_size_or(c, "sliding_window", 0);
    for (int i = 0; i < b->n_layers && config_ok(c); i++) {
        bool rope = rotates(c, list, i, interval);
        if (!rope) b->layers[i].attention.rope = NO_ROPE;
        LayerKind kind =
            standard_layer_kind(c, b->n_layers, i, windows && window && !rope ? LAYER_SLIDING : LAYER_FULL);
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return config_ok(c);
}

const Family family_smollm3 = {"smollm3",         model_types, irrelevant_keys, standard_skipped_tensors,
                               smollm3_blueprint, NULL};
