/* gpt-oss: a sink per head, biases everywhere, experts in MXFP4 with gate and up apart. The range of yarn is not
 * rounded to whole dims in the published model, which the file does not say. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_sinks.weight", "model.layers.*.self_attn.sinks", SIZE_ANY, SIZE_NONE, 0, RULE_WHOLE, 0},
    {"blk.*.ffn_gate_inp", "model.layers.*.mlp.router", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_gate_exps", "model.layers.*.mlp.experts.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_STACKED,
     BIASES_MLP},
    {"blk.*.ffn_up_exps", "model.layers.*.mlp.experts.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_STACKED,
     BIASES_MLP},
    {"blk.*.ffn_down_exps", "model.layers.*.mlp.experts.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0, RULE_STACKED,
     BIASES_MLP},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"attention.sliding_window", "sliding_window", FIELD_SIZE, true},
                                     {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                     {"expert_count", "num_local_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", "intermediate_size", FIELD_SIZE, true},
                                     {0}};

/* What feed_forward_length says is the experts' width again. */
static bool read_gpt_oss(GgufModel *m, Error *err) {
    (void)err;
    m->size[SIZE_FFN] = 0;
    return true;
}

static bool write_gpt_oss(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    gguf_config_layer_types(m, "attention.sliding_window_pattern", 2, "sliding_attention", "full_attention", out);
    return true;
}

const Architecture gguf_gpt_oss = {
    .name = "gpt-oss",
    .model_type = "gpt_oss",
    .class_name = "GptOssForCausalLM",
    .rules = {gguf_rules_model, rules, gguf_rules_attention},
    .fields = fields,
    .constants = "  \"attention_bias\": true,\n",
    .yarn_exact = true,
    .read = read_gpt_oss,
    .write = write_gpt_oss,
};
