/* The llama architecture and those that only add to it. "llama" is also what converters call Mistral, SmolLM, Yi and
 * DeepSeek LLM, one graph and one naming, and Mixtral, whose old files have a tensor per expert. Rows of q and k are
 * interleaved by the converter for ggml's rotation of neighbouring pairs; checkpoints rotate halves. */
#include "convert/gguf_config.h"
#include "convert/gguf_rope.h"

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

/* InternLM 2: converters part its fused matrix, so that llama by other names is llama. */
const Architecture gguf_internlm2 = {
    .name = "internlm2",
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

/* "finetuned" says for Granite whether layers rotate. */
static bool check_rotates(GgufModel *m, Error *err) {
    return gguf_layer_value(m, "rope.scaling.finetuned", 0, 1) != 0 ||
           error_set(err, "has no rotary positions (%s.rope.scaling.finetuned), which can not be imported yet",
                     m->arch->name);
}

const Architecture gguf_granite = {
    .name = "granite",
    .model_type = "granite",
    .class_name = "GraniteForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = granite_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias"},
    .constants = SILU,
    .permuted = true,
    .read = check_rotates,
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
    .read = check_rotates,
};

/* ---- SmolLM3 ---- */

/* Every fourth layer has no rotary positions, which the file does not say. */
const Architecture gguf_smollm3 = {
    .name = "smollm3",
    .model_type = "smollm3",
    .class_name = "SmolLM3ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias"},
    .constants = SILU "  \"no_rope_layer_interval\": 4,\n",
    .permuted = true,
};

/* ---- Mistral 3 ---- */

static const ConfigField mistral3_fields[] = {{"attention.temperature_scale", NULL, FIELD_KNOWN, false}, {0}};

static bool has_temperature(const GgufModel *m) {
    return gguf_layer_value(m, "attention.temperature_scale", 0, 0) != 0;
}

/* Ministral 3: queries grow with their position, in steps of the original context. */
static bool write_ministral(const GgufModel *m, Buffer *out, Error *err) {
    double beta;
    if (!gguf_model_number(m, "attention.temperature_scale", 0, &beta, err)) return false;
    buffer_text(out, "  \"rope_parameters\": {\"rope_theta\": ");
    gguf_number_repr(m->rope_theta, out);
    buffer_text(out, ", \"llama_4_scaling_beta\": ");
    gguf_number_repr(beta, out);
    buffer_text(out, ", ");
    gguf_rope_members(m, out);
    buffer_text(out, "},\n");
    return true;
}

static bool read_ministral(GgufModel *m, Error *err) {
    if (!gguf_rope_read(m, err)) return false;
    return m->rope == ROPE_YARN || error_set(err, "has queries that grow with their position, but no yarn");
}

const Architecture gguf_ministral3 = {
    .name = "mistral3",
    .model_type = "ministral3",
    .class_name = "Ministral3ForCausalLM",
    .fits = has_temperature,
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = mistral3_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = SILU,
    .permuted = true,
    .own_rope = true,
    .mscale = 1,
    .read = read_ministral,
    .write = write_ministral,
};

const Architecture gguf_mistral3 = {
    .name = "mistral3",
    .model_type = "mistral",
    .class_name = "MistralForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = mistral3_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = SILU "  \"sliding_window\": null,\n",
    .permuted = true,
};

/* ---- Seed-OSS ---- */

static const TensorRule seed_norms[] = {
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* Biases on q, k and v alone, as in Qwen 2. */
const Architecture gguf_seed_oss = {
    .name = "seed_oss",
    .model_type = "seed_oss",
    .class_name = "SeedOssForCausalLM",
    .rules = {gguf_rules_model, seed_norms, gguf_rules_qkv_biases, gguf_rules_mlp},
    .bias_keys = {[BIASES_MLP] = ""},
    .constants = SILU "  \"attention_bias\": true,\n  \"attention_out_bias\": false,\n",
};
