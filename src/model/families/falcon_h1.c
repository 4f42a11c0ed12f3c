/* Falcon-H1 (arXiv:2507.22448): Mamba-2 and attention side by side in every layer, and multipliers around everything.
 *
 * The Hugging Face layout keeps them in config.json and they act at run time. mlx-lm folds them into the weights as it
 * converts, so its layout, known by its convolutions, whose last axis is 1, is run with none of them; but the rows of
 * a tied head are then the embedding's, whose multiplier the logits are divided by. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"falcon_h1", NULL};

static const char *const irrelevant_keys[] = {"mamba_chunk_size", "mamba_use_mlp", /* the mlp is always there */
                                              "mlp_expansion_factor", "num_logits_to_keep", NULL};

/* A scale of 0 would be taken for none. */
static float not_zero(const Config *c, const char *key, double value) {
    if (value == 0) config_fail(c, "\"%s\" has a multiplier that is 0", key);
    return (float)value;
}

static float multiplier(const Config *c, const char *key, double fallback) {
    return not_zero(c, key, config_number_or(c, key, fallback));
}

static float item(const Config *c, const char *key, int n, int i) {
    return not_zero(c, key, config_has(c, key) ? config_number_at(c, key, n, i) : 1);
}

static SsmSpec read_ssm(const Config *c, bool folded, int hidden, float eps) {
    SsmSpec m = standard_bamba_ssm(c, hidden, config_size_unless_null(c, "mamba_d_ssm", 1024), eps);
    m.o.bias = config_bool_or(c, "projectors_bias", false);
    m.norm_first = config_bool_or(c, "mamba_norm_before_gate", !folded);
    if (!config_bool_or(c, "mamba_rms_norm", false)) m.norm = (NormSpec){.kind = NORM_NONE};
    return m;
}

/* Whether the weights are multiplied already. */
static bool is_folded(const Config *c) {
    const Tensor *conv = config_tensor(c, "model.layers.*.mamba.conv1d.weight", 0);
    return conv && conv->n_dims == 3 && conv->shape[2] == 1;
}

/* The multipliers, all read, and where they belong unless they are in the weights. */
static void put_multipliers(const Config *c, bool folded, Blueprint *b, LayerSpec *l) {
    float key = multiplier(c, "key_multiplier", 1);
    float embedding = multiplier(c, "embedding_multiplier", folded ? 5.656854249492381 : 1);
    float head = multiplier(c, "lm_head_multiplier", folded ? 0.0390625 : 1);
    float gate = item(c, "mlp_multipliers", 2, 0), down = item(c, "mlp_multipliers", 2, 1), ssm[5];
    for (int i = 0; i < 5; i++) ssm[i] = item(c, "ssm_multipliers", 5, i);
    BesideSpec beside = {.ssm_in = multiplier(c, "ssm_in_multiplier", 1),
                         .ssm_out = multiplier(c, "ssm_out_multiplier", 1),
                         .attention_in = multiplier(c, "attention_in_multiplier", 1),
                         .attention_out = multiplier(c, "attention_out_multiplier", 1)};
    if (folded) {
        if (b->tie == TIE_YES) b->logit_scale = head / embedding;
        return;
    }
    b->embedding_scale = embedding;
    b->logit_scale = head;
    l->beside = beside;
    l->attention.scale *= key; /* of the keys, which only the scores read */
    l->mlp.gate_scale = gate;
    l->mlp.out_scale = down;
    l->ssm.z_scale = ssm[0];
    l->ssm.x_scale = ssm[1];
    l->ssm.b_scale = ssm[2];
    l->ssm.c_scale = ssm[3];
    l->ssm.dt_scale = ssm[4];
}

static bool falcon_h1_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5, .max_position = 8192, .kv_heads = 8, .tie = TIE_NO};
    bool folded = is_folded(c);
    standard_model(c, &defaults, b);
    b->final_norm.weight = "model.final_layernorm.weight";
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size(c, "intermediate_size"));
    standard_feed_forward(&mlp);
    LayerSpec layer = standard_layer(&attention, &mlp, b->final_norm.eps);
    layer.ffn_norm.weight = "model.layers.*.pre_ff_layernorm.weight";
    layer.mixer = &mixer_ssm_beside_attention;
    layer.ssm = read_ssm(c, folded, b->hidden, b->final_norm.eps);
    put_multipliers(c, folded, b, &layer);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) b->layers[i] = layer;
    return standard_rope(c, &defaults, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_falcon_h1 = {"falcon_h1",         model_types, irrelevant_keys, standard_skipped_tensors,
                                 falcon_h1_blueprint, NULL};
