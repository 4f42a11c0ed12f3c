/* PLaMo 3 (Preferred Networks): PLaMo's layer with norms of queries and keys, and sliding layers with a rotary base of
 * their own before each full one. The reference is mlx-lm's reading of a whole prompt, in which a sliding layer sees
 * `window_size` positions before its own: its cached reading sees one fewer. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"plamo3", NULL};

static const char *const irrelevant_keys[] = {"image_token_id", "image_feature_size", "image_proj_type", "linear_type",
                                              NULL};

static bool read_rope(const Config *c, Blueprint *b, int index, double theta, int head_dim) {
    Config none = {c->record, NULL, ""};
    RopeInput in = {.theta = theta, .dims = head_dim, .max_position = b->max_context};
    return rope_read(&none, &in, &b->ropes[index]);
}

static bool plamo3_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.tie = TIE_YES};
    standard_model(c, &defaults, b);
    b->final_norm.plus = 1;
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    attention.q_norm.norm = standard_plamo_norm("model.layers.layers.*.mixer.q_norm.weight", b->final_norm.eps, 1);
    attention.k_norm.norm = standard_plamo_norm("model.layers.layers.*.mixer.k_norm.weight", b->final_norm.eps, 1);
    LayerSpec layer = standard_plamo_layer(&attention, &mlp, b->final_norm.eps);
    int n_layers = standard_layer_count(c), pattern = config_size_or(c, "sliding_window_pattern", 8);
    int window = config_size_or(c, "sliding_window", config_size_or(c, "window_size", 2048));
    double theta = config_number_or(c, "rope_theta", 1e6), local = config_number_or(c, "rope_local_theta", 10000);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    for (int i = 0; i < n_layers; i++) {
        bool sliding = standard_pattern_kind(i, pattern) == LAYER_SLIDING;
        b->layers[i] = layer;
        b->layers[i].attention.rope = sliding;
        if (sliding) b->layers[i].attention.window = window + 1;
    }
    return read_rope(c, b, 0, theta, attention.head_dim) && read_rope(c, b, 1, local, attention.head_dim) &&
           config_ok(c);
}

const Family family_plamo3 = {"plamo3", model_types, irrelevant_keys, NULL, plamo3_blueprint, NULL};
