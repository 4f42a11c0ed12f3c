/* Trinity (Arcee, 2025): norms before and after each half, a gate on the output of attention, a window with rotary
 * positions in most layers and neither in the others, and sigmoid-scored experts with a correction. The reference is
 * transformers, which has no route_norm, score_func and groups: those are read as mlx-lm does. */
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"afmoe", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "load_balance_coeff", /* of training */
                                              "num_expert_groups",  /* n_group counts */
                                              "num_limited_groups", /* topk_group counts */
                                              "use_grouped_mm",
                                              "global_attn_every_n_layers", /* read where layer_types is absent */
                                              NULL};

static RouterScore read_score(const Config *c) {
    const char *name = config_string_or(c, "score_func", "sigmoid");
    if (strcmp(name, "softmax") == 0) return ROUTER_SOFTMAX;
    if (strcmp(name, "sigmoid") != 0) config_fail(c, "\"score_func\" is \"%.40s\": known are sigmoid, softmax", name);
    return ROUTER_SIGMOID;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    int width = config_size_or(c, "moe_intermediate_size", 1408);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.router.name = "model.layers.*.mlp.router.gate";
    e.correction = "model.layers.*.mlp.expert_bias";
    e.rule = (RouterRule){.score = read_score(c),
                          .n_experts = config_size_or(c, "num_experts", 64),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 6),
                          .n_groups = config_size_or(c, "n_group", 1),
                          .n_kept_groups = config_size_or(c, "topk_group", 1),
                          .rejected_zero = true,
                          .renormalise = config_bool_or(c, "route_norm", true),
                          .renormalise_eps = 1e-20f,
                          .scale = (float)config_number_or(c, "route_scale", 1)};
    if (e.rule.n_experts % e.rule.n_groups || e.rule.n_kept_groups > e.rule.n_groups)
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", e.rule.n_experts, e.rule.n_groups,
                    e.rule.n_kept_groups);
    e.shared = standard_shared_experts(c, mlp, width, config_count_or(c, "num_shared_experts", 2));
    return e;
}

static LayerSpec read_layer(const Config *c, const LayerSpec *standard, float eps) {
    LayerSpec l = *standard;
    l.mixer_out = standard_rms("model.layers.*.post_attention_layernorm.weight", eps);
    l.ffn_norm = standard_rms("model.layers.*.pre_mlp_layernorm.weight", eps);
    l.ffn_out = standard_rms("model.layers.*.post_mlp_layernorm.weight", eps);
    standard_head_norms(&l.attention, SPAN_HEAD, eps);
    l.attention.gate = (LinearSpec){.name = "model.layers.*.self_attn.gate_proj"};
    l.attention.gate_kind = GATE_ELEMENT;
    l.attention.gate_act = ACT_SIGMOID;
    (void)c;
    return l;
}

static bool afmoe_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 16384, .head_dim = 128};
    if (!standard_blueprint(c, &defaults, b)) return false;
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    LayerSpec layer = read_layer(c, &b->layers[0], b->final_norm.eps);
    int n_dense = config_count_or(c, "num_dense_layers", 1), window = config_size_or(c, "sliding_window", 1024);
    int every = config_size_or(c, "global_attn_every_n_layers", 4);
    if (config_bool_or(c, "mup_enabled", false)) b->embedding_scale = (float)sqrt((double)b->hidden);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i] = layer;
        standard_set_window(c, b, i, standard_layer_kind(c, b->n_layers, i, standard_pattern_kind(i, every)), window);
        if (b->layers[i].attention.window == 0) b->layers[i].attention.rope = NO_ROPE;
        if (i >= n_dense) standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_afmoe = {"afmoe", model_types, irrelevant_keys, standard_skipped_tensors, afmoe_blueprint, NULL};
