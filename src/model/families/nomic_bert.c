/* Nomic's BERT (arXiv:2402.01613): BERT with rotary positions, a gated mlp and no biases but the norms'. Its first
 * files spell config.json as GPT-2 does. The reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"nomic_bert", NULL};

static const char *const irrelevant_keys[] = {"attention_probs_dropout_prob",
                                              "hidden_dropout_prob",
                                              "classifier_dropout",
                                              "attn_pdrop",
                                              "embd_pdrop",
                                              "resid_pdrop", /* of training */
                                              "summary_activation",
                                              "summary_first_dropout",
                                              "summary_proj_to_labels",
                                              "summary_type",
                                              "summary_use_proj",
                                              "dense_seq_output",
                                              "fused_bias_fc",
                                              "fused_dropout_add_ln",
                                              "use_flash_attn",
                                              "use_rms_norm",
                                              "use_xentropy",
                                              "last_layer_subset",
                                              "pad_vocab_size_multiple",
                                              "max_trained_positions",
                                              "parallel_block_tied_norm",
                                              "reorder_and_upcast_attn",
                                              "scale_attn_by_inverse_layer_idx", /* false in all */
                                              NULL};

static const char *const skipped_tensors[] = {"*pooler.dense.*", "cls.*", "*rotary_emb.inv_freq", NULL};

static const NameRoot roots[] = {{"bert.", ""}, {"nomic_bert.", ""}, {"model.", ""}, {"", ""}, {NULL, NULL}};

/* What the first files could also say, and none does. */
static void refuse_others(const Config *c) {
    static const char *const off[] = {"prenorm",      "parallel_block", "qkv_proj_bias",          "mlp_fc1_bias",
                                      "mlp_fc2_bias", "causal",         "rotary_emb_interleaved", NULL};
    for (const char *const *key = off; *key; key++)
        if (config_bool_or(c, *key, false)) config_fail(c, "\"%s\" is true, which no reference has here", *key);
    if (config_number_or(c, "rotary_emb_fraction", 1) != 1 || config_number_or(c, "rotary_emb_scale_base", 0) != 0)
        config_fail(c, "\"rotary_emb_fraction\" or \"rotary_emb_scale_base\" is not the usual one");
    if (!config_bool_or(c, "scale_attn_weights", true)) config_fail(c, "\"scale_attn_weights\" is false");
    if (config_number_or(c, "rotary_scaling_factor", 1) != 1)
        config_fail(c, "\"rotary_scaling_factor\" is not 1: its tables depend on the batch, which no prefix explains");
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.both_ways = true;
    standard_fuse_qkv(&a, "model.encoder.layers.*.attn.Wqkv");
    a.o.name = "model.encoder.layers.*.attn.out_proj";
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    const char *width = config_has(c, "n_inner") ? "n_inner" : "intermediate_size";
    MlpSpec m = {.width = config_size_or(c, width, 3072)};
    if (strcmp(config_string_or(c, "activation_function", ""), "swiglu") == 0)
        m.activation = ACT_SILU;
    else
        m.activation =
            standard_activation(c, config_has(c, "activation_function") ? "activation_function" : "hidden_act", d->act);
    m.gate.name = "model.encoder.layers.*.mlp.fc12";
    m.up.name = "model.encoder.layers.*.mlp.fc11";
    m.down.name = "model.encoder.layers.*.mlp.fc2";
    return m;
}

static LayerSpec read_layer(const AttentionSpec *a, const MlpSpec *m, float eps) {
    LayerSpec layer = {.mixer = &mixer_attention, .attention = *a, .ffn = &ffn_mlp, .mlp = *m};
    layer.mid_norm =
        standard_layer_norm("model.encoder.layers.*.norm1.weight", "model.encoder.layers.*.norm1.bias", eps);
    layer.output_norm =
        standard_layer_norm("model.encoder.layers.*.norm2.weight", "model.encoder.layers.*.norm2.bias", eps);
    return layer;
}

static bool nomic_bert_blueprint(const Config *c, Blueprint *b) {
    bool first = config_has(c, "rotary_emb_base");
    const StandardDefaults defaults = {.norm_eps = 1e-12,
                                       .theta = first ? config_number_or(c, "rotary_emb_base", 10000) : 1000,
                                       .max_position = 2048,
                                       .act = "silu"};
    refuse_others(c);
    standard_model(c, &defaults, b);
    b->encoder = true;
    b->head.name = NULL;
    b->embedding.name = "model.embeddings.word_embeddings";
    b->n_token_types = config_count_or(c, "type_vocab_size", 2);
    if (b->n_token_types) b->token_types.name = "model.embeddings.token_type_embeddings";
    b->embedding_norm = standard_layer_norm("model.emb_ln.weight", "model.emb_ln.bias", b->final_norm.eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = read_layer(&attention, &mlp, b->final_norm.eps);
    b->final_norm = (NormSpec){.kind = NORM_NONE};
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_nomic_bert = {"nomic_bert",    model_types,          irrelevant_keys,
                                  skipped_tensors, nomic_bert_blueprint, roots};
