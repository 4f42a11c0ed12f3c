/* ERNIE 4.5 mixtures (Baidu, 2025): llama with neighbouring pairs rotated; in most layers experts weighed by a softmax,
 * with a correction that counts for the choice alone. mlx-lm drops that correction; transformers counts. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"ernie4_5_moe", NULL};

static const char *const irrelevant_keys[] = {
    "output_router_logits", "router_aux_loss_coef", "moe_capacity", /* of training */
    "moe_use_aux_free", /* whether there is a correction: the tensor says it */
    NULL};

static const char *const skipped_tensors[] = {"*mtp_block.*", "*mtp_linear_proj.*", "*mtp_hidden_norm.*",
                                              "*mtp_emb_norm.*", NULL};

static RouterScore read_score(const Config *c) {
    const char *name = config_string_or(c, "moe_gate_act", "softmax");
    if (strcmp(name, "sigmoid") == 0) return ROUTER_SIGMOID;
    if (strcmp(name, "softmax") != 0) config_fail(c, "\"moe_gate_act\" is \"%.40s\": known are softmax, sigmoid", name);
    return ROUTER_SOFTMAX;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    static const char correction[] = "model.layers.*.mlp.moe_statics.e_score_correction_bias";
    int width = config_size_or(c, "moe_intermediate_size", 1536);
    int first = config_count_or(c, "moe_layer_start_index", 1);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = (RouterRule){
        .score = read_score(c),
        .n_experts = config_size_or(c, config_has(c, "num_experts") ? "num_experts" : "moe_num_experts", 64),
        .n_chosen = config_size_or(c, config_has(c, "num_experts_per_tok") ? "num_experts_per_tok" : "moe_k", 6),
        .renormalise = true,
        .renormalise_min = (float)config_number_or(c, "moe_norm_min", 1e-12)};
    e.shared = standard_shared_experts(c, mlp, width, config_count_or(c, "moe_num_shared_experts", 2));
    e.gate[0].bias = e.up[0].bias = e.down[0].bias = mlp->up.bias;
    if (config_has_tensor(c, correction, first)) e.correction = correction;
    return e;
}

static bool ernie4_5_moe_blueprint(const Config *c, Blueprint *b) {
    const bool bias = config_bool_or(c, "use_bias", false);
    const StandardDefaults defaults = {.norm_eps = 1e-5,
                                       .theta = 500000,
                                       .max_position = 131072,
                                       .kv_heads = 4,
                                       .tie = TIE_YES,
                                       .attention_bias = bias,
                                       .mlp_bias = bias};
    if (!standard_blueprint(c, &defaults, b)) return false;
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp);
    int first = config_count_or(c, "moe_layer_start_index", 1), every = config_size_or(c, "moe_layer_interval", 1);
    double last = config_number_or(c, "moe_layer_end_index", -1);
    if (last == -1) last = b->n_layers - 1;
    b->ropes[0].table.interleaved = true;
    for (int i = first; i < b->n_layers && i <= last; i++)
        if ((i + 1) % every == 0) standard_use_experts(&b->layers[i], &e);
    return config_ok(c);
}

const Family family_ernie4_5_moe = {"ernie4_5_moe",         model_types, irrelevant_keys, skipped_tensors,
                                    ernie4_5_moe_blueprint, NULL};
