/* Ling 2 (Bailing): q, k and v in one tensor as in the checkpoint, norms of heads, part of each head rotated, dense
 * layers first, then experts scored by a sigmoid with a correction. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"token_embd", "model.word_embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_qkv", "model.layers.*.attention.query_key_value", SIZE_ANY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "model.layers.*.attention.dense", SIZE_HIDDEN, SIZE_QUERY, 0, 0, 0},
    {"blk.*.attn_q_norm", "model.layers.*.attention.query_layernorm", SIZE_HEAD, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_k_norm", "model.layers.*.attention.key_layernorm", SIZE_HEAD, SIZE_NONE, 0, 0, 0},
    {"blk.*.exp_probs_b.bias", "model.layers.*.mlp.gate.expert_bias", SIZE_EXPERTS, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_experts.gate_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_experts.up_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_experts.down_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"expert_count", "num_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                     {"expert_shared_feed_forward_length", NULL, FIELD_KNOWN, false},
                                     {"expert_shared_count", NULL, FIELD_KNOWN, false},
                                     {"expert_group_count", "n_group", FIELD_SIZE, false},
                                     {"expert_group_used_count", "topk_group", FIELD_SIZE, false},
                                     {"expert_weights_scale", "routed_scaling_factor", FIELD_NUMBER, true},
                                     {"expert_weights_norm", "norm_topk_prob", FIELD_BOOL, true},
                                     {"expert_gating_func", NULL, FIELD_KNOWN, true},
                                     {"leading_dense_block_count", "first_k_dense_replace", FIELD_COUNT, true},
                                     {0}};

/* A tensor of the first layer that has experts. */
static const GgufTensor *of_experts(const GgufModel *m, const char *name) {
    double first = gguf_layer_value(m, "leading_dense_block_count", 0, 0);
    return gguf_layer_tensor(m, first >= 0 && first < 1 << 14 ? (int64_t)first : 0, name);
}

/* The experts for every token are one that is as wide as all. */
static bool write_bailing(const GgufModel *m, Buffer *out, Error *err) {
    const GgufTensor *shared = of_experts(m, "ffn_up_shexp.weight");
    double score = gguf_layer_value(m, "expert_gating_func", 0, 0);
    if (score != 1 && score != 2)
        return error_set(err, "scores experts by a function that Ling has not (%s.expert_gating_func)", m->arch->name);
    buffer_printf(out, "  \"score_function\": \"%s\",\n", score == 2 ? "sigmoid" : "softmax");
    gguf_config_count(out, "num_shared_experts", shared != NULL);
    if (shared) gguf_config_count(out, "moe_shared_expert_intermediate_size", shared->shape[1]);
    buffer_printf(out, "  \"moe_router_enable_expert_bias\": %s,\n  \"use_qk_norm\": %s,\n",
                  of_experts(m, "exp_probs_b.bias") ? "true" : "false",
                  gguf_find_tensor(m->file, "blk.0.attn_q_norm.weight") ? "true" : "false");
    return true;
}

const Architecture gguf_bailing_moe2 = {
    .name = "bailingmoe2",
    .model_type = "bailing_moe",
    .class_name = "BailingMoeV2ForCausalLM",
    .rules = {rules, gguf_rules_norms, gguf_rules_mlp, gguf_rules_experts},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "use_qkv_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n  \"use_bias\": false,\n  \"norm_head\": false,\n"
                 "  \"norm_softmax\": false,\n  \"num_nextn_predict_layers\": 0,\n",
    .expert_width = "moe_intermediate_size",
    .mixed = true,
    .partial = true,
    .write = write_bailing,
};
