/* MiniMax-M2 (2025), which mlx-lm calls "minimax": a norm over all heads of q and all of k, part of each head rotated,
 * and experts chosen by sigmoid scores with a correction.
 *
 * MiniMax-Text-01 (arXiv:2501.08313), which transformers calls "minimax": lightning attention in most layers, experts
 * chosen by softmax, and norms of what goes on, not beside it, with factors for both sides of each sum. Its decays are
 * formed from their definition; checkpoints hold them rounded. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"minimax_m2", "minimax", NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "*.self_attn.slope_rate",
                                              "*.self_attn.query_decay",         "*.self_attn.key_decay",
                                              "*.self_attn.diagonal_decay",      NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "router_jitter_noise",
                                              "mtp_transformer_layers",
                                              "num_mtp_modules",
                                              "use_mtp",    /* published without them */
                                              "block_size", /* of Text-01: the state advances token by token here */
                                              NULL};

/* Options that published configs state and that the references have in one way only. */
static void check_options(const Config *c) {
    const JsonValue *kinds = config_array(c, "attn_type_list", -1);
    for (uint32_t i = 0; kinds && i < kinds->length; i++) {
        int64_t kind;
        if (!json_int(json_item(kinds, i), &kind) || kind != 1)
            config_fail(c, "\"attn_type_list\" item %u is not 1 (full attention), the only kind of MiniMax-M2", i);
    }
    const char *score = config_string_or(c, "scoring_func", "sigmoid");
    if (strcmp(score, "sigmoid") != 0) config_fail(c, "\"scoring_func\" is \"%.40s\": known is sigmoid", score);
    const char *norm = config_string_or(c, "qk_norm_type", "per_layer");
    if (strcmp(norm, "per_layer") != 0) config_fail(c, "\"qk_norm_type\" is \"%.40s\": known is per_layer", norm);
    if (config_count_or(c, "shared_intermediate_size", 0))
        config_fail(c, "\"shared_intermediate_size\" is not 0: neither reference has shared experts here");
    if (!config_bool_or(c, "use_routing_bias", true)) config_fail(c, "\"use_routing_bias\" off is not known");
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp->width, mlp->activation);
    e.rule = (RouterRule){
        .score = ROUTER_SIGMOID,
        .n_experts = config_size_or(c, config_has(c, "num_experts") ? "num_experts" : "num_local_experts", 256),
        .n_chosen = config_size_or(c, "num_experts_per_tok", 8),
        .renormalise = true};
    e.correction = "model.layers.*.block_sparse_moe.e_score_correction_bias";
    return e;
}

/* Published configs say how many dims are rotated; newer ones may say which part of a head. */
static int rotated_dims(const Config *c, int head_dim) {
    Config section = rope_section(c);
    int dims = config_size_or(c, "rotary_dim", head_dim);
    if (config_has(c, "partial_rotary_factor") || config_has(&section, "partial_rotary_factor"))
        return rope_partial_dims(c, &section, head_dim, 1);
    if (dims > head_dim) config_fail(c, "\"rotary_dim\" %d is more than the %d dims of a head", dims, head_dim);
    return dims;
}

/* ---- Text-01 ---- */

static bool is_text(const Config *c) {
    const JsonValue *names = config_array(c, "architectures", -1);
    bool is = config_has(c, "block_size") || config_has(c, "layer_types");
    for (uint32_t i = 0; names && i < names->length; i++)
        is = is || json_equals(json_item(names, i), "MiniMaxForCausalLM");
    return is && strcmp(config_string_or(c, "model_type", ""), "minimax") == 0;
}

/* One matrix holds, head by head, query, key and value. */
static LightningSpec read_lightning(const Config *c, const AttentionSpec *a) {
    int64_t dim = a->head_dim, all = 3 * dim * a->n_heads;
    LightningSpec l = {.heads = a->n_heads,
                       .head_dim = a->head_dim,
                       .gate = {.name = "model.layers.*.self_attn.output_gate"},
                       .o = {.name = "model.layers.*.self_attn.out_proj"},
                       .act = standard_activation(c, "hidden_act", "silu"),
                       .rope = NO_ROPE,
                       .slopes = SLOPES_EVEN,
                       .norm = standard_rms("model.layers.*.self_attn.norm.weight", 1e-6f),
                       .norm_groups = 1};
    l.q = l.k = l.v = (LinearSpec){.name = "model.layers.*.self_attn.qkv_proj"};
    l.q.rows = (RowSlice){all, 0, dim, 3 * dim};
    l.k.rows = (RowSlice){all, dim, dim, 3 * dim};
    l.v.rows = (RowSlice){all, 2 * dim, dim, 3 * dim};
    return l;
}

static ExpertsSpec read_text_experts(const Config *c, const MlpSpec *mlp) {
    const char *count = config_has(c, "num_experts") ? "num_experts" : "num_local_experts";
    ExpertsSpec e = standard_experts(EXPERTS_IN_BLOCK_SPARSE_MOE, mlp->width, mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, count, 8),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2),
                          .renormalise = true};
    return e;
}

/* The factors of a sum: 1 where they are not said. */
static void put_factors(const Config *c, LayerSpec *layer, bool linear) {
    const char *keep = linear ? "linear_attn_alpha_factor" : "full_attn_alpha_factor";
    const char *scale = linear ? "linear_attn_beta_factor" : "full_attn_beta_factor";
    layer->mixer_keep = (float)config_number_or(c, keep, 1);
    layer->mixer_scale = (float)config_number_or(c, scale, 1);
    layer->ffn_keep = (float)config_number_or(c, "mlp_alpha_factor", 1);
    layer->ffn_scale = (float)config_number_or(c, "mlp_beta_factor", 1);
    if (layer->mixer_keep == 0 || layer->mixer_scale == 0 || layer->ffn_keep == 0 || layer->ffn_scale == 0)
        config_fail(c, "has a factor of a residual that is 0, which leaves nothing to add");
}

static void put_text_layer(const Config *c, Blueprint *b, int i, const LightningSpec *lightning) {
    LayerSpec *layer = &b->layers[i];
    LayerKind kind = standard_layer_kind(c, b->n_layers, i, i % 2 ? LAYER_LINEAR : LAYER_FULL);
    layer->enter_norm = layer->mixer_norm;
    layer->mid_norm = layer->ffn_norm;
    layer->mixer_norm = layer->ffn_norm = (NormSpec){.kind = NORM_NONE};
    put_factors(c, layer, kind == LAYER_LINEAR);
    if (kind != LAYER_LINEAR && kind != LAYER_FULL)
        config_fail(c, "\"layer_types\" item %d is neither full_attention nor linear_attention", i);
    if (kind != LAYER_LINEAR) return;
    layer->mixer = &mixer_lightning;
    layer->lightning = *lightning;
    layer->lightning.slope_scale = (float)(1 - i / (b->n_layers - 1 + 1e-5) + 1e-5);
}

static bool text_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-5, .theta = 1e6, .max_position = 131072, .kv_heads = 8, .tie = TIE_NO};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    attention.window = config_size_unless_null(c, "sliding_window", 0);
    LightningSpec lightning = read_lightning(c, &attention);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 14336));
    ExpertsSpec experts = read_text_experts(c, &mlp);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        standard_use_experts(&b->layers[i], &experts);
        put_text_layer(c, b, i, &lightning);
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

/* ---- M2 ---- */

static bool minimax_m2_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .theta = 5e6, .max_position = 196608, .head_dim = 128, .kv_heads = 8, .tie = TIE_NO};
    if (is_text(c)) return text_blueprint(c, b);
    standard_model(c, &defaults, b);
    check_options(c);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    if (config_bool_or(c, "use_qk_norm", true)) standard_head_norms(&attention, SPAN_ALL, b->final_norm.eps);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 1536));
    ExpertsSpec experts = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c), dims = rotated_dims(c, attention.head_dim);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        standard_use_experts(&b->layers[i], &experts);
    }
    return standard_rope(c, &defaults, b, 0, dims, false) && config_ok(c);
}

const Family family_minimax_m2 = {"minimax_m2",    model_types,          irrelevant_keys,
                                  skipped_tensors, minimax_m2_blueprint, NULL};
