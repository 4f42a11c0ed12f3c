/* Reading the common keys. Several spellings of one thing are tried in a fixed order, as the references do. */
#include "model/standard.h"
#include "model/mechanism.h"

#include <math.h>
#include <string.h>

const char *const standard_skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", NULL};

const char *const standard_wrapper_skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "*vision_tower.*",
                                                        "*multi_modal_projector.*", NULL};

const NameRoot standard_wrapper_roots[] = {
    {"model.", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}, {NULL, NULL}};

NormSpec standard_rms(const char *weight, float eps) {
    return (NormSpec){.kind = NORM_RMS, .weight = weight, .eps = eps};
}

NormSpec standard_layer_norm(const char *weight, const char *bias, float eps) {
    return (NormSpec){.kind = NORM_LAYER, .weight = weight, .bias = bias, .eps = eps};
}

static void to_layer_norm(NormSpec *norm, const char *bias, float plus) {
    norm->kind = NORM_LAYER;
    norm->bias = bias;
    norm->plus = plus;
}

void standard_layer_norms(Blueprint *b, bool bias, float plus) {
    to_layer_norm(&b->final_norm, bias ? "model.norm.bias" : NULL, plus);
    for (int i = 0; i < b->n_layers; i++) {
        to_layer_norm(&b->layers[i].mixer_norm, bias ? "model.layers.*.input_layernorm.bias" : NULL, plus);
        to_layer_norm(&b->layers[i].ffn_norm, bias ? "model.layers.*.post_attention_layernorm.bias" : NULL, plus);
    }
}

static const char *first_key(const Config *c, const char *const *keys) {
    for (const char *const *k = keys; *k; k++)
        if (config_has(c, *k)) return *k;
    return keys[0];
}

int standard_layer_count(const Config *c) {
    static const char *const keys[] = {"num_hidden_layers", "n_layers", "num_layers", "n_layer", NULL};
    return config_size(c, first_key(c, keys));
}

int standard_extra_layers(const Config *c, int otherwise) {
    static const char *const keys[] = {"num_nextn_predict_layers", "num_mtp_layers", NULL};
    return config_count_or(c, first_key(c, keys), otherwise);
}

int standard_labels(const Config *c) {
    static const char ending[] = "ForSequenceClassification";
    const JsonValue *classes = json_get_set(c->object, "architectures"), *labels = json_get_set(c->object, "id2label");
    bool listed = classes && classes->type == JSON_ARRAY && classes->length > 0;
    const char *name = listed ? json_string(json_item(classes, 0)) : NULL;
    size_t n = name ? strlen(name) : 0, n_ending = sizeof ending - 1;
    if (n < n_ending || strcmp(name + n - n_ending, ending) != 0) return 0;
    if (!labels) return config_size_or(c, "num_labels", 2); /* as in transformers */
    if (labels->type != JSON_OBJECT || labels->length < 1 || labels->length > CONFIG_MAX_SIZE)
        config_fail(c, "\"id2label\" is no object of labels");
    return labels->type == JSON_OBJECT && labels->length > 0 ? (int)labels->length : 1;
}

TieRule standard_tie(const Config *c, TieRule when_absent) {
    if (!config_has(c, "tie_word_embeddings")) return when_absent;
    return config_bool_or(c, "tie_word_embeddings", false) ? TIE_YES : TIE_NO;
}

void standard_root_tie(const Config *c, const Config *root, Blueprint *b) {
    if (c->object != root->object && !config_has(c, "tie_word_embeddings")) b->tie = standard_tie(root, b->tie);
    config_bool_or(root, "tie_word_embeddings", false); /* read: it does not matter beside the inner one */
}

typedef struct ActivationName {
    const char *name;
    Activation act;
} ActivationName;

static const ActivationName activation_names[] = {
    {"silu", ACT_SILU},
    {"swish", ACT_SILU},
    {"gelu", ACT_GELU},
    {"gelu_python", ACT_GELU},
    {"gelu_new", ACT_GELU_TANH},
    {"gelu_fast", ACT_GELU_TANH},
    {"gelu_pytorch_tanh", ACT_GELU_TANH},
    {"quick_gelu", ACT_GELU_QUICK},
    {"relu", ACT_RELU},
    {"relu2", ACT_RELU2},
    {"relu_squared", ACT_RELU2},
};

Activation standard_activation(const Config *c, const char *key, const char *fallback) {
    const char *name = config_string_or(c, key, fallback);
    for (size_t i = 0; i < sizeof activation_names / sizeof *activation_names; i++)
        if (strcmp(activation_names[i].name, name) == 0) return activation_names[i].act;
    config_fail(c, "\"%s%s\" is \"%.40s\", which is no activation known here", c->path, key, name);
    return ACT_SILU;
}

static float norm_eps(const Config *c, const StandardDefaults *d) {
    static const char *const keys[] = {"rms_norm_eps",       "layer_norm_eps", "norm_eps",
                                       "layer_norm_epsilon", "norm_epsilon",   NULL};
    return (float)config_number_or(c, first_key(c, keys), d->norm_eps != 0 ? d->norm_eps : 1e-6);
}

void standard_model(const Config *c, const StandardDefaults *d, Blueprint *b) {
    static const char *const widths[] = {"hidden_size", "n_embd", "hidden_dim", "model_dim", "d_model", NULL};
    static const char *const lengths[] = {"max_position_embeddings", "n_positions", "max_seq_len", NULL};
    static const char *const vocabs[] = {"vocab_size", "num_vocab", NULL};
    b->hidden = config_size(c, first_key(c, widths));
    b->vocab = d->vocab ? config_size_or(c, first_key(c, vocabs), d->vocab) : config_size(c, first_key(c, vocabs));
    b->max_context = config_size_or(c, first_key(c, lengths), d->max_position ? d->max_position : 2048);
    b->tie = standard_tie(c, d->tie);
    b->embedding = (LinearSpec){.name = "model.embed_tokens"};
    b->head = (LinearSpec){.name = "lm_head"};
    b->final_norm = standard_rms("model.norm.weight", norm_eps(c, d));
}

AttentionSpec standard_attention(const Config *c, const StandardDefaults *d, int hidden) {
    static const char *const counts[] = {"num_attention_heads", "n_head", "num_heads", "n_heads", NULL};
    const char *count = first_key(c, counts);
    int heads = d->heads ? config_size_or(c, count, d->heads) : config_size(c, count);
    int kv_heads = config_size_unless_null(c, "num_key_value_heads", d->kv_heads);
    bool bias = config_bool_or(c, "attention_bias", d->attention_bias);
    AttentionSpec a = {.n_heads = heads,
                       .n_kv_heads = kv_heads ? kv_heads : heads,
                       .q = {.name = "model.layers.*.self_attn.q_proj", .bias = bias},
                       .k = {.name = "model.layers.*.self_attn.k_proj", .bias = bias},
                       .v = {.name = "model.layers.*.self_attn.v_proj", .bias = bias},
                       .o = {.name = "model.layers.*.self_attn.o_proj", .bias = bias}};
    int head_dim = config_size_unless_null(c, "head_dim", d->head_dim);
    if (!head_dim && hidden % heads)
        config_fail(c, "\"hidden_size\" %d is not divisible by \"%s\" %d, and there is no \"head_dim\"", hidden, count,
                    heads);
    a.head_dim = head_dim ? head_dim : hidden / heads > 0 ? hidden / heads : 1;
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    return a;
}

MlpSpec standard_mlp(const Config *c, const StandardDefaults *d, int width) {
    bool bias = config_bool_or(c, "mlp_bias", d->mlp_bias);
    static const char *const acts[] = {"hidden_activation", "hidden_act", "activation_function", NULL};
    return (MlpSpec){.width = width,
                     .activation = standard_activation(c, first_key(c, acts), d->act ? d->act : "silu"),
                     .gate = {.name = "model.layers.*.mlp.gate_proj", .bias = bias},
                     .up = {.name = "model.layers.*.mlp.up_proj", .bias = bias},
                     .down = {.name = "model.layers.*.mlp.down_proj", .bias = bias}};
}

void standard_feed_forward(MlpSpec *m) {
    m->gate.name = "model.layers.*.feed_forward.gate_proj";
    m->up.name = "model.layers.*.feed_forward.up_proj";
    m->down.name = "model.layers.*.feed_forward.down_proj";
}

void standard_take_rows(LinearSpec *spec, const char *name, int64_t total, int64_t from, int64_t n) {
    spec->name = name;
    spec->rows = (RowSlice){total, from, n, n};
}

void standard_fuse_qkv(AttentionSpec *a, const char *name) {
    int64_t q = (int64_t)a->n_heads * a->head_dim, kv = (int64_t)a->n_kv_heads * a->head_dim;
    standard_take_rows(&a->q, name, q + 2 * kv, 0, q);
    standard_take_rows(&a->k, name, q + 2 * kv, q, kv);
    standard_take_rows(&a->v, name, q + 2 * kv, q + kv, kv);
}

void standard_fuse_qkv_groups(AttentionSpec *a, const char *name) {
    int64_t dim = a->head_dim, queries = a->n_heads / a->n_kv_heads, group = (queries + 2) * dim;
    int64_t total = a->n_kv_heads * group;
    a->q.name = a->k.name = a->v.name = name;
    a->q.rows = (RowSlice){total, 0, queries * dim, group};
    a->k.rows = (RowSlice){total, queries * dim, dim, group};
    a->v.rows = (RowSlice){total, (queries + 1) * dim, dim, group};
}

void standard_fuse_gate_up(MlpSpec *m, const char *name) {
    standard_take_rows(&m->gate, name, 2 * (int64_t)m->width, 0, m->width);
    standard_take_rows(&m->up, name, 2 * (int64_t)m->width, m->width, m->width);
}

LayerSpec standard_layer(const AttentionSpec *a, const MlpSpec *m, float eps) {
    return (LayerSpec){.mixer_norm = standard_rms("model.layers.*.input_layernorm.weight", eps),
                       .ffn_norm = standard_rms("model.layers.*.post_attention_layernorm.weight", eps),
                       .mixer = &mixer_attention,
                       .attention = *a,
                       .ffn = &ffn_mlp,
                       .mlp = *m};
}

void standard_norm_after(LayerSpec *layer) {
    layer->mixer_out = layer->ffn_norm;
    layer->ffn_out = standard_rms("model.layers.*.post_feedforward_layernorm.weight", layer->ffn_norm.eps);
    layer->mixer_norm = layer->ffn_norm = (NormSpec){.kind = NORM_NONE};
}

void standard_norm_around(LayerSpec *layer, float plus) {
    float eps = layer->mixer_norm.eps;
    layer->mixer_out = layer->ffn_norm; /* post_attention_layernorm */
    layer->ffn_norm = standard_rms("model.layers.*.pre_feedforward_layernorm.weight", eps);
    layer->ffn_out = standard_rms("model.layers.*.post_feedforward_layernorm.weight", eps);
    layer->mixer_norm.plus = layer->mixer_out.plus = layer->ffn_norm.plus = layer->ffn_out.plus = plus;
}

void standard_head_norms(AttentionSpec *a, HeadNormSpan span, float eps) {
    a->q_norm = (HeadNormSpec){standard_rms("model.layers.*.self_attn.q_norm.weight", eps), span};
    a->k_norm = (HeadNormSpec){standard_rms("model.layers.*.self_attn.k_norm.weight", eps), span};
}

bool standard_rope(const Config *c, const StandardDefaults *d, Blueprint *b, int index, int dims, bool interleaved) {
    Config section = rope_section(c);
    RopeInput in = {.theta = config_number_or(c, "rope_theta", d->theta != 0 ? d->theta : 10000),
                    .dims = dims,
                    .max_position = b->max_context,
                    .original = config_size_or(c, "original_max_position_embeddings", 0),
                    .interleaved = interleaved};
    if (!config_ok(c) || !rope_read(&section, &in, &b->ropes[index])) return false;
    b->context_note = rope_context_note(&b->ropes[index]);
    return true;
}

bool standard_partial_rope(const Config *c, const StandardDefaults *d, Blueprint *b, double factor, bool interleaved) {
    Config section = rope_section(c);
    int dims = rope_partial_dims(c, &section, b->layers[0].attention.head_dim, factor);
    return standard_rope(c, d, b, 0, dims, interleaved);
}

static bool some_layer_has(const Blueprint *b, int rope) {
    for (int i = 0; i < b->n_layers; i++)
        if (b->layers[i].attention.rope == rope) return true;
    return false;
}

/* The section of a kind in rope_parameters; a kind that no layer is of may be absent. */
static Config kind_section(const Config *section, const char *kind, bool needed) {
    Config none = {section->record, NULL, "rope_parameters."};
    if (config_has(section, kind)) return rope_kind_section(section, kind);
    if (needed)
        config_fail(section, "\"%.20s\" has no \"%s\"; each kind of layer has settings of its own here", section->path,
                    kind);
    return none;
}

/* `top`: where a partial_rotary_factor for all kinds may be. */
static bool read_kind_rope(const Config *top, const Config *section, double theta, double partial, int head_dim,
                           const Blueprint *b, RopeSpec *out) {
    RopeInput in = {
        .theta = theta, .dims = rope_partial_dims(top, section, head_dim, partial), .max_position = b->max_context};
    return config_ok(section) && rope_read(section, &in, out);
}

bool standard_kind_ropes(const Config *c, Blueprint *b, int head_dim, double full_theta, double sliding_theta) {
    Config section = rope_section(c), full = section, sliding = {c->record, NULL, "rope_parameters."};
    if (config_has(c, "rope_parameters")) {
        full = kind_section(&section, "full_attention", some_layer_has(b, 0));
        sliding = kind_section(&section, "sliding_attention", some_layer_has(b, 1));
    }
    if (!read_kind_rope(&full, &full, full_theta, 1, head_dim, b, &b->ropes[0]) ||
        !read_kind_rope(&sliding, &sliding, sliding_theta, 1, head_dim, b, &b->ropes[1]))
        return false;
    b->context_note = rope_context_note(&b->ropes[0]);
    return true;
}

bool standard_kind_rope(const Config *c, Blueprint *b, int index, const char *kind, double theta, double partial,
                        int head_dim) {
    Config all = rope_section(c), section = rope_kind_section(&all, kind);
    if (!read_kind_rope(c, &section, theta, partial, head_dim, b, &b->ropes[index])) return false;
    b->context_note = rope_context_note(&b->ropes[index]);
    return true;
}

LayerKind standard_layer_kind(const Config *c, int n_layers, int layer, LayerKind fallback) {
    const JsonValue *types = config_array(c, "layer_types", n_layers);
    if (!types) return fallback;
    const JsonValue *type = json_item(types, (uint32_t)layer);
    if (json_equals(type, "full_attention")) return LAYER_FULL;
    if (json_equals(type, "sliding_attention")) return LAYER_SLIDING;
    if (json_equals(type, "chunked_attention")) return LAYER_CHUNKED;
    if (json_equals(type, "linear_attention")) return LAYER_LINEAR;
    config_fail(c, "\"layer_types\" item %d is no kind of layer known here", layer);
    return fallback;
}

LayerKind standard_pattern_kind(int layer, int pattern) {
    return (layer + 1) % pattern ? LAYER_SLIDING : LAYER_FULL;
}

bool standard_set_window(const Config *c, Blueprint *b, int layer, LayerKind kind, int window) {
    if (kind == LAYER_FULL) return true;
    if (kind != LAYER_SLIDING) return config_fail(c, "\"layer_types\" item %d is no kind this family has", layer);
    if (window == 0)
        return config_fail(c, "layer %d has a sliding window, but there is no \"%ssliding_window\"", layer, c->path);
    b->layers[layer].attention.window = window;
    return true;
}

bool standard_lists(const JsonValue *list, int n) {
    for (uint32_t i = 0; list && i < list->length; i++) {
        int64_t item;
        if (json_int(json_item(list, i), &item) && item == n) return true;
    }
    return false;
}

bool standard_layers(const Config *c, const StandardDefaults *d, Blueprint *b, int n_ropes) {
    standard_model(c, d, b);
    AttentionSpec attention = standard_attention(c, d, b->hidden);
    MlpSpec mlp = standard_mlp(c, d, config_size(c, "intermediate_size"));
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, n_ropes)) return false;
    for (int i = 0; i < n_layers; i++) b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
    return true;
}

bool standard_blueprint(const Config *c, const StandardDefaults *d, Blueprint *b) {
    return standard_layers(c, d, b, 1) && standard_rope(c, d, b, 0, b->layers[0].attention.head_dim, false) &&
           config_ok(c);
}
