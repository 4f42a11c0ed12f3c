/* Mistral (Jiang et al., arXiv:2310.06825) and Ministral 3, alone or inside the multimodal files of Pixtral and Mistral
 * 3 (whose text model may also be Mistral 4, a relative of DeepSeek's): llama with a window over all layers where the
 * config has one; Ministral 3 reads its rotary settings from rope_parameters and multiplies queries by a factor that
 * grows slowly with their position.
 *
 * The reference is transformers; mlx-lm has no window for Mistral. layer_types, which transformers' class says it does
 * not support, is followed as mlx-lm does. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"mistral", "ministral3", "mistral3", "pixtral", NULL};

static const char *const irrelevant_keys[] = {
    /* of images */
    "vision_config", "image_token_index", "image_token_id", "image_seq_length", "spatial_merge_size",
    "vision_feature_layer", "vision_feature_select_strategy", "multimodal_projector_bias", "projector_hidden_act",
    "ignore_index",
    /* of Mistral 4's training */
    "pretraining_tp", "output_router_logits", "router_aux_loss_coef", "ep_size",
    "rope_parameters.max_position_embeddings", /* transformers' own default holds it; nothing reads it */
    NULL};

/* Of Mistral 4's text model. */
extern const Family family_deepseek_v3;

static const StandardDefaults mistral = {.max_position = 131072, .heads = 32, .kv_heads = 8};
static const StandardDefaults ministral3 = {
    .norm_eps = 1e-5, .theta = 1e6, .max_position = 262144, .kv_heads = 8, .head_dim = 128};

static bool read_windows(const Config *c, int absent, Blueprint *b) {
    int window = config_size_unless_null(c, "sliding_window", absent);
    LayerKind fallback = window ? LAYER_SLIDING : LAYER_FULL;
    bool ok = true;
    for (int i = 0; i < b->n_layers && ok; i++)
        ok = standard_set_window(c, b, i, standard_layer_kind(c, b->n_layers, i, fallback), window);
    return ok;
}

/* The factor of the queries: llama_4_scaling_beta of rope_parameters, in steps of the original context. */
static bool read_position_scale(const Config *c, Blueprint *b) {
    Config section = rope_section(c);
    if (!section.object) return config_fail(c, "has no \"%srope_parameters\", which Ministral 3 needs", c->path);
    PositionScale scale = {.beta = config_number_or(&section, "llama_4_scaling_beta", 0),
                           .length = config_size_or(&section, "original_max_position_embeddings", b->max_context)};
    for (int i = 0; i < b->n_layers; i++) b->layers[i].attention.position_scale = scale;
    return config_ok(c);
}

static bool text_blueprint(const Config *c, Blueprint *b) {
    bool third = strcmp(config_string_or(c, "model_type", ""), "ministral3") == 0;
    if (!standard_blueprint(c, third ? &ministral3 : &mistral, b)) return false;
    return read_windows(c, third ? 0 : 4096, b) && (!third || read_position_scale(c, b)) && config_ok(c);
}

static bool mistral_blueprint(const Config *c, Blueprint *b) {
    Config text = config_text(c);
    if (strcmp(config_string_or(&text, "model_type", ""), "mistral4") == 0) return family_deepseek_v3.blueprint(c, b);
    if (!text_blueprint(&text, b)) return false;
    if (text.object != c->object) b->tie = standard_tie(&text, standard_tie(c, b->tie));
    return config_ok(c);
}

const Family family_mistral = {"mistral",         model_types,
                               irrelevant_keys,   standard_wrapper_skipped_tensors,
                               mistral_blueprint, standard_wrapper_roots};
