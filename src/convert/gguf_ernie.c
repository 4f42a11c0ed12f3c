/* ERNIE 4.5, dense and mixtures: a softmax over all experts, with a correction that counts for the choice alone. */
#include "convert/gguf_config.h"

#define COMMON                                                 \
    .bias_keys = {[BIASES_ATTENTION] = "", [BIASES_MLP] = ""}, \
    .constants = "  \"hidden_act\": \"silu\",\n  \"use_bias\": false,\n"

const Architecture gguf_ernie4_5 = {
    .name = "ernie4_5",
    .model_type = "ernie4_5",
    .class_name = "Ernie4_5ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    COMMON,
};

/* Some converters write a wrong expert_shared_feed_forward_length: the loader compares the tensors with the count. */
static const TensorRule rules[] = {
    {"blk.*.exp_probs_b.bias", "model.layers.*.mlp.moe_statics.e_score_correction_bias", SIZE_EXPERTS, SIZE_NONE, 0,
     RULE_WHOLE, 0},
    {"blk.*.ffn_gate_shexp", "model.layers.*.mlp.shared_experts.gate_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_up_shexp", "model.layers.*.mlp.shared_experts.up_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down_shexp", "model.layers.*.mlp.shared_experts.down_proj", SIZE_HIDDEN, SIZE_ANY, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"expert_count", "moe_num_experts", FIELD_SIZE, true},
                                     {"expert_used_count", "moe_k", FIELD_SIZE, true},
                                     {"expert_feed_forward_length", NULL, FIELD_KNOWN, true},
                                     {"expert_shared_count", "moe_num_shared_experts", FIELD_COUNT, false},
                                     {"expert_shared_feed_forward_length", NULL, FIELD_KNOWN, false},
                                     {"interleave_moe_layer_step", "moe_layer_interval", FIELD_SIZE, true},
                                     {"leading_dense_block_count", "moe_layer_start_index", FIELD_COUNT, true},
                                     {0}};

/* Absent means none there, and two to the family. */
static bool write_moe(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    if (!gguf_model_find(m, "expert_shared_count")) gguf_config_count(out, "moe_num_shared_experts", 0);
    return true;
}

const Architecture gguf_ernie4_5_moe = {
    .name = "ernie4_5-moe",
    .model_type = "ernie4_5_moe",
    .class_name = "Ernie4_5_MoeForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp, gguf_rules_experts, rules},
    .fields = fields,
    .expert_width = "moe_intermediate_size",
    .mixed = true,
    .write = write_moe,
    COMMON,
};
