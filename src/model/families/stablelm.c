/* StableLM (arXiv:2402.17834): layer norms with biases, a quarter of each head rotated; StableLM 2 12B runs attention
 * and mlp side by side and norms each head of queries and keys with a tensor of its own. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"stablelm", NULL};

static const char *const irrelevant_keys[] = {"hidden_dropout", NULL};

static void put_head_norms(AttentionSpec *a, float eps) {
    a->q_norm = (HeadNormSpec){standard_layer_norm("model.layers.*.self_attn.q_layernorm.norms.#.weight", NULL, eps),
                               SPAN_EVERY_HEAD};
    a->k_norm = (HeadNormSpec){standard_layer_norm("model.layers.*.self_attn.k_layernorm.norms.#.weight", NULL, eps),
                               SPAN_EVERY_HEAD};
}

static bool stablelm_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 4096, .kv_heads = 32};
    if (!standard_layers(c, &defaults, b, 1)) return false;
    bool bias = config_bool_or(c, "use_qkv_bias", false), norms = config_bool_or(c, "qk_layernorm", false);
    bool parallel = config_bool_or(c, "use_parallel_residual", false);
    standard_layer_norms(b, true, 0);
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->attention.q.bias = layer->attention.k.bias = layer->attention.v.bias = bias;
        if (norms) put_head_norms(&layer->attention, b->final_norm.eps);
        layer->parallel = parallel;
        if (parallel) layer->ffn_norm = (NormSpec){.kind = NORM_NONE};
    }
    return standard_partial_rope(c, &defaults, b, 0.25, false) && config_ok(c);
}

const Family family_stablelm = {"stablelm",         model_types, irrelevant_keys, standard_skipped_tensors,
                                stablelm_blueprint, NULL};
