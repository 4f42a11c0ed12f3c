/* Qwen 2 and 3 mixtures: the dense models' attention; in most layers many small experts, and in Qwen 2 one more for
 * every token behind a gate of its own. The text model inside Qwen 3 VL mixtures always renormalises, and was published
 * with its fused experts turned around. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"qwen2_moe", "qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "max_window_layers",
                                              "qkv_bias", /* Qwen 2: always */
                                              "vision_config",
                                              "image_token_id",
                                              "video_token_id",
                                              "vision_start_token_id",
                                              "vision_end_token_id", /* of images */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "*visual.*", "*vision_tower.*", NULL};

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp, bool third, int default_width) {
    ExpertsSpec e =
        standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", default_width), mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, "num_experts", third ? 128 : 60),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", third ? 8 : 4),
                          .renormalise = config_bool_or(c, "norm_topk_prob", false)};
    if (third) return e;
    standard_gated_shared_expert(c, mlp, 5632, &e);
    return e;
}

/* The text model of Qwen 3 VL, where that is what this is. */
static void read_vl(const Config *c, const Blueprint *b, ExpertsSpec *e) {
    int fused = 0, sparse = 0;
    e->rule.renormalise = true;
    e->rule.n_experts = config_size_or(c, config_has(c, "num_local_experts") ? "num_local_experts" : "num_experts", 60);
    e->rule.n_chosen = config_size_or(c, "num_experts_per_tok", 4);
    while (e->gate[fused].name && !e->gate[fused].bare) fused++;
    while (sparse < b->n_layers - 1 && !standard_sparse_layer(c, sparse)) sparse++;
    int64_t inputs = config_tensor_size(c, "model.layers.*.mlp.experts.gate_up_proj", sparse, 1);
    if (inputs == b->hidden && inputs != 2 * (int64_t)e->expert.width)
        e->gate[fused].transposed = e->up[fused].transposed = e->down[fused].transposed = true;
}

static bool qwen_moe_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults plain = {.max_position = 32768};
    static const StandardDefaults third_vl = {
        .theta = 500000, .max_position = 128000, .vocab = 151936, .heads = 16, .kv_heads = 16};
    const Config text = config_text(root), *c = &text;
    const char *type = config_string_or(root, "model_type", "");
    bool third = strncmp(type, "qwen3", 5) == 0, vl = strncmp(type, "qwen3_vl", 8) == 0;
    if (!standard_blueprint(c, vl ? &third_vl : &plain, b)) return false;
    b->tie = standard_tie(root, b->tie); /* the wrapper's word, where it has one */
    if (config_bool_or(c, "use_sliding_window", false) && config_has(c, "sliding_window"))
        return config_fail(c, "\"use_sliding_window\" is on, which no reference runs for this family");
    config_size_or(c, "sliding_window", 0);
    ExpertsSpec e = read_experts(c, &b->layers[0].mlp, third, third && !vl ? 768 : 1408);
    if (vl) read_vl(c, b, &e);
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        if (third)
            standard_head_norms(a, SPAN_HEAD, b->final_norm.eps);
        else
            a->q.bias = a->k.bias = a->v.bias = true;
        if (standard_sparse_layer(c, i)) standard_use_experts(&b->layers[i], &e);
    }
    return config_ok(c);
}

const Family family_qwen_moe = {"qwen_moe",      model_types,        irrelevant_keys,
                                skipped_tensors, qwen_moe_blueprint, standard_wrapper_roots};
