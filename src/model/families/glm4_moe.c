/* GLM 4.5 (arXiv:2508.06471), dots.llm1 (arXiv:2506.05767) and Solar Open (Upstage, 2025): grouped-query attention, the
 * first layers dense, then experts with the router of DeepSeek-V3 and some for every token. GLM rotates part of each
 * head and may norm heads, dots norms them always. The reference is transformers; mlx-lm has neither the rope_scaling
 * of GLM and Solar nor the window of dots. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"glm4_moe", "dots1", "solar_open", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef",
                                              "aux_loss_alpha",       "seq_aux",
                                              "pretraining_tp",       "ep_size",
                                              "moe_layer_freq", /* of DeepSeek's configs; read by no reference here */
                                              "use_sliding_window",   NULL};

typedef struct Variant {
    StandardDefaults standard;
    CorrectedDefaults experts;
    int first_dense;
    double rotated; /* of each head */
    bool o_bias;
} Variant;

static const Variant glm = {
    {.norm_eps = 1e-5, .max_position = 131072, .kv_heads = 8}, {128, 8, 1408, 1, 1, true}, 1, 0.5, false};
static const Variant dots = {{.norm_eps = 1e-6, .max_position = 2048}, {0, 0, 1408, 0, 1, false}, 0, 1, true};
static const Variant solar = {{.norm_eps = 1e-5, .theta = 1e6, .max_position = 131072, .head_dim = 128, .kv_heads = 8},
                              {128, 8, 1280, 1, 1, true},
                              0,
                              1,
                              false};

static AttentionSpec read_attention(const Config *c, const Variant *v, int hidden, float eps) {
    AttentionSpec a = standard_attention(c, &v->standard, hidden);
    if (!v->o_bias) a.o.bias = false;
    if (config_bool_or(c, "use_qk_norm", v == &dots)) standard_head_norms(&a, SPAN_HEAD, eps);
    return a;
}

/* Of dots: without layer_types, the layers from max_window_layers on. */
static void read_window(const Config *c, Blueprint *b, int layer) {
    int first = config_count_or(c, "max_window_layers", 62);
    int window = config_size_unless_null(c, "sliding_window", 4096);
    LayerKind kind = window && layer >= first ? LAYER_SLIDING : LAYER_FULL;
    standard_set_window(c, b, layer, standard_layer_kind(c, b->n_layers, layer, kind), window);
}

static bool glm4_moe_blueprint(const Config *c, Blueprint *b) {
    const char *type = config_string_or(c, "model_type", "");
    const Variant *v = strcmp(type, "dots1") == 0 ? &dots : strcmp(type, "solar_open") == 0 ? &solar : &glm;
    standard_model(c, &v->standard, b);
    AttentionSpec attention = read_attention(c, v, b->hidden, b->final_norm.eps);
    MlpSpec mlp = standard_mlp(c, &v->standard, config_size_or(c, "intermediate_size", 10944));
    ExpertsSpec experts = standard_corrected_experts(c, &v->experts, &mlp);
    int first = config_count_or(c, "first_k_dense_replace", v->first_dense), n_layers = standard_layer_count(c);
    b->n_extra_layers = standard_extra_layers(c, v == &glm ? 1 : 0);
    Config section = rope_section(c);
    int dims = rope_partial_dims(c, &section, attention.head_dim, v->rotated);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        if (v == &dots) read_window(c, b, i);
        if (i >= first) standard_use_experts(&b->layers[i], &experts);
    }
    return standard_rope(c, &v->standard, b, 0, dims, false) && config_ok(c);
}

const Family family_glm4_moe = {"glm4_moe",         model_types, irrelevant_keys, standard_skipped_tensors,
                                glm4_moe_blueprint, NULL};
