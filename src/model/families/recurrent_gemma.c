/* RecurrentGemma (arXiv:2404.07839), which is Griffin: layers of a gated linear recurrence, and after some of them one
 * of attention within a window; norms that keep weight - 1, biases everywhere, embeddings times sqrt(hidden).
 *
 * transformers rounds sqrt(hidden) to bf16, whatever the weights are stored as; mlx-lm, whose layout is known by its
 * convolutions, whose last axis is 1, does not. It also norms inside the layers with 1e-5 whatever rms_norm_eps says:
 * transformers is right. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"recurrent_gemma", NULL};

static const char *const irrelevant_keys[] = {"hidden_act", /* hidden_activation is read */
                                              "w_init_variance_scale", "final_w_init_variance_scale", NULL};

static RglruSpec read_recurrence(const Config *c, int hidden, int heads) {
    int width = config_size_or(c, "lru_width", hidden);
    LinearSpec gate = {.bare = true, .transposed = true};
    RglruSpec g = {.heads = heads,
                   .width = width,
                   .kernel = config_size_or(c, "conv1d_width", 4),
                   .x = {.name = "model.layers.*.temporal_block.linear_x", .bias = true},
                   .y = {.name = "model.layers.*.temporal_block.linear_y", .bias = true},
                   .o = {.name = "model.layers.*.temporal_block.linear_out", .bias = true},
                   .act = standard_activation(c, "hidden_activation", "gelu_pytorch_tanh"),
                   .conv = {.name = "model.layers.*.temporal_block.conv_1d.weight",
                            .bias = "model.layers.*.temporal_block.conv_1d.bias",
                            .total = width},
                   .x_gate = {gate},
                   .a_gate = {gate},
                   .x_gate_bias = "model.layers.*.temporal_block.rg_lru.input_gate_bias",
                   .a_gate_bias = "model.layers.*.temporal_block.rg_lru.recurrent_gate_bias",
                   .rate = "model.layers.*.temporal_block.rg_lru.recurrent_param"};
    g.x_gate[0].name = "model.layers.*.temporal_block.rg_lru.input_gate_weight";
    g.a_gate[0].name = "model.layers.*.temporal_block.rg_lru.recurrent_gate_weight";
    return g;
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.window = config_size_or(c, "attention_window_size", 2048);
    a.q.name = "model.layers.*.temporal_block.q_proj";
    a.k.name = "model.layers.*.temporal_block.k_proj";
    a.v.name = "model.layers.*.temporal_block.v_proj";
    a.o = (LinearSpec){.name = "model.layers.*.temporal_block.o_proj", .bias = true};
    return a;
}

/* intermediate_size counts gate and up together. */
static MlpSpec read_mlp(const Config *c, const StandardDefaults *d) {
    int both = config_size(c, "intermediate_size");
    MlpSpec m = standard_mlp(c, d, both / 2);
    m.gate = (LinearSpec){.name = "model.layers.*.mlp_block.gate_proj", .bias = true};
    m.up = (LinearSpec){.name = "model.layers.*.mlp_block.up_proj", .bias = true};
    m.down = (LinearSpec){.name = "model.layers.*.mlp_block.down_proj", .bias = true};
    if (both < 2) config_fail(c, "\"intermediate_size\" is %d, expected at least 2", both);
    return m;
}

/* Whether layer i is attention: block_types, over and over. */
static bool is_attention(const Config *c, int layer) {
    const char *key = config_has(c, "block_types") ? "block_types" : "_block_types";
    const JsonValue *types = config_array(c, key, -1);
    if (!types || types->length == 0) return layer % 3 == 2;
    uint32_t place = (uint32_t)layer % types->length;
    const JsonValue *type = json_item(types, place);
    if (!json_equals(type, "attention") && !json_equals(type, "recurrent"))
        config_fail(c, "\"%s\" item %u is neither recurrent nor attention", key, place);
    return json_equals(type, "attention");
}

static bool is_mlx(const Config *c) {
    for (int i = 0; i < 64; i++) {
        const Tensor *conv = config_tensor(c, "model.layers.*.temporal_block.conv_1d.weight", i);
        if (conv && conv->n_dims == 3) return conv->shape[2] == 1;
    }
    return false;
}

static void put_embedding_scale(const Config *c, Blueprint *b) {
    bool wanted = config_bool_or(c, "embeddings_scale_by_sqrt_dim", true), mlx = is_mlx(c);
    b->embedding_scale = mlx && !wanted ? 1 : (float)sqrt((double)b->hidden);
    b->embedding_scale_bf16 = !mlx;
}

static bool recurrent_gemma_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .max_position = 8192, .tie = TIE_YES, .heads = 10, .act = "gelu_pytorch_tanh"};
    standard_model(c, &defaults, b);
    b->final_norm = standard_rms("model.final_norm.weight", b->final_norm.eps);
    b->final_norm.plus = 1;
    put_embedding_scale(c, b);
    b->logit_softcap = (float)config_number_or(c, "logits_soft_cap", 30);
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c, &defaults);
    RglruSpec recurrence = read_recurrence(c, b->hidden, attention.n_heads);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *l = &b->layers[i];
        *l = standard_layer(&attention, &mlp, b->final_norm.eps);
        l->mixer_norm.weight = "model.layers.*.temporal_pre_norm.weight";
        l->ffn_norm.weight = "model.layers.*.channel_pre_norm.weight";
        l->mixer_norm.plus = l->ffn_norm.plus = 1;
        l->rglru = recurrence;
        if (!is_attention(c, i)) l->mixer = &mixer_rglru;
    }
    return standard_partial_rope(c, &defaults, b, 0.5, false) && config_ok(c);
}

const Family family_recurrent_gemma = {"recurrent_gemma",         model_types, irrelevant_keys, NULL,
                                       recurrent_gemma_blueprint, NULL};
