/* Jamba: selective scans with attention and experts in some of the layers. Which they are its tensors say; config.json
 * counts the layers of experts from an offset in steps of a period, so that others can not be said. A = -exp(A_log) is
 * turned back (to within a rounding). */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.final_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_norm", "model.layers.*.pre_ff_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_gate", "model.layers.*.feed_forward.gate_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.feed_forward.up_proj", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.feed_forward.down_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {"blk.*.ffn_gate_inp", "model.layers.*.feed_forward.router", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate_exps", "model.layers.*.feed_forward.switch_mlp.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_up_exps", "model.layers.*.feed_forward.switch_mlp.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_down_exps", "model.layers.*.feed_forward.switch_mlp.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0,
     RULE_STACKED, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule mamba_rules[] = {
    {"blk.*.ssm_in", "model.layers.*.mamba.in_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ssm_conv1d", "model.layers.*.mamba.conv1d", SIZE_ANY, SIZE_ANY, 0, RULE_CONV, BIASES_OTHER},
    {"blk.*.ssm_x", "model.layers.*.mamba.x_proj", SIZE_ANY, SIZE_ANY, 0, 0, 0},
    {"blk.*.ssm_dt", "model.layers.*.mamba.dt_proj", SIZE_ANY, SIZE_ANY, 0, 0, BIASES_OTHER},
    {"blk.*.ssm_a", "model.layers.*.mamba.A_log", SIZE_ANY, SIZE_ANY, 0, RULE_WHOLE | RULE_LOG_OF_NEG, 0},
    {"blk.*.ssm_d", "model.layers.*.mamba.D", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ssm_out", "model.layers.*.mamba.out_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.ssm_dt_norm", "model.layers.*.mamba.dt_layernorm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.ssm_b_norm", "model.layers.*.mamba.b_layernorm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {"blk.*.ssm_c_norm", "model.layers.*.mamba.c_layernorm", SIZE_ANY, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"ssm.conv_kernel", "mamba_d_conv", FIELD_SIZE, true},
                                     {"ssm.state_size", "mamba_d_state", FIELD_SIZE, true},
                                     {"ssm.time_step_rank", "mamba_dt_rank", FIELD_SIZE, true},
                                     {"ssm.inner_size", NULL, FIELD_KNOWN, true},
                                     {"expert_count", "num_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {0}};

static bool has_experts(const GgufModel *m, int64_t layer) {
    return gguf_layer_tensor(m, layer, "ffn_gate_inp.weight") != NULL;
}

/* The layers of experts as those counted from the first of them in steps up to the second. */
static bool write_experts(const GgufModel *m, Buffer *out, Error *err) {
    int64_t n = m->n_layers, first = 0;
    while (first < n && !has_experts(m, first)) first++;
    int64_t second = first + 1;
    while (second < n && !has_experts(m, second)) second++;
    int64_t period = second < n ? second - first : n + 1; /* one layer or none: no other is reached */
    for (int64_t i = 0; i < n; i++)
        if (has_experts(m, i) != (i % period == first))
            return error_set(err, "has experts in layers that are not every so many, layer %d", (int)i);
    gguf_config_count(out, "expert_layer_offset", first);
    gguf_config_count(out, "expert_layer_period", period);
    return true;
}

static bool write_jamba(const GgufModel *m, Buffer *out, Error *err) {
    int64_t inner, hidden = m->size[SIZE_HIDDEN];
    if (!gguf_model_size(m, "ssm.inner_size", 0, &inner, err)) return false;
    if (inner % hidden)
        return error_set(err, "has %d channels of mamba, which is no multiple of %d", (int)inner, (int)hidden);
    gguf_config_count(out, "mamba_expand", inner / hidden);
    buffer_text(out, "  \"layers_block_type\": [");
    for (int64_t i = 0; i < m->n_layers; i++)
        buffer_printf(out, "%s\"%s\"", i ? ", " : "",
                      gguf_layer_value(m, "attention.head_count_kv", i, 0) > 0 ? "attention" : "mamba");
    buffer_text(out, "],\n");
    return write_experts(m, out, err);
}

/* The offset and period of attention say less than layers_block_type; mlx-lm wants to see them. */
const Architecture gguf_jamba = {
    .name = "jamba",
    .model_type = "jamba",
    .class_name = "JambaForCausalLM",
    .rules = {rules, mamba_rules, gguf_rules_attention},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n  \"mamba_proj_bias\": false,\n  \"mamba_conv_bias\": true,\n"
                 "  \"attn_layer_offset\": 4,\n  \"attn_layer_period\": 8,\n",
    .mixed = true,
    .own_rope = true,
    .write = write_jamba,
};
