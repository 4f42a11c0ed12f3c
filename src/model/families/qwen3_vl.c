/* The text model inside Qwen3-VL: Qwen 3, whose rotary positions count width, height and time for images and are one
 * count for text. The reference is transformers. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"qwen3_vl", "qwen3_vl_text", NULL};

static const char *const irrelevant_keys[] = {
    "vision_config",       "image_token_id",    "video_token_id", "vision_start_token_id",
    "vision_end_token_id", "max_window_layers", "sliding_window", NULL}; /* use_sliding_window is read */

static const char *const skipped_tensors[] = {"*visual.*", "*vision_tower.*", "*.self_attn.rotary_emb.inv_freq", NULL};

static bool qwen3_vl_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {
        .theta = 500000, .max_position = 128000, .vocab = 151936, .heads = 32, .kv_heads = 32, .head_dim = 128};
    const Config text = config_text(root), *c = &text;
    if (!standard_blueprint(c, &defaults, b)) return false;
    b->tie = standard_tie(root, b->tie);
    for (int i = 0; i < b->n_layers; i++) standard_head_norms(&b->layers[i].attention, SPAN_HEAD, b->final_norm.eps);
    if (config_bool_or(c, "use_sliding_window", false))
        return config_fail(c, "\"%suse_sliding_window\" is true, which no reference runs for this family", c->path);
    return config_ok(c);
}

const Family family_qwen3_vl = {"qwen3_vl",      model_types,        irrelevant_keys,
                                skipped_tensors, qwen3_vl_blueprint, standard_wrapper_roots};
