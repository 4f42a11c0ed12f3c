/* Muse Glimmer (Meta, 2026), the text model: norms before and after each half that keep weight - 1, embeddings, queries
 * and keys normed without weights, a gate on attention's output, sliding layers with rope and full ones without. The
 * references are transformers and mlx-lm; where layer_types is absent mlx-lm counts its pattern from the first layer
 * and transformers, which counts here, from the last. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"muse_glimmer", "muse_glimmer_text", NULL};

static const char *const irrelevant_keys[] = {"vision_config",
                                              "image_token_id",
                                              "video_token_id",
                                              "out_hidden_size",
                                              "projector_hidden_size",
                                              "projector_hidden_act", /* of images */
                                              "hidden_act",           /* hidden_activation counts */
                                              NULL};

static const char *const skipped_tensors[] = {"*vision_tower.*", "*vision_adapter.*", "*vision_projection.*", NULL};

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden, float eps) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.q_norm.norm = a.k_norm.norm = standard_rms(NULL, eps);
    a.scale *= (float)config_number_or(c, "qk_scale_factor", 3.87);
    a.gate = (LinearSpec){.name = "model.layers.*.self_attn.gate_proj"};
    a.gate_kind = GATE_ELEMENT;
    a.gate_act = ACT_SIGMOID;
    return a;
}

static LayerSpec read_layer(const Config *c, const AttentionSpec *a, const MlpSpec *m, float eps) {
    LayerSpec layer = standard_layer(a, m, eps);
    standard_norm_around(&layer, 1);
    layer.mixer_out.eps = layer.ffn_out.eps = (float)config_number_or(c, "post_norm_eps", 1e-8);
    return layer;
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
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps, cap = (float)config_number_or(c, "final_logit_softcapping", 20);
    b->embedding_norm = standard_rms(NULL, eps);
    b->logit_scale = (float)config_number_or(c, "output_multiplier", 0.19611613513818404);
    b->logit_softcap = cap;
    if (cap <= 0) return config_fail(c, "\"%sfinal_logit_softcapping\" is not above 0", c->path);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden, eps);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    LayerSpec layer = read_layer(c, &attention, &mlp, eps);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    return read_layers(c, &layer, b) && standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_muse_glimmer = {"muse_glimmer",         model_types,           irrelevant_keys, skipped_tensors,
                                    muse_glimmer_blueprint, standard_wrapper_roots};
