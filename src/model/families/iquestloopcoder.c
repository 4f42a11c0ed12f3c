/* IQuest LoopCoder: llama whose layers run twice. The second time each head mixes, by a gate of its query, what it
 * reads of the first time's keys and values with what it reads of the last few of its own. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"iquestloopcoder", NULL};

static bool iquestloopcoder_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.theta = 500000, .max_position = 131072};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    int n = standard_layer_count(c), window = config_size_or(c, "loop_window_size", 64);
    if (config_size_or(c, "loop_num", 2) != 2) return config_fail(c, "\"loop_num\" is not 2, which no reference runs");
    if (!config_ok(c) || !blueprint_allocate(c, b, 2 * n, 1)) return false;
    for (int i = 0; i < n; i++) {
        b->layers[i] = b->layers[n + i] = layer;
        LayerSpec *again = &b->layers[n + i];
        again->names_back = n;
        again->attention.window = window;
        again->attention.second =
            (SecondReading){"model.gate_projections.*.weight", "model.gate_projections.*.bias", i};
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_iquestloopcoder = {"iquestloopcoder",         model_types, NULL, standard_skipped_tensors,
                                       iquestloopcoder_blueprint, NULL};
