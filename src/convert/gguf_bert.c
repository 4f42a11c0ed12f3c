/* BERT and the encoders that converters call so: RoBERTa and XLM-RoBERTa, whose positions the converter shifts to begin
 * at 0, so that they are BERT by another vocabulary. Every projection and norm has a bias; there is no output head. */
#include "convert/gguf_config.h"

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

static bool write_bert(const GgufModel *m, Buffer *out, Error *err) {
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
    .write = write_bert,
};
