/* Models whose mixers are called backbone.layers.*.mixer: Mamba-2 alone, and Nemotron-H, whose layers are one half
 * each: a Mamba-2 mixer, attention without positions, an mlp or experts. Which one a layer is its tensors say. The file
 * holds A = -exp(A_log), which is turned back (to within a rounding), and no limits of the step size, of which there
 * are none. */
#include "convert/gguf_config.h"

static const TensorRule model_rules[] = {
    {"token_embd", "backbone.embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "backbone.norm_f", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_norm", "backbone.layers.*.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule ssm_rules[] = {
    {"blk.*.ssm_in", "backbone.layers.*.mixer.in_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ssm_conv1d", "backbone.layers.*.mixer.conv1d", SIZE_ANY, SIZE_ANY, 0, RULE_CONV, BIASES_OTHER},
    {"blk.*.ssm_dt.bias", "backbone.layers.*.mixer.dt_bias", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ssm_a", "backbone.layers.*.mixer.A_log", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE | RULE_LOG_OF_NEG, 0},
    {"blk.*.ssm_d", "backbone.layers.*.mixer.D", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ssm_norm", "backbone.layers.*.mixer.norm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.ssm_out", "backbone.layers.*.mixer.out_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* ---- Mamba-2 ---- */

/* The last is not needed, but mlx-lm wants to see it. */
static const ConfigField mamba2_fields[] = {
    {"ssm.conv_kernel", "conv_kernel", FIELD_SIZE, true},      {"ssm.state_size", "state_size", FIELD_SIZE, true},
    {"ssm.group_count", "n_groups", FIELD_SIZE, true},         {"ssm.time_step_rank", "num_heads", FIELD_SIZE, true},
    {"ssm.inner_size", "intermediate_size", FIELD_SIZE, true}, {0}};

static bool write_mamba2(const GgufModel *m, Buffer *out, Error *err) {
    return gguf_config_ssm_head(m, "head_dim", out, err);
}

const Architecture gguf_mamba2 = {
    .name = "mamba2",
    .model_type = "mamba2",
    .class_name = "Mamba2ForCausalLM",
    .rules = {model_rules, ssm_rules},
    .fields = mamba2_fields,
    .constants = "  \"use_bias\": false,\n  \"use_conv_bias\": true,\n  \"rms_norm\": true,\n"
                 "  \"hidden_act\": \"silu\",\n  \"time_step_limit\": [0.0, Infinity],\n"
                 "  \"time_step_rank\": \"auto\",\n",
    .eps_name = "layer_norm_epsilon",
    .own_heads = true,
    .own_rope = true,
    .write = write_mamba2,
};

/* ---- Nemotron-H ---- */

static const TensorRule attention_rules[] = {
    {"blk.*.attn_q", "backbone.layers.*.mixer.q_proj", SIZE_QUERY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_k", "backbone.layers.*.mixer.k_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_v", "backbone.layers.*.mixer.v_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "backbone.layers.*.mixer.o_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, BIASES_ATTENTION},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule mlp_rules[] = {
    {"blk.*.ffn_up", "backbone.layers.*.mixer.up_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_down", "backbone.layers.*.mixer.down_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, BIASES_MLP},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Experts work on the hidden vector or on a smaller one that is made of it. */
static const TensorRule expert_rules[] = {
    {"blk.*.ffn_gate_inp", "backbone.layers.*.mixer.gate", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.exp_probs_b.bias", "backbone.layers.*.mixer.gate.e_score_correction_bias", SIZE_EXPERTS, SIZE_NONE, 0,
     RULE_WHOLE, 0},
    {"blk.*.ffn_up_exps", "backbone.layers.*.mixer.switch_mlp.fc1", SIZE_ANY, SIZE_ANY, 0, RULE_STACKED, 0},
    {"blk.*.ffn_down_exps", "backbone.layers.*.mixer.switch_mlp.fc2", SIZE_ANY, SIZE_ANY, 0, RULE_STACKED, 0},
    {"blk.*.ffn_up_shexp", "backbone.layers.*.mixer.shared_experts.up_proj", SIZE_SHARED_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "backbone.layers.*.mixer.shared_experts.down_proj", SIZE_HIDDEN, SIZE_SHARED_FFN, 0, 0, 0},
    {"blk.*.ffn_latent_down", "backbone.layers.*.mixer.fc1_latent_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_latent_up", "backbone.layers.*.mixer.fc2_latent_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField nemotron_fields[] = {
    {"ssm.conv_kernel", "conv_kernel", FIELD_SIZE, true},
    {"ssm.state_size", "ssm_state_size", FIELD_SIZE, true},
    {"ssm.group_count", "n_groups", FIELD_SIZE, true},
    {"ssm.time_step_rank", "mamba_num_heads", FIELD_SIZE, true},
    {"ssm.inner_size", NULL, FIELD_KNOWN, true},
    {"expert_count", "n_routed_experts", FIELD_COUNT, false},
    {"expert_used_count", "num_experts_per_tok", FIELD_COUNT, false},
    {"expert_feed_forward_length", NULL, FIELD_KNOWN, false},
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", FIELD_SIZE, false},
    {"expert_shared_count", "n_shared_experts", FIELD_COUNT, false},
    {"expert_group_count", "n_group", FIELD_COUNT, false},
    {"expert_group_used_count", "topk_group", FIELD_COUNT, false},
    {"expert_weights_norm", "norm_topk_prob", FIELD_BOOL, false},
    {"expert_weights_scale", "routed_scaling_factor", FIELD_NUMBER, false},
    {"moe_latent_size", "moe_latent_size", FIELD_SIZE, false},
    {0}};

static bool write_nemotron(const GgufModel *m, Buffer *out, Error *err) {
    buffer_text(out, "  \"hybrid_override_pattern\": \"");
    for (int64_t i = 0; i < m->n_layers; i++)
        buffer_byte(out, gguf_layer_tensor(m, i, "ssm_in.weight")         ? 'M'
                         : gguf_layer_tensor(m, i, "attn_q.weight")       ? '*'
                         : gguf_layer_tensor(m, i, "ffn_gate_inp.weight") ? 'E'
                                                                          : '-');
    buffer_text(out, "\",\n");
    return gguf_config_ssm_head(m, "mamba_head_dim", out, err);
}

#define NEMOTRON                                                                                               \
    .model_type = "nemotron_h", .class_name = "NemotronHForCausalLM", .fields = nemotron_fields,               \
    .rules = {model_rules, ssm_rules, attention_rules, mlp_rules, expert_rules},                               \
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias"},                           \
    .constants = "  \"use_bias\": false,\n  \"mamba_proj_bias\": false,\n  \"use_conv_bias\": true,\n"         \
                 "  \"mlp_hidden_act\": \"relu2\",\n  \"mamba_hidden_act\": \"silu\",\n",                      \
    .eps_name = "layer_norm_epsilon", .expert_width = "moe_intermediate_size", .mixed = true, .partial = true, \
    .own_rope = true, .write = write_nemotron

const Architecture gguf_nemotron_h = {.name = "nemotron_h", NEMOTRON};

const Architecture gguf_nemotron_h_moe = {.name = "nemotron_h_moe", NEMOTRON};
