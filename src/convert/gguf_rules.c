/* The table of architectures, and the lists of tensors that many of them share. To add one: a row beside its
 * relatives, its name below, and a golden (tests/goldens/gguf). */
#include "convert/gguf_architecture.h"

#include <stddef.h>

const Architecture *const gguf_architectures[] = {
    &gguf_mixtral,         &gguf_llama,        &gguf_ministral3,     &gguf_mistral3,       &gguf_smollm3,
    &gguf_qwen2,           &gguf_qwen2_vl,     &gguf_qwen2_moe,      &gguf_qwen3,          &gguf_qwen3_moe,
    &gguf_qwen3_vl,        &gguf_qwen3_vl_moe, &gguf_gemma,          &gguf_gemma2,         &gguf_gemma3,
    &gguf_gemma3n,         &gguf_gemma4,       &gguf_phi3,           &gguf_deepseek_v3,    &gguf_deepseek_v2,
    &gguf_granite,         &gguf_granite_moe,  &gguf_granite_hybrid, &gguf_lfm2,           &gguf_lfm2_moe,
    &gguf_gpt_oss,         &gguf_olmo3,        &gguf_olmo2,          &gguf_starcoder2,     &gguf_command_r,
    &gguf_cohere2,         &gguf_falcon_mamba, &gguf_mamba,          &gguf_falcon_h1,      &gguf_qwen3_next_newer,
    &gguf_qwen3_next,      &gguf_glm4_moe,     &gguf_exaone4,        &gguf_seed_oss,       &gguf_qwen3_5,
    &gguf_qwen3_5_moe,     &gguf_mamba2,       &gguf_nemotron_h,     &gguf_nemotron_h_moe, &gguf_jamba,
    &gguf_rwkv7,           &gguf_glm,          &gguf_glm4,           &gguf_bitnet,         &gguf_llama4,
    &gguf_internlm2,       &gguf_minicpm,      &gguf_deepseek,       &gguf_bailing_moe2,   &gguf_minimax_m2,
    &gguf_ernie4_5,        &gguf_ernie4_5_moe, &gguf_olmoe,          &gguf_phi2,           &gguf_stablelm,
    &gguf_gemma_embedding, &gguf_nomic_bert,   &gguf_modern_bert,    &gguf_bert,           NULL,
};

const TensorRule gguf_rules_model[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const TensorRule gguf_rules_norms[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Before and after each half, as later Gemmas have it, stored whole. */
const TensorRule gguf_rules_norms_around[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Inputs that each layer has of its own. Converters pad the embedding to the vocabulary. */
const TensorRule gguf_rules_layer_inputs[] = {
    {"per_layer_token_embd", "model.embed_tokens_per_layer", SIZE_ANY, SIZE_ANY, 0, RULE_OPTIONAL | RULE_PADDED, 0},
    {"per_layer_model_proj", "model.per_layer_model_projection", SIZE_ANY, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"per_layer_proj_norm", "model.per_layer_projection_norm", SIZE_ANY, SIZE_NONE, 0, RULE_OPTIONAL, 0},
    {"blk.*.inp_gate", "model.layers.*.per_layer_input_gate", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.proj", "model.layers.*.per_layer_projection", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.post_norm", "model.layers.*.post_per_layer_input_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const TensorRule gguf_rules_attention[] = {
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_QUERY, SIZE_HIDDEN, ROWS_OF_QUERY, 0, BIASES_ATTENTION},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_KEY, SIZE_HIDDEN, ROWS_OF_KEY, 0, BIASES_ATTENTION},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, BIASES_ATTENTION},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Biases on q, k and v alone. */
const TensorRule gguf_rules_qkv_biases[] = {
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_QUERY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const TensorRule gguf_rules_head_norms[] = {
    {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", SIZE_HEAD, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", SIZE_HEAD, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Over all queries, and over all keys. */
const TensorRule gguf_rules_whole_norms[] = {
    {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", SIZE_QUERY, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", SIZE_KEY, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const TensorRule gguf_rules_mlp[] = {
    {"blk.*.ffn_gate", "model.layers.*.mlp.gate_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_up", "model.layers.*.mlp.up_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_down", "model.layers.*.mlp.down_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, BIASES_MLP},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const TensorRule gguf_rules_experts[] = {
    {"blk.*.ffn_gate_inp", "model.layers.*.mlp.gate", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate_exps", "model.layers.*.mlp.switch_mlp.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_STACKED,
     0},
    {"blk.*.ffn_up_exps", "model.layers.*.mlp.switch_mlp.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_STACKED, 0},
    {"blk.*.ffn_down_exps", "model.layers.*.mlp.switch_mlp.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0, RULE_STACKED,
     0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Qwen's expert for every token, behind a gate of its own. */
const TensorRule gguf_rules_shared_expert[] = {
    {"blk.*.ffn_gate_inp_shexp", "model.layers.*.mlp.shared_expert_gate", SIZE_ONE, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_expert.gate_proj", SIZE_SHARED_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_expert.up_proj", SIZE_SHARED_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_expert.down_proj", SIZE_HIDDEN, SIZE_SHARED_FFN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* DeepSeek's correction of the choice, and its experts for every token, which are one that is as wide as all. */
const TensorRule gguf_rules_shared_experts[] = {
    {"blk.*.exp_probs_b.bias", "model.layers.*.mlp.gate.e_score_correction_bias", SIZE_EXPERTS, SIZE_NONE, 0,
     RULE_WHOLE, 0},
    {"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_experts.gate_proj", SIZE_SHARED_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_experts.up_proj", SIZE_SHARED_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_experts.down_proj", SIZE_HIDDEN, SIZE_SHARED_FFN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Mixtral's names, which Granite took. */
const TensorRule gguf_rules_block_experts[] = {
    {"blk.*.ffn_gate_exps", "model.layers.*.block_sparse_moe.switch_mlp.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED | RULE_OPTIONAL, 0},
    {"blk.*.ffn_up_exps", "model.layers.*.block_sparse_moe.switch_mlp.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED | RULE_OPTIONAL, 0},
    {"blk.*.ffn_down_exps", "model.layers.*.block_sparse_moe.switch_mlp.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0,
     RULE_STACKED | RULE_OPTIONAL, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};
