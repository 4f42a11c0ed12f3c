/* Gemma 4: Gemma's sandwich of norms (stored whole), windows and full attention in turns, with head sizes and ropes of
 * their own; scores unscaled, since q and k are normed; values normed without a weight, and on full layers taken from
 * the keys where attention_k_eq_v. The last layers may read an earlier layer's keys and values, layers may have inputs
 * of their own, and experts may run beside the dense mlp. Absent keys have transformers' defaults; mlx-lm's differ. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"gemma4", "gemma4_text", NULL};

static const char *const irrelevant_keys[] = {"vision_config",
                                              "audio_config",
                                              "vocab_size", /* of the wrapper */
                                              "image_token_id",
                                              "audio_token_id",
                                              "video_token_id",
                                              "boi_token_id",
                                              "eoi_token_id",
                                              "boa_token_id",
                                              "eoa_token_id",
                                              "eoa_token_index",
                                              "vision_soft_tokens_per_image",
                                              NULL};

/* Layers that share keys and values are published with projections that they never use. */
static const char *const skipped_tensors[] = {"*vision_tower.*",          "*audio_tower.*",
                                              "*embed_vision.*",          "*embed_audio.*",
                                              "*multi_modal_projector.*", "*.self_attn.k_proj.*",
                                              "*.self_attn.v_proj.*",     "*.self_attn.k_norm.*",
                                              "*.self_attn.v_norm.*",     NULL};

enum { SLIDING_ROPE, FULL_ROPE };

static bool is_full(const Config *c, const Blueprint *b, int layer) {
    if (layer == b->n_layers - 1) return true; /* transformers makes it so */
    LayerKind usual = (layer + 1) % 6 ? LAYER_SLIDING : LAYER_FULL;
    return standard_layer_kind(c, b->n_layers, layer, usual) == LAYER_FULL;
}

static HeadNormSpec head_norm(const char *weight, float eps) {
    return (HeadNormSpec){standard_rms(weight, eps), SPAN_HEAD};
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b, bool full) {
    int sliding_dim = config_size_or(c, "head_dim", 256), full_dim = config_size_or(c, "global_head_dim", 512);
    int window = config_size_or(c, "sliding_window", 512);
    bool from_keys = config_bool_or(c, "attention_k_eq_v", false);
    AttentionSpec a = standard_attention(c, d, b->hidden);
    int global_heads = config_size_or(c, "num_global_key_value_heads", a.n_kv_heads);
    a.head_dim = full ? full_dim : sliding_dim;
    a.scale = 1;
    a.rope = full ? FULL_ROPE : SLIDING_ROPE;
    a.window = full ? 0 : window;
    a.v_is_k = full && from_keys;
    if (a.v_is_k) a.n_kv_heads = global_heads;
    a.q_norm = head_norm("model.layers.*.self_attn.q_norm.weight", b->final_norm.eps);
    a.k_norm = head_norm("model.layers.*.self_attn.k_norm.weight", b->final_norm.eps);
    a.v_norm = head_norm(NULL, b->final_norm.eps);
    return a;
}

static ExpertsSpec read_experts(const Config *c, const Blueprint *b, Activation act) {
    int width = config_size(c, "moe_intermediate_size");
    float eps = b->final_norm.eps;
    RowSlice first = {2 * (int64_t)width, 0, width, width}, second = {2 * (int64_t)width, width, width, width};
    return (ExpertsSpec){.rule = {.score = ROUTER_SOFTMAX,
                                  .n_experts = config_size(c, "num_experts"),
                                  .n_chosen = config_size(c, "top_k_experts"),
                                  .renormalise = true},
                         .router = {.name = "model.layers.*.router.proj"},
                         .expert_scale = "model.layers.*.router.per_expert_scale",
                         .gate = {{.name = "model.layers.*.experts.switch_glu.gate_proj"},
                                  {.name = "model.layers.*.experts.gate_up_proj", .rows = first, .bare = true}},
                         .up = {{.name = "model.layers.*.experts.switch_glu.up_proj"},
                                {.name = "model.layers.*.experts.gate_up_proj", .rows = second, .bare = true}},
                         .down = {{.name = "model.layers.*.experts.switch_glu.down_proj"},
                                  {.name = "model.layers.*.experts.down_proj", .bare = true}},
                         .expert = {.width = width, .activation = act, .gate = {.name = "gate"}},
                         .router_norm = standard_rms("model.layers.*.router.scale", eps),
                         .router_scale = (float)(1 / sqrt((double)b->hidden)),
                         .input_norm = standard_rms("model.layers.*.pre_feedforward_layernorm_2.weight", eps),
                         .dense_out = standard_rms("model.layers.*.post_feedforward_layernorm_1.weight", eps),
                         .experts_out = standard_rms("model.layers.*.post_feedforward_layernorm_2.weight", eps)};
}

static void put_layer(const Config *c, Blueprint *b, int i, const AttentionSpec *a, const MlpSpec *mlp) {
    float eps = b->final_norm.eps;
    LayerSpec *l = &b->layers[i];
    *l = standard_layer(a, mlp, eps);
    l->mixer_out = standard_rms("model.layers.*.post_attention_layernorm.weight", eps);
    l->ffn_norm = standard_rms("model.layers.*.pre_feedforward_layernorm.weight", eps);
    l->ffn_out = standard_rms("model.layers.*.post_feedforward_layernorm.weight", eps);
    if (config_has_tensor(c, "model.layers.*.layer_scalar", i)) l->scalar = "model.layers.*.layer_scalar";
}

/* Each kind of layer has its own settings. */
static bool put_rope(const Config *c, Blueprint *b, const char *kind, int index, int head_dim) {
    bool full = index == FULL_ROPE;
    Config all = rope_section(c), section = rope_kind_section(&all, kind);
    RopeInput in = {.theta = full ? 1e6 : 1e4,
                    .dims = head_dim,
                    .max_position = b->max_context,
                    .partial = full ? 0.25 : 1,
                    .rule = full && !all.object ? "proportional" : NULL};
    return config_ok(c) && rope_read(&section, &in, &b->ropes[index]);
}

static void put_model(const Config *root, const Config *c, const StandardDefaults *d, Blueprint *b) {
    standard_model(c, d, b);
    standard_root_tie(c, root, b);
    b->embedding_scale = sqrtf((float)b->hidden);
    b->logit_softcap = (float)config_number_or(c, "final_logit_softcapping", 0);
    if (config_string_or(c, "use_bidirectional_attention", NULL))
        if (strcmp(config_string_or(c, "use_bidirectional_attention", ""), "vision") != 0)
            config_fail(c, "\"use_bidirectional_attention\" makes this an encoder, which is not supported");
}

static bool gemma4_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 131072, .act = "gelu_pytorch_tanh", .tie = TIE_YES};
    Config text = config_text(root), *c = &text;
    put_model(root, c, &defaults, b);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    AttentionSpec sliding = read_attention(c, &defaults, b, false), full = read_attention(c, &defaults, b, true);
    int shared = (int)config_number_or(c, "num_kv_shared_layers", 0);
    bool wide = config_bool_or(c, "use_double_wide_mlp", false), experts = config_bool_or(c, "enable_moe_block", false);
    b->per_layer = standard_per_layer(c, b, 256, 262144);
    ExpertsSpec e = experts ? read_experts(c, b, mlp.activation) : (ExpertsSpec){0};
    static const char *const unused[] = {"num_experts", "top_k_experts", "moe_intermediate_size"};
    for (int i = 0; i < 3; i++) config_size_or(c, unused[i], 1);
    for (int i = 0; i < n_layers; i++) {
        put_layer(c, b, i, is_full(c, b, i) ? &full : &sliding, &mlp);
        if (wide && i >= n_layers - shared) b->layers[i].mlp.width *= 2;
        if (!experts) continue;
        b->layers[i].ffn = &ffn_mlp_beside_experts;
        b->layers[i].experts = e;
    }
    return standard_share_keys(c, b, shared) && put_rope(c, b, "sliding_attention", SLIDING_ROPE, sliding.head_dim) &&
           put_rope(c, b, "full_attention", FULL_ROPE, full.head_dim) && config_ok(c);
}

const Family family_gemma4 = {"gemma4",        model_types,      irrelevant_keys,
                              skipped_tensors, gemma4_blueprint, standard_wrapper_roots};
