/* Muse Glimmer and Muse Spark (Meta, 2026), their text models: norms before and after each half that keep weight - 1,
 * embeddings, queries and keys normed without weights, a gate on attention's output, sliding layers with rope and full
 * ones without. Spark has experts in a latent space, norms after each half of another form, each head's output normed,
 * and gates where halves are added. The references are transformers and, for Glimmer, mlx-lm (Spark's routing there is
 * a kernel for other hardware); where layer_types is absent mlx-lm counts its pattern from the first layer and
 * transformers, which counts here, from the last. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"muse_glimmer", "muse_glimmer_text", "muse_spark", "muse_spark_text", NULL};

static const char *const irrelevant_keys[] = {"vision_config",
                                              "image_token_id",
                                              "video_token_id",
                                              "out_hidden_size",
                                              "projector_hidden_size",
                                              "projector_hidden_act", /* of images */
                                              "hidden_act",           /* hidden_activation counts; Spark: silu */
                                              "output_router_logits",
                                              "audio_config",
                                              "audio_token_id",
                                              NULL};

static const char *const skipped_tensors[] = {"*vision_tower.*", "*vision_adapter.*", "*vision_projection.*",
                                              "*audio_tower.*", NULL};

typedef struct Variant {
    double qk_scale, output_multiplier;
    bool spark;
} Variant;

static const Variant glimmer = {3.87, 0.19611613513818404, false};
static const Variant spark = {5.4730064863875, 0.1767766952966369, true};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Variant *v, int hidden,
                                    float eps) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.q_norm.norm = a.k_norm.norm = standard_rms(NULL, eps);
    a.scale *= (float)config_number_or(c, "qk_scale_factor", v->qk_scale);
    a.gate = (LinearSpec){.name = "model.layers.*.self_attn.gate_proj"};
    a.gate_kind = GATE_ELEMENT;
    a.gate_act = ACT_SIGMOID;
    if (v->spark) a.head_norm = standard_rms(NULL, eps);
    return a;
}

static LayerSpec read_layer(const Config *c, const AttentionSpec *a, const MlpSpec *m, float eps) {
    LayerSpec layer = standard_layer(a, m, eps);
    standard_norm_around(&layer, 1);
    layer.mixer_out.eps = layer.ffn_out.eps = (float)config_number_or(c, "post_norm_eps", 1e-8);
    return layer;
}

/* Spark's: the mixer's result is normed without weights and the feed-forward's by weights that come first. */
static void gate_halves(const Config *c, LayerSpec *layer) {
    float temperature = (float)config_number_or(c, "residual_gate_temperature", 0.3);
    layer->mixer_out.weight = NULL;
    layer->ffn_out.kind = NORM_SCALED;
    layer->mixer_gate = (ResidualGateSpec){"model.layers.*.post_attention_residual_gate.gate", temperature};
    layer->ffn_gate = (ResidualGateSpec){"model.layers.*.post_feedforward_residual_gate.gate", temperature};
    if (!(temperature > 0))
        config_fail(c, "\"residual_gate_temperature\" is %g, expected more than 0", (double)temperature);
}

static ExpertsSpec read_experts(const Config *c, Activation act, float eps, float post_eps) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", 4096), act);
    double multiplier = config_number_or(c, "output_multiplier", spark.output_multiplier);
    if (multiplier <= 0) config_fail(c, "\"output_multiplier\" is %g, expected more than 0", multiplier);
    e.rule = (RouterRule){.score = ROUTER_SIGMOID,
                          .n_experts = config_size_or(c, "num_local_experts", 256),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 8),
                          .temperature = (float)(1 / multiplier),
                          .renormalise = true,
                          .renormalise_eps = 1e-15f,
                          .scale = (float)config_number_or(c, "routed_scaling_factor", 1)};
    e.correction = "model.layers.*.mlp.gate.e_score_correction_bias";
    e.latent = config_size_or(c, "moe_hidden_size", 4096);
    e.latent_in.name = "model.layers.*.mlp.pre_expert_proj";
    e.latent_out.name = "model.layers.*.mlp.post_expert_proj";
    e.latent_in_norm = standard_rms("model.layers.*.mlp.pre_expert_norm.weight", eps);
    e.each_norm = standard_rms("model.layers.*.mlp.experts.post_expert_norm.weight", post_eps);
    e.each_norm.kind = NORM_SCALED;
    e.latent_in_norm.plus = e.each_norm.plus = 1;
    return e;
}

static void put_experts(const Config *c, const MlpSpec *m, Blueprint *b) {
    float eps = b->final_norm.eps;
    ExpertsSpec e = read_experts(c, m->activation, eps, b->layers[0].ffn_out.eps);
    for (int i = 0; i < b->n_layers; i++) {
        gate_halves(c, &b->layers[i]);
        if (standard_has_experts(c, b->n_layers, i, true)) standard_use_experts(&b->layers[i], &e);
    }
}

/* Every fourth layer, counted back from the last, sees everything and has no rope. */
static bool read_layers(const Config *c, const LayerSpec *layer, Blueprint *b) {
    int n = b->n_layers, window = config_size_or(c, "sliding_window", 2048);
    for (int i = 0; i < n; i++) {
        bool fourth = (n - 1 - i) % 4 == 0, has_list = config_has(c, "layer_rope_theta");
        LayerKind kind = standard_layer_kind(c, n, i, fourth ? LAYER_FULL : LAYER_SLIDING);
        bool rotates = has_list ? config_number_at(c, "layer_rope_theta", n, i) != 0 : !fourth;
        b->layers[i] = *layer;
        b->layers[i].attention.rope = rotates ? 0 : NO_ROPE;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return config_ok(c);
}

static bool muse_glimmer_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .theta = 500000, .max_position = 131072, .tie = TIE_NO};
    const Config text = config_text(root), *c = &text;
    const Variant *v = strncmp(config_string_or(root, "model_type", ""), "muse_spark", 10) == 0 ? &spark : &glimmer;
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps, cap = (float)config_number_or(c, "final_logit_softcapping", 20);
    b->embedding_norm = standard_rms(NULL, eps);
    b->logit_scale = (float)config_number_or(c, "output_multiplier", v->output_multiplier);
    b->logit_softcap = cap;
    if (cap <= 0) return config_fail(c, "\"%sfinal_logit_softcapping\" is not above 0", c->path);
    AttentionSpec attention = read_attention(c, &defaults, v, b->hidden, eps);
    MlpSpec mlp = standard_mlp(
        c, &defaults, v->spark ? config_size_or(c, "intermediate_size", 16384) : config_size(c, "intermediate_size"));
    LayerSpec layer = read_layer(c, &attention, &mlp, eps);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    if (!read_layers(c, &layer, b)) return false;
    if (v->spark) put_experts(c, &mlp, b);
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_muse_glimmer = {"muse_glimmer",         model_types,           irrelevant_keys, skipped_tensors,
                                    muse_glimmer_blueprint, standard_wrapper_roots};
