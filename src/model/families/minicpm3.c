/* MiniCPM3: MiniCPM's scales of embeddings, of each half's result and of the head's input, around DeepSeek's latent
 * attention with half-split rotation. transformers and mlx-lm disagree about the defaults, the eps of the latents'
 * norms (1e-6 here, as transformers has it), the head's division where it is tied (divided here), and longrope (mlx-lm
 * has long_factor at every length). A null scale is none, an absent one the published model's. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"minicpm3", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", NULL};

static bool read_scales(const Config *c, Blueprint *b, float *residual) {
    double depth = config_number_unless_null(c, "scale_depth", 1.4);
    int base = config_size_unless_null(c, "dim_model_base", 256);
    *residual = config_is_null(c, "scale_depth") ? 1 : (float)(depth / sqrt((double)b->n_layers));
    b->head_scale = base ? (float)((double)base / b->hidden) : 1;
    b->embedding_scale = (float)config_number_or(c, "scale_emb", 12);
    if (*residual == 0 || b->embedding_scale == 0) config_fail(c, "has \"scale_depth\" or \"scale_emb\" 0");
    return config_ok(c);
}

static bool minicpm3_blueprint(const Config *c, Blueprint *b) {
    StandardDefaults d = {.norm_eps = 1e-5, .max_position = 32768};
    standard_model(c, &d, b);
    int v_dim = b->hidden / config_size(c, "num_attention_heads");
    MlaDefaults latents = {768, 256, 64, 32, v_dim > 0 ? v_dim : 1, 0};
    MlaSpec mla = standard_mla(c, &latents);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    int n_layers = standard_layer_count(c);
    float residual;
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1) || !read_scales(c, b, &residual)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&none, &mlp, b->final_norm.eps);
        b->layers[i].mixer_scale = b->layers[i].ffn_scale = residual;
        b->layers[i].mixer = &mixer_mla;
        b->layers[i].mla = mla;
    }
    return standard_rope(c, &d, b, 0, mla.rope_dim, false) && config_ok(c);
}

const Family family_minicpm3 = {"minicpm3",         model_types, irrelevant_keys, standard_skipped_tensors,
                                minicpm3_blueprint, NULL};
