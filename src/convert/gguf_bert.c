/* BERT and the encoders that converters call so: RoBERTa and XLM-RoBERTa, whose positions the converter shifts to begin
 * at 0, so that they are BERT by another vocabulary. Every projection and norm has a bias; there is no output head.
 * Nomic's BERT and ModernBERT have rotary positions, and fewer biases. */
#include "base/json.h"
#include "convert/gguf_config.h"
#include "convert/gguf_rope.h"

/* ---- BERT ---- */

static const TensorRule rules[] = {
    {"token_embd", "embeddings.word_embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"position_embd", "embeddings.position_embeddings", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"token_types", "embeddings.token_type_embeddings", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"token_embd_norm", "embeddings.LayerNorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const TensorRule layer_rules[] = {
    {"blk.*.attn_q", "encoder.layer.*.attention.self.query", SIZE_QUERY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_k", "encoder.layer.*.attention.self.key", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_v", "encoder.layer.*.attention.self.value", SIZE_KEY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "encoder.layer.*.attention.output.dense", SIZE_HIDDEN, SIZE_QUERY, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output_norm", "encoder.layer.*.attention.output.LayerNorm", SIZE_HIDDEN, SIZE_NONE, 0, 0,
     BIASES_OTHER},
    {"blk.*.ffn_up", "encoder.layer.*.intermediate.dense", SIZE_FFN, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_down", "encoder.layer.*.output.dense", SIZE_HIDDEN, SIZE_FFN, 0, 0, BIASES_MLP},
    {"blk.*.layer_output_norm", "encoder.layer.*.output.LayerNorm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

/* As many positions as the table has rows. */
static bool read_bert(GgufModel *m, Error *err) {
    const GgufTensor *positions = gguf_find_tensor(m->file, "position_embd.weight");
    if (!positions) return error_set(err, "has no tensor \"position_embd.weight\"");
    m->context = positions->shape[1];
    return m->context <= 1 << 30 || error_set(err, "has too many positions");
}

static bool write_types(const GgufModel *m, Buffer *out, Error *err) {
    const GgufTensor *types = gguf_find_tensor(m->file, "token_types.weight");
    if (!types) return error_set(err, "has no tensor \"token_types.weight\"");
    gguf_config_count(out, "type_vocab_size", types->shape[1]);
    return true;
}

const Architecture gguf_bert = {
    .name = "bert",
    .model_type = "bert",
    .class_name = "BertModel",
    .rules = {rules, layer_rules},
    .constants = "  \"hidden_act\": \"gelu\",\n",
    .eps_name = "layer_norm_eps",
    .encoder = true,
    .own_rope = true,
    .read = read_bert,
    .write = write_types,
};

/* ---- Nomic's BERT ---- */

static const TensorRule nomic_rules[] = {
    {"token_embd", "embeddings.word_embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"token_types", "embeddings.token_type_embeddings", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"token_embd_norm", "emb_ln", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_qkv", "encoder.layers.*.attn.Wqkv", SIZE_ANY, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.attn_output", "encoder.layers.*.attn.out_proj", SIZE_HIDDEN, SIZE_QUERY, 0, 0, 0},
    {"blk.*.attn_output_norm", "encoder.layers.*.norm1", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.ffn_up", "encoder.layers.*.mlp.fc11", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_gate", "encoder.layers.*.mlp.fc12", SIZE_FFN, SIZE_HIDDEN, 0, 0, 0},
    {"blk.*.ffn_down", "encoder.layers.*.mlp.fc2", SIZE_HIDDEN, SIZE_FFN, 0, 0, 0},
    {"blk.*.layer_output_norm", "encoder.layers.*.norm2", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

const Architecture gguf_nomic_bert = {
    .name = "nomic-bert",
    .model_type = "nomic_bert",
    .class_name = "NomicBertModel",
    .rules = {nomic_rules},
    .constants = "  \"hidden_act\": \"silu\",\n",
    .eps_name = "layer_norm_eps",
    .encoder = true,
    .write = write_types,
};

/* ---- ModernBERT ---- */

/* The first layer has no norm before its attention. */
static const TensorRule modern_rules[] = {
    {"token_embd", "embeddings.tok_embeddings", SIZE_VOCAB, SIZE_HIDDEN, 0, 0, 0},
    {"token_embd_norm", "embeddings.norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"output_norm", "final_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_norm", "layers.*.attn_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.attn_qkv", "layers.*.attn.Wqkv", SIZE_ANY, SIZE_HIDDEN, 0, 0, BIASES_ATTENTION},
    {"blk.*.attn_output", "layers.*.attn.Wo", SIZE_HIDDEN, SIZE_QUERY, 0, 0, BIASES_ATTENTION},
    {"blk.*.ffn_norm", "layers.*.mlp_norm", SIZE_HIDDEN, SIZE_NONE, 0, 0, BIASES_OTHER},
    {"blk.*.ffn_up", "layers.*.mlp.Wi", SIZE_ANY, SIZE_HIDDEN, 0, 0, BIASES_MLP},
    {"blk.*.ffn_down", "layers.*.mlp.Wo", SIZE_HIDDEN, SIZE_FFN, 0, 0, BIASES_MLP},
    {NULL, NULL, 0, 0, 0, 0, 0},
};

static const ConfigField modern_fields[] = {{"rope.freq_base_swa", "local_rope_theta", FIELD_NUMBER, false},
                                            {"attention.sliding_window", "local_attention", FIELD_SIZE, false},
                                            {"attention.sliding_window_pattern", NULL, FIELD_KNOWN, false},
                                            {"classifier.pooling_type", NULL, FIELD_KNOWN, false},
                                            {"hidden_activation", NULL, FIELD_KNOWN, false},
                                            {0}};

static bool read_modern(GgufModel *m, Error *err) {
    return gguf_rope_read(m, err) &&
           (m->rope == ROPE_PLAIN || error_set(err, "scales its rotation, which ModernBERT does not"));
}

/* The first of every three layers sees all, if the file does not say another number or each layer. */
static bool write_modern(const GgufModel *m, Buffer *out, Error *err) {
    const GgufValue *act = gguf_model_find(m, "hidden_activation"),
                    *pattern = gguf_model_find(m, "attention.sliding_window_pattern");
    uint64_t every = gguf_layer_value(m, "attention.sliding_window", 0, 0) > 0 ? 3 : 1;
    if (act && act->kind != GGUF_STRING)
        return error_set(err, "metadata %s.hidden_activation is no name", m->arch->name);
    buffer_text(out, "  \"hidden_activation\": ");
    json_write_string(out, act ? (const char *)act->data : "gelu", act ? act->count : 4, false);
    buffer_text(out, ",\n");
    gguf_config_number(out, "global_rope_theta", m->rope_theta);
    if (pattern && pattern->kind == GGUF_ARRAY) {
        gguf_config_layer_types(m, "attention.sliding_window_pattern", 0, "sliding_attention", "full_attention", out);
        return true;
    }
    if (every > 1 && gguf_uint(pattern, &every) && (every < 1 || every > 1 << 14))
        return error_set(err, "metadata %s.attention.sliding_window_pattern is no number of layers", m->arch->name);
    gguf_config_count(out, "global_attn_every_n_layers", (int64_t)every);
    return true;
}

const Architecture gguf_modern_bert = {
    .name = "modern-bert",
    .model_type = "modernbert",
    .class_name = "ModernBertModel",
    .rules = {modern_rules},
    .fields = modern_fields,
    .bias_keys = {[BIASES_ATTENTION] = "attention_bias", [BIASES_MLP] = "mlp_bias", [BIASES_OTHER] = "norm_bias"},
    .eps_name = "norm_eps",
    .mixed = true,
    .encoder = true,
    .own_rope = true,
    .read = read_modern,
    .write = write_modern,
};
