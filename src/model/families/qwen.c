/* Qwen 2, 2.5 and 3, dense: llama with biases on q, k and v (2) or a norm over each head of q and k (3). The reference
 * is transformers; mlx-lm reads no sliding window here. The text models inside Qwen 2, 2.5 and 3 VL are the same: their
 * rotary positions count width, height and time for images and are one count for text. MiMo (Xiaomi, arXiv:2505.07608)
 * is Qwen 2 with layers for predicting more tokens, which are passed over. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"qwen2",      "qwen3",           "mimo",     "qwen2_vl",      "qwen2_vl_text",
                                          "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl", "qwen3_vl_text", NULL};

static const char *const irrelevant_keys[] = {"max_window_layers",        /* read below where windows are in use */
                                              "num_nextn_predict_layers", /* MiMo */
                                              "vision_config",
                                              "image_token_id",
                                              "video_token_id",
                                              "vision_token_id",
                                              "vision_start_token_id",
                                              "vision_end_token_id", /* of images */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "model.mtp_layers.*", "*visual.*",
                                              "*vision_tower.*", NULL};

/* Those that differ from Qwen's own; only what transformers leaves out of a config matters here. */
static const StandardDefaults *defaults_of(const char *type) {
    static const StandardDefaults plain = {.max_position = 32768};
    static const StandardDefaults second_vl = {
        .norm_eps = 1e-5, .theta = 1e6, .max_position = 32768, .vocab = 152064, .heads = 64, .kv_heads = 8};
    static const StandardDefaults third_vl = {
        .theta = 500000, .max_position = 128000, .vocab = 151936, .heads = 32, .kv_heads = 32, .head_dim = 128};
    if (!strstr(type, "_vl")) return &plain;
    return strncmp(type, "qwen3", 5) == 0 ? &third_vl : &second_vl;
}

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

static bool qwen_blueprint(const Config *root, Blueprint *b) {
    const Config text = config_text(root), *c = &text;
    const char *type = config_string_or(root, "model_type", "");
    bool third = strncmp(type, "qwen3", 5) == 0;
    if (!standard_blueprint(c, defaults_of(type), b)) return false;
    b->tie = standard_tie(root, b->tie); /* the wrapper's word, where it has one */
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

const Family family_qwen = {"qwen",          model_types,    irrelevant_keys,
                            skipped_tensors, qwen_blueprint, standard_wrapper_roots};
