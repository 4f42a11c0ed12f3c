/* Llama (Touvron et al., arXiv:2302.13971): rms norm before each half of a layer, grouped-query attention with rotary
 * positions, a silu-gated mlp. The reference is transformers' LlamaForCausalLM; `sliding_window` with `layer_types`
 * follows mlx-lm. TeleChat 3 is llama by another name. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"llama", "telechat3", NULL};

static const char *const irrelevant_keys[] = {"is_llama_config",        /* SmolLM */
                                              "pretraining_tp",         /* how training split its matrices */
                                              "rope_scaling.finetuned", /* older yarn configs */
                                              NULL};

/* The window of each layer: layer_types says which have one. Without it both references see all positions. */
static bool read_windows(const Config *c, Blueprint *b) {
    int window = config_size_or(c, "sliding_window", 0);
    bool ok = true;
    for (int i = 0; i < b->n_layers && ok; i++)
        ok = standard_set_window(c, b, i, standard_layer_kind(c, b->n_layers, i, LAYER_FULL), window);
    return ok;
}

static bool llama_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    if (!standard_blueprint(c, &defaults, b)) return false;
    bool interleaved = config_bool_or(c, "rope_interleaved", false);
    b->ropes[0].table.interleaved = config_bool_or(c, "rope_traditional", interleaved);
    return read_windows(c, b) && config_ok(c);
}

const Family family_llama = {"llama", model_types, irrelevant_keys, standard_skipped_tensors, llama_blueprint, NULL};
