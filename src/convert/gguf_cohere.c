/* Cohere's Command models: one layer norm for attention and mlp. Command R Plus has norms of its own for every head of
 * queries and keys; Command R7B and A (cohere2) a window in three of four layers. Pairs are rotated as the checkpoint
 * has them, interleaved. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", SIZE_ANY, SIZE_HEAD, 0, RULE_OPTIONAL, 0},
    {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", SIZE_ANY, SIZE_HEAD, 0, RULE_OPTIONAL, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"logit_scale", "logit_scale", FIELD_NUMBER, true}, {0}};

static bool write_first(const GgufModel *m, Buffer *out, Error *err) {
    bool normed = gguf_find_tensor(m->file, "blk.0.attn_q_norm.weight") != NULL;
    (void)err;
    buffer_printf(out, "  \"use_qk_norm\": %s,\n", normed ? "true" : "false");
    return true;
}

const Architecture gguf_command_r = {
    .name = "command-r",
    .model_type = "cohere",
    .class_name = "CohereForCausalLM",
    .rules = {gguf_rules_model, rules, gguf_rules_attention, gguf_rules_mlp},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .eps_name = "layer_norm_eps",
    .write = write_first,
};

static const TensorRule second_rules[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField second_fields[] = {{"logit_scale", "logit_scale", FIELD_NUMBER, true},
                                            {"attention.sliding_window", "sliding_window", FIELD_SIZE, true},
                                            {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                            {0}};

static bool write_second(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    gguf_config_layer_types(m, "attention.sliding_window_pattern", 4, "sliding_attention", "full_attention", out);
    return true;
}

const Architecture gguf_cohere2 = {
    .name = "cohere2",
    .model_type = "cohere2",
    .class_name = "Cohere2ForCausalLM",
    .rules = {gguf_rules_model, second_rules, gguf_rules_attention, gguf_rules_mlp},
    .fields = second_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .eps_name = "layer_norm_eps",
    .write = write_second,
};
