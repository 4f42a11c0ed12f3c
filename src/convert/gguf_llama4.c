/* Llama 4. That layers see chunks of 8192 positions, that every fourth is not rotated and sharpens its queries, and
 * that all but the model of 128 experts norm the heads is not in the file: it is as llama.cpp has it. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.ffn_gate", "model.layers.*.feed_forward.gate_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.feed_forward.up_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.feed_forward.down_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {"blk.*.ffn_gate_inp", "model.layers.*.feed_forward.router", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate_exps", "model.layers.*.feed_forward.experts.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_up_exps", "model.layers.*.feed_forward.experts.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_STACKED,
     0},
    {"blk.*.ffn_down_exps", "model.layers.*.feed_forward.experts.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0,
     RULE_STACKED, 0},
    {"blk.*.ffn_gate_shexp", "model.layers.*.feed_forward.shared_expert.gate_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, 0,
     0},
    {"blk.*.ffn_up_shexp", "model.layers.*.feed_forward.shared_expert.up_proj", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "model.layers.*.feed_forward.shared_expert.down_proj", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0, 0,
     0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"expert_count", "num_local_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                     {"feed_forward_length", "intermediate_size_mlp", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                     {"interleave_moe_layer_step", "interleave_moe_layer_step", FIELD_SIZE, true},
                                     {0}};

/* Experts are as wide as config.json's intermediate_size, dense layers have a key of their own. */
static bool read_llama4(GgufModel *m, Error *err) {
    (void)err;
    m->size[SIZE_FFN] = m->size[SIZE_EXPERT_FFN];
    return true;
}

static bool write_llama4(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    buffer_printf(out, "  \"use_qk_norm\": %s,\n", m->size[SIZE_EXPERTS] == 128 ? "false" : "true");
    return true;
}

const Architecture gguf_llama4 = {
    .name = "llama4",
    .model_type = "llama4_text",
    .class_name = "Llama4ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, rules},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias"},
    .constants = "  \"hidden_act\": \"silu\",\n  \"attention_chunk_size\": 8192,\n  \"no_rope_layer_interval\": 4,\n"
                 "  \"attn_temperature_tuning\": true,\n  \"floor_scale\": 8192,\n  \"attn_scale\": 0.1,\n",
    .mixed = true,
    .read = read_llama4,
    .write = write_llama4,
};
