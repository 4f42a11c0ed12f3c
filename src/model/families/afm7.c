/* AFM 7 (Apple's on-device model, arXiv:2507.13575): llama with q, k and v in one matrix, norms of queries and keys
 * after their rotation, keys and values rounded to 8 bits of a learned step, and last layers that read the keys and
 * values of the layer before them. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"afm7", NULL};

static const float HEAD_NORM_EPS = 1e-5f; /* mlx's own default, whatever rms_norm_eps says */

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.n_kv_heads = config_size(c, "num_kv_heads");
    standard_fuse_qkv(&a, "model.layers.*.self_attn.qkv_proj");
    a.o.name = "model.layers.*.self_attn.out_proj";
    a.norm_after_rope = true;
    standard_head_norms(&a, SPAN_HEAD, HEAD_NORM_EPS);
    a.k_grid = "model.layers.*.self_attn.quant_key_scale";
    a.v_grid = "model.layers.*.self_attn.quant_value_scale";
    return a;
}

/* A layer that reads what `donor` stored. */
static LayerSpec reusing_layer(const LayerSpec *layer, int donor) {
    LayerSpec r = *layer;
    r.names_back = donor + 1;
    r.mixer_norm.weight = "model.kv_reuse_layers.*.input_layernorm.weight";
    r.ffn_norm.weight = "model.kv_reuse_layers.*.post_attention_layernorm.weight";
    r.attention.shared = true;
    r.attention.donor = donor;
    r.attention.q = (LinearSpec){.name = "model.kv_reuse_layers.*.self_attn.q_proj"};
    r.attention.o.name = "model.kv_reuse_layers.*.self_attn.out_proj";
    r.attention.q_norm.norm.weight = "model.kv_reuse_layers.*.self_attn.q_norm.weight";
    r.attention.k_norm = (HeadNormSpec){{0}, SPAN_HEAD};
    r.attention.k_grid = r.attention.v_grid = NULL;
    r.mlp.gate.name = "model.kv_reuse_layers.*.mlp.gate_proj";
    r.mlp.up.name = "model.kv_reuse_layers.*.mlp.up_proj";
    r.mlp.down.name = "model.kv_reuse_layers.*.mlp.down_proj";
    return r;
}

static int mlp_width(const Config *c, int hidden) {
    double factor = config_number_or(c, "hidden_dim_scale_factor", 3.25);
    if (factor > 0 && factor < 1000) return (int)(hidden * factor);
    config_fail(c, "\"hidden_dim_scale_factor\" is %g, expected more than 0", factor);
    return 1;
}

static bool afm7_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .theta = 50000, .max_position = 65536, .tie = TIE_YES};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embedding";
    b->final_norm.weight = "model.output_norm.weight";
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, mlp_width(c, b->hidden));
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    int n = standard_layer_count(c);
    double reusing = config_number_or(c, "num_kv_reuse_layers", 0);
    if (reusing < 0 || reusing >= n)
        return config_fail(c, "\"num_kv_reuse_layers\" is %g, expected less than the %d layers", reusing, n);
    int own = n - (int)reusing;
    if (!config_ok(c) || !blueprint_allocate(c, b, n, 1)) return false;
    for (int i = 0; i < n; i++) b->layers[i] = i < own ? layer : reusing_layer(&layer, own - 1);
    return standard_rope(c, &defaults, b, 0, attention.head_dim, true) && config_ok(c);
}

const Family family_afm7 = {"afm7", model_types, NULL, NULL, afm7_blueprint, NULL};
