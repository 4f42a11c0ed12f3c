/* Jamba (arXiv:2403.19887): selective scans with normed step sizes and weights, attention without positions in some of
 * the layers, and experts in some. The router's softmax is over all experts and not renormalised over the chosen ones;
 * mlx-lm renormalises, and has experts where (layer + offset) % period is 0: transformers is right. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"jamba", NULL};

static const char *const irrelevant_keys[] = {
    "rope_theta", /* there is no rope */
    "output_router_logits", "router_aux_loss_coef", "num_logits_to_keep", "calc_logits_for_entire_prompt",
    "use_associative_scan", "use_mamba_kernels",    "use_mambapy",        NULL};

static Mamba1Spec read_mamba(const Config *c, int hidden, float eps) {
    int64_t expanded = (int64_t)config_size_or(c, "mamba_expand", 2) * hidden;
    if (expanded > CONFIG_MAX_SIZE) config_fail(c, "\"mamba_expand\" is larger than any model's");
    Mamba1Spec sizes = {.channels = expanded > CONFIG_MAX_SIZE ? 1 : (int)expanded,
                        .d_state = config_size_or(c, "mamba_d_state", 16),
                        .rank = standard_mamba1_rank(c, "mamba_dt_rank"),
                        .kernel = config_size_or(c, "mamba_d_conv", 4),
                        .dt_norm = standard_rms("model.layers.*.mamba.dt_layernorm.weight", eps),
                        .b_norm = standard_rms("model.layers.*.mamba.b_layernorm.weight", eps),
                        .c_norm = standard_rms("model.layers.*.mamba.c_layernorm.weight", eps)};
    return standard_mamba1(c, hidden, sizes, config_bool_or(c, "mamba_proj_bias", false),
                           config_bool_or(c, "mamba_conv_bias", true));
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    const char *count = config_has(c, "num_experts") ? "num_experts" : "num_local_experts";
    ExpertsSpec e = standard_experts(EXPERTS_IN_FEED_FORWARD, mlp->width, mlp->activation);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, count, 16),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 2)};
    e.router.name = "model.layers.*.feed_forward.router";
    return e;
}

/* Whether layer i is one of those counted from `offset` in steps of `period`. */
typedef struct Every {
    int offset, period;
} Every;

static Every read_every(const Config *c, const char *offset_key, int offset, const char *period_key, int period) {
    Every e = {config_count_or(c, offset_key, offset), config_size_or(c, period_key, period)};
    if (e.offset >= e.period) config_fail(c, "\"%s\" is not less than \"%s\"", offset_key, period_key);
    return e;
}

static bool is_one(Every e, int layer) {
    return layer % e.period == e.offset;
}

/* layers_block_type, or what the offset and the period of attention say. */
static bool is_attention(const Config *c, int n_layers, int layer, Every every) {
    const JsonValue *types = config_array(c, "layers_block_type", n_layers);
    const JsonValue *type = types ? json_item(types, (uint32_t)layer) : NULL;
    if (!types) return is_one(every, layer);
    if (!json_equals(type, "attention") && !json_equals(type, "mamba"))
        config_fail(c, "\"layers_block_type\" item %d is neither attention nor mamba", layer);
    return json_equals(type, "attention");
}

static bool jamba_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.max_position = 262144, .tie = TIE_NO, .heads = 32, .kv_heads = 8};
    standard_model(c, &defaults, b);
    b->final_norm.weight = "model.final_layernorm.weight";
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    attention.rope = NO_ROPE;
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 14336));
    standard_feed_forward(&mlp);
    Mamba1Spec mamba = read_mamba(c, b->hidden, b->final_norm.eps);
    ExpertsSpec experts = read_experts(c, &mlp);
    Every full = read_every(c, "attn_layer_offset", 4, "attn_layer_period", 8);
    Every sparse = read_every(c, "expert_layer_offset", 1, "expert_layer_period", 2);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 0)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *l = &b->layers[i];
        *l = standard_layer(&attention, &mlp, b->final_norm.eps);
        l->ffn_norm.weight = "model.layers.*.pre_ff_layernorm.weight";
        l->mamba1 = mamba;
        if (!is_attention(c, b->n_layers, i, full)) l->mixer = &mixer_mamba1;
        if (experts.rule.n_experts > 1 && is_one(sparse, i)) standard_use_experts(l, &experts);
    }
    return config_ok(c);
}

const Family family_jamba = {"jamba", model_types, irrelevant_keys, NULL, jamba_blueprint, NULL};
