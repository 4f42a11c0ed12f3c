/* OLMo 2 and 3, and OLMoE, which has their norms of queries and keys: a norm after each half of a layer, and norms over
 * all queries and all keys. A window makes it OLMo 3, whose rotary scaling is for full layers alone. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField third_fields[] = {{"attention.sliding_window", "sliding_window", FIELD_SIZE, true},
                                           {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                           {"rope.freq_base_swa", NULL, FIELD_KNOWN, false},
                                           {0}};

static bool has_window(const GgufModel *m) {
    return gguf_layer_value(m, "attention.sliding_window", 0, 0) > 0;
}

static bool write_third(const GgufModel *m, Buffer *out, Error *err) {
    double local;
    if (!gguf_model_number(m, "rope.freq_base_swa", m->rope_theta, &local, err)) return false;
    if (local != m->rope_theta) return error_set(err, "rotates sliding layers by another base, which OLMo 3 does not");
    gguf_config_layer_types(m, "attention.sliding_window_pattern", 4, "sliding_attention", "full_attention", out);
    return true;
}

const Architecture gguf_olmo3 = {
    .name = "olmo2",
    .model_type = "olmo3",
    .class_name = "Olmo3ForCausalLM",
    .fits = has_window,
    .rules = {gguf_rules_model, rules, gguf_rules_whole_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = third_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .write = write_third,
};

const Architecture gguf_olmo2 = {
    .name = "olmo2",
    .model_type = "olmo2",
    .class_name = "Olmo2ForCausalLM",
    .rules = {gguf_rules_model, rules, gguf_rules_whole_norms, gguf_rules_attention, gguf_rules_mlp},
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
};

/* ---- OLMoE ---- */

static const ConfigField moe_fields[] = {{"expert_count", "num_experts", FIELD_SIZE, true},
                                         {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                         {0}};

const Architecture gguf_olmoe = {
    .name = "olmoe",
    .model_type = "olmoe",
    .class_name = "OlmoeForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_whole_norms, gguf_rules_attention, gguf_rules_experts},
    .fields = moe_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias"},
    .constants = "  \"hidden_act\": \"silu\",\n  \"norm_topk_prob\": false,\n",
};
