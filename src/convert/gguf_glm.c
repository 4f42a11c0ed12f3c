/* GLM 4, dense: gate and up in one tensor (named ffn_up), and in files of before GLM-4-0414 queries, keys and values as
 * well. GLM 4.5: the first layers dense, then experts with the router of DeepSeek-V3; part of each head rotated, biases
 * on q, k and v, and in the larger model norms on the heads. */
#include "convert/gguf_config.h"

/* ---- GLM 4 ---- */

static const TensorRule dense_rules[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.mlp.down_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {"blk.*.attn_qkv", "model.layers.*.self_attn", SIZE_ANY, SIZE_HIDDEN, 0, RULE_QKV, BIASES_ATTENTION},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule later_norms[] = {
    {"blk.*.post_attention_norm", "model.layers.*.post_self_attn_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_ffw_norm", "model.layers.*.post_mlp_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

#define GLM                                                                                                            \
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias"}, .constants = "  \"hidden_act\": \"silu\",\n", .mixed = true, \
    .partial = true

const Architecture gguf_glm = {.name = "chatglm",
                               .model_type = "glm",
                               .class_name = "GlmForCausalLM",
                               .rules = {gguf_rules_model, dense_rules, gguf_rules_qkv_biases},
                               GLM};

const Architecture gguf_glm4 = {.name = "glm4",
                                .model_type = "glm4",
                                .class_name = "Glm4ForCausalLM",
                                .rules = {gguf_rules_model, dense_rules, later_norms, gguf_rules_qkv_biases},
                                GLM};

/* ---- GLM 4.5 ---- */

static const TensorRule rules[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"expert_count", "n_routed_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                     {"expert_shared_count", "n_shared_experts", FIELD_COUNT, true},
                                     {"leading_dense_block_count", "first_k_dense_replace", FIELD_COUNT, true},
                                     {"expert_group_count", "n_group", FIELD_SIZE, false},
                                     {"expert_group_used_count", "topk_group", FIELD_SIZE, false},
                                     {"expert_weights_scale", "routed_scaling_factor", FIELD_NUMBER, true},
                                     {"expert_weights_norm", "norm_topk_prob", FIELD_BOOL, true},
                                     {"expert_gating_func", NULL, FIELD_KNOWN, false},
                                     {0}};

static bool read_glm(GgufModel *m, Error *err) {
    int64_t n_shared;
    if (gguf_layer_value(m, "expert_gating_func", 0, 2) != 2)
        return error_set(err, "scores experts by a function that GLM has not (%s.expert_gating_func)", m->arch->name);
    if (!gguf_model_size(m, "expert_shared_count", 1, &n_shared, err)) return false;
    m->size[SIZE_SHARED_FFN] = n_shared * m->size[SIZE_EXPERT_FFN]; /* each at most 2^30 */
    return true;
}

/* The layers that predict further tokens are left out, and the family would expect one. */
static bool write_glm(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    buffer_printf(out, "  \"use_qk_norm\": %s,\n  \"num_nextn_predict_layers\": 0,\n",
                  gguf_find_tensor(m->file, "blk.0.attn_q_norm.weight") ? "true" : "false");
    return true;
}

const Architecture gguf_glm4_moe = {
    .name = "glm4moe",
    .model_type = "glm4_moe",
    .class_name = "Glm4MoeForCausalLM",
    .rules = {gguf_rules_model, rules, gguf_rules_qkv_biases, gguf_rules_head_norms, gguf_rules_mlp, gguf_rules_experts,
              gguf_rules_shared_experts},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .expert_width = "moe_intermediate_size",
    .mixed = true,
    .partial = true,
    .read = read_glm,
    .write = write_glm,
};
