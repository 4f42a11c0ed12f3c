/* BitNet as converters know it, the first one (b1.58-3B): llama with a norm before each output projection. Its gate is
 * silu; the later model, of squared relus, is in files of another program (bitnet.cpp). */
#include "convert/gguf_architecture.h"

#include <stddef.h>

static const TensorRule rules[] = {
    {"blk.*.attn_sub_norm", "model.layers.*.self_attn.attn_sub_norm", SIZE_QUERY, SIZE_NONE, 0, 0, 0},
    {"blk.*.ffn_sub_norm", "model.layers.*.mlp.ffn_sub_norm", SIZE_FFN, SIZE_NONE, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const Architecture gguf_bitnet = {
    .name = "bitnet",
    .model_type = "bitnet",
    .class_name = "BitNetForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, gguf_rules_attention, gguf_rules_mlp, rules},
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_act\": \"silu\",\n",
};
