/* GLM-4 (arXiv:2406.12793) and GLM-4-0414 (glm4), dense: biases on q, k and v, half of each head rotated in interleaved
 * pairs, gate and up in one matrix. glm4 norms each half's result as well. The reference is transformers; mlx-lm
 * rotates whole heads in glm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"glm", "glm4", NULL};

static bool glm_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {
        .norm_eps = 1.5625e-07, .max_position = 131072, .attention_bias = true, .kv_heads = 2, .head_dim = 128};
    bool later = strcmp(config_string_or(c, "model_type", ""), "glm4") == 0;
    if (!standard_layers(c, &defaults, b, 1)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->attention.o.bias = false;
        standard_fuse_gate_up(&layer->mlp, "model.layers.*.mlp.gate_up_proj");
        if (!later) continue;
        layer->mixer_out = standard_rms("model.layers.*.post_self_attn_layernorm.weight", b->final_norm.eps);
        layer->ffn_out = standard_rms("model.layers.*.post_mlp_layernorm.weight", b->final_norm.eps);
    }
    return standard_partial_rope(c, &defaults, b, 0.5, true) && config_ok(c);
}

const Family family_glm = {"glm", model_types, NULL, standard_skipped_tensors, glm_blueprint, NULL};
