/* What the pages of Ling (inclusionAI) have in common: experts scored by softmax or sigmoid in groups, groups of layers
 * that one kind of attention ends, and lightning attention in the others. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

bool standard_ling_ends_group(const Config *c, int n_layers, int layer, int size) {
    int group = config_size_or(c, "layer_group_size", size);
    return (layer + 1) % group == 0 || layer >= n_layers / group * group;
}

static RouterRule read_rule(const Config *c, const char *score) {
    const char *name = config_string_or(c, "score_function", score);
    RouterRule r = {.score = strcmp(name, "sigmoid") == 0 ? ROUTER_SIGMOID : ROUTER_SOFTMAX,
                    .n_experts = config_size(c, "num_experts"),
                    .n_chosen = config_size(c, "num_experts_per_tok"),
                    .n_groups = config_size_or(c, "n_group", 1),
                    .n_kept_groups = config_size_or(c, "topk_group", 4),
                    .rejected_zero = true,
                    .renormalise = config_bool_or(c, "norm_topk_prob", true),
                    .renormalise_eps = 1e-20f,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", 1)};
    if (r.n_chosen == 1) r.renormalise = false;
    if (r.score == ROUTER_SOFTMAX && strcmp(name, "softmax") != 0)
        config_fail(c, "\"score_function\" is \"%.40s\": known are softmax, sigmoid", name);
    if (r.n_groups > 1 && (r.n_experts % r.n_groups || r.n_kept_groups > r.n_groups))
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", r.n_experts, r.n_groups,
                    r.n_kept_groups);
    return r;
}

ExpertsSpec standard_ling_experts(const Config *c, const MlpSpec *mlp, const char *score, bool correction) {
    int width = config_size(c, "moe_intermediate_size");
    int shared_width = config_size_or(c, "moe_shared_expert_intermediate_size", width);
    int n_shared = config_count_or(c, "num_shared_experts", 0);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.router.name = "model.layers.*.mlp.gate.gate_proj|model.layers.*.mlp.gate";
    e.rule = read_rule(c, score);
    for (int i = 0; i < 2; i++) e.gate[i].bias = e.up[i].bias = e.down[i].bias = mlp->up.bias;
    if (config_bool_or(c, "moe_router_enable_expert_bias", correction))
        e.correction = "model.layers.*.mlp.gate.expert_bias";
    if (config_bool_or(c, "moe_router_enable_shared_expert", true))
        e.shared = standard_shared_experts(c, mlp, shared_width, n_shared);
    return e;
}

LightningSpec standard_ling_lightning(const Config *c, int heads, int head_dim, bool head_norms, float eps) {
    static const char fused[] = "model.layers.*.attention.query_key_value";
    int64_t width = (int64_t)heads * head_dim;
    LightningSpec l = {.heads = heads,
                       .head_dim = head_dim,
                       .gate = {.name = "model.layers.*.attention.g_proj"},
                       .o = {.name = "model.layers.*.attention.dense", .bias = config_bool_or(c, "use_bias", false)},
                       .rope = 1,
                       .q_scale = (float)(1 / sqrt((double)head_dim)),
                       .slopes = SLOPES_SPLIT,
                       .norm = standard_rms("model.layers.*.attention.g_norm.weight", eps),
                       .norm_groups = config_size(c, "group_norm_size")};
    standard_take_rows(&l.q, fused, 3 * width, 0, width);
    standard_take_rows(&l.k, fused, 3 * width, width, width);
    standard_take_rows(&l.v, fused, 3 * width, 2 * width, width);
    l.q.bias = l.k.bias = l.v.bias = config_bool_or(c, "use_qkv_bias", false);
    if (!config_bool_or(c, "use_qk_norm", head_norms)) return l;
    l.q_norm = standard_rms("model.layers.*.attention.query_layernorm.weight", eps);
    l.k_norm = standard_rms("model.layers.*.attention.key_layernorm.weight", eps);
    return l;
}
