/* Llama 4 (Meta, 2025) and its dense text models (MobileLLM-R1): layers with rotary positions see one chunk and norm
 * the heads of rotated queries and keys; the others see all positions and sharpen queries by position. An expert's
 * weight, the sigmoid of its logit, multiplies its input. The reference is transformers; mlx-lm has another eps in the
 * norms of heads. Its "llama4_text" is a simpler model, dense, with full attention and norms in every layer; a config
 * without any key of chunks or experts is read as one of its. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"llama4", "llama4_text", NULL};

static const char *const irrelevant_keys[] = {
    "output_router_logits", "router_aux_loss_coef",   "router_jitter_noise", /* of training */
    "for_llm_compressor",   "no_rope_layer_interval",                        /* read where no_rope_layers is absent */
    "vision_config",        "boi_token_index",        "eoi_token_index",     "image_token_index", NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "*vision_model.*",
                                              "*multi_modal_projector.*", NULL};

/* What both layouts of one model say alike, read once. */
typedef struct Text {
    bool simple; /* mlx-lm's dense text model */
    bool norms;
    int chunk, step;
    PositionScale scale;
    const JsonValue *rotated, *moe_layers;
} Text;

/* true, false, or mlx-lm's number. */
static bool read_switch(const Config *c, const char *key, bool fallback) {
    const JsonValue *v = config_has(c, key) ? config_whole(c, key) : NULL;
    int64_t n;
    return v && json_int(v, &n) ? n != 0 : config_bool_or(c, key, fallback);
}

static Text read_text(const Config *c) {
    static const char *const keys[] = {"attention_chunk_size", "num_local_experts", "interleave_moe_layer_step",
                                       "moe_layers",           "layer_types",       NULL};
    bool tuning = read_switch(c, "attn_temperature_tuning", true);
    double beta = config_number_or(c, "attn_scale", 0.1);
    Text t = {.simple = strcmp(config_string_or(c, "model_type", ""), "llama4_text") == 0,
              .norms = config_bool_or(c, "use_qk_norm", true),
              .chunk = config_size_unless_null(c, "attention_chunk_size", 8192),
              .step = config_count_or(c, "interleave_moe_layer_step", 1),
              .scale = {tuning ? beta : 0, config_size_or(c, "floor_scale", 8192), 1},
              .rotated = config_array(c, "no_rope_layers", -1),
              .moe_layers = config_array(c, "moe_layers", -1)};
    for (const char *const *k = keys; *k; k++)
        if (json_get(c->object, *k)) t.simple = false;
    if (t.simple) t.chunk = t.step = 0;
    if (t.simple) t.scale.beta = 0;
    return t;
}

/* Item `layer` of no_rope_layers, which says 1 where there is rope. */
static bool has_rope(const Config *c, const Text *t, int layer) {
    int64_t rope = 1;
    if (!t->rotated || t->rotated->length == 0)
        return (layer + 1) % config_size_or(c, "no_rope_layer_interval", 4) != 0;
    if ((uint32_t)layer >= t->rotated->length || !json_int(json_item(t->rotated, (uint32_t)layer), &rope))
        config_fail(c, "\"no_rope_layers\" has no whole number for layer %d", layer);
    return rope != 0;
}

static bool has_experts(const Text *t, int layer) {
    int64_t n;
    if (!t->moe_layers) return t->step && layer % t->step == t->step - 1;
    for (uint32_t i = 0; i < t->moe_layers->length; i++)
        if (json_int(json_item(t->moe_layers, i), &n) && n == layer) return true;
    return false;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *dense) {
    static const char fused[] = "model.layers.*.feed_forward.experts.gate_up_proj";
    int width = config_size_or(c, "intermediate_size", 8192);
    ExpertsSpec e = {
        .router = {.name = "model.layers.*.feed_forward.router"},
        .gate = {{.name = "model.layers.*.feed_forward.experts.gate_proj"},
                 {.name = fused, .transposed = true, .bare = true}},
        .up = {{.name = "model.layers.*.feed_forward.experts.up_proj"},
               {.name = fused, .transposed = true, .bare = true}},
        .down = {{.name = "model.layers.*.feed_forward.experts.down_proj"},
                 {.name = "model.layers.*.feed_forward.experts.down_proj", .transposed = true, .bare = true}},
        .expert = {.width = width, .activation = dense->activation, .gate = {.name = "gate"}},
        .weigh_inputs = true,
        .shared = *dense};
    e.rule = (RouterRule){.score = ROUTER_SIGMOID_CHOSEN,
                          .n_experts = config_size_or(c, "num_local_experts", 16),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 1)};
    e.gate[1].rows = (RowSlice){2 * (int64_t)width, 0, width, width};
    e.up[1].rows = (RowSlice){2 * (int64_t)width, width, width, width};
    e.shared.width = width;
    e.shared.gate.name = "model.layers.*.feed_forward.shared_expert.gate_proj";
    e.shared.up.name = "model.layers.*.feed_forward.shared_expert.up_proj";
    e.shared.down.name = "model.layers.*.feed_forward.shared_expert.down_proj";
    return e;
}

static MlpSpec read_dense(const Config *c, const StandardDefaults *d) {
    MlpSpec m = standard_mlp(c, d, config_size_or(c, "intermediate_size_mlp", 16384));
    standard_feed_forward(&m);
    return m;
}

static void shape_attention(const Config *c, const Text *t, int layer, int n_layers, float eps, AttentionSpec *a) {
    bool rope = has_rope(c, t, layer);
    LayerKind kind = standard_layer_kind(c, n_layers, layer, rope && t->chunk ? LAYER_CHUNKED : LAYER_FULL);
    HeadNormSpec norm = {.norm = {.kind = NORM_RMS, .eps = eps}, .span = SPAN_HEAD};
    if (kind != LAYER_FULL && (kind != LAYER_CHUNKED || t->chunk == 0))
        config_fail(c, "layer %d is neither full nor chunked with an \"attention_chunk_size\"", layer);
    if (kind == LAYER_CHUNKED) a->chunk = t->chunk;
    if (t->norms && (rope || t->simple)) a->q_norm = a->k_norm = norm;
    a->norm_after_rope = true;
    if (rope) return;
    a->rope = NO_ROPE;
    a->position_scale = t->scale;
}

static bool llama4_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-5, .theta = 500000, .max_position = 131072, .kv_heads = 8, .head_dim = 128};
    Config text = config_text(root), *c = &text;
    standard_model(c, &defaults, b);
    b->head.name = "lm_head|output";
    Text t = read_text(c);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_dense(c, &defaults);
    ExpertsSpec experts = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        shape_attention(c, &t, i, n_layers, b->final_norm.eps, &b->layers[i].attention);
        if (has_experts(&t, i)) standard_use_experts(&b->layers[i], &experts);
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, true) && config_ok(c);
}

const Family family_llama4 = {"llama4",        model_types,      irrelevant_keys,
                              skipped_tensors, llama4_blueprint, standard_wrapper_roots};
