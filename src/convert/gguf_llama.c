/* The llama architecture and those that only add to it. "llama" is also what converters call Mistral, SmolLM, Yi and
 * DeepSeek LLM, one graph and one naming, and Mixtral, whose old files have a tensor per expert. Rows of q and k are
 * interleaved by the converter for ggml's rotation of neighbouring pairs; checkpoints rotate halves. */
#include "convert/gguf_model.h"

#define SILU "  \"hidden_act\": \"silu\",\n"

const Architecture gguf_llama = {
    .name = "llama",
    .model_type = "llama",
    .class_name = "LlamaForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias"},
    .constants = SILU,
    .permuted = true,
};

/* ---- Mixtral ---- */

static bool has_experts(const GgufModel *m) {
    uint64_t n;
    return gguf_uint(gguf_model_find(m, "expert_count"), &n) && n > 0;
}

static const TensorRule mixtral_rules[] = {
    {"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.gate", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate.#", "model.layers.*.block_sparse_moe.experts.#.w1", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_OPTIONAL,
     0},
    {"blk.*.ffn_down.#", "model.layers.*.block_sparse_moe.experts.#.w2", SIZE_HIDDEN, SIZE_EXPERT_FFN, 0, RULE_OPTIONAL,
     0},
    {"blk.*.ffn_up.#", "model.layers.*.block_sparse_moe.experts.#.w3", SIZE_EXPERT_FFN, SIZE_HIDDEN, 0, RULE_OPTIONAL,
     0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField mixtral_fields[] = {{"expert_count", "num_local_experts", FIELD_SIZE, true},
                                             {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                             {0}};

const Architecture gguf_mixtral = {
    .name = "llama",
    .model_type = "mixtral",
    .class_name = "MixtralForCausalLM",
    .fits = has_experts,
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, mixtral_rules, gguf_rules_block_experts},
    .fields = mixtral_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias"},
    .constants = SILU,
    .permuted = true,
};

/* ---- Granite ---- */

static const ConfigField granite_fields[] = {{"attention.scale", "attention_multiplier", FIELD_NUMBER, true},
                                             {"embedding_scale", "embedding_multiplier", FIELD_NUMBER, false},
                                             {"residual_scale", "residual_multiplier", FIELD_NUMBER, false},
                                             {"logit_scale", "logits_scaling", FIELD_NUMBER, true},
                                             {0}};

const Architecture gguf_granite = {
    .name = "granite",
    .model_type = "granite",
    .class_name = "GraniteForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = granite_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias"},
    .constants = SILU,
    .permuted = true,
};

static const TensorRule granite_moe_rules[] = {
    {"blk.*.ffn_gate_inp", "model.layers.*.block_sparse_moe.router.layer", SIZE_EXPERTS, SIZE_HIDDEN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField granite_moe_fields[] = {{"attention.scale", "attention_multiplier", FIELD_NUMBER, true},
                                                 {"embedding_scale", "embedding_multiplier", FIELD_NUMBER, false},
                                                 {"residual_scale", "residual_multiplier", FIELD_NUMBER, false},
                                                 {"logit_scale", "logits_scaling", FIELD_NUMBER, true},
                                                 {"expert_count", "num_local_experts", FIELD_SIZE, true},
                                                 {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                                 {0}};

const Architecture gguf_granite_moe = {
    .name = "granitemoe",
    .model_type = "granitemoe",
    .class_name = "GraniteMoeForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, granite_moe_rules, gguf_rules_block_experts},
    .fields = granite_moe_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = SILU,
    .permuted = true,
};
