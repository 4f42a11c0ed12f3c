/* Qwen 2 and 3, dense and mixtures. Qwen 2 has biases on q, k and v, Qwen 3 norms on the heads of q and k instead. What
 * a mixture does with the weights of the chosen experts is not in the file: Qwen 2 leaves them as they are, Qwen 3
 * makes their sum 1, as llama.cpp has it. */
#include "convert/gguf_architecture.h"

#include <stddef.h>

#define SILU "  \"hidden_act\": \"silu\",\n"

const Architecture gguf_qwen2 = {
    .name = "qwen2",
    .model_type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_qkv_biases, gguf_rules_mlp},
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = SILU,
};

/* The text models of the VL families: the three counts of positions are one for text, and what images add to the first
 * layers is nothing. */
static const ConfigField vl_fields[] = {
    {"rope.dimension_sections", NULL, FIELD_KNOWN, false}, {"n_deepstack_layers", NULL, FIELD_KNOWN, false}, {0}};

const Architecture gguf_qwen2_vl = {
    .name = "qwen2vl",
    .model_type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_qkv_biases, gguf_rules_mlp},
    .fields = vl_fields,
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = SILU,
};

#define QWEN3                                                                                                   \
    .class_name = "Qwen3ForCausalLM", .model_type = "qwen3",                                                    \
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_head_norms, gguf_rules_mlp}, \
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""}, .constants = SILU

const Architecture gguf_qwen3 = {.name = "qwen3", QWEN3};

const Architecture gguf_qwen3_vl = {.name = "qwen3vl", QWEN3, .fields = vl_fields};

/* ---- mixtures ---- */

static const ConfigField qwen2_moe_fields[] = {
    {"expert_count", "num_experts", FIELD_SIZE, true},
    {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
    {"expert_feed_forward_length", NULL, FIELD_KNOWN, false},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", FIELD_SIZE, true},
    {0}};

const Architecture gguf_qwen2_moe = {
    .name = "qwen2moe",
    .model_type = "qwen2_moe",
    .class_name = "Qwen2MoeForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_qkv_biases, gguf_rules_experts, gguf_rules_shared_expert},
    .fields = qwen2_moe_fields,
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = SILU "  \"norm_topk_prob\": false,\n",
    .expert_width = "moe_intermediate_size",
};

static const ConfigField qwen3_moe_fields[] = {{"expert_count", "num_experts", FIELD_SIZE, true},
                                               {"expert_used_count", "num_experts_per_tok", FIELD_SIZE, true},
                                               {"expert_feed_forward_length", NULL, FIELD_KNOWN, false},
                                               {"rope.dimension_sections", NULL, FIELD_KNOWN, false}, /* of VL */
                                               {"n_deepstack_layers", NULL, FIELD_KNOWN, false},
                                               {0}};

#define QWEN3_MOE                                                                                                   \
    .class_name = "Qwen3MoeForCausalLM", .model_type = "qwen3_moe",                                                 \
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_head_norms, gguf_rules_experts}, \
    .fields = qwen3_moe_fields, .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},            \
    .constants = SILU "  \"norm_topk_prob\": true,\n  \"decoder_sparse_step\": 1,\n  \"mlp_only_layers\": [],\n",   \
    .expert_width = "moe_intermediate_size"

const Architecture gguf_qwen3_moe = {.name = "qwen3moe", QWEN3_MOE};

const Architecture gguf_qwen3_vl_moe = {.name = "qwen3vlmoe", QWEN3_MOE};
