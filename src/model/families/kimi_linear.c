/* Kimi Linear (Moonshot AI, arXiv:2510.26692): layers with Kimi's delta rule, whose decay is per channel and comes
 * through a latent, and between them latent attention without rotation; dense layers first, then experts as
 * DeepSeek-V3 has them, whose groups that are not kept compete with a score of 0. The reference is mlx-lm. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"kimi_linear", NULL};

static const char *const irrelevant_keys[] = {
    "rope_theta",       "rope_scaling",     "rope_parameters", /* no rotation */
    "use_grouped_topk", "model_max_length", "topk_method",     NULL};

static const char *const skipped_tensors[] = {"model.mtp*", NULL};

static DeltaSpec read_delta(const Config *linear, float eps) {
    int heads = config_size(linear, "num_heads"), dim = config_size(linear, "head_dim");
    int64_t width = (int64_t)heads * dim;
    return (DeltaSpec){
        .k_heads = heads,
        .v_heads = heads,
        .k_dim = dim,
        .v_dim = dim,
        .kernel = config_size_or(linear, "short_conv_kernel_size", 4),
        .q = {.name = "model.layers.*.self_attn.q_proj"},
        .k = {.name = "model.layers.*.self_attn.k_proj"},
        .v = {.name = "model.layers.*.self_attn.v_proj"},
        .o = {.name = "model.layers.*.self_attn.o_proj"},
        .q_conv = {.name = "model.layers.*.self_attn.q_conv.conv.weight|model.layers.*.self_attn.q_conv1d.weight",
                   .total = width},
        .k_conv = {.name = "model.layers.*.self_attn.k_conv.conv.weight|model.layers.*.self_attn.k_conv1d.weight",
                   .total = width},
        .v_conv = {.name = "model.layers.*.self_attn.v_conv.conv.weight|model.layers.*.self_attn.v_conv1d.weight",
                   .total = width},
        .a_down = {.name = "model.layers.*.self_attn.f_a_proj"},
        .a = {.name = "model.layers.*.self_attn.f_b_proj"},
        .z_down = {.name = "model.layers.*.self_attn.g_a_proj"},
        .z = {.name = "model.layers.*.self_attn.g_b_proj"},
        .a_rank = dim,
        .z_rank = dim,
        .b = {.name = "model.layers.*.self_attn.b_proj"},
        .a_log = "model.layers.*.self_attn.A_log",
        .dt_bias = "model.layers.*.self_attn.dt_bias",
        .decay_each = true,
        .norm = standard_rms("model.layers.*.self_attn.o_norm.weight", eps),
        .gate_act = ACT_SIGMOID};
}

static MlaSpec read_mla(const Config *c, float eps) {
    int head_dim = config_size_or(c, "head_dim", 128);
    MlaDefaults d = {0, 512, head_dim, 64, head_dim, eps};
    MlaSpec m = standard_mla(c, &d);
    m.rope = NO_ROPE;
    if (m.q_rank) config_fail(c, "\"q_lora_rank\" is not null, which no reference runs for this family");
    if (!config_bool_or(c, "mla_use_nope", false))
        config_fail(c, "\"mla_use_nope\" is not true; no reference rotates for this family");
    return m;
}

static RouterRule read_rule(const Config *c, int n_experts) {
    const char *score = config_string_or(c, "moe_router_activation_func", "sigmoid");
    RouterRule r = {.score = strcmp(score, "softmax") == 0 ? ROUTER_SOFTMAX : ROUTER_SIGMOID,
                    .n_experts = n_experts,
                    .n_chosen = config_size_or(c, "num_experts_per_token", 1),
                    .n_groups = config_size_or(c, "num_expert_group", 1),
                    .n_kept_groups = config_size_or(c, "topk_group", 1),
                    .rejected_zero = true,
                    .renormalise = config_bool_or(c, "moe_renormalize", true),
                    .renormalise_eps = 1e-20f,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", 1)};
    if (r.n_chosen == 1) r.renormalise = false;
    if (r.score == ROUTER_SIGMOID && strcmp(score, "sigmoid") != 0)
        config_fail(c, "\"moe_router_activation_func\" is \"%.40s\": known are sigmoid, softmax", score);
    if (r.n_groups > 1 && (r.n_experts % r.n_groups || r.n_kept_groups > r.n_groups))
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", r.n_experts, r.n_groups,
                    r.n_kept_groups);
    return r;
}

/* Every moe_layer_freq-th layer counted from 0, but the first few. */
static bool has_experts(const Config *c, int layer) {
    return config_count_or(c, "num_experts", 0) > 0 && layer >= config_count_or(c, "first_k_dense_replace", 0) &&
           layer % config_size_or(c, "moe_layer_freq", 1) == 0;
}

/* MLX renames what Moonshot calls block_sparse_moe. */
static bool published_names(const Config *c, int n_layers) {
    for (int i = 0; i < n_layers; i++)
        if (config_has_tensor(c, "model.layers.*.block_sparse_moe.gate.weight", i)) return true;
    return false;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp, int n_layers) {
    int n_experts = config_size(c, "num_experts");
    bool mlx = !published_names(c, n_layers);
    int width = config_size(c, "moe_intermediate_size"), n_shared = config_count_or(c, "num_shared_experts", 0);
    ExpertsSpec e = standard_experts(mlx ? EXPERTS_IN_MLP : EXPERTS_IN_BLOCK_SPARSE_MOE, width, mlp->activation);
    e.rule = read_rule(c, n_experts);
    e.correction =
        "model.layers.*.mlp.e_score_correction_bias|model.layers.*.block_sparse_moe.gate.e_score_correction_bias";
    e.shared = standard_shared_experts(c, mlp, width, n_shared);
    if (mlx) return e;
    e.shared.gate.name = "model.layers.*.block_sparse_moe.shared_experts.gate_proj";
    e.shared.up.name = "model.layers.*.block_sparse_moe.shared_experts.up_proj";
    e.shared.down.name = "model.layers.*.block_sparse_moe.shared_experts.down_proj";
    return e;
}

/* Both lists count layers from 1; together they name each once. */
static bool is_delta(const Config *c, const Config *linear, int layer) {
    const JsonValue *delta = config_array(linear, "kda_layers", -1),
                    *full = config_array(linear, "full_attn_layers", -1);
    bool is = standard_lists(delta, layer + 1);
    if (full && standard_lists(full, layer + 1) == is)
        config_fail(c, "\"linear_attn_config\": layer %d is in both or none of its lists", layer + 1);
    return is;
}

static bool kimi_blueprint(const Config *c, Blueprint *b) {
    StandardDefaults d = {.max_position = config_size_or(c, "model_max_length", 1048576), .tie = TIE_NO};
    Config linear = config_section(c, "linear_attn_config");
    standard_model(c, &d, b);
    MlaSpec mla = read_mla(c, b->final_norm.eps);
    DeltaSpec delta = read_delta(&linear, b->final_norm.eps);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    int n = standard_layer_count(c);
    ExpertsSpec experts = {0};
    if (config_count_or(c, "num_experts", 0)) experts = read_experts(c, &mlp, n);
    b->n_extra_layers = standard_extra_layers(c, 0);
    if (!config_ok(c) || !blueprint_allocate(c, b, n, 0)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < n; i++) {
        LayerSpec *layer = &b->layers[i];
        *layer = standard_layer(&none, &mlp, b->final_norm.eps);
        layer->mixer = is_delta(c, &linear, i) ? &mixer_delta : &mixer_mla;
        layer->mla = mla;
        layer->delta = delta;
        if (has_experts(c, i)) standard_use_experts(layer, &experts);
    }
    return config_ok(c);
}

const Family family_kimi_linear = {"kimi_linear", model_types, irrelevant_keys, skipped_tensors, kimi_blueprint, NULL};
