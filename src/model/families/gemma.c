/* Gemma 1, 2 and 3 (arXiv:2403.08295, 2408.00118, 2503.19786), and the text model inside Gemma 3's multimodal files:
 * embeddings times sqrt(hidden), norms that keep weight - 1, a gelu-gated mlp. Gemma 2 norms each half's result as
 * well, alternates sliding and full layers and caps scores and logits; Gemma 3 norms queries and keys instead of
 * capping, and gives sliding layers a rotary table of their own, without scaling.
 *
 * EmbeddingGemma is Gemma 3 as an encoder: rows see both ways, and half of the window to either side.
 *
 * The reference is transformers. mlx-lm has the erf form of gelu in Gemma 1 and no window in Gemma 2. Gemma 3 rounds
 * sqrt(hidden) to bf16 where the embedding is stored so, as both references do then. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"gemma", "gemma2", "gemma3_text", "gemma3", NULL};

static const char *const irrelevant_keys[] = {
    /* of images */
    "vision_config",
    "boi_token_index",
    "boi_token_id",
    "eoi_token_index",
    "eoi_token_id",
    "image_token_index",
    "image_token_id",
    "mm_tokens_per_image",
    "sliding_window_size",     /* sliding_window again, in the first Gemma 2 files */
    "_sliding_window_pattern", /* what transformers keeps beside layer_types */
    NULL};

static const StandardDefaults gemma1 = {
    .max_position = 8192, .tie = TIE_YES, .vocab = 256000, .heads = 16, .kv_heads = 16, .head_dim = 256};
static const StandardDefaults gemma2 = {
    .max_position = 8192, .tie = TIE_YES, .vocab = 256000, .heads = 8, .kv_heads = 4, .head_dim = 256};
static const StandardDefaults gemma3 = {
    .max_position = 131072, .tie = TIE_YES, .vocab = 262208, .heads = 8, .kv_heads = 4, .head_dim = 256};

/* Gemma 1 reads hidden_act, in which "gelu" means the tanh form; the others read hidden_activation. */
static Activation read_activation(const Config *c, bool first) {
    static const char tanh_form[] = "gelu_pytorch_tanh";
    const char *older = config_string_or(c, "hidden_act", tanh_form);
    const char *newer = config_string_or(c, "hidden_activation", tanh_form);
    if (first && (strcmp(older, "gelu") == 0 || strcmp(newer, "gelu") == 0)) return ACT_GELU_TANH;
    return standard_activation(c, first ? "hidden_act" : "hidden_activation", tanh_form);
}

static MlpSpec read_mlp(const Config *c, bool first) {
    return (MlpSpec){.width = config_size(c, "intermediate_size"),
                     .activation = read_activation(c, first),
                     .gate = {.name = "model.layers.*.mlp.gate_proj"},
                     .up = {.name = "model.layers.*.mlp.up_proj"},
                     .down = {.name = "model.layers.*.mlp.down_proj"}};
}

static void read_embedding(const Config *c, const StandardDefaults *d, bool rounded, Blueprint *b) {
    standard_model(c, d, b);
    b->embedding_scale = (float)sqrt((double)b->hidden);
    b->embedding_scale_stored = rounded;
    b->final_norm.plus = 1;
    b->encoder = config_bool_or(c, "use_bidirectional_attention", false);
    if (b->encoder) b->head.name = NULL;
}

/* ---- Gemma 1 ---- */

static bool first_blueprint(const Config *c, Blueprint *b) {
    read_embedding(c, &gemma1, false, b);
    if (b->encoder) config_fail(c, "\"use_bidirectional_attention\" is true, which no reference has for this family");
    AttentionSpec attention = standard_attention(c, &gemma1, b->hidden);
    MlpSpec mlp = read_mlp(c, true);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        b->layers[i].mixer_norm.plus = b->layers[i].ffn_norm.plus = 1;
    }
    return standard_rope(c, &gemma1, b, 0, attention.head_dim, false) && config_ok(c);
}

/* ---- Gemma 2 and 3 ---- */

/* A cap on scores or logits; null: none. */
static float read_cap(const Config *c, const char *key, double absent) {
    double cap = config_number_unless_null(c, key, absent);
    if (config_has(c, key) && cap <= 0) config_fail(c, "\"%s%s\" is %g, expected more than 0", c->path, key, cap);
    return (float)cap;
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b, bool second) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    double scalar = config_number_or(c, "query_pre_attn_scalar", 256);
    if (scalar <= 0) config_fail(c, "\"%squery_pre_attn_scalar\" is %g, expected more than 0", c->path, scalar);
    a.scale = (float)(1 / sqrt(scalar));
    a.softcap = read_cap(c, "attn_logit_softcapping", second ? 50 : 0);
    if (second) return a;
    standard_head_norms(&a, SPAN_HEAD, b->final_norm.eps);
    a.q_norm.norm.plus = a.k_norm.norm.plus = 1;
    return a;
}

/* Fills the layers; in Gemma 3, rope 0 is that of full layers and rope 1 that of sliding ones. */
static bool read_layers(const Config *c, const AttentionSpec *a, const MlpSpec *m, bool second, Blueprint *b) {
    int pattern = second ? 2 : config_size_or(c, "sliding_window_pattern", 6);
    int window = config_size_unless_null(c, "sliding_window", 4096);
    if (b->encoder && window) window = window / 2 + 1;
    for (int i = 0; i < b->n_layers; i++) {
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, standard_pattern_kind(i, pattern));
        b->layers[i] = standard_layer(a, m, b->final_norm.eps);
        standard_norm_around(&b->layers[i], 1);
        b->layers[i].attention.rope = !second && kind == LAYER_SLIDING;
        b->layers[i].attention.both_ways = b->encoder;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return true;
}

static bool read_third_ropes(const Config *c, int head_dim, Blueprint *b) {
    double theta = config_number_or(c, "rope_theta", 1e6), local = config_number_or(c, "rope_local_base_freq", 10000);
    return standard_kind_ropes(c, b, head_dim, theta, local);
}

static bool later_blueprint(const Config *c, bool second, Blueprint *b) {
    const StandardDefaults *d = second ? &gemma2 : &gemma3;
    read_embedding(c, d, !second, b);
    b->logit_softcap = read_cap(c, "final_logit_softcapping", second ? 30 : 0);
    AttentionSpec attention = read_attention(c, d, b, second);
    MlpSpec mlp = read_mlp(c, false);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, second ? 1 : 2)) return false;
    if (!read_layers(c, &attention, &mlp, second, b)) return false;
    return (second ? standard_rope(c, d, b, 0, attention.head_dim, false)
                   : read_third_ropes(c, attention.head_dim, b)) &&
           config_ok(c);
}

static bool gemma_blueprint(const Config *c, Blueprint *b) {
    const char *type = config_string_or(c, "model_type", "");
    Config text = config_text(c);
    if (strcmp(type, "gemma") == 0) return first_blueprint(c, b);
    if (text.object == c->object) return later_blueprint(c, strcmp(type, "gemma2") == 0, b);
    int vocab = config_size_or(c, "vocab_size", gemma3.vocab); /* mlx-lm reads it beside the section */
    if (!later_blueprint(&text, false, b)) return false;
    b->tie = standard_tie(c, b->tie);
    if (!config_has(&text, "vocab_size")) b->vocab = vocab;
    return config_ok(c);
}

const Family family_gemma = {"gemma",         model_types,           irrelevant_keys, standard_wrapper_skipped_tensors,
                             gemma_blueprint, standard_wrapper_roots};
