/* Models with a selective scan: Mamba and FalconMamba, Granite 4 hybrids, Falcon-H1. The file holds A = -exp(A_log),
 * which is turned back (to within a rounding). */
#include "convert/gguf_config.h"

/* ---- Mamba ---- */

static const TensorRule mamba_rules[] = {
    {"token_embd", "backbone.embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "backbone.norm_f", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_norm", "backbone.layers.*.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ssm_in", "backbone.layers.*.mixer.in_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ssm_conv1d", "backbone.layers.*.mixer.conv1d", SIZE_ANY, SIZE_ANY, 0, RULE_CONV, BIASES_OTHER},
    {"blk.*.ssm_x", "backbone.layers.*.mixer.x_proj", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.ssm_dt", "backbone.layers.*.mixer.dt_proj", SIZE_ANY, SIZE_ANY, 0, 0, BIASES_OTHER},
    {"blk.*.ssm_a", "backbone.layers.*.mixer.A_log", SIZE_ANY, SIZE_ANY, 0, RULE_WHOLE | RULE_LOG_OF_NEG, 0},
    {"blk.*.ssm_d", "backbone.layers.*.mixer.D", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ssm_out", "backbone.layers.*.mixer.out_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField mamba_fields[] = {
    {"ssm.conv_kernel", "conv_kernel", FIELD_SIZE, true}, {"ssm.inner_size", "intermediate_size", FIELD_SIZE, true},
    {"ssm.state_size", "state_size", FIELD_SIZE, true},   {"ssm.time_step_rank", "time_step_rank", FIELD_SIZE, true},
    {"ssm.dt_b_c_rms", NULL, FIELD_KNOWN, false},         {0}};

static bool is_falcon(const GgufModel *m) {
    return gguf_layer_value(m, "ssm.dt_b_c_rms", 0, 0) != 0;
}

#define MAMBA                                                                                              \
    .name = "mamba", .rules = {mamba_rules}, .fields = mamba_fields,                                       \
    .constants = "  \"use_bias\": false,\n  \"use_conv_bias\": true,\n", .eps_name = "layer_norm_epsilon", \
    .own_heads = true, .own_rope = true

const Architecture gguf_falcon_mamba = {MAMBA, .model_type = "falcon_mamba", .class_name = "FalconMambaForCausalLM",
                                        .fits = is_falcon};

const Architecture gguf_mamba = {MAMBA, .model_type = "mamba", .class_name = "MambaForCausalLM"};

/* ---- Mamba-2 beside or among layers of attention ---- */

static const TensorRule ssm_rules[] = {
    {"blk.*.ssm_in", "model.layers.*.mamba.in_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ssm_conv1d", "model.layers.*.mamba.conv1d", SIZE_ANY, SIZE_ANY, 0, RULE_CONV, BIASES_OTHER},
    {"blk.*.ssm_dt.bias", "model.layers.*.mamba.dt_bias", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ssm_a", "model.layers.*.mamba.A_log", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE | RULE_LOG_OF_NEG, 0},
    {"blk.*.ssm_d", "model.layers.*.mamba.D", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ssm_norm", "model.layers.*.mamba.norm", SIZE_ANY, SIZE_NONE, 0, RULE_OPTIONAL, 0},
    {"blk.*.ssm_out", "model.layers.*.mamba.out_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* "mamba_d_head": the width of one of the heads. */
static bool write_head(const GgufModel *m, Buffer *out, Error *err) {
    if (!gguf_config_ssm_head(m, "mamba_d_head", out, err)) return false;
    buffer_text(out, "  \"mamba_conv_bias\": true,\n  \"mamba_proj_bias\": false,\n");
    return true;
}

/* ---- Granite 4 ---- */

static const TensorRule granite_rules[] = {
    {"blk.*.ffn_gate", "model.layers.*.shared_mlp.input_linear", SIZE_FFN, SIZE_HIDDEN, 0, RULE_ABOVE_UP, 0},
    {"blk.*.ffn_up", NULL, SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.shared_mlp.output_linear", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {"blk.*.ffn_gate_shexp", "model.layers.*.shared_mlp.input_linear", SIZE_SHARED_FFN, SIZE_HIDDEN, 0, RULE_ABOVE_UP,
     0},
    {"blk.*.ffn_up_shexp", NULL, SIZE_SHARED_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "model.layers.*.shared_mlp.output_linear", SIZE_HIDDEN, SIZE_SHARED_FFN, 0, 0, 0},
    {"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.router.layer", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField granite_fields[] = {
    {"attention.scale", "attention_multiplier", FIELD_NUMBER, true},
    {"embedding_scale", "embedding_multiplier", FIELD_NUMBER, false},
    {"residual_scale", "residual_multiplier", FIELD_NUMBER, false},
    {"logit_scale", "logits_scaling", FIELD_NUMBER, true},
    {"expert_count", "num_local_experts", FIELD_COUNT, true},
    {"expert_used_count", "num_experts_per_tok", FIELD_COUNT, true},
    {"expert_shared_feed_forward_length", "shared_intermediate_size", FIELD_SIZE, true},
    {"ssm.conv_kernel", "mamba_d_conv", FIELD_SIZE, true},
    {"ssm.state_size", "mamba_d_state", FIELD_SIZE, true},
    {"ssm.group_count", "mamba_n_groups", FIELD_SIZE, true},
    {"ssm.time_step_rank", "mamba_n_heads", FIELD_SIZE, true},
    {"ssm.inner_size", NULL, FIELD_KNOWN, true},
    {0}};

/* "finetuned" says for Granite whether layers rotate. */
static bool write_granite(const GgufModel *m, Buffer *out, Error *err) {
    bool rotates = gguf_layer_value(m, "rope.scaling.finetuned", 0, 1) != 0;
    buffer_printf(out, "  \"position_embedding_type\": \"%s\",\n", rotates ? "rope" : "nope");
    gguf_config_layer_types(m, "attention.head_count_kv", 0, "attention", "mamba", out);
    return write_head(m, out, err);
}

const Architecture gguf_granite_hybrid = {
    .name = "granitehybrid",
    .model_type = "granitemoehybrid",
    .class_name = "GraniteMoeHybridForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, ssm_rules, granite_rules,
              gguf_rules_block_experts},
    .fields = granite_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias"},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .permuted = true,
    .mixed = true,
    .write = write_granite,
};

/* ---- Falcon-H1 ---- */

static const TensorRule falcon_rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0}, /* a tied head's multiplier would be lost */
    {"output_norm", "model.final_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_norm", "model.layers.*.pre_ff_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_OPTIONAL, 0},
    {"blk.*.ffn_norm", "model.layers.*.pre_ff_layernorm.weight", SIZE_HIDDEN, SIZE_NONE, 0, RULE_WHOLE | RULE_OPTIONAL,
     0}, /* which is how converters write it */
    {"blk.*.ffn_gate", "model.layers.*.feed_forward.gate_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.feed_forward.up_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.feed_forward.down_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField falcon_fields[] = {
    {"ssm.conv_kernel", "mamba_d_conv", FIELD_SIZE, true},   {"ssm.state_size", "mamba_d_state", FIELD_SIZE, true},
    {"ssm.group_count", "mamba_n_groups", FIELD_SIZE, true}, {"ssm.time_step_rank", "mamba_n_heads", FIELD_SIZE, true},
    {"ssm.inner_size", "mamba_d_ssm", FIELD_SIZE, true},     {0}};

/* All multipliers are in the weights: 1 in config.json, which is what an absent one is. */
static bool write_falcon(const GgufModel *m, Buffer *out, Error *err) {
    bool normed = gguf_find_tensor(m->file, "blk.0.ssm_norm.weight") != NULL;
    buffer_printf(out, "  \"mamba_rms_norm\": %s,\n  \"mamba_norm_before_gate\": false,\n", normed ? "true" : "false");
    return write_head(m, out, err);
}

const Architecture gguf_falcon_h1 = {
    .name = "falcon-h1",
    .model_type = "falcon_h1",
    .class_name = "FalconH1ForCausalLM",
    .rules = {falcon_rules, gguf_rules_attention, ssm_rules},
    .fields = falcon_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias"},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .write = write_falcon,
};
