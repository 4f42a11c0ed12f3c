/* Nemotron-H (arXiv:2504.03624) and Nemotron 3: layers of one half each, in the order of a pattern: M a Mamba-2 mixer,
 * * attention without positions, - an mlp of squared relus, E experts of them beside a shared one. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"nemotron_h", NULL};

static const NameRoot roots[] = {{"backbone.", ""}, {"model.", ""}, {NULL, NULL}};

static const char *const irrelevant_keys[] = {"chunk_size",
                                              "expand",
                                              "residual_in_fp32",
                                              "rescale_prenorm_residual",
                                              "rope_theta", /* attention here has no positions */
                                              "partial_rotary_factor",
                                              "rope_parameters",
                                              "time_step_min",
                                              "time_step_max",
                                              "time_step_floor",
                                              "time_step_rank",
                                              "hidden_act", /* of other families; the mlps have mlp_hidden_act */
                                              "num_logits_to_keep",
                                              "hidden_dropout",
                                              "use_mamba_kernels",
                                              "sliding_window",
                                              "moe_shared_expert_overlap",
                                              "num_nextn_predict_layers",
                                              "mtp_hybrid_override_pattern",
                                              NULL};

static const char *const skipped_tensors[] = {"mtp.*", "*.mtp.*", NULL};

/* 'M', '*', '-' or 'E' of a layer: from the pattern, or from a list of words. 0: a mistake. */
static char layer_kind(const Config *c, int n_layers, int layer) {
    static const struct {
        const char *word;
        char kind;
    } words[] = {{"mamba", 'M'}, {"attention", '*'}, {"full_attention", '*'}, {"mlp", '-'}, {"moe", 'E'}};
    const char *pattern = config_string_or(c, "hybrid_override_pattern", NULL);
    const char *key = config_has(c, "layers_block_type") ? "layers_block_type" : "layer_types";
    const JsonValue *list = pattern ? NULL : config_array(c, key, n_layers);
    if (pattern && strlen(pattern) != (size_t)n_layers)
        return (char)config_fail(c, "\"hybrid_override_pattern\" has %zu letters for %d layers", strlen(pattern),
                                 n_layers);
    if (pattern && strchr("M*-E", pattern[layer])) return pattern[layer];
    for (size_t i = 0; list && i < sizeof words / sizeof *words; i++)
        if (json_equals(json_item(list, (uint32_t)layer), words[i].word)) return words[i].kind;
    return (char)config_fail(c, "layer %d is none of mamba, attention, mlp and moe", layer);
}

static SsmSpec read_ssm(const Config *c, float eps) {
    SsmSpec m = {.heads = config_size_or(c, "mamba_num_heads", 128),
                 .head_dim = config_size_or(c, "mamba_head_dim", 64),
                 .state = config_size_or(c, "ssm_state_size", 128),
                 .groups = config_size_or(c, "n_groups", 8),
                 .kernel = config_size_or(c, "conv_kernel", 4)};
    bool bias = config_bool_or(c, "use_bias", false);
    standard_activation(c, "mamba_hidden_act", "silu");
    standard_ssm(&m, config_bool_or(c, "mamba_proj_bias", bias), config_bool_or(c, "use_conv_bias", true), eps);
    standard_ssm_limits(c, &m);
    return m;
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.rope = NO_ROPE;
    a.q.name = "model.layers.*.mixer.q_proj";
    a.k.name = "model.layers.*.mixer.k_proj";
    a.v.name = "model.layers.*.mixer.v_proj";
    a.o.name = "model.layers.*.mixer.o_proj";
    return a;
}

static MlpSpec read_mlp(const Config *c, int width, const char *up, const char *down) {
    bool bias = config_bool_or(c, "mlp_bias", false);
    return (MlpSpec){.width = width,
                     .activation = standard_activation(c, "mlp_hidden_act", "relu2"),
                     .up = {.name = up, .bias = bias},
                     .down = {.name = down, .bias = bias}};
}

static ExpertsSpec read_experts(const Config *c) {
    int width = config_size_or(c, "moe_intermediate_size", 7688);
    ExpertsSpec e = {
        .rule = {.score = ROUTER_SIGMOID,
                 .n_experts = config_size_or(c, "n_routed_experts", 8),
                 .n_chosen = config_size_or(c, "num_experts_per_tok", 2),
                 .n_groups = config_size_or(c, "n_group", 1),
                 .n_kept_groups = config_size_or(c, "topk_group", 1),
                 .renormalise = config_bool_or(c, "norm_topk_prob", true),
                 .renormalise_eps = 1e-20f,
                 .scale = (float)config_number_or(c, "routed_scaling_factor", 1)},
        .router = {.name = "model.layers.*.mixer.gate"},
        .correction = "model.layers.*.mixer.gate.e_score_correction_bias",
        .up = {{.name = "model.layers.*.mixer.switch_mlp.fc1"}, {.name = "model.layers.*.mixer.experts.#.up_proj"}},
        .down = {{.name = "model.layers.*.mixer.switch_mlp.fc2"},
                 {.name = "model.layers.*.mixer.experts.#.down_proj"}}};
    e.expert = read_mlp(c, width, "up", "down");
    e.shared = read_mlp(c, config_size_or(c, "moe_shared_expert_intermediate_size", 7688),
                        "model.layers.*.mixer.shared_experts.up_proj", "model.layers.*.mixer.shared_experts.down_proj");
    config_size_or(c, "n_shared_experts", 1); /* one of that width, whatever it says */
    e.latent = config_size_unless_null(c, "moe_latent_size", 0);
    if (e.latent) {
        e.latent_in = (LinearSpec){.name = "model.layers.*.mixer.fc1_latent_proj", .bias = e.expert.up.bias};
        e.latent_out = (LinearSpec){.name = "model.layers.*.mixer.fc2_latent_proj", .bias = e.expert.up.bias};
    }
    if (e.rule.n_experts % e.rule.n_groups || e.rule.n_kept_groups > e.rule.n_groups)
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", e.rule.n_experts, e.rule.n_groups,
                    e.rule.n_kept_groups);
    return e;
}

static bool nemotron_h_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 4096};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embeddings|model.embed_tokens";
    b->final_norm.weight = "model.norm_f.weight|model.norm.weight";
    SsmSpec ssm = read_ssm(c, b->final_norm.eps);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, config_size_or(c, "intermediate_size", 21504), "model.layers.*.mixer.up_proj",
                           "model.layers.*.mixer.down_proj");
    ExpertsSpec experts = read_experts(c);
    NormSpec norm = standard_rms("model.layers.*.norm.weight", b->final_norm.eps);
    const char *pattern = config_string_or(c, "hybrid_override_pattern", "");
    int n_layers = config_has(c, "num_hidden_layers") || !*pattern ? standard_layer_count(c) : (int)strlen(pattern);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 0)) return false;
    for (int i = 0; i < n_layers; i++) {
        char kind = layer_kind(c, n_layers, i);
        LayerSpec *l = &b->layers[i];
        *l = (LayerSpec){.ssm = ssm, .attention = attention, .mlp = mlp, .experts = experts};
        if (kind == 'M' || kind == '*') {
            l->mixer_norm = norm;
            l->mixer = kind == 'M' ? &mixer_mamba2 : &mixer_attention;
        } else {
            l->ffn_norm = norm;
            l->ffn = kind == 'E' ? &ffn_experts : &ffn_mlp;
        }
    }
    return config_ok(c);
}

const Family family_nemotron_h = {"nemotron_h",    model_types,          irrelevant_keys,
                                  skipped_tensors, nemotron_h_blueprint, roots};
