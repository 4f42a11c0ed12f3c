/* Mamba-2 alone (arXiv:2405.21060): every layer is a norm and a mixer. The gated norm works group by group, as in
 * transformers; mlx-lm norms the whole width. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"mamba2", NULL};

static const NameRoot roots[] = {{"backbone.", ""}, {"model.", ""}, {NULL, NULL}};

static const char *const irrelevant_keys[] = {"chunk_size",
                                              "rescale_prenorm_residual",
                                              "residual_in_fp32",
                                              "time_step_rank",
                                              "time_step_min",
                                              "time_step_max",
                                              "time_step_floor",
                                              "expand",
                                              "intermediate_size",
                                              "norm_before_gate",
                                              NULL};

static bool mamba2_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = CONFIG_MAX_SIZE};
    SsmSpec m = {.heads = config_size_or(c, "num_heads", 128),
                 .head_dim = config_size_or(c, "head_dim", 64),
                 .state = config_size_or(c, "state_size", 128),
                 .groups = config_size_or(c, "n_groups", 8),
                 .kernel = config_size_or(c, "conv_kernel", 4)};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embeddings";
    b->final_norm.weight = "model.norm_f.weight";
    if (!config_bool_or(c, "rms_norm", true)) config_fail(c, "\"rms_norm\" is false, which no reference runs");
    standard_activation(c, "hidden_act", "silu");
    standard_ssm(&m, config_bool_or(c, "use_bias", false), config_bool_or(c, "use_conv_bias", true), b->final_norm.eps);
    standard_ssm_limits(c, &m);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 0)) return false;
    for (int i = 0; i < n_layers; i++)
        b->layers[i] = (LayerSpec){.mixer_norm = standard_rms("model.layers.*.norm.weight", b->final_norm.eps),
                                   .mixer = &mixer_mamba2,
                                   .ssm = m};
    return config_ok(c);
}

const Family family_mamba2 = {"mamba2", model_types, irrelevant_keys, NULL, mamba2_blueprint, roots};
