/* Talkie: norms without weights, of the embeddings too, and of queries and keys after their rotation, which turns the
 * other way round; learned gains of each query head, of each half's result and of the logits, and of a skip from the
 * embeddings to every layer's output. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>

static const char *const model_types[] = {"talkie", NULL};

static const char *const irrelevant_keys[] = {"num_key_value_heads", "hidden_act", "tie_word_embeddings",
                                              NULL}; /* every head has its own; always silu; never */

static const char *const skipped_tensors[] = {"*rotary*", "*cos", "*sin", NULL};

static LayerSpec read_layer(const Config *c, float eps) {
    AttentionSpec a = {.n_heads = config_size_or(c, "num_attention_heads", 40),
                       .head_dim = config_size_or(c, "head_dim", 128),
                       .q = {.name = "model.blocks.*.attn.attn_query"},
                       .k = {.name = "model.blocks.*.attn.attn_key"},
                       .v = {.name = "model.blocks.*.attn.attn_value"},
                       .o = {.name = "model.blocks.*.attn.attn_resid"},
                       .q_norm = {standard_rms(NULL, eps), SPAN_HEAD},
                       .k_norm = {standard_rms(NULL, eps), SPAN_HEAD},
                       .norm_after_rope = true,
                       .q_gain = "model.blocks.*.attn.head_gain.head_g"};
    a.n_kv_heads = a.n_heads;
    a.scale = (float)(1 / sqrt((double)a.head_dim));
    MlpSpec m = {.width = config_size_or(c, "intermediate_size", 13696),
                 .activation = ACT_SILU,
                 .gate = {.name = "model.blocks.*.mlp.mlp_gate"},
                 .up = {.name = "model.blocks.*.mlp.mlp_linear"},
                 .down = {.name = "model.blocks.*.mlp.mlp_resid"}};
    LayerSpec layer = standard_layer(&a, &m, eps);
    layer.mixer_norm = layer.ffn_norm = standard_rms(NULL, eps);
    layer.mixer_out = (NormSpec){.kind = NORM_GAIN, .weight = "model.blocks.*.attn_gain.a_g"};
    layer.ffn_out = (NormSpec){.kind = NORM_GAIN, .weight = "model.blocks.*.mlp_gain.a_g"};
    layer.skip = "model.blocks.*.embed_skip.a_g";
    return layer;
}

static bool talkie_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 0x1p-23, .theta = 1e6, .vocab = 65540};
    standard_model(c, &defaults, b);
    b->tie = TIE_NO;
    b->embedding.name = "model.embed";
    b->embedding_norm = b->final_norm = standard_rms(NULL, b->final_norm.eps);
    b->head = (LinearSpec){.name = "lm_head", .bare = true};
    b->logit_gain = "lm_head_gain.w_g";
    LayerSpec layer = read_layer(c, b->final_norm.eps);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    if (!standard_rope(c, &defaults, b, 0, layer.attention.head_dim, false)) return false;
    rope_turn_backwards(&b->ropes[0]);
    return config_ok(c);
}

const Family family_talkie = {"talkie", model_types, irrelevant_keys, skipped_tensors, talkie_blueprint, NULL};
