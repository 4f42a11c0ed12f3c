/* GPT-NeoX (Black et al., arXiv:2204.06745; Pythia): layer norms, q, k and v head by head in one matrix, part of each
 * head rotated, attention and mlp side by side or one after the other. mlx-lm has the tanh form of gelu whatever the
 * config says, and leaves rope_scaling out; transformers counts. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"gpt_neox", NULL};

static const char *const irrelevant_keys[] = {"hidden_dropout", "classifier_dropout", NULL};

static const char *const skipped_tensors[] = {"*.attention.bias", "*.attention.masked_bias", /* causal masks */
                                              "*.attention.rotary_emb.inv_freq", NULL};

static const NameRoot roots[] = {{"gpt_neox.", ""}, {"model.", ""}, {"", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    standard_fuse_qkv_groups(&a, "model.layers.*.attention.query_key_value|model.h.*.attention.query_key_value");
    a.o.name = "model.layers.*.attention.dense|model.h.*.attention.dense";
    return a;
}

static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "intermediate_size", 24576));
    m.gate = (LinearSpec){0};
    m.up.name = "model.layers.*.mlp.dense_h_to_4h|model.h.*.mlp.dense_h_to_4h";
    m.down.name = "model.layers.*.mlp.dense_4h_to_h|model.h.*.mlp.dense_4h_to_h";
    return m;
}

static LayerSpec read_layer(const AttentionSpec *a, const MlpSpec *m, float eps, bool parallel) {
    LayerSpec layer = standard_layer(a, m, eps);
    layer.parallel = parallel;
    layer.mixer_norm = standard_layer_norm("model.layers.*.input_layernorm.weight|model.h.*.input_layernorm.weight",
                                           "model.layers.*.input_layernorm.bias|model.h.*.input_layernorm.bias", eps);
    layer.ffn_norm = standard_layer_norm(
        "model.layers.*.post_attention_layernorm.weight|model.h.*.post_attention_layernorm.weight",
        "model.layers.*.post_attention_layernorm.bias|model.h.*.post_attention_layernorm.bias", eps);
    return layer;
}

static bool read_rope(const Config *c, Blueprint *b, int head_dim) {
    Config section = rope_section(c);
    double base = config_number_or(c, "rotary_emb_base", config_number_or(c, "rope_theta", 10000));
    double rotated = config_number_or(c, "rotary_pct", 0.25);
    RopeInput in = {
        .theta = base, .dims = rope_partial_dims(c, &section, head_dim, rotated), .max_position = b->max_context};
    if (!config_ok(c) || !rope_read(&section, &in, &b->ropes[0])) return false;
    b->context_note = rope_context_note(&b->ropes[0]);
    return true;
}

static bool gpt_neox_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-5, .act = "gelu", .tie = TIE_NO, .attention_bias = true, .mlp_bias = true};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embed_in";
    b->head.name = "embed_out|model.embed_out";
    b->final_norm =
        standard_layer_norm("model.final_layer_norm.weight", "model.final_layer_norm.bias", b->final_norm.eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults);
    bool parallel = config_bool_or(c, "use_parallel_residual", true);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = read_layer(&attention, &mlp, b->final_norm.eps, parallel);
    return read_rope(c, b, attention.head_dim) && config_ok(c);
}

const Family family_gpt_neox = {"gpt_neox", model_types, irrelevant_keys, skipped_tensors, gpt_neox_blueprint, roots};
