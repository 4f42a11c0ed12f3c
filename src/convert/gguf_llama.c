/* The llama architecture in GGUF: its keys and its tensors. Also everything that converters wrote as "llama" (Mistral,
 * SmolLM, Yi, DeepSeek LLM): one graph, one naming. Rows of q and k are interleaved by the converter for ggml's
 * rotation of neighbouring pairs; checkpoints rotate halves. */
#include "convert/gguf_llama.h"

#define N(a) ((int)(sizeof(a) / sizeof *(a)))

static const TensorRule rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, ROWS_AS_IS, false, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, ROWS_AS_IS, true, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, ROWS_AS_IS, false, 0},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, ROWS_AS_IS, false, 0},
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, ROWS_AS_IS, false, 0},
    {"blk.*.attn_q", "model.layers.*.self_attn.q_proj", SIZE_QUERY, SIZE_HIDDEN, ROWS_OF_QUERY, false,
     BIASES_ATTENTION},
    {"blk.*.attn_k", "model.layers.*.self_attn.k_proj", SIZE_KEY, SIZE_HIDDEN, ROWS_OF_KEY, false, BIASES_ATTENTION},
    {"blk.*.attn_v", "model.layers.*.self_attn.v_proj", SIZE_KEY, SIZE_HIDDEN, ROWS_AS_IS, false, BIASES_ATTENTION},
    {"blk.*.attn_output", "model.layers.*.self_attn.o_proj", SIZE_HIDDEN, SIZE_QUERY, ROWS_AS_IS, false,
     BIASES_ATTENTION},
    {"blk.*.ffn_gate", "model.layers.*.mlp.gate_proj", SIZE_FFN, SIZE_HIDDEN, ROWS_AS_IS, false, BIASES_MLP},
    {"blk.*.ffn_up", "model.layers.*.mlp.up_proj", SIZE_FFN, SIZE_HIDDEN, ROWS_AS_IS, false, BIASES_MLP},
    {"blk.*.ffn_down", "model.layers.*.mlp.down_proj", SIZE_HIDDEN, SIZE_FFN, ROWS_AS_IS, false, BIASES_MLP},
};

static const char *const known_keys[] = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.layer_norm_rms_epsilon",
    "attention.key_length",
    "attention.value_length",
    "attention.causal",
    "expert_count",
    "expert_used_count",
    "tensor_data_layout", /* where the converter got the rows from; they are the same in the file */
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    NULL,
};

const Architecture gguf_llama = {"llama", "llama", "LlamaForCausalLM", true, rules, N(rules), known_keys};
