/* InternLM 2 (arXiv:2403.17297) and 3: llama under other names, with q, k and v of each key-value head side by side in
 * one matrix (2), or with biases that the config names one by one (3). Dynamic rope limits the context. The reference
 * is mlx-lm, since transformers has neither; the authors' InternLM 3 gives the output projection the mlp's bias, mlx-lm
 * that of q, k and v: the checkpoint decides. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"internlm2", "internlm3", NULL};

static const char *const irrelevant_keys[] = {"attn_implementation", "pretraining_tp", NULL};

static const char *const skipped_tensors[] = {"*.rope.inv_freq", "*.rotary_emb.inv_freq", NULL};

static void rename_layer(LayerSpec *layer, bool bias) {
    AttentionSpec *a = &layer->attention;
    layer->mixer_norm.weight = "model.layers.*.attention_norm.weight";
    layer->ffn_norm.weight = "model.layers.*.ffn_norm.weight";
    standard_fuse_qkv_groups(a, "model.layers.*.attention.wqkv");
    a->o.name = "model.layers.*.attention.wo";
    a->q.bias = a->k.bias = a->v.bias = a->o.bias = bias;
    layer->mlp.gate.name = "model.layers.*.feed_forward.w1";
    layer->mlp.up.name = "model.layers.*.feed_forward.w3";
    layer->mlp.down.name = "model.layers.*.feed_forward.w2";
}

static bool second_blueprint(const Config *c, Blueprint *b) {
    bool bias = config_bool_or(c, "bias", true);
    b->embedding.name = "model.tok_embeddings";
    b->head.name = "output";
    for (int i = 0; i < b->n_layers; i++) rename_layer(&b->layers[i], bias);
    return config_ok(c);
}

static bool third_blueprint(const Config *c, Blueprint *b) {
    bool bias = config_bool_or(c, "bias", false), qkv_bias = config_bool_or(c, "qkv_bias", false);
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->attention.q.bias = layer->attention.k.bias = layer->attention.v.bias = qkv_bias;
        layer->attention.o.bias = config_has_tensor(c, "model.layers.*.self_attn.o_proj.bias", i);
        layer->mlp.gate.bias = layer->mlp.up.bias = layer->mlp.down.bias = bias;
    }
    return config_ok(c);
}

static bool internlm_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 32768};
    if (!standard_blueprint(c, &defaults, b)) return false;
    return strcmp(config_string_or(c, "model_type", ""), "internlm2") == 0 ? second_blueprint(c, b)
                                                                           : third_blueprint(c, b);
}

const Family family_internlm = {"internlm", model_types, irrelevant_keys, skipped_tensors, internlm_blueprint, NULL};
