/* Hunyuan V1, dense (Tencent, 2025): llama with norms of queries and keys after their rotation, and a rotary base that
 * `alpha` stretches once (rope_rules.c). The reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"hunyuan_v1_dense", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp",
                                              "attention_head_dim", /* head_dim counts */
                                              "eod_token_id",
                                              "sep_token_id",
                                              "im_start_id",
                                              "im_end_id",
                                              "im_newline_id",
                                              "text_start_id",
                                              "text_end_id",
                                              "image_token_id",
                                              "video_start_id",
                                              "video_end_id",
                                              "mask_init_id",
                                              "org_vocab_size", /* ids */
                                              "add_classification_head",
                                              "class_num",
                                              "pool_type",
                                              "dense_list", /* another head */
                                              "cla_share_factor",
                                              "norm_type",
                                              "use_rotary_pos_emb",
                                              NULL};

/* Switches of the larger models' code that are off in all of these. */
static bool check_switches(const Config *c) {
    static const char *const keys[] = {"use_cla", "use_mla", "position_embedding_xdrope"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (config_bool_or(c, keys[i], false))
            return config_fail(c, "\"%s\" is true, which no reference runs for this family", keys[i]);
    return true;
}

static bool hunyuan_dense_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5};
    if (!standard_blueprint(c, &defaults, b) || !check_switches(c)) return false;
    float eps = b->final_norm.eps;
    bool normed = config_bool_or(c, "use_qk_norm", true);
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->mlp.gate.bias = layer->mlp.up.bias = layer->mlp.down.bias = false;
        if (!normed) continue;
        layer->attention.norm_after_rope = true;
        layer->attention.q_norm.norm = standard_rms("model.layers.*.self_attn.query_layernorm.weight", eps);
        layer->attention.k_norm.norm = standard_rms("model.layers.*.self_attn.key_layernorm.weight", eps);
    }
    return config_ok(c);
}

const Family family_hunyuan_dense = {"hunyuan_dense",         model_types, irrelevant_keys, standard_skipped_tensors,
                                     hunyuan_dense_blueprint, NULL};
