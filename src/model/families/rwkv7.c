/* RWKV 7 (arXiv:2503.14456): no attention anywhere. A layer's time mixing and its channel mixing both look back at the
 * row before, and so each is a layer here: layer 2 i is the first half of the config's layer i, layer 2 i + 1 the
 * second. The first layer's values go into those of all others. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"rwkv7", NULL};

static const char *const irrelevant_keys[] = {"attn_mode",    "fuse_norm", "fuse_cross_entropy",
                                              "hidden_ratio", "value_dim", "fuse_linear_cross_entropy",
                                              "use_l2warp",   NULL};

static LatentSpec latent(const char *down, const char *up, int rank, Activation act, bool bias) {
    return (LatentSpec){.rank = rank, .down = {.name = down}, .up = {.name = up, .bias = bias}, .act = act};
}

static void put_tensors(const Config *c, Rwkv7Spec *m) {
    m->r.name = "model.layers.*.attn.r_proj";
    m->k.name = "model.layers.*.attn.k_proj";
    m->v.name = "model.layers.*.attn.v_proj";
    m->o.name = "model.layers.*.attn.o_proj";
    m->decay = latent("model.layers.*.attn.w_lora.lora.0", "model.layers.*.attn.w_lora.lora.2",
                      config_size(c, "decay_low_rank_dim"), ACT_TANH, true);
    m->correct = latent("model.layers.*.attn.a_lora.lora.0", "model.layers.*.attn.a_lora.lora.2",
                        config_size(c, "a_low_rank_dim"), ACT_NONE, true);
    m->first = latent("model.layers.*.attn.v_lora.lora.0", "model.layers.*.attn.v_lora.lora.2",
                      config_size(c, "v_low_rank_dim"), ACT_NONE, true);
    m->gate = latent("model.layers.*.attn.g_lora.lora.0", "model.layers.*.attn.g_lora.lora.2",
                     config_size(c, "gate_low_rank_dim"), ACT_SIGMOID, false);
    m->mix_r = "model.layers.*.attn.x_r";
    m->mix_k = "model.layers.*.attn.x_k";
    m->mix_v = "model.layers.*.attn.x_v";
    m->mix_decay = "model.layers.*.attn.x_w";
    m->mix_correct = "model.layers.*.attn.x_a";
    m->mix_gate = "model.layers.*.attn.x_g";
    m->k_unit = "model.layers.*.attn.k_k";
    m->k_correct = "model.layers.*.attn.k_a";
    m->bonus = "model.layers.*.attn.r_k";
    m->norm = standard_layer_norm("model.layers.*.attn.g_norm.weight", "model.layers.*.attn.g_norm.bias", 64e-5f);
}

static Rwkv7Spec read_time(const Config *c, int hidden) {
    Rwkv7Spec m = {.head_dim = config_size_or(c, "head_dim", 64)};
    m.heads = hidden / m.head_dim;
    if (config_size_or(c, "num_heads", m.heads) != m.heads || m.heads == 0 || hidden % m.head_dim)
        config_fail(c, "a hidden size of %d does not divide into \"num_heads\" heads of %d", hidden, m.head_dim);
    put_tensors(c, &m);
    return m;
}

static ChannelMixSpec read_channels(const Config *c, int hidden) {
    const char *act = config_string_or(c, "hidden_act", "sqrelu");
    if (strcmp(act, "sqrelu") != 0 && strcmp(act, "relu2") != 0)
        config_fail(c, "\"hidden_act\" is \"%.40s\"; RWKV 7 runs with sqrelu", act);
    return (ChannelMixSpec){.hidden = hidden,
                            .width = config_size(c, "intermediate_size"),
                            .key = {.name = "model.layers.*.ffn.key"},
                            .value = {.name = "model.layers.*.ffn.value"},
                            .mix = "model.layers.*.ffn.x_k"};
}

static void put_layers(Blueprint *b, int n, const Rwkv7Spec *time, const ChannelMixSpec *channels) {
    float eps = b->final_norm.eps;
    for (int i = 0; i < n; i++) {
        LayerSpec *first = &b->layers[2 * i], *second = first + 1;
        first->names_back = i;
        first->mixer_norm =
            standard_layer_norm("model.layers.*.attn_norm.weight", "model.layers.*.attn_norm.bias", eps);
        first->mixer = &mixer_rwkv7;
        first->rwkv7 = *time;
        first->rwkv7.lends = i == 0;
        if (i == 0) first->rwkv7.first = (LatentSpec){0};
        second->names_back = i + 1;
        second->mixer_norm = standard_layer_norm("model.layers.*.ffn_norm.weight", "model.layers.*.ffn_norm.bias", eps);
        second->mixer = &mixer_channel_mix;
        second->channel_mix = *channels;
    }
}

static bool rwkv7_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = CONFIG_MAX_SIZE, .tie = TIE_NO};
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps;
    int n = standard_layer_count(c);
    b->embedding.name = "model.embeddings";
    b->embedding_norm = standard_layer_norm("model.layers.0.pre_norm.weight", "model.layers.0.pre_norm.bias", eps);
    b->final_norm = standard_layer_norm("model.norm.weight", "model.norm.bias", eps);
    Rwkv7Spec time = read_time(c, b->hidden);
    ChannelMixSpec channels = read_channels(c, b->hidden);
    if (!config_bool_or(c, "norm_first", true) || !config_bool_or(c, "norm_bias", true))
        config_fail(c, "\"norm_first\" or \"norm_bias\" is false, which no reference runs");
    if (n > 4096) config_fail(c, "%d layers are more than any model has", n);
    if (!config_ok(c) || !blueprint_allocate(c, b, 2 * n, 0)) return false;
    put_layers(b, n, &time, &channels);
    return config_ok(c);
}

const Family family_rwkv7 = {"rwkv7", model_types, irrelevant_keys, NULL, rwkv7_blueprint, NULL};
