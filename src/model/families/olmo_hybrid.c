/* OLMo Hybrid: three layers of gated delta rule to one of OLMo's attention, which norms what its halves give and not
 * what they read. A beta of up to 2 lets a state take a negative part. transformers and mlx-lm give the norms other
 * names. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"olmo_hybrid", NULL};

static const char *const irrelevant_keys[] = {"linear_a_log_min",
                                              "linear_a_log_max",
                                              "linear_dt_min",
                                              "linear_dt_max",
                                              "linear_dt_init_floor",
                                              "linear_use_gate",
                                              "rope_theta", /* where rope_parameters is there, which counts */
                                              NULL};

static const char *const skipped_tensors[] = {"mtp.*", NULL};

static ConvSpec conv(const char *name, int channels) {
    return (ConvSpec){.name = name, .total = channels};
}

static DeltaSpec read_delta(const Config *c, int hidden, int heads, float eps) {
    DeltaSpec d = {.k_heads = config_size_or(c, "linear_num_key_heads", heads),
                   .v_heads = config_size_or(c, "linear_num_value_heads", heads),
                   .kernel = config_size_or(c, "linear_conv_kernel_dim", 4),
                   .q = {.name = "model.layers.*.linear_attn.q_proj"},
                   .k = {.name = "model.layers.*.linear_attn.k_proj"},
                   .v = {.name = "model.layers.*.linear_attn.v_proj"},
                   .a = {.name = "model.layers.*.linear_attn.a_proj"},
                   .b = {.name = "model.layers.*.linear_attn.b_proj"},
                   .z = {.name = "model.layers.*.linear_attn.g_proj"},
                   .o = {.name = "model.layers.*.linear_attn.o_proj"},
                   .b_scale = config_bool_or(c, "linear_allow_neg_eigval", true) ? 2 : 1,
                   .a_log = "model.layers.*.linear_attn.A_log",
                   .dt_bias = "model.layers.*.linear_attn.dt_bias",
                   .norm = standard_rms("model.layers.*.linear_attn.o_norm.weight", eps),
                   .gate_act = ACT_SILU};
    int usual = (int)(0.75 * hidden / d.k_heads);
    d.k_dim = config_size_or(c, "linear_key_head_dim", usual > 0 ? usual : 1);
    d.v_dim = config_size_or(c, "linear_value_head_dim", 2 * d.k_dim);
    d.q_conv = conv("model.layers.*.linear_attn.q_conv1d.weight", d.k_heads * d.k_dim);
    d.k_conv = conv("model.layers.*.linear_attn.k_conv1d.weight", d.k_heads * d.k_dim);
    d.v_conv = conv("model.layers.*.linear_attn.v_conv1d.weight", d.v_heads * d.v_dim);
    return d;
}

static void put_layer(const Config *c, Blueprint *b, int i, const DeltaSpec *delta) {
    LayerSpec *l = &b->layers[i];
    float eps = b->final_norm.eps;
    static const char *const mixer_norm =
        "model.layers.*.input_layernorm.weight|model.layers.*.attention_layer_norm.weight";
    static const char *const between =
        "model.layers.*.feedforward_layer_norm.weight|model.layers.*.post_attention_layernorm.weight";
    LayerKind kind = standard_layer_kind(c, b->n_layers, i, i % 4 == 3 ? LAYER_FULL : LAYER_LINEAR);
    if (kind == LAYER_LINEAR) {
        l->mixer = &mixer_delta;
        l->delta = *delta;
        l->mixer_norm = standard_rms(mixer_norm, eps);
        l->ffn_norm = standard_rms(between, eps);
        return;
    }
    if (kind != LAYER_FULL) config_fail(c, "\"layer_types\" item %d is neither full_attention nor linear_attention", i);
    l->mixer_norm = l->ffn_norm = (NormSpec){0};
    l->mixer_out = standard_rms(between, eps);
    l->ffn_out = standard_rms("model.layers.*.post_feedforward_layernorm.weight", eps);
}

static bool olmo_hybrid_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 65536, .tie = TIE_NO};
    standard_model(c, &defaults, b);
    AttentionSpec a = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    DeltaSpec delta = read_delta(c, b->hidden, a.n_heads, 1e-5f); /* not the config's */
    bool rope = config_has(c, "rope_parameters") || config_has(c, "rope_scaling");
    a.q_norm = (HeadNormSpec){standard_rms("model.layers.*.self_attn.q_norm.weight", b->final_norm.eps), SPAN_ALL};
    a.k_norm = (HeadNormSpec){standard_rms("model.layers.*.self_attn.k_norm.weight", b->final_norm.eps), SPAN_ALL};
    if (!rope) a.rope = NO_ROPE;
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, rope ? 1 : 0)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&a, &mlp, b->final_norm.eps);
        put_layer(c, b, i, &delta);
    }
    return (!rope || standard_rope(c, &defaults, b, 0, a.head_dim, false)) && config_ok(c);
}

const Family family_olmo_hybrid = {"olmo_hybrid",   model_types,           irrelevant_keys,
                                   skipped_tensors, olmo_hybrid_blueprint, NULL};
