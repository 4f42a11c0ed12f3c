/* PLaMo 2 (Preferred Networks): PLaMo's layer around Mamba-2, whose B, C and dt come of the convolved x, and around
 * attention in one layer of every mamba_step. The reference is mlx-lm, which lets all attention see everything,
 * whatever attention_window_size and full_attention_idx say, and limits dt to 0.001 .. 100. */
#include "model/mechanism.h"
#include "model/standard.h"

static const char *const model_types[] = {"plamo2", NULL};

static const char *const irrelevant_keys[] = {
    "attention_window_size", "full_attention_idx",   "mamba_chunk_size", "rope_theta", /* the base is always 10000 */
    "linear_type",           "eval_attention_n_bit", "eval_mlp_n_bit",   NULL};

static LinearSpec part(const char *name, int64_t all, int64_t from, int64_t take, int64_t period) {
    return (LinearSpec){.name = name, .rows = {all, from, take, period}};
}

/* in_proj holds, head by head, z and then x; bcdt_proj B, C and dt's latent. */
static void put_projections(SsmSpec *m) {
    static const char in[] = "model.layers.layers.*.mixer.in_proj", of_x[] = "model.layers.layers.*.mixer.bcdt_proj";
    int64_t head = m->head_dim, inner = head * m->heads, state = m->state, all = 2 * state + m->rank;
    m->z = part(in, 2 * inner, 0, head, 2 * head);
    m->x = part(in, 2 * inner, head, head, 2 * head);
    m->b = part(of_x, all, 0, state, state);
    m->c = part(of_x, all, state, state, state);
    m->dt_down = part(of_x, all, 2 * state, m->rank, m->rank);
    m->dt.name = "model.layers.layers.*.mixer.dt_proj";
    m->o.name = "model.layers.layers.*.mixer.out_proj";
    m->x_conv = (ConvSpec){.name = "model.layers.layers.*.mixer.conv1d.weight", .total = inner};
}

static SsmSpec read_ssm(const Config *c, int head_dim, const Blueprint *b) {
    float eps = b->final_norm.eps;
    SsmSpec m = {.heads = config_size_or(c, "mamba_num_heads", 64),
                 .head_dim = head_dim,
                 .state = config_size_or(c, "mamba_d_state", 64),
                 .groups = 1,
                 .kernel = config_size_or(c, "mamba_d_conv", 4),
                 .rank = b->hidden / 16 > 64 ? b->hidden / 16 : 64,
                 .dt_norm = standard_rms("model.layers.layers.*.mixer.dt_norm_weight", eps),
                 .b_norm = standard_rms("model.layers.layers.*.mixer.B_norm_weight", eps),
                 .c_norm = standard_rms("model.layers.layers.*.mixer.C_norm_weight", eps),
                 .a_log = "model.layers.layers.*.mixer.A_log",
                 .dt_bias = "model.layers.layers.*.mixer.dt_bias",
                 .d = "model.layers.layers.*.mixer.D",
                 .dt_min = 0.001f,
                 .dt_max = 100};
    put_projections(&m);
    return m;
}

/* The weights of queries and keys are each head's own, and the norm's eps is not the config's. */
static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.q_norm = (HeadNormSpec){standard_rms("model.layers.layers.*.mixer.q_weight", 1e-6f), SPAN_EVERY_HEAD};
    a.k_norm = (HeadNormSpec){standard_rms("model.layers.layers.*.mixer.k_weight", 1e-6f), SPAN_EVERY_HEAD};
    return a;
}

/* The middle layer of every `step` is attention; of too few layers for that, the last. */
static bool is_attention(int layer, int n_layers, int step) {
    if (n_layers <= step / 2) return layer == n_layers - 1;
    return layer % step == step / 2;
}

static bool plamo2_blueprint(const Config *c, Blueprint *b) {
    int head_dim = config_size_or(c, "hidden_size_per_head", 128), step = config_size_or(c, "mamba_step", 2);
    const StandardDefaults defaults = {.tie = TIE_YES, .heads = 32, .kv_heads = 4, .head_dim = head_dim};
    Config none = {c->record, NULL, ""};
    bool mamba = config_bool_or(c, "mamba_enabled", true);
    standard_model(c, &defaults, b);
    b->final_norm.plus = 1;
    AttentionSpec attention = read_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 13312));
    LayerSpec layer = standard_plamo_layer(&attention, &mlp, b->final_norm.eps);
    layer.ssm = read_ssm(c, head_dim, b);
    if (step < 2) config_fail(c, "\"mamba_step\" is %d, expected at least 2", step);
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 1)) return false;
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i] = layer;
        if (mamba && !is_attention(i, b->n_layers, step)) b->layers[i].mixer = &mixer_mamba2;
    }
    RopeInput in = {.theta = 10000, .dims = attention.head_dim, .max_position = b->max_context};
    return rope_read(&none, &in, &b->ropes[0]) && config_ok(c);
}

const Family family_plamo2 = {"plamo2", model_types, irrelevant_keys, NULL, plamo2_blueprint, NULL};
