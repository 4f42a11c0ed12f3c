/* BERT and RoBERTa (arXiv:1810.04805, 1907.11692), and XLM-RoBERTa, which is the latter with another vocabulary: the
 * encoders behind most embedding models. Learned positions and the embedding of token type 0 are added to the word's
 * and normed; each half of a layer is added and then normed. RoBERTa counts positions from the padding id + 1 on. The
 * reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"bert", "roberta", "xlm-roberta", "camembert", NULL};

static const char *const irrelevant_keys[] = {"attention_probs_dropout_prob",
                                              "hidden_dropout_prob",
                                              "classifier_dropout",
                                              "gradient_checkpointing", /* of training */
                                              "cls_token_id",
                                              "mask_token_id",
                                              "directionality",
                                              "pooler_fc_size",
                                              "pooler_num_attention_heads",
                                              "pooler_num_fc_layers",
                                              "pooler_size_per_head",
                                              "pooler_type", /* of a head that is not used */
                                              "output_past",
                                              NULL};

static const char *const skipped_tensors[] = {"*pooler.dense.*", "*position_ids", /* 0, 1, 2 ... */
                                              "cls.*", "lm_head.*", NULL};

static const NameRoot roots[] = {{"bert.", ""}, {"roberta.", ""}, {"", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.both_ways = true;
    a.rope = NO_ROPE;
    a.q.name = "model.encoder.layer.*.attention.self.query";
    a.k.name = "model.encoder.layer.*.attention.self.key";
    a.v.name = "model.encoder.layer.*.attention.self.value";
    a.o.name = "model.encoder.layer.*.attention.output.dense";
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "intermediate_size", 3072));
    m.gate = (LinearSpec){0};
    m.up.name = "model.encoder.layer.*.intermediate.dense";
    m.down.name = "model.encoder.layer.*.output.dense";
    return m;
}

/* Old files call the weight of a norm gamma and its bias beta. */
static LayerSpec read_layer(const AttentionSpec *a, const MlpSpec *m, float eps) {
    LayerSpec layer = {.mixer = &mixer_attention, .attention = *a, .ffn = &ffn_mlp, .mlp = *m};
    layer.mid_norm = standard_layer_norm("model.encoder.layer.*.attention.output.LayerNorm.weight|"
                                         "model.encoder.layer.*.attention.output.LayerNorm.gamma",
                                         "model.encoder.layer.*.attention.output.LayerNorm.bias|"
                                         "model.encoder.layer.*.attention.output.LayerNorm.beta",
                                         eps);
    layer.output_norm = standard_layer_norm(
        "model.encoder.layer.*.output.LayerNorm.weight|model.encoder.layer.*.output.LayerNorm.gamma",
        "model.encoder.layer.*.output.LayerNorm.bias|model.encoder.layer.*.output.LayerNorm.beta", eps);
    return layer;
}

/* The embeddings: words, positions, types. */
static void read_embeddings(const Config *c, bool roberta, Blueprint *b) {
    b->embedding.name = "model.embeddings.word_embeddings";
    b->positions.name = "model.embeddings.position_embeddings";
    b->n_positions = b->max_context;
    b->token_types.name = "model.embeddings.token_type_embeddings";
    b->n_token_types = config_size_or(c, "type_vocab_size", 2);
    b->embedding_norm =
        standard_layer_norm("model.embeddings.LayerNorm.weight|model.embeddings.LayerNorm.gamma",
                            "model.embeddings.LayerNorm.bias|model.embeddings.LayerNorm.beta", b->final_norm.eps);
    b->position_offset = roberta ? config_count_or(c, "pad_token_id", 1) + 1 : 0;
    if (b->max_context <= b->position_offset)
        config_fail(c, "\"max_position_embeddings\" is %d, of which %d are none", b->max_context, b->position_offset);
    b->max_context -= b->position_offset;
    if (strcmp(config_string_or(c, "position_embedding_type", "absolute"), "absolute") != 0)
        config_fail(c, "\"position_embedding_type\" is not \"absolute\": no other is known here");
}

/* A sequence classifier reads [CLS]. BERT's first matrix is the encoder's pooler, RoBERTa's is the head's own. */
static void read_classifier(bool roberta, Blueprint *b) {
    b->classifier = (ClassifierSpec){.pool = CLASSIFIER_FIRST, .act = ACT_TANH};
    b->classifier.dense = (LinearSpec){.name = roberta ? "classifier.dense" : "model.pooler.dense", .bias = true};
    b->classifier.score = (LinearSpec){.name = roberta ? "classifier.out_proj" : "classifier", .bias = true};
}

static bool bert_blueprint(const Config *c, Blueprint *b) {
    bool roberta = strcmp(config_string_or(c, "model_type", ""), "bert") != 0;
    const StandardDefaults defaults = {
        .norm_eps = 1e-12, .max_position = 512, .act = "gelu", .attention_bias = true, .mlp_bias = true};
    standard_model(c, &defaults, b);
    read_embeddings(c, roberta, b);
    read_classifier(roberta, b);
    b->encoder = true;
    b->head.name = NULL;
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 0)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = read_layer(&attention, &mlp, b->final_norm.eps);
    b->final_norm = (NormSpec){.kind = NORM_NONE};
    return config_ok(c);
}

const Family family_bert = {"bert", model_types, irrelevant_keys, skipped_tensors, bert_blueprint, roots};
