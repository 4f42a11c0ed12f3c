/* StableLM: layer norms with biases, part of each head rotated, biases on q, k and v or not. The 12B model's norms of
 * every head, one tensor there, are refused by name. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_OPTIONAL,
     BIASES_OTHER},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"use_parallel_residual", "use_parallel_residual", FIELD_BOOL, false}, {0}};

const Architecture gguf_stablelm = {
    .name = "stablelm",
    .model_type = "stablelm",
    .class_name = "StableLmForCausalLM",
    .rules = {rules, gguf_rules_qkv_biases, gguf_rules_mlp},
    .fields = fields,
    .bias_keys = {[BIASES_ATTENTION] = "use_qkv_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .eps_name = "layer_norm_eps",
    .partial = true,
};
