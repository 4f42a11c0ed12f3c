/* Phi-2 (and 1.5): layer norms and biases everywhere; older files have q, k and v in one tensor. Phi-3, 3.5 and 4,
 * dense: q, k and v in one tensor, and gate and up in another (named ffn_up), as in the checkpoint. llama.cpp ignores
 * the window, the reference does not: it is kept. */
#include "convert/gguf_config.h"

static const TensorRule rules[] = {
    {"blk.*.attn_qkv", "model.layers.*.self_attn.qkv_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, 0},
    {"blk.*.ffn_up", "model.layers.*.mlp.gate_up_proj", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "model.layers.*.mlp.down_proj", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField fields[] = {{"attention.sliding_window", NULL, FIELD_KNOWN, false}, {0}};

/* 0 in the file: none, which Phi-4 has. The family looks for the original context beside the rope settings. */
static bool write_window(const GgufModel *m, Buffer *out, Error *err) {
    uint64_t n;
    (void)err;
    if (gguf_uint(gguf_model_find(m, "attention.sliding_window"), &n) && n > 0 && n < 1 << 30)
        gguf_config_count(out, "sliding_window", (int64_t)n);
    if (m->rope == ROPE_LONG) gguf_config_count(out, "original_max_position_embeddings", m->rope_original);
    return true;
}

const Architecture gguf_phi3 = {
    .name = "phi3",
    .model_type = "phi3",
    .class_name = "Phi3ForCausalLM",
    .rules = {gguf_rules_model, gguf_rules_norms, rules},
    .fields = fields,
    .constants = "  \"hidden_act\": \"silu\",\n",
    .partial = true,
    .write = write_window,
};

/* ---- Phi-2 ---- */

static const TensorRule second_rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, BIASES_OTHER},
    {"output_norm", "model.final_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_qkv", "model.layers.*.self_attn", SIZE_ANY, SIZE_HIDDEN, 0, RULE_QKV, BIASES_ATTENTION},
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_QUERY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "model.layers.*.self_attn.dense", SIZE_HIDDEN, SIZE_QUERY, 0, 0, BIASES_ATTENTION},
    {"blk.*.ffn_up", "model.layers.*.mlp.fc1", SIZE_FFN, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_down", "model.layers.*.mlp.fc2", SIZE_HIDDEN, SIZE_FFN, 0, 0, BIASES_MLP},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const Architecture gguf_phi2 = {
    .name = "phi2",
    .model_type = "phi",
    .class_name = "PhiForCausalLM",
    .rules = {second_rules},
    .constants = "  \"hidden_act\": \"gelu_new\",\n",
    .eps_name = "layer_norm_eps",
    .mixed = true,
    .partial = true,
};
