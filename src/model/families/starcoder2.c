/* StarCoder 2 (arXiv:2402.19173): layer norms, biases everywhere, an mlp without a gate, and a window over all layers
 * where the config has one. The reference is transformers; mlx-lm has the erf form of gelu and no window. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"starcoder2", NULL};

static const char *const irrelevant_keys[] = {"residual_dropout", "embedding_dropout", /* of training */
                                              "mlp_type", "norm_type", /* "default" and "layer_norm"; never read */
                                              NULL};

static bool starcoder2_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1e-5, .max_position = 4096, .act = "gelu_pytorch_tanh", .tie = TIE_YES, .kv_heads = 2};
    if (!standard_blueprint(c, &defaults, b)) return false;
    int window = config_size_or(c, "sliding_window", 0);
    bool bias = config_bool_or(c, "use_bias", true);
    standard_layer_norms(b, true, 0);
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        AttentionSpec *a = &layer->attention;
        a->q.bias = a->k.bias = a->v.bias = a->o.bias = bias;
        a->window = window;
        layer->mlp.gate = (LinearSpec){.name = NULL};
        layer->mlp.up = (LinearSpec){.name = "model.layers.*.mlp.c_fc", .bias = bias};
        layer->mlp.down = (LinearSpec){.name = "model.layers.*.mlp.c_proj", .bias = bias};
    }
    return config_ok(c);
}

const Family family_starcoder2 = {"starcoder2",         model_types, irrelevant_keys, standard_skipped_tensors,
                                  starcoder2_blueprint, NULL};
