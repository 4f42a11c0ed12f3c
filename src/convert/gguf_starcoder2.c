/* StarCoder 2: layer norms and biases everywhere, an mlp without a gate. The window that some of its files have is not
 * in GGUF. */
#include "convert/gguf_architecture.h"

#include <stddef.h>

static const TensorRule rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.ffn_up", "model.layers.*.mlp.c_fc", SIZE_FFN, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_down", "model.layers.*.mlp.c_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, BIASES_MLP},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const Architecture gguf_starcoder2 = {
    .name = "starcoder2",
    .model_type = "starcoder2",
    .class_name = "Starcoder2ForCausalLM",
    .rules = {rules, gguf_rules_attention},
    .constants = "  \"hidden_act\": \"gelu_pytorch_tanh\",\n  \"use_bias\": true,\n",
    .eps_name = "norm_epsilon",
};
