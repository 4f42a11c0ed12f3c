/* Mamba and FalconMamba (arXiv:2312.00752, arXiv:2410.05355): every layer is one selective scan, and nothing else.
 * FalconMamba norms the step size's latent and both of the state's weights, without a weight of the norms' own.
 *
 * mlx-lm norms with 1e-5 whatever layer_norm_epsilon says; here, as in transformers, the config decides. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"mamba", "falcon_mamba", NULL};

static const NameRoot roots[] = {{"backbone.", ""}, {NULL, NULL}};

/* How weights begin, which of transformers' kernels runs, and the names of the original code for what has another. */
static const char *const irrelevant_keys[] = {"rescale_prenorm_residual",
                                              "residual_in_fp32",
                                              "time_step_init_scheme",
                                              "time_step_floor",
                                              "time_step_max",
                                              "time_step_min",
                                              "time_step_scale",
                                              "use_associative_scan",
                                              "use_falcon_mambapy",
                                              "use_mambapy",
                                              "d_inner",
                                              "d_model",
                                              "n_layer",
                                              "fused_add_norm",
                                              "pad_vocab_size_multiple",
                                              "rms_norm",
                                              "ssm_cfg",
                                              NULL};

/* intermediate_size, whatever `expand` says beside it: FalconMamba 7B's says 16 and means 2. */
static int read_channels(const Config *c, int hidden) {
    double expanded = config_number_or(c, "expand", 2) * hidden;
    if (config_has(c, "intermediate_size")) return config_size_or(c, "intermediate_size", 1);
    if (expanded >= 1 && expanded <= CONFIG_MAX_SIZE) return (int)expanded;
    config_fail(c, "\"expand\" times \"hidden_size\" is %g, which no model has", expanded);
    return 1;
}

static Mamba1Spec read_mixer(const Config *c, int hidden, bool falcon) {
    Mamba1Spec sizes = {.channels = read_channels(c, hidden),
                        .d_state = config_size_or(c, "state_size", 16),
                        .rank = standard_mamba1_rank(c, "time_step_rank"),
                        .kernel = config_size_or(c, "conv_kernel", 4)};
    float eps = (float)config_number_or(c, "mixer_rms_eps", 1e-6);
    bool normed = config_bool_or(c, "use_bcdt_rms", falcon) || falcon;
    if (normed) sizes.dt_norm = sizes.b_norm = sizes.c_norm = standard_rms(NULL, eps);
    return standard_mamba1(c, hidden, sizes, config_bool_or(c, "use_bias", false),
                           config_bool_or(c, "use_conv_bias", true));
}

static bool mamba_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 1 << 20, .tie = TIE_YES};
    bool falcon = strcmp(config_string_or(c, "model_type", ""), "falcon_mamba") == 0;
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embeddings|model.embedding";
    b->final_norm.weight = "model.norm_f.weight";
    Mamba1Spec mixer = read_mixer(c, b->hidden, falcon);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 0)) return false;
    for (int i = 0; i < b->n_layers; i++)
        b->layers[i] = (LayerSpec){.mixer_norm = standard_rms("model.layers.*.norm.weight", b->final_norm.eps),
                                   .mixer = &mixer_mamba1,
                                   .mamba1 = mixer};
    return config_ok(c);
}

const Family family_mamba = {"mamba", model_types, irrelevant_keys, NULL, mamba_blueprint, roots};
