/* ModernBERT (arXiv:2412.13663): an encoder with norms before each half (but before the first layer's attention, since
 * the embedding is normed), a gated mlp, and two kinds of layers: those that see half a window to either side and those
 * that see all, with a rotary table each. The reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"modernbert", NULL};

static const char *const irrelevant_keys[] = {"embedding_dropout",
                                              "mlp_dropout",
                                              "initializer_cutoff_factor",
                                              "gradient_checkpointing",
                                              "layer_norm_eps", /* norm_eps counts */
                                              "classifier_activation",
                                              "classifier_bias",
                                              "classifier_dropout",
                                              "classifier_pooling",
                                              "decoder_bias",
                                              "sparse_pred_ignore_index",
                                              "sparse_prediction",
                                              "tie_word_embeddings", /* of heads that are not used */
                                              "cls_token_id",
                                              "mask_token_id",
                                              "deterministic_flash_attn",
                                              "reference_compile",
                                              "repad_logits_with_grad",
                                              "position_embedding_type", /* all are rotary */
                                              NULL};

static const char *const skipped_tensors[] = {"head.*", "decoder.*", "*rotary_emb.inv_freq", NULL};

static const NameRoot roots[] = {{"model.", ""}, {"", ""}, {NULL, NULL}};

static NormSpec read_norm(const char *weight, const char *bias, bool has_bias, float eps) {
    return standard_layer_norm(weight, has_bias ? bias : NULL, eps);
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.both_ways = true;
    standard_fuse_qkv(&a, "model.layers.*.attn.Wqkv");
    a.o.name = "model.layers.*.attn.Wo";
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "intermediate_size", 1152));
    standard_fuse_gate_up(&m, "model.layers.*.mlp.Wi");
    m.down.name = "model.layers.*.mlp.Wo";
    return m;
}

/* local_attention counts both sides: a row sees as far as half of it. */
static bool read_layers(const Config *c, const AttentionSpec *a, const MlpSpec *m, bool bias, float eps, Blueprint *b) {
    int every = config_size_or(c, "global_attn_every_n_layers", 3), window = config_size_or(c, "local_attention", 128);
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, i % every ? LAYER_SLIDING : LAYER_FULL);
        *layer = (LayerSpec){.mixer = &mixer_attention, .attention = *a, .ffn = &ffn_mlp, .mlp = *m};
        if (i > 0)
            layer->mixer_norm =
                read_norm("model.layers.*.attn_norm.weight", "model.layers.*.attn_norm.bias", bias, eps);
        layer->ffn_norm = read_norm("model.layers.*.mlp_norm.weight", "model.layers.*.mlp_norm.bias", bias, eps);
        layer->attention.rope = kind == LAYER_SLIDING;
        if (!standard_set_window(c, b, i, kind, window / 2 + 1)) return false;
    }
    return true;
}

/* The keys of a sequence classifier's head, which an encoder without one may have as well. */
static void read_classifier(const Config *c, bool norm_bias, float eps, Blueprint *b) {
    if (standard_labels(c) == 0) return;
    const char *pool = config_string_or(c, "classifier_pooling", "cls");
    bool mean = strcmp(pool, "mean") == 0;
    if (!mean && strcmp(pool, "cls") != 0)
        config_fail(c, "\"classifier_pooling\" is \"%.40s\", expected \"cls\" or \"mean\"", pool);
    b->classifier.pool = mean ? CLASSIFIER_MEAN : CLASSIFIER_FIRST;
    b->classifier.dense = (LinearSpec){.name = "head.dense", .bias = config_bool_or(c, "classifier_bias", false)};
    b->classifier.act = standard_activation(c, "classifier_activation", "gelu");
    b->classifier.norm = read_norm("head.norm.weight", "head.norm.bias", norm_bias, eps);
    b->classifier.score = (LinearSpec){.name = "classifier", .bias = true};
}

static bool modernbert_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 8192, .act = "gelu"};
    bool bias = config_bool_or(c, "norm_bias", false);
    float eps = (float)config_number_or(c, "norm_eps", 1e-5);
    standard_model(c, &defaults, b);
    b->encoder = true;
    b->head.name = NULL;
    read_classifier(c, bias, eps, b);
    b->embedding.name = "model.embeddings.tok_embeddings";
    b->embedding_norm = read_norm("model.embeddings.norm.weight", "model.embeddings.norm.bias", bias, eps);
    b->final_norm = read_norm("model.final_norm.weight", "model.final_norm.bias", bias, eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 2)) return false;
    double global = config_number_or(c, "global_rope_theta", 160000),
           local = config_number_or(c, "local_rope_theta", 10000);
    return read_layers(c, &attention, &mlp, bias, eps, b) &&
           standard_kind_ropes(c, b, attention.head_dim, global, local) && config_ok(c);
}

const Family family_modernbert = {"modernbert",    model_types,          irrelevant_keys,
                                  skipped_tensors, modernbert_blueprint, roots};
