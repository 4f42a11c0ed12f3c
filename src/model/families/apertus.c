/* Apertus (arXiv:2509.14233): norms over each head of queries and keys, an mlp without a gate, and xIELU, an activation
 * with parameters of its own in every layer. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"apertus", NULL};

/* hidden_act is xielu in all that are published; any other has no parameters. */
static MlpSpec read_mlp(const Config *c) {
    static const char xielu[] = "xielu";
    const char *act = config_string_or(c, "hidden_act", xielu);
    bool parameters = strcmp(act, xielu) == 0, bias = config_bool_or(c, "mlp_bias", false);
    MlpSpec m = {.width = config_size(c, "intermediate_size"),
                 .activation = parameters ? ACT_NONE : standard_activation(c, "hidden_act", xielu),
                 .up = {.name = "model.layers.*.mlp.up_proj", .bias = bias},
                 .down = {.name = "model.layers.*.mlp.down_proj", .bias = bias}};
    if (!parameters) return m;
    m.xielu.alpha_p = "model.layers.*.mlp.act_fn.alpha_p";
    m.xielu.alpha_n = "model.layers.*.mlp.act_fn.alpha_n";
    m.xielu.beta = "model.layers.*.mlp.act_fn.beta";
    m.xielu.eps = "model.layers.*.mlp.act_fn.eps";
    return m;
}

/* What the references read differently, or not at all. */
static void refuse_unknown(const Config *c) {
    if (config_bool_or(c, "post_norm", false) || !config_bool_or(c, "qk_norm", true))
        config_fail(c, "has \"post_norm\" true or \"qk_norm\" false, which no reference has");
    if (!config_has(c, "rope_scaling") && !config_has(c, "rope_parameters"))
        config_fail(
            c, "has neither \"rope_scaling\" nor \"rope_parameters\": transformers then assumes those of Apertus 8B,"
               " mlx-lm plain positions; write down which are meant");
}

static bool apertus_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .theta = 12e6, .max_position = 65536};
    standard_model(c, &defaults, b);
    float eps = b->final_norm.eps;
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = read_mlp(c);
    int n_layers = standard_layer_count(c);
    standard_head_norms(&attention, SPAN_HEAD, eps);
    refuse_unknown(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, eps);
        b->layers[i].mixer_norm.weight = "model.layers.*.attention_layernorm.weight";
        b->layers[i].ffn_norm.weight = "model.layers.*.feedforward_layernorm.weight";
    }
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_apertus = {"apertus", model_types, NULL, standard_skipped_tensors, apertus_blueprint, NULL};
