/* Phixtral (Labonne, 2024): Phi-2's parallel layer in its first layout, with a mixture of Phi's mlps in place of one.
 * The reference is mlx-lm. */
#include "model/standard.h"

static const char *const model_types[] = {"phixtral", "phi-msft", NULL};

static const char *const irrelevant_keys[] = {"attn_pdrop",   "embd_pdrop",  "resid_pdrop",   "n_inner", "flash_attn",
                                              "flash_rotary", "fused_dense", "img_processor", NULL};

static const NameRoot roots[] = {{"transformer.", ""}, {NULL, NULL}};

static ExpertsSpec read_experts(const Config *c, int hidden) {
    ExpertsSpec e = {.router = {.name = "model.h.*.moe.gate"},
                     .up = {{.name = "model.h.*.moe.switch_mlp.fc1", .bias = true},
                            {.name = "model.h.*.moe.mlp.#.fc1", .bias = true}},
                     .down = {{.name = "model.h.*.moe.switch_mlp.fc2", .bias = true},
                              {.name = "model.h.*.moe.mlp.#.fc2", .bias = true}},
                     .expert = {.width = 4 * hidden, .activation = ACT_GELU_TANH}};
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX_CHOSEN,
                          .n_experts = config_size_or(c, "num_local_experts", 4),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2)};
    return e;
}

static bool phixtral_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.tie = TIE_NO, .attention_bias = true, .vocab = 51200, .heads = 32};
    standard_model(c, &defaults, b);
    b->embedding.name = "model.embd.wte";
    b->head = (LinearSpec){.name = "lm_head.linear", .bias = true};
    b->final_norm = standard_layer_norm("lm_head.ln.weight", "lm_head.ln.bias", 1e-5f);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    standard_fuse_qkv(&attention, "model.h.*.mixer.Wqkv");
    attention.o.name = "model.h.*.mixer.out_proj";
    ExpertsSpec experts = read_experts(c, b->hidden);
    MlpSpec none = {0};
    LayerSpec layer = standard_layer(&attention, &none, 1e-5f);
    layer.parallel = true;
    layer.mixer_norm = standard_layer_norm("model.h.*.ln.weight", "model.h.*.ln.bias", 1e-5f);
    layer.ffn_norm = (NormSpec){0};
    standard_use_experts(&layer, &experts);
    int n_layers = standard_layer_count(c), dims = config_size_or(c, "rotary_dim", 32);
    if (dims > attention.head_dim)
        return config_fail(c, "\"rotary_dim\" %d is more than the %d dims of a head", dims, attention.head_dim);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) b->layers[i] = layer;
    return standard_rope(c, &defaults, b, 0, dims, false) && config_ok(c);
}

const Family family_phixtral = {"phixtral", model_types, irrelevant_keys, NULL, phixtral_blueprint, roots};
