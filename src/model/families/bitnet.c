/* BitNet b1.58 (arXiv:2504.12285) with its weights as plain matrices: llama with a squared relu, a norm before the
 * output projection of attention and one before down. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"bitnet", NULL};

static bool bitnet_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .theta = 500000, .act = "relu2", .kv_heads = 5};
    if (!standard_blueprint(c, &defaults, b)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->attention.o_norm = standard_rms("model.layers.*.self_attn.attn_sub_norm.weight", b->final_norm.eps);
        layer->mlp.inner = standard_rms("model.layers.*.mlp.ffn_sub_norm.weight", b->final_norm.eps);
    }
    return config_ok(c);
}

const Family family_bitnet = {"bitnet", model_types, NULL, standard_skipped_tensors, bitnet_blueprint, NULL};
