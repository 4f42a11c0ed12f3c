/* EXAONE 4.0 (arXiv:2507.11407): llama with a norm after each half instead of before it, and norms over each head of
 * queries and keys. Where there is a window, some layers slide and the full ones have no rotary positions; without one
 * all layers are full and rotate. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"exaone4", NULL};

/* "LLLG": local and global layers in turn; or a number, where every such layer is global. */
static LayerKind pattern_kind(const Config *c, int i) {
    bool named = json_string(config_whole(c, "sliding_window_pattern")) != NULL;
    const char *pattern = named ? config_string_or(c, "sliding_window_pattern", "") : "";
    size_t n = strlen(pattern);
    if (!named) return standard_pattern_kind(i, config_size_or(c, "sliding_window_pattern", 4));
    if (n == 0 || strspn(pattern, "LG") != n) {
        config_fail(c, "\"sliding_window_pattern\" is \"%.40s\", expected letters L and G", pattern);
        return LAYER_FULL;
    }
    return pattern[(size_t)i % n] == 'L' ? LAYER_SLIDING : LAYER_FULL;
}

static bool exaone4_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .kv_heads = 32};
    if (!standard_blueprint(c, &defaults, b)) return false;
    int window = config_size_unless_null(c, "sliding_window", 4096);
    for (int i = 0; i < b->n_layers && config_ok(c); i++) {
        LayerSpec *layer = &b->layers[i];
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, window ? pattern_kind(c, i) : LAYER_FULL);
        standard_norm_after(layer);
        standard_head_norms(&layer->attention, SPAN_HEAD, b->final_norm.eps);
        if (window && kind == LAYER_FULL) layer->attention.rope = NO_ROPE;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return config_ok(c);
}

const Family family_exaone4 = {"exaone4", model_types, NULL, standard_skipped_tensors, exaone4_blueprint, NULL};
