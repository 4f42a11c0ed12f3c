/* LFM2, dense and mixture: layers without key-value heads are short convolutions. The norm that the checkpoint calls
 * embedding_norm stands at the end; converters named it token_embd_norm. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"token_embd_norm", "model.embedding_norm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.embedding_norm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_OPTIONAL, 0},
    {"blk.*.attn_norm", "model.layers.*.operator_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_norm", "model.layers.*.ffn_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_QUERY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_output", "model.layers.*.self_attn.out_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, 0},
    {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_layernorm", SIZE_HEAD, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_layernorm", SIZE_HEAD, SIZE_NONE, 0, 0, 0},
    {"blk.*.shortconv.conv", "model.layers.*.conv.conv", SIZE_HIDDEN, SIZE_ANY, 0, RULE_CONV, 0},
    {"blk.*.shortconv.in_proj", "model.layers.*.conv.in_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.shortconv.out_proj", "model.layers.*.conv.out_proj", SIZE_HIDDEN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate", "model.layers.*.feed_forward.w1", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.feed_forward.w2", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.feed_forward.w3", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule experts[] = {
    {"blk.*.ffn_gate_inp", "model.layers.*.feed_forward.gate", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.exp_probs_b.bias", "model.layers.*.feed_forward.expert_bias", SIZE_EXPERTS, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ffn_gate_exps", "model.layers.*.feed_forward.switch_mlp.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_up_exps", "model.layers.*.feed_forward.switch_mlp.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_down_exps", "model.layers.*.feed_forward.switch_mlp.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0,
     RULE_STACKED, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"shortconv.l_cache", "conv_L_cache", FIELD_SIZE, true}, {0}};

/* The width is the layers' own: the family would otherwise adjust it as it does while training. */
static bool write_lfm2(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    buffer_text(out, "  \"conv_bias\": false,\n");
    gguf_config_layer_types(m, "attention.head_count_kv", 0, "full_attention", "conv", out);
    if (m->size[SIZE_EXPERTS]) return true;
    gguf_config_count(out, "block_dim", m->size[SIZE_HIDDEN]); /* these three for mlx-lm, which wants to see them */
    buffer_text(out, "  \"block_multiple_of\": 1,\n  \"block_ffn_dim_multiplier\": 1.0,\n"
                     "  \"block_auto_adjust_ff_dim\": false,\n");
    return true;
}

const Architecture gguf_lfm2 = {
    .name = "lfm2",
    .model_type = "lfm2",
    .class_name = "Lfm2ForCausalLM",
    .rules = {rules},
    .fields = fields,
    .eps_name = "norm_eps",
    .mixed = true,
    .write = write_lfm2,
};

static const ConfigField moe_fields[] = {{"shortconv.l_cache", "conv_L_cache", FIELD_SIZE, true},
                                         {"expert_count", "num_experts", FIELD_SIZE, true},
                                         {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                         {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                         {"leading_dense_block_count", "num_dense_layers", FIELD_COUNT, true},
                                         {"expert_gating_func", NULL, FIELD_KNOWN, false},
                                         {0}};

static bool read_moe(GgufModel *m, Error *err) {
    return gguf_layer_value(m, "expert_gating_func", 0, 2) == 2 ||
           error_set(err, "scores experts by a function that LFM2 has not (%s.expert_gating_func)", m->arch->name);
}

const Architecture gguf_lfm2_moe = {
    .name = "lfm2moe",
    .model_type = "lfm2_moe",
    .class_name = "Lfm2MoeForCausalLM",
    .rules = {rules, experts},
    .fields = moe_fields,
    .constants = "  \"norm_topk_prob\": true,\n  \"use_expert_bias\": true,\n",
    .eps_name = "norm_eps",
    .expert_width = "moe_intermediate_size",
    .mixed = true,
    .read = read_moe,
    .write = write_lfm2,
};
