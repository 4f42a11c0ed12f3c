/* DeepSeek, the first mixture: llama's attention before its experts. DeepSeek V2 and V3 and what was made like them
 * (Kimi K2, Moonlight): latent attention, whose per-head matrices newer files have apart and turned as MLX keeps them
 * and older ones as the checkpoint does; a few dense layers, then experts. The function that scores experts tells V2
 * (softmax) from V3 (sigmoid). */
#include "convert/gguf_config.h"

static const TensorRule attention[] = {
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_q_a", "model.layers.*.self_attn.q_a_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_q_a_norm", "model.layers.*.self_attn.q_a_layernorm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_q_b", "model.layers.*.self_attn.q_b_proj", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.attn_kv_a_mqa", "model.layers.*.self_attn.kv_a_proj_with_mqa", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_kv_a_norm", "model.layers.*.self_attn.kv_a_layernorm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_kv_b", "model.layers.*.self_attn.kv_b_proj", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.attn_k_b", "model.layers.*.self_attn.embed_q", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.attn_v_b", "model.layers.*.self_attn.unembed_out", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"attention.q_lora_rank", "q_lora_rank", FIELD_SIZE, false},
                                     {"attention.kv_lora_rank", "kv_lora_rank", FIELD_SIZE, true},
                                     {"attention.key_length_mla", NULL, FIELD_KNOWN, false},
                                     {"attention.value_length_mla", NULL, FIELD_KNOWN, false},
                                     {"leading_dense_block_count", "first_k_dense_replace", FIELD_COUNT, true},
                                     {"expert_count", "n_routed_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                     {"expert_shared_count", "n_shared_experts", FIELD_COUNT, true},
                                     {"expert_group_count", "n_group", FIELD_SIZE, false},
                                     {"expert_group_used_count", "topk_group", FIELD_SIZE, false},
                                     {"expert_weights_scale", "routed_scaling_factor", FIELD_NUMBER, false},
                                     {"expert_weights_norm", "norm_topk_prob", FIELD_BOOL, false},
                                     {"expert_gating_func", NULL, FIELD_KNOWN, false},
                                     {0}};

/* The shared experts of a layer are one that is as wide as all of them. */
static bool read_deepseek(GgufModel *m, Error *err) {
    int64_t n_shared;
    bool ok = gguf_model_size(m, "attention.head_count", 0, &m->n_heads, err) &&
              gguf_model_size(m, "feed_forward_length", 0, &m->size[SIZE_FFN], err) &&
              gguf_model_size(m, "expert_count", 0, &m->size[SIZE_EXPERTS], err) &&
              gguf_model_size(m, "expert_feed_forward_length", 0, &m->size[SIZE_EXPERT_FFN], err) &&
              gguf_model_size(m, "expert_shared_count", 1, &n_shared, err) &&
              gguf_model_size(m, "rope.dimension_count", 0, &m->rotated, err);
    if (ok) m->size[SIZE_SHARED_FFN] = n_shared * m->size[SIZE_EXPERT_FFN]; /* each at most 2^30 */
    return ok;
}

/* In files with the matrices apart, key_length is that of the latent vector, and the heads' own have a name. */
static bool write_heads(const GgufModel *m, Buffer *out, Error *err) {
    int64_t keys, values;
    if (!gguf_model_size(m, "attention.key_length", 0, &keys, err) ||
        !gguf_model_size(m, "attention.value_length", 0, &values, err) ||
        !gguf_model_size(m, "attention.key_length_mla", keys, &keys, err) ||
        !gguf_model_size(m, "attention.value_length_mla", values, &values, err))
        return false;
    if (keys <= m->rotated)
        return error_set(err, "rotates %d of the %d values of a key, which leaves none", (int)m->rotated, (int)keys);
    gguf_config_count(out, "num_key_value_heads", m->n_heads);
    gguf_config_count(out, "qk_nope_head_dim", keys - m->rotated);
    gguf_config_count(out, "qk_rope_head_dim", m->rotated);
    gguf_config_count(out, "v_head_dim", values);
    if (!gguf_model_find(m, "attention.q_lora_rank")) buffer_text(out, "  \"q_lora_rank\": null,\n");
    if (!gguf_model_find(m, "expert_weights_norm")) buffer_text(out, "  \"norm_topk_prob\": false,\n");
    return true;
}

static bool is_v3(const GgufModel *m) {
    return gguf_layer_value(m, "expert_gating_func", 0, 1) == 2;
}

static bool write_v2(const GgufModel *m, Buffer *out, Error *err) {
    bool groups = gguf_layer_value(m, "expert_group_count", 0, 1) > 1,
         normed = gguf_layer_value(m, "expert_weights_norm", 0, 0) != 0;
    if (gguf_layer_value(m, "expert_gating_func", 0, 1) != 1)
        return error_set(err, "scores experts by a function that is not known here (%s.expert_gating_func)",
                         m->arch->name);
    if (normed) return error_set(err, "weighs experts by a softmax of sum 1, which DeepSeek-V2 has not");
    buffer_printf(out, "  \"topk_method\": \"%s\",\n", groups ? "group_limited_greedy" : "greedy");
    return write_heads(m, out, err);
}

const Architecture gguf_deepseek_v3 = {
    .name = "deepseek2",
    .model_type = "deepseek_v3",
    .class_name = "DeepseekV3ForCausalLM",
    .fits = is_v3,
    .rules = {gguf_rules_model, gguf_rules_norms, attention, gguf_rules_mlp, gguf_rules_experts,
              gguf_rules_shared_experts},
    .fields = fields,
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .expert_width = "moe_intermediate_size",
    .mixed = true,
    .mscale = 10, /* the converter wrote 0.1 times it */
    .own_heads = true,
    .read = read_deepseek,
    .write = write_heads,
};

const Architecture gguf_deepseek_v2 = {
    .name = "deepseek2",
    .model_type = "deepseek_v2",
    .class_name = "DeepseekV2ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, attention, gguf_rules_mlp, gguf_rules_experts,
              gguf_rules_shared_experts},
    .fields = fields,
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .expert_width = "moe_intermediate_size",
    .mixed = true,
    .mscale = 10, /* the converter wrote 0.1 times it */
    .own_heads = true,
    .read = read_deepseek,
    .write = write_v2,
};

/* ---- the first ---- */

static const ConfigField first_fields[] = {{"leading_dense_block_count", "first_k_dense_replace", FIELD_COUNT, true},
                                           {"expert_count", "n_routed_experts", FIELD_SIZE, true},
                                           {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                           {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                           {"expert_shared_count", "n_shared_experts", FIELD_COUNT, true},
                                           {"expert_weights_scale", NULL, FIELD_KNOWN, false},
                                           {"expert_gating_func", NULL, FIELD_KNOWN, false},
                                           {0}};

static bool read_first(GgufModel *m, Error *err) {
    int64_t n_shared;
    if (gguf_layer_value(m, "expert_gating_func", 0, 1) != 1 || gguf_layer_value(m, "expert_weights_scale", 0, 1) != 1)
        return error_set(err,
                         "weighs experts as the first DeepSeek does not (%s.expert_gating_func or "
                         "expert_weights_scale)",
                         m->arch->name);
    if (!gguf_model_size(m, "expert_shared_count", 0, &n_shared, err)) return false;
    m->size[SIZE_SHARED_FFN] = n_shared * m->size[SIZE_EXPERT_FFN]; /* each at most 2^30 */
    return true;
}

const Architecture gguf_deepseek = {
    .name = "deepseek",
    .model_type = "deepseek",
    .class_name = "DeepseekForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp, gguf_rules_experts,
              gguf_rules_shared_experts},
    .fields = first_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n  \"norm_topk_prob\": false,\n  \"moe_layer_freq\": 1,\n",
    .expert_width = "moe_intermediate_size",
    .permuted = true,
    .mixed = true,
    .read = read_first,
};
