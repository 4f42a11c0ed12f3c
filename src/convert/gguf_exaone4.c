/* EXAONE 4: a norm after each half of a layer and on every head. With a window, three of four layers have it, and the
 * others have no rotary positions. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"attention.sliding_window", NULL, FIELD_KNOWN, false},
                                     {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                     {0}};

static bool write_exaone4(const GgufModel *m, Buffer *out, Error *err) {
    double window = gguf_layer_value(m, "attention.sliding_window", 0, 0);
    (void)err;
    if (!(window >= 1 && window < 1 << 30)) {
        buffer_text(out, "  \"sliding_window\": null,\n");
        return true;
    }
    gguf_config_count(out, "sliding_window", (int64_t)window);
    gguf_config_layer_types(m, "attention.sliding_window_pattern", 4, "sliding_attention", "full_attention", out);
    return true;
}

const Architecture gguf_exaone4 = {
    .name = "exaone4",
    .model_type = "exaone4",
    .class_name = "Exaone4ForCausalLM",
    .rules = {gguf_rules_model, rules, gguf_rules_attention, gguf_rules_head_norms, gguf_rules_mlp},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .write = write_exaone4,
};
