/* MiMo-V2-Flash (Xiaomi, 2025): layers with a window have heads, rope and sinks of their own; values are narrower than
 * keys and scaled; the first layer is dense, then experts with the router of DeepSeek-V3. The published config counts
 * its window without the query itself, which is how transformers reads it; mlx-lm counts the query in, so that a
 * checkpoint in its layout sees one position less. */
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"mimo_v2_flash", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "attention_chunk_size", /* the window again */
                                              "hybrid_block_size",    /* hybrid_layer_pattern counts */
                                              "hybrid_layer_pattern", /* read where layer_types is absent */
                                              "moe_layer_freq",       /* read where mlp_layer_types is absent */
                                              "sliding_window",       /* read where sliding_window_size is absent */
                                              "use_qk_norm", /* published as false; neither reference has norms */
                                              "hidden_dropout",
                                              "rope_theta",
                                              "swa_rope_theta", /* read where rope_parameters is absent */
                                              "rms_norm_eps",   /* read where layernorm_epsilon is absent */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "model.mtp*", NULL};

static bool is_sliding(const Config *c, int n_layers, int layer) {
    if (config_has(c, "layer_types")) return standard_layer_kind(c, n_layers, layer, LAYER_FULL) == LAYER_SLIDING;
    if (config_has(c, "hybrid_layer_pattern")) return config_number_at(c, "hybrid_layer_pattern", n_layers, layer) == 1;
    return layer != 0 && (layer + 1) % 6 != 0;
}

static bool has_experts(const Config *c, int n_layers, int layer) {
    bool listed = config_has(c, "moe_layer_freq") && !config_has(c, "mlp_layer_types");
    if (listed) return config_number_at(c, "moe_layer_freq", n_layers, layer) == 1;
    return standard_has_experts(c, n_layers, layer, layer > 0);
}

static int read_window(const Config *c, int n_layers) {
    bool mlx = config_has_tensor(c, "model.layers.*.mlp.switch_mlp.up_proj.weight", n_layers - 1);
    if (config_has(c, "sliding_window_size")) return config_size(c, "sliding_window_size") + (mlx ? 0 : 1);
    return config_size_or(c, "sliding_window", 129);
}

static AttentionSpec read_full(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.v_dim = config_size_or(c, "v_head_dim", 128);
    a.v_scale = (float)config_number_unless_null(c, "attention_value_scale", 0.707);
    a.o.bias = false;
    if (config_bool_or(c, "add_full_attention_sink_bias", false))
        a.sinks = "model.layers.*.self_attn.attention_sink_bias";
    return a;
}

/* transformers: twice the key-value heads, the rest as in full layers. */
static AttentionSpec read_sliding(const Config *c, const AttentionSpec *full, int window) {
    AttentionSpec a = *full;
    a.n_heads = config_size_or(c, "swa_num_attention_heads", full->n_heads);
    a.n_kv_heads = config_size_or(c, "swa_num_key_value_heads", 2 * full->n_kv_heads);
    a.head_dim = config_size_or(c, "swa_head_dim", full->head_dim);
    a.v_dim = config_size_or(c, "swa_v_head_dim", full->v_dim);
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    a.window = window;
    a.rope = 1;
    bool sinks = config_bool_or(c, "add_swa_attention_sink_bias", true);
    a.sinks = sinks ? "model.layers.*.self_attn.attention_sink_bias" : NULL;
    return a;
}

/* One rope for each kind of layer; where there is one kind only, both are its. */
static bool read_ropes(const Config *c, Blueprint *b, const AttentionSpec *full, const AttentionSpec *sliding) {
    bool kinds[2] = {false, false};
    for (int i = 0; i < b->n_layers; i++) kinds[b->layers[i].attention.window != 0] = true;
    const char *first = kinds[0] ? "full_attention" : "sliding_attention";
    const char *second = kinds[1] ? "sliding_attention" : "full_attention";
    double theta = config_number_or(c, "rope_theta", 5e6), sliding_theta = config_number_or(c, "swa_rope_theta", 1e4);
    return standard_kind_rope(c, b, 0, first, theta, 0.334, full->head_dim) &&
           standard_kind_rope(c, b, 1, second, sliding_theta, 0.334, sliding->head_dim);
}

static bool mimo_v2_flash_blueprint(const Config *c, Blueprint *b) {
    static const CorrectedDefaults experts = {256, 8, 2048, 0, 1, true};
    const StandardDefaults d = {.norm_eps = config_number_or(c, "layernorm_epsilon", 1e-5),
                                .max_position = 131072,
                                .kv_heads = 4,
                                .head_dim = 192,
                                .tie = TIE_NO};
    standard_model(c, &d, b);
    float eps = config_has(c, "layernorm_epsilon") ? (float)d.norm_eps : b->final_norm.eps;
    b->final_norm.eps = eps;
    AttentionSpec full = read_full(c, &d, b->hidden);
    int n_layers = standard_layer_count(c);
    AttentionSpec sliding = read_sliding(c, &full, read_window(c, n_layers));
    MlpSpec mlp = standard_mlp(c, &d, config_size_or(c, "intermediate_size", 16384));
    ExpertsSpec e = standard_corrected_experts(c, &experts, &mlp);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(is_sliding(c, n_layers, i) ? &sliding : &full, &mlp, eps);
        if (has_experts(c, n_layers, i)) standard_use_experts(&b->layers[i], &e);
    }
    return read_ropes(c, b, &full, &sliding) && config_ok(c);
}

const Family family_mimo_v2_flash = {"mimo_v2_flash",         model_types, irrelevant_keys, skipped_tensors,
                                     mimo_v2_flash_blueprint, NULL};
