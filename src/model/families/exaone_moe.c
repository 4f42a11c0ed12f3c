/* K-EXAONE (LG AI Research, 2025): EXAONE 4's attention, with norms of heads, a window in most layers and no rotary
 * positions in the others, but llama's place of the norms; experts with the router of DeepSeek-V3. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"exaone_moe", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef",
                                              "sliding_window_pattern", /* read where layer_types is absent */
                                              "first_k_dense_replace",  /* read where mlp_layer_types is absent */
                                              NULL};

static const char *const skipped_tensors[] = {"mtp.*", NULL};

/* Without layer_types: a number says every how many layers one is full. */
static LayerKind kind_by_pattern(const Config *c, int layer, int window) {
    if (config_has(c, "layer_types") || !window) return LAYER_FULL;
    return standard_pattern_kind(layer, config_size_or(c, "sliding_window_pattern", 4));
}

/* transformers reads mlp_layer_types, mlx-lm is_moe_layer. */
static bool has_experts(const Config *c, int n_layers, int layer) {
    const JsonValue *flags = config_array(c, "is_moe_layer", n_layers);
    bool flag = false;
    if (config_has(c, "mlp_layer_types")) return standard_has_experts(c, n_layers, layer, false);
    if (!flags) return layer >= config_count_or(c, "first_k_dense_replace", 1);
    if (!json_bool(json_item(flags, (uint32_t)layer), &flag))
        config_fail(c, "\"is_moe_layer\" item %d is neither true nor false", layer);
    return flag;
}

static bool exaone_moe_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5};
    static const CorrectedDefaults experts = {64, 8, 1024, 1, 2.5, true};
    if (!standard_blueprint(c, &defaults, b)) return false;
    ExpertsSpec e = standard_corrected_experts(c, &experts, &b->layers[0].mlp);
    int window = config_size_unless_null(c, "sliding_window", 4096);
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        standard_head_norms(a, SPAN_HEAD, b->final_norm.eps);
        standard_set_window(c, b, i, standard_layer_kind(c, b->n_layers, i, kind_by_pattern(c, i, window)), window);
        if (window && !a->window) a->rope = NO_ROPE;
        if (has_experts(c, b->n_layers, i)) standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_exaone_moe = {"exaone_moe",    model_types,          irrelevant_keys,
                                  skipped_tensors, exaone_moe_blueprint, NULL};
