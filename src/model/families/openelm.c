/* OpenELM (Mehta et al., arXiv:2404.14619): llama whose layers have head counts and mlp widths of their own, with norms
 * of queries and keys and with fused matrices. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"openelm", NULL};

static const char *const irrelevant_keys[] = {"num_gqa_groups", "qkv_multipliers",           /* in the lists by layer */
                                              "rope_max_length", "normalization_layer_name", /* always rms_norm */
                                              NULL};

static const NameRoot roots[] = {{"transformer.", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, int n_layers, int layer, float eps) {
    AttentionSpec a = {.n_heads = config_size_at(c, "num_query_heads", n_layers, layer),
                       .n_kv_heads = config_size_at(c, "num_kv_heads", n_layers, layer),
                       .head_dim = config_size(c, "head_dim"),
                       .o = {.name = "model.layers.*.attn.out_proj"}};
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    standard_fuse_qkv(&a, "model.layers.*.attn.qkv_proj");
    if (!config_bool_or(c, "normalize_qk_projections", true)) return a;
    a.q_norm.norm = standard_rms("model.layers.*.attn.q_norm.weight", eps);
    a.k_norm.norm = standard_rms("model.layers.*.attn.k_norm.weight", eps);
    return a;
}

/* The multiple of `divisor` nearest to x, at least one, and not below 90 % of x. */
static int make_divisible(double x, int divisor) {
    int64_t n = (int64_t)(x + divisor / 2.0) / divisor * divisor;
    if (n < divisor) n = divisor;
    if ((double)n < 0.9 * x) n += divisor;
    return n > CONFIG_MAX_SIZE ? CONFIG_MAX_SIZE : (int)n;
}

static MlpSpec read_mlp(const Config *c, int n_layers, int layer, int hidden) {
    double multiplier = config_number_at(c, "ffn_multipliers", n_layers, layer);
    int divisor = config_size(c, "ffn_dim_divisor");
    if (multiplier <= 0 || multiplier > 1000)
        config_fail(c, "\"ffn_multipliers\" item %d is %g, expected more than 0", layer, multiplier);
    MlpSpec m = {.width = config_ok(c) ? make_divisible(multiplier * hidden, divisor) : 1,
                 .activation = standard_activation(c, "activation_fn_name", "swish"),
                 .down = {.name = "model.layers.*.ffn.proj_2"}};
    standard_fuse_gate_up(&m, "model.layers.*.ffn.proj_1");
    return m;
}

static bool openelm_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-6};
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps;
    int n_layers = config_size(c, "num_transformer_layers");
    b->max_context = config_size_or(c, "max_context_length", 2048);
    b->tie = config_bool_or(c, "share_input_output_layers", true) ? TIE_YES : TIE_NO;
    b->embedding.name = "model.token_embeddings";
    if (!config_bool_or(c, "ffn_with_glu", true))
        return config_fail(c, "\"ffn_with_glu\" is false, which no reference runs");
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers && config_ok(c); i++) {
        AttentionSpec attention = read_attention(c, n_layers, i, eps);
        MlpSpec mlp = read_mlp(c, n_layers, i, b->hidden);
        b->layers[i] = standard_layer(&attention, &mlp, eps);
        b->layers[i].mixer_norm.weight = "model.layers.*.attn_norm.weight";
        b->layers[i].ffn_norm.weight = "model.layers.*.ffn_norm.weight";
    }
    Config none = {c->record, NULL, ""};
    RopeInput in = {.theta = config_number_or(c, "rope_freq_constant", 10000),
                    .dims = config_size(c, "head_dim"),
                    .max_position = b->max_context};
    return config_ok(c) && rope_read(&none, &in, &b->ropes[0]) && config_ok(c);
}

const Family family_openelm = {"openelm", model_types, irrelevant_keys, NULL, openelm_blueprint, roots};
