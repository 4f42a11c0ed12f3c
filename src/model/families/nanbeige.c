/* Nanbeige: llama whose layers run several times over, each time with keys and values of their own, and with the final
 * norm between the times. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"nanbeige", NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp", NULL};

/* A weight of the loss for each time but the last, where training had them. */
static int read_loops(const Config *c) {
    int loops = config_size_or(c, "num_loops", 1);
    const JsonValue *weights = config_array(c, "loop_loss_weights", -1);
    return weights && weights->length > 0 ? (int)weights->length + 1 : loops;
}

static bool check_switches(const Config *c) {
    static const char *const keys[] = {"enable_double_loop_split", "loop_share_kv", "enable_depth_attention"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (config_bool_or(c, keys[i], false))
            return config_fail(c, "\"%s\" is true, which no reference runs", keys[i]);
    return true;
}

static bool nanbeige_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {0};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    int n = standard_layer_count(c), loops = read_loops(c);
    bool normed = !config_bool_or(c, "skip_loop_final_norm", false);
    if (loops > 4096) return config_fail(c, "%d loops are more than any model has", loops);
    if (!check_switches(c) || !config_ok(c) || !blueprint_allocate(c, b, n * loops, 1)) return false;
    for (int i = 0; i < n * loops; i++) {
        b->layers[i] = layer;
        b->layers[i].names_back = i / n * n;
        if (normed && i % n == n - 1 && i < n * (loops - 1)) b->layers[i].output_norm = b->final_norm;
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_nanbeige = {"nanbeige",         model_types, irrelevant_keys, standard_skipped_tensors,
                                nanbeige_blueprint, NULL};
