/* LFM2, dense and mixture (arXiv:2511.23404): most layers are gated short convolutions, the others attention with
 * normed queries and keys. In the dense model the feed-forward's width is what transformers rounds it to; in the
 * mixture the first layers are dense, the others have experts chosen by sigmoid with a correction. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"lfm2", "lfm2_moe", "lfm2-vl", "lfm2_vl", NULL};

static const char *const irrelevant_keys[] = {"block_dim",
                                              "conv_dim",
                                              "conv_dim_out",
                                              "conv_use_xavier_init",
                                              "block_mlp_init_scale",
                                              "block_out_init_scale",
                                              "block_norm_eps",
                                              "block_use_swiglu",
                                              "block_use_xavier_init",
                                              "use_pos_enc",
                                              "theta",
                                              "num_heads",
                                              "num_attention_heads_per_layer",
                                              "output_router_logits",
                                              "vision_config",
                                              "image_token_id",
                                              "projector_hidden_act",
                                              "projector_hidden_size",
                                              "projector_bias",
                                              "downsample_factor",
                                              NULL};

static const char *const skipped_tensors[] = {"*vision_tower.*", "*multi_modal_projector.*", NULL};

/* Two thirds of block_ff_dim, times the multiplier, up to a multiple. */
static int dense_width(const Config *c, bool mixture) {
    int width = config_size_or(c, "intermediate_size", mixture ? 7168 : 12288);
    if (mixture) return width;
    width = config_size_or(c, "block_ff_dim", width);
    int multiple = config_size_or(c, "block_multiple_of", 256);
    double multiplier = config_number_or(c, "block_ffn_dim_multiplier", 1);
    if (!config_bool_or(c, "block_auto_adjust_ff_dim", true)) return width;
    width = (int)(2 * (int64_t)width / 3);
    if (!config_is_null(c, "block_ffn_dim_multiplier")) width = (int)(multiplier * width);
    return width < 1 ? 1 : (width + multiple - 1) / multiple * multiple;
}

static ShortConvSpec read_conv(const Config *c, int hidden) {
    bool bias = config_bool_or(c, "conv_bias", false);
    ShortConvSpec s = {.kernel = config_size_or(c, "conv_L_cache", 3)};
    s.b = s.c = s.x = (LinearSpec){.name = "model.layers.*.conv.in_proj", .bias = bias};
    s.b.rows = (RowSlice){3 * (int64_t)hidden, 0, hidden, hidden};
    s.c.rows = (RowSlice){3 * (int64_t)hidden, hidden, hidden, hidden};
    s.x.rows = (RowSlice){3 * (int64_t)hidden, 2 * (int64_t)hidden, hidden, hidden};
    s.o = (LinearSpec){.name = "model.layers.*.conv.out_proj", .bias = bias};
    s.conv = (ConvSpec){.name = "model.layers.*.conv.conv.weight",
                        .bias = bias ? "model.layers.*.conv.conv.bias" : NULL,
                        .total = hidden};
    return s;
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    a.o.name = "model.layers.*.self_attn.out_proj";
    a.q_norm.norm = standard_rms("model.layers.*.self_attn.q_layernorm.weight", b->final_norm.eps);
    a.k_norm.norm = standard_rms("model.layers.*.self_attn.k_layernorm.weight", b->final_norm.eps);
    return a;
}

static MlpSpec read_mlp(int width) {
    return (MlpSpec){.width = width,
                     .activation = ACT_SILU,
                     .gate = {.name = "model.layers.*.feed_forward.w1|model.layers.*.feed_forward.gate_proj"},
                     .up = {.name = "model.layers.*.feed_forward.w3|model.layers.*.feed_forward.up_proj"},
                     .down = {.name = "model.layers.*.feed_forward.w2|model.layers.*.feed_forward.down_proj"}};
}

static ExpertsSpec read_experts(const Config *c) {
    int width = config_size_or(c, "moe_intermediate_size", 1792);
    RowSlice first = {2 * (int64_t)width, 0, width, width}, second = {2 * (int64_t)width, width, width, width};
    return (ExpertsSpec){
        .rule = {.score = ROUTER_SIGMOID,
                 .n_experts = config_size_or(c, "num_experts", 32),
                 .n_chosen = config_size_or(c, "num_experts_per_tok", 4),
                 .renormalise = config_bool_or(c, "norm_topk_prob", true),
                 .renormalise_eps = 1e-6f,
                 .scale = (float)config_number_or(c, "routed_scaling_factor", 1)},
        .router = {.name = "model.layers.*.feed_forward.gate"},
        .correction = config_bool_or(c, "use_expert_bias", true) ? "model.layers.*.feed_forward.expert_bias" : NULL,
        .gate = {{.name = "model.layers.*.feed_forward.switch_mlp.gate_proj"},
                 {.name = "model.layers.*.feed_forward.experts.#.w1"},
                 {.name = "model.layers.*.feed_forward.experts.gate_up_proj", .rows = first, .bare = true}},
        .up = {{.name = "model.layers.*.feed_forward.switch_mlp.up_proj"},
               {.name = "model.layers.*.feed_forward.experts.#.w3"},
               {.name = "model.layers.*.feed_forward.experts.gate_up_proj", .rows = second, .bare = true}},
        .down = {{.name = "model.layers.*.feed_forward.switch_mlp.down_proj"},
                 {.name = "model.layers.*.feed_forward.experts.#.w2"},
                 {.name = "model.layers.*.feed_forward.experts.down_proj", .bare = true}},
        .expert = {.width = width, .activation = ACT_SILU, .gate = {.name = "gate"}}};
}

/* layer_types, or the older full_attn_idxs; without both every layer is full. */
static bool is_conv(const Config *c, int n_layers, int layer) {
    const JsonValue *types = config_array(c, "layer_types", n_layers), *full = config_array(c, "full_attn_idxs", -1);
    if (types) {
        const JsonValue *type = json_item(types, (uint32_t)layer);
        if (!json_equals(type, "conv") && !json_equals(type, "full_attention"))
            config_fail(c, "\"layer_types\" item %d is neither conv nor full_attention", layer);
        return json_equals(type, "conv");
    }
    for (uint32_t i = 0; full && i < full->length; i++) {
        int64_t n;
        if (json_int(json_item(full, i), &n) && n == layer) return false;
    }
    return full != NULL;
}

static void put_model(const Config *root, const Config *c, const StandardDefaults *d, Blueprint *b) {
    standard_model(c, d, b);
    b->final_norm.weight = "model.embedding_norm.weight";
    if (config_has(c, "tie_embedding")) b->tie = config_bool_or(c, "tie_embedding", true) ? TIE_YES : TIE_NO;
    config_bool_or(root, "tie_word_embeddings", true);
}

static bool lfm2_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 128000, .theta = 1e6, .tie = TIE_YES};
    Config text = config_text(root), *c = &text;
    bool mixture = strcmp(config_string_or(c, "model_type", ""), "lfm2_moe") == 0;
    put_model(root, c, &defaults, b);
    AttentionSpec attention = read_attention(c, &defaults, b);
    MlpSpec mlp = read_mlp(dense_width(c, mixture));
    ShortConvSpec conv = read_conv(c, b->hidden);
    ExpertsSpec experts = mixture ? read_experts(c) : (ExpertsSpec){0};
    int n_dense = mixture ? (int)config_number_or(c, "num_dense_layers", 2) : CONFIG_MAX_SIZE;
    const char *act = config_string_or(c, "hidden_act", "silu");
    if (strcmp(act, "silu") != 0) config_fail(c, "\"hidden_act\" is \"%.40s\"; the references have silu alone", act);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        LayerSpec *l = &b->layers[i];
        *l = standard_layer(&attention, &mlp, b->final_norm.eps);
        l->mixer_norm.weight = "model.layers.*.operator_norm.weight";
        l->ffn_norm.weight = "model.layers.*.ffn_norm.weight";
        l->short_conv = conv;
        if (is_conv(c, n_layers, i)) l->mixer = &mixer_short_conv;
        l->experts = experts;
        if (i >= n_dense) l->ffn = &ffn_experts;
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_lfm2 = {"lfm2",          model_types,    irrelevant_keys,
                            skipped_tensors, lfm2_blueprint, standard_wrapper_roots};
