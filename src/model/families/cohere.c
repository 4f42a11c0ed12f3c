/* Cohere's Command models: one layer norm without bias, whose output attention and mlp both read; interleaved rotary
 * pairs; logits times logit_scale. Command R Plus norms each head of queries and keys with weights of its own. Command
 * R7B and A (cohere2) have three sliding layers for every full one, and rotary positions in the sliding ones alone. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"cohere", "cohere2", NULL};

static const char *const irrelevant_keys[] = {
    "pretraining_tp", "model_max_length", /* the tokenizer's */
    /* cohere2: what the architecture is anyway, in words that no reference reads */
    "layer_switch", "order_of_interleaved_layers", "position_embedding_type", "use_embedding_sharing",
    "use_gated_activation", "use_parallel_block", "use_parallel_embedding", NULL};

static void read_head_norms(const Config *c, AttentionSpec *a, float eps) {
    if (!config_bool_or(c, "use_qk_norm", false)) return;
    a->q_norm =
        (HeadNormSpec){standard_layer_norm("model.layers.*.self_attn.q_norm.weight", NULL, eps), SPAN_EVERY_HEAD};
    a->k_norm =
        (HeadNormSpec){standard_layer_norm("model.layers.*.self_attn.k_norm.weight", NULL, eps), SPAN_EVERY_HEAD};
}

static bool read_windows(const Config *c, Blueprint *b) {
    int window = config_size_unless_null(c, "sliding_window", 4096);
    int pattern = config_size_or(c, "sliding_window_pattern", 4);
    for (int i = 0; i < b->n_layers; i++) {
        LayerKind kind = standard_layer_kind(c, b->n_layers, i, standard_pattern_kind(i, pattern));
        if (kind == LAYER_FULL) b->layers[i].attention.rope = NO_ROPE;
        if (!standard_set_window(c, b, i, kind, window)) return false;
    }
    return config_number_or(c, "rotary_pct", 1) == 1 ||
           config_fail(c, "\"rotary_pct\" is not 1: no reference has that");
}

static bool cohere_blueprint(const Config *c, Blueprint *b) {
    bool second = strcmp(config_string_or(c, "model_type", ""), "cohere2") == 0;
    const StandardDefaults defaults = {
        .norm_eps = 1e-5, .theta = second ? 10000 : 500000, .max_position = 8192, .tie = TIE_YES};
    if (!standard_blueprint(c, &defaults, b)) return false;
    standard_layer_norms(b, config_bool_or(c, "layer_norm_bias", false), 0);
    b->ropes[0].table.interleaved = true;
    b->logit_scale = (float)config_number_or(c, "logit_scale", 0.0625);
    if (b->logit_scale == 0) config_fail(c, "\"logit_scale\" is 0");
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].parallel = true;
        b->layers[i].ffn_norm = (NormSpec){.kind = NORM_NONE};
        if (!second) read_head_norms(c, &b->layers[i].attention, b->final_norm.eps);
    }
    if (second && config_bool_or(c, "use_qk_norm", false))
        return config_fail(c, "\"use_qk_norm\" is true, which no reference has for cohere2");
    return (!second || read_windows(c, b)) && config_ok(c);
}

const Family family_cohere = {"cohere", model_types, irrelevant_keys, standard_skipped_tensors, cohere_blueprint, NULL};
