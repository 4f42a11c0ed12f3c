/* Gemma 1, 2 and 3, and EmbeddingGemma, which is Gemma 3 with attention both ways. The converter adds 1 to every norm,
 * which a checkpoint keeps without. Neither the scale of the scores nor (in older files) which layers have the window
 * is in the file; both follow llama.cpp: the scale is that of the head except in the two 27B models, known by their
 * depth, and the window leaves out every second or sixth layer.
 */
#include "convert/gguf_config.h"

static const TensorRule model_rules[] = {
    {"token_embd", "model.embed_tokens", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"output", "lm_head", SIZE_VOCAB, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"output_norm", "model.norm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {"blk.*.attn_norm", "model.layers.*.input_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule first_norms[] = {
    {"blk.*.ffn_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule later_norms[] = {
    {"blk.*.post_attention_norm", "model.layers.*.post_attention_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_MINUS_ONE,
     0},
    {"blk.*.ffn_norm", "model.layers.*.pre_feedforward_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {"blk.*.post_ffw_norm", "model.layers.*.post_feedforward_layernorm", SIZE_HIDDEN, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule head_norms[] = {
    {"blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm", SIZE_HEAD, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {"blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm", SIZE_HEAD, SIZE_NONE, 0, RULE_MINUS_ONE, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const Architecture gguf_gemma = {
    .name = "gemma",
    .model_type = "gemma",
    .class_name = "GemmaForCausalLM",
    .rules = {model_rules, first_norms, gguf_rules_attention, gguf_rules_mlp},
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n",
};

/* The model of 27 billion shares its head's size with the smaller ones, but not the scale of the scores. */
static bool write_layers(const GgufModel *m, int64_t deep, int period, Buffer *out) {
    bool window = gguf_layer_value(m, "attention.sliding_window", 0, period == 2 ? 4096 : 0) > 0;
    gguf_config_count(out, "query_pre_attn_scalar",
                      m->n_layers == deep ? m->size[SIZE_HIDDEN] / m->n_heads : m->head_dim);
    gguf_config_layer_types(m, window ? "attention.sliding_window_pattern" : "", window ? period : 0,
                            "sliding_attention", "full_attention", out);
    return true;
}

/* ---- Gemma 2 ---- */

static const ConfigField second_fields[] = {{"attention.sliding_window", "sliding_window", FIELD_SIZE, false},
                                            {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                            {"attn_logit_softcapping", "attn_logit_softcapping", FIELD_NUMBER, false},
                                            {"final_logit_softcapping", "final_logit_softcapping", FIELD_NUMBER, false},
                                            {0}};

static bool write_second(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    return write_layers(m, 46, 2, out);
}

const Architecture gguf_gemma2 = {
    .name = "gemma2",
    .model_type = "gemma2",
    .class_name = "Gemma2ForCausalLM",
    .rules = {model_rules, later_norms, gguf_rules_attention, gguf_rules_mlp},
    .fields = second_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n",
    .write = write_second,
};

/* ---- Gemma 3 ---- */

static const ConfigField third_fields[] = {{"attention.sliding_window", "sliding_window", FIELD_SIZE, false},
                                           {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                           {"rope.freq_base_swa", "rope_local_base_freq", FIELD_NUMBER, false},
                                           {"final_logit_softcapping", "final_logit_softcapping", FIELD_NUMBER, false},
                                           {0}};

static bool write_third(const GgufModel *m, Buffer *out, Error *err) {
    (void)err;
    return write_layers(m, 62, 6, out);
}

const Architecture gguf_gemma3 = {
    .name = "gemma3",
    .model_type = "gemma3_text",
    .class_name = "Gemma3ForCausalLM",
    .rules = {model_rules, later_norms, gguf_rules_attention, head_norms, gguf_rules_mlp},
    .fields = third_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n",
    .write = write_third,
};

/* ---- EmbeddingGemma ---- */

/* The layers after pooling: gguf_sentence.c. */
static const TensorRule dense_rules[] = {
    {"dense_2", NULL, SIZE_ANY, SIZE_HIDDEN, 0, RULE_OPTIONAL, 0},
    {"dense_3", NULL, SIZE_HIDDEN, SIZE_ANY, 0, RULE_OPTIONAL, 0},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField embedding_fields[] = {{"attention.sliding_window", "sliding_window", FIELD_SIZE, true},
                                               {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                               {"rope.freq_base_swa", "rope_local_base_freq", FIELD_NUMBER, false},
                                               {"dense_2_feat_in", NULL, FIELD_KNOWN, false},
                                               {"dense_2_feat_out", NULL, FIELD_KNOWN, false},
                                               {"dense_3_feat_in", NULL, FIELD_KNOWN, false},
                                               {"dense_3_feat_out", NULL, FIELD_KNOWN, false},
                                               {0}};

const Architecture gguf_gemma_embedding = {
    .name = "gemma-embedding",
    .model_type = "gemma3_text",
    .class_name = "Gemma3TextModel",
    .rules = {model_rules, later_norms, gguf_rules_attention, head_norms, gguf_rules_mlp, dense_rules},
    .fields = embedding_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = ""},
    .constants = "  \"hidden_activation\": \"gelu_pytorch_tanh\",\n  \"use_bidirectional_attention\": true,\n",
    .encoder = true,
    .write = write_third,
};
