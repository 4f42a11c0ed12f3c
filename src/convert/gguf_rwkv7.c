/* RWKV 7. Its small matrices have no modules of their own in GGUF; of six vectors that mix a row with the one before it
 * GGUF makes one. Converters give the first layer matrices for a mix of values, which it has not: they are left out. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"token_embd", "model.embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"token_embd_norm", "model.layers.0.pre_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_norm", "model.layers.*.attn_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_norm_2", "model.layers.*.ffn_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.channel_mix_lerp_k.weight", "model.layers.*.ffn.x_k", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.channel_mix_key", "model.layers.*.ffn.key", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.channel_mix_value", "model.layers.*.ffn.value", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule time_rules[] = {
    {"blk.*.time_mix_lerp_fused.weight", "model.layers.*.attn", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE | RULE_MIXES, 0},
    {"blk.*.time_mix_receptance", "model.layers.*.attn.r_proj", SIZE_HIDDEN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_key", "model.layers.*.attn.k_proj", SIZE_HIDDEN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_value", "model.layers.*.attn.v_proj", SIZE_HIDDEN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_output", "model.layers.*.attn.o_proj", SIZE_HIDDEN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_ln", "model.layers.*.attn.g_norm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_BY_HEAD, BIASES_OTHER},
    {"blk.*.time_mix_k_k.weight", "model.layers.*.attn.k_k", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE | RULE_BY_HEAD, 0},
    {"blk.*.time_mix_k_a.weight", "model.layers.*.attn.k_a", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE | RULE_BY_HEAD, 0},
    {"blk.*.time_mix_r_k.weight", "model.layers.*.attn.r_k", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE | RULE_BY_HEAD, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Through a latent each: decay, the rate of correction, the mix of values, the gate. */
static const TensorRule latent_rules[] = {
    {"blk.*.time_mix_w1", "model.layers.*.attn.w_lora.lora.0", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_w2", "model.layers.*.attn.w_lora.lora.2", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.time_mix_w0.weight", "model.layers.*.attn.w_lora.lora.2.bias", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.time_mix_a1", "model.layers.*.attn.a_lora.lora.0", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_a2", "model.layers.*.attn.a_lora.lora.2", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.time_mix_a0.weight", "model.layers.*.attn.a_lora.lora.2.bias", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.time_mix_v1", "model.layers.*.attn.v_lora.lora.0", SIZE_ANY, SIZE_HIDDEN, 0, RULE_LATER, 0},
    {"blk.*.time_mix_v2", "model.layers.*.attn.v_lora.lora.2", SIZE_HIDDEN, SIZE_ANY, 0, RULE_LATER, 0},
    {"blk.*.time_mix_v0.weight", "model.layers.*.attn.v_lora.lora.2.bias", SIZE_HIDDEN, SIZE_NONE, 0,
     RULE_WHOLE | RULE_LATER, 0},
    {"blk.*.time_mix_g1", "model.layers.*.attn.g_lora.lora.0", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.time_mix_g2", "model.layers.*.attn.g_lora.lora.2", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"wkv.head_size", NULL, FIELD_KNOWN, true},
                                     {"feed_forward_length", "intermediate_size", FIELD_SIZE, true},
                                     {"attention.decay_lora_rank", "decay_low_rank_dim", FIELD_SIZE, true},
                                     {"attention.iclr_lora_rank", "a_low_rank_dim", FIELD_SIZE, true},
                                     {"attention.value_residual_mix_lora_rank", "v_low_rank_dim", FIELD_SIZE, true},
                                     {"attention.gate_lora_rank", "gate_low_rank_dim", FIELD_SIZE, true},
                                     {"token_shift_count", NULL, FIELD_KNOWN, false},
                                     {0}};

static bool read_rwkv7(GgufModel *m, Error *err) {
    if (!gguf_model_size(m, "wkv.head_size", 0, &m->head_dim, err)) return false;
    return m->size[SIZE_HIDDEN] % m->head_dim == 0 || error_set(err, "has %d values, which heads of %d do not divide",
                                                                (int)m->size[SIZE_HIDDEN], (int)m->head_dim);
}

const Architecture gguf_rwkv7 = {
    .name = "rwkv7",
    .model_type = "rwkv7",
    .class_name = "RWKV7ForCausalLM",
    .rules = {rules, time_rules, latent_rules},
    .fields = fields,
    .eps_name = "norm_eps",
    .own_heads = true,
    .own_rope = true,
    .read = read_rwkv7,
};
