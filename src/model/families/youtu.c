/* Youtu-LLM: DeepSeek's latent attention over plain dense layers. Its MLX conversions are called youtu_llm; there the
 * latents' norms have rms_norm_eps, and rope_traditional says which pairs turn, where transformers has a fixed 1e-6 and
 * rope_interleave. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"youtu", "youtu_llm", NULL};

static const char *const irrelevant_keys[] = {"embedding_initializer_range", NULL};

static bool youtu_blueprint(const Config *c, Blueprint *b) {
    StandardDefaults d = {.max_position = 131072};
    bool mlx = strcmp(config_string_or(c, "model_type", ""), "youtu_llm") == 0;
    if (mlx) d.theta = 1600000;
    standard_model(c, &d, b);
    MlaDefaults latents = {1536, 512, 128, 64, 128, mlx ? b->final_norm.eps : 0};
    MlaSpec mla = standard_mla(c, &latents);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    bool interleaved = config_bool_or(c, "rope_interleave", true);
    bool traditional = config_bool_or(c, "rope_traditional", interleaved);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&none, &mlp, b->final_norm.eps);
        b->layers[i].mixer = &mixer_mla;
        b->layers[i].mla = mla;
    }
    return standard_rope(c, &d, b, 0, mla.rope_dim, mlx ? traditional : interleaved) && config_ok(c);
}

const Family family_youtu = {"youtu", model_types, irrelevant_keys, standard_skipped_tensors, youtu_blueprint, NULL};
