/* Gemma 3n: Gemma's sandwich of norms (stored whole) in four hidden streams (AltUp), with a low-rank residual beside
 * attention (Laurel), inputs of each layer's own, a sparse gate in the first layers, and last layers that read the keys
 * and values of an earlier one. Scores are unscaled, since q and k are normed. Every row is rotated by its own
 * position, also in shared layers; mlx-lm is right there only with a cache. Absent keys have transformers' defaults. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"gemma3n", "gemma3n_text", NULL};

static const char *const irrelevant_keys[] = {"vision_config",
                                              "audio_config",
                                              "vocab_size",      /* of the wrapper */
                                              "altup_coef_clip", /* of training */
                                              "audio_soft_tokens_per_image",
                                              "vision_soft_tokens_per_image",
                                              "audio_token_id",
                                              "image_token_id",
                                              "boa_token_id",
                                              "boi_token_id",
                                              "eoa_token_id",
                                              "eoi_token_id",
                                              "altup_lr_multiplier",
                                              NULL};

static const char *const skipped_tensors[] = {
    "*vision_tower.*",      "*audio_tower.*",       "*embed_vision.*",      "*embed_audio.*",
    "*.self_attn.k_proj.*", "*.self_attn.v_proj.*", "*.self_attn.k_norm.*", NULL};

enum { SLIDING_ROPE, FULL_ROPE };

/* The quantile of the normal distribution (Wichura, AS 241, PPND16 within the centre and its tail), for 0.5 <= p < 1.
 */
static double normal_quantile(double p) {
    static const double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                               1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                               3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[] = {1,
                               4.2313330701600911252e+1,
                               6.8718700749205790830e+2,
                               5.3941960214247511077e+3,
                               2.1213794301586595867e+4,
                               3.9307895800092710610e+4,
                               2.8729085735721942674e+4,
                               5.2264952788528545610e+3};
    static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                               3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                               2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[] = {1,
                               2.05319162663775882187e0,
                               1.67638483018380384940e0,
                               6.89767334985100004550e-1,
                               1.48103976427480074590e-1,
                               1.51986665636164571966e-2,
                               5.47593808499534494600e-4,
                               1.05075007164441684324e-9};
    double q = p - 0.5, r, top = 0, bottom = 0;
    bool centre = q <= 0.425;
    r = centre ? 0.180625 - q * q : sqrt(-rope_log(1 - p)) - 1.6;
    for (int i = 7; i >= 0; i--) {
        top = top * r + (centre ? a[i] : c[i]);
        bottom = bottom * r + (centre ? b[i] : d[i]);
    }
    return centre ? q * top / bottom : top / bottom;
}

/* A value per layer: a list, or one for all. */
static double layer_value(const Config *c, const char *key, int n_layers, int layer, double otherwise) {
    const JsonValue *value = config_whole(c, key);
    double number;
    if (!value) return otherwise;
    if (value->type == JSON_ARRAY && value->length != (uint32_t)n_layers)
        config_fail(c, "\"%s%s\" has %u items, expected %d", c->path, key, value->length, n_layers);
    const JsonValue *item = value->type == JSON_ARRAY ? json_item(value, (uint32_t)layer) : value;
    if (item && json_number(item, &number)) return number;
    config_fail(c, "\"%s%s\" is neither a number nor a list of one per layer", c->path, key);
    return otherwise;
}

static float read_sparsity(const Config *c, int n_layers, int layer) {
    double kept =
        layer_value(c, "activation_sparsity_pattern", n_layers, layer, n_layers > 10 && layer < 10 ? 0.95 : 0);
    if (kept == 0) return 0;
    if (kept < 0.5 || kept > 0.9999)
        config_fail(c, "\"activation_sparsity_pattern\" has %g, expected 0 or 0.5 to 0.9999", kept);
    return (float)normal_quantile(kept);
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    float eps = b->final_norm.eps;
    a.head_dim = config_size_or(c, "head_dim", 256);
    a.scale = 1;
    a.q_norm.norm = standard_rms("model.layers.*.self_attn.q_norm.weight", eps);
    a.k_norm.norm = standard_rms("model.layers.*.self_attn.k_norm.weight", eps);
    a.v_norm.norm = standard_rms(NULL, eps);
    return a;
}

static AltUpSpec read_altup(const Config *c, const Blueprint *b) {
    bool scaled = config_bool_or(c, "altup_correct_scale", true);
    return (AltUpSpec){.n = config_size_or(c, "altup_num_inputs", 4),
                       .active = (int)config_number_or(c, "altup_active_idx", 0),
                       .embed = {.name = "model.altup_projections.#"},
                       .unembed = {.name = "model.altup_unembed_projections.#"},
                       .router_norm = standard_rms("model.layers.*.altup.router_norm.weight", b->final_norm.eps),
                       .router = {.name = "model.layers.*.altup.modality_router"},
                       .predict = {.name = "model.layers.*.altup.prediction_coefs"},
                       .correct = {.name = "model.layers.*.altup.correction_coefs"},
                       .correct_scale = scaled ? "model.layers.*.altup.correct_output_scale" : NULL};
}

static void put_layer(const Config *c, Blueprint *b, int i, const AttentionSpec *a, MlpSpec mlp, int window) {
    float eps = b->final_norm.eps;
    LayerKind usual = (i + 1) % 5 == 0 ? LAYER_FULL : LAYER_SLIDING;
    bool sliding = standard_layer_kind(c, b->n_layers, i, usual) == LAYER_SLIDING;
    LayerSpec *l = &b->layers[i];
    double width = layer_value(c, "intermediate_size", b->n_layers, i, 16384);
    mlp.width = width >= 1 && width <= CONFIG_MAX_SIZE ? (int)width : 0;
    if (mlp.width < 1) config_fail(c, "\"intermediate_size\" has %g", width);
    mlp.sparsity = read_sparsity(c, b->n_layers, i);
    *l = standard_layer(a, &mlp, eps);
    l->attention.window = sliding ? window : 0;
    l->attention.rope = sliding ? SLIDING_ROPE : FULL_ROPE;
    l->mixer_out = standard_rms("model.layers.*.post_attention_layernorm.weight", eps);
    l->ffn_norm = standard_rms("model.layers.*.pre_feedforward_layernorm.weight", eps);
    l->ffn_out = standard_rms("model.layers.*.post_feedforward_layernorm.weight", eps);
    l->laurel = (LaurelSpec){config_size_or(c, "laurel_rank", 64),
                             {.name = "model.layers.*.laurel.linear_left"},
                             {.name = "model.layers.*.laurel.linear_right"},
                             standard_rms("model.layers.*.laurel.post_laurel_norm.weight", eps)};
}

/* Full layers have rope_theta (and rope_scaling), sliding ones a base of their own; newer configs say both kind by
 * kind. */
static bool put_ropes(const Config *c, Blueprint *b, int head_dim) {
    Config all = rope_section(c), none = {c->record, NULL, ""};
    Config full = rope_kind_section(&all, "full_attention"), sliding = rope_kind_section(&all, "sliding_attention");
    bool by_kind = sliding.object != all.object;
    RopeInput in = {.dims = head_dim, .max_position = b->max_context};
    in.theta = config_number_or(c, "rope_local_base_freq", 10000);
    if (!rope_read(by_kind ? &sliding : &none, &in, &b->ropes[SLIDING_ROPE])) return false;
    in.theta = config_number_or(c, "rope_theta", 1e6);
    return rope_read(&full, &in, &b->ropes[FULL_ROPE]);
}

static void put_model(const Config *root, const Config *c, const StandardDefaults *d, Blueprint *b) {
    standard_model(c, d, b);
    standard_root_tie(c, root, b);
    b->embedding_scale = sqrtf((float)b->hidden);
    b->logit_softcap =
        (float)config_number_or(c, "final_logit_softcapping", config_is_null(c, "final_logit_softcapping") ? 0 : 30);
    b->altup = read_altup(c, b);
    b->per_layer = standard_per_layer(c, b, 256, 262144);
}

static bool gemma3n_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 32768, .act = "gelu_pytorch_tanh", .tie = TIE_YES};
    Config text = config_text(root), *c = &text;
    put_model(root, c, &defaults, b);
    MlpSpec mlp = standard_mlp(c, &defaults, 1);
    AttentionSpec attention = read_attention(c, &defaults, b);
    int n_layers = standard_layer_count(c), window = config_size_or(c, "sliding_window", 512);
    int shared = (int)config_number_or(c, "num_kv_shared_layers", 15);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    for (int i = 0; i < n_layers; i++) put_layer(c, b, i, &attention, mlp, window);
    return standard_share_keys(c, b, shared) && put_ropes(c, b, attention.head_dim) && config_ok(c);
}

const Family family_gemma3n = {"gemma3n",       model_types,       irrelevant_keys,
                               skipped_tensors, gemma3n_blueprint, standard_wrapper_roots};
