/* Qwen 2, 2.5 and 3, dense: llama with biases on q, k and v (2) or a norm over each head of q and k (3). The reference
 * is transformers; mlx-lm reads no sliding window here. MiMo (Xiaomi, arXiv:2505.07608) is Qwen 2 with layers for
 * predicting more tokens, which are passed over. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"qwen2", "qwen3", "mimo", NULL};

static const char *const irrelevant_keys[] = {"max_window_layers",        /* read below where windows are in use */
                                              "num_nextn_predict_layers", /* MiMo */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "model.mtp_layers.*", NULL};

/* layer_types says it layer by layer; older configs give the first layer that has a window. */
static bool read_windows(const Config *c, Blueprint *b) {
    bool in_use = config_bool_or(c, "use_sliding_window", false);
    int window = config_size_or(c, "sliding_window", 0);
    double first = config_number_or(c, "max_window_layers", 28);
    for (int i = 0; i < b->n_layers; i++) {
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, i >= first && in_use ? LAYER_SLIDING : LAYER_FULL);
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return true;
}

static bool qwen_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 32768};
    bool third = strcmp(config_string_or(c, "model_type", ""), "qwen3") == 0;
    if (!standard_blueprint(c, &defaults, b)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        if (third) {
            standard_head_norms(a, SPAN_HEAD, b->final_norm.eps);
        } else {
            a->q.bias = a->k.bias = a->v.bias = true;
            a->o.bias = false;
        }
    }
    return read_windows(c, b) && config_ok(c);
}

const Family family_qwen = {"qwen", model_types, irrelevant_keys, skipped_tensors, qwen_blueprint, NULL};
