/* MiniMax-M2 (2025), which mlx-lm calls "minimax": a norm over all heads of q and all of k, part of each head rotated,
 * and experts chosen by sigmoid scores with a correction. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"minimax_m2", "minimax", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "router_jitter_noise",
                                              "mtp_transformer_layers",
                                              "num_mtp_modules",
                                              "use_mtp", /* published without them */
                                              NULL};

/* Options that published configs state and that the references have in one way only. */
static void check_options(const Config *c) {
    const JsonValue *kinds = config_array(c, "attn_type_list", -1);
    for (uint32_t i = 0; kinds && i < kinds->length; i++) {
        int64_t kind;
        if (!json_int(json_item(kinds, i), &kind) || kind != 1)
            config_fail(c, "\"attn_type_list\" item %u is not 1 (full attention), the only kind of MiniMax-M2", i);
    }
    const char *score = config_string_or(c, "scoring_func", "sigmoid");
    if (strcmp(score, "sigmoid") != 0) config_fail(c, "\"scoring_func\" is \"%.40s\": known is sigmoid", score);
    const char *norm = config_string_or(c, "qk_norm_type", "per_layer");
    if (strcmp(norm, "per_layer") != 0) config_fail(c, "\"qk_norm_type\" is \"%.40s\": known is per_layer", norm);
    if (config_count_or(c, "shared_intermediate_size", 0))
        config_fail(c, "\"shared_intermediate_size\" is not 0: neither reference has shared experts here");
    if (!config_bool_or(c, "use_routing_bias", true)) config_fail(c, "\"use_routing_bias\" off is not known");
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp->width, mlp->activation);
    e.rule = (RouterRule){
        .score = ROUTER_SIGMOID,
        .n_experts = config_size_or(c, config_has(c, "num_experts") ? "num_experts" : "num_local_experts", 256),
        .n_chosen = config_size_or(c, "num_experts_per_tok", 8),
        .renormalise = true};
    e.correction = "model.layers.*.block_sparse_moe.e_score_correction_bias";
    return e;
}

/* Published configs say how many dims are rotated; newer ones may say which part of a head. */
static int rotated_dims(const Config *c, int head_dim) {
    Config section = rope_section(c);
    int dims = config_size_or(c, "rotary_dim", head_dim);
    if (config_has(c, "partial_rotary_factor") || config_has(&section, "partial_rotary_factor"))
        return rope_partial_dims(c, &section, head_dim, 1);
    if (dims > head_dim) config_fail(c, "\"rotary_dim\" %d is more than the %d dims of a head", dims, head_dim);
    return dims;
}

static bool minimax_m2_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .theta = 5e6, .max_position = 196608, .head_dim = 128, .kv_heads = 8, .tie = TIE_NO};
    standard_model(c, &defaults, b);
    check_options(c);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    if (config_bool_or(c, "use_qk_norm", true)) standard_head_norms(&attention, SPAN_ALL, b->final_norm.eps);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 1536));
    ExpertsSpec experts = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c), dims = rotated_dims(c, attention.head_dim);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        standard_use_experts(&b->layers[i], &experts);
    }
    return standard_rope(c, &defaults, b, 0, dims, false) && config_ok(c);
}

const Family family_minimax_m2 = {"minimax_m2",         model_types, irrelevant_keys, standard_skipped_tensors,
                                  minimax_m2_blueprint, NULL};
