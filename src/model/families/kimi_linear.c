/* Kimi Linear (Moonshot AI, arXiv:2510.26692): layers with Kimi's delta rule, whose decay is per channel and comes
 * through a latent, and between them latent attention without rotation; dense layers first, then experts as
 * DeepSeek-V3 has them, whose groups that are not kept compete with a score of 0.
 *
 * Kimi K3 is the text model of a multimodal one: the same, with SiTU in the mlps, experts in a latent space, gated
 * latent attention, and attention over residuals. The reference of both is mlx-lm, which has no rotation at all. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"kimi_linear", "kimi_k3", NULL};

static const char *const irrelevant_keys[] = {"rope_theta",       "rope_scaling",
                                              "rope_parameters",                      /* no rotation */
                                              "use_grouped_topk",                     /* the counts of groups say it */
                                              "topk_method",      "model_max_length", /* read where it counts */
                                              "vision_config",    "media_placeholder_token_id",
                                              "ignore_index",     NULL};

static const char *const skipped_tensors[] = {
    "model.mtp*", "mtp*", "*vision_tower.*", "*vision_model.*", "*mm_projector.*", "*multi_modal_projector.*", NULL};

/* A config, and what of it says where tensors are. */
typedef struct Kimi {
    Config text;
    bool third;     /* K3 */
    bool fused;     /* q, k and v of the delta rule in one tensor, as MLX writes K3 */
    bool published; /* experts as Moonshot names them: block_sparse_moe */
    int n_layers;
    float eps;
} Kimi;

static bool some_layer_has(const Kimi *k, const char *tensor) {
    for (int i = 0; i < k->n_layers; i++)
        if (config_has_tensor(&k->text, tensor, i)) return true;
    return false;
}

static Kimi read_kimi(const Config *root, float eps) {
    Kimi k = {.text = config_text(root), .eps = eps};
    k.third = strcmp(config_string_or(root, "model_type", ""), "kimi_k3") == 0;
    k.n_layers = standard_layer_count(&k.text);
    k.fused = some_layer_has(&k, "model.layers.*.self_attn.qkv_proj.weight");
    k.published = some_layer_has(&k, "model.layers.*.block_sparse_moe.gate.weight");
    return k;
}

/* ---- the mixers ---- */

static void name_parts(DeltaSpec *d, int64_t width) {
    d->q.name = "model.layers.*.self_attn.q_proj";
    d->k.name = "model.layers.*.self_attn.k_proj";
    d->v.name = "model.layers.*.self_attn.v_proj";
    d->q_conv.name = "model.layers.*.self_attn.q_conv.conv.weight|model.layers.*.self_attn.q_conv1d.weight";
    d->k_conv.name = "model.layers.*.self_attn.k_conv.conv.weight|model.layers.*.self_attn.k_conv1d.weight";
    d->v_conv.name = "model.layers.*.self_attn.v_conv.conv.weight|model.layers.*.self_attn.v_conv1d.weight";
    d->q_conv.total = d->k_conv.total = d->v_conv.total = width;
}

static void name_fused(DeltaSpec *d, int64_t width) {
    LinearSpec *parts[] = {&d->q, &d->k, &d->v};
    ConvSpec *convs[] = {&d->q_conv, &d->k_conv, &d->v_conv};
    for (int i = 0; i < 3; i++) {
        standard_take_rows(parts[i], "model.layers.*.self_attn.qkv_proj", 3 * width, i * width, width);
        *convs[i] =
            (ConvSpec){.name = "model.layers.*.self_attn.qkv_conv.conv.weight", .total = 3 * width, .from = i * width};
    }
}

static DeltaSpec read_delta(const Kimi *k, const Config *linear) {
    int heads = config_size(linear, "num_heads"), dim = config_size(linear, "head_dim");
    DeltaSpec d = {.k_heads = heads,
                   .v_heads = heads,
                   .k_dim = dim,
                   .v_dim = dim,
                   .kernel = config_size_or(linear, "short_conv_kernel_size", 4),
                   .o = {.name = "model.layers.*.self_attn.o_proj"},
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
                   .norm = standard_rms("model.layers.*.self_attn.o_norm.weight", k->eps),
                   .gate_act = ACT_SIGMOID};
    (k->fused ? name_fused : name_parts)(&d, (int64_t)heads * dim);
    if (!k->third) return d;
    d.decay_floor = (float)config_number_unless_null(linear, "gate_lower_bound", 0);
    if (config_bool_or(linear, "use_full_rank_gate", false)) {
        d.z_down.name = NULL;
        d.z.name = "model.layers.*.self_attn.g_proj";
    }
    return d;
}

static MlaSpec read_mla(const Kimi *k) {
    const Config *c = &k->text;
    int head_dim = config_size_or(c, "head_dim", 128);
    MlaDefaults d = {0, 512, head_dim, 64, head_dim, k->third ? 1e-6f : k->eps};
    MlaSpec m = standard_mla(c, &d);
    m.rope = NO_ROPE;
    if (m.q_rank && !k->third) config_fail(c, "\"q_lora_rank\" is not null, which no reference runs for this family");
    if (!config_bool_or(c, "mla_use_nope", k->third))
        config_fail(c, "\"mla_use_nope\" is not true; no reference rotates for this family");
    if (k->third && config_bool_or(c, "mla_use_output_gate", false)) {
        m.gate.name = "model.layers.*.self_attn.g_proj";
        m.gate_each = true;
    }
    return m;
}

/* Both lists count layers from 1; together they name each once. */
static bool is_delta(const Kimi *k, const Config *linear, int layer) {
    const JsonValue *delta = config_array(linear, "kda_layers", -1);
    const JsonValue *full = config_array(linear, "full_attn_layers", -1);
    bool is = standard_lists(delta, layer + 1);
    if (full && standard_lists(full, layer + 1) == is)
        config_fail(&k->text, "\"linear_attn_config\": layer %d is in both or none of its lists", layer + 1);
    return is;
}

/* ---- the feed-forward ---- */

static MlpSpec read_mlp(const Kimi *k) {
    static const StandardDefaults defaults = {0};
    const Config *c = &k->text;
    int width = config_size(c, "intermediate_size");
    if (!k->third) return standard_mlp(c, &defaults, width);
    const char *act = config_string_or(c, "hidden_act", "situ");
    double beta = config_number_unless_null(c, "activation_situ_beta", 0);
    double up = config_number_unless_null(c, "activation_situ_linear_beta", 0);
    if (strcmp(act, "situ") != 0) config_fail(c, "\"hidden_act\" is \"%.40s\", not \"situ\"", act);
    return (MlpSpec){.width = width,
                     .gate = {.name = "model.layers.*.mlp.gate_proj"},
                     .up = {.name = "model.layers.*.mlp.up_proj"},
                     .down = {.name = "model.layers.*.mlp.down_proj"},
                     .situ = beta != 0 ? (float)beta : 1,
                     .situ_up = (float)up};
}

static RouterRule read_rule(const Kimi *k) {
    const Config *c = &k->text;
    const char *score = config_string_or(c, "moe_router_activation_func", "sigmoid");
    bool softmax = !k->third && strcmp(score, "softmax") == 0;
    RouterRule r = {.score = softmax ? ROUTER_SOFTMAX : ROUTER_SIGMOID,
                    .n_experts = config_size(c, "num_experts"),
                    .n_chosen = config_size_or(c, "num_experts_per_token", k->third ? 16 : 1),
                    .n_groups = config_size_or(c, "num_expert_group", 1),
                    .n_kept_groups = config_size_or(c, "topk_group", 1),
                    .rejected_zero = true,
                    .renormalise = config_bool_or(c, "moe_renormalize", true),
                    .renormalise_eps = 1e-20f,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", 1)};
    if (r.n_chosen == 1) r.renormalise = false;
    if (!softmax && strcmp(score, "sigmoid") != 0)
        config_fail(c, "\"moe_router_activation_func\" is \"%.40s\", which no reference has for this family", score);
    if (r.n_groups > 1 && (r.n_experts % r.n_groups || r.n_kept_groups > r.n_groups))
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", r.n_experts, r.n_groups,
                    r.n_kept_groups);
    return r;
}

static void put_latent(const Kimi *k, ExpertsSpec *e) {
    e->latent = config_size_unless_null(&k->text, "routed_expert_hidden_size", 0);
    bool norm = config_bool_or(&k->text, "latent_moe_use_norm", false);
    if (!e->latent) return;
    e->latent_in.name =
        "model.layers.*.mlp.routed_expert_down_proj|model.layers.*.block_sparse_moe.routed_expert_down_proj";
    e->latent_out.name =
        "model.layers.*.mlp.routed_expert_up_proj|model.layers.*.block_sparse_moe.routed_expert_up_proj";
    if (norm)
        e->latent_norm = standard_rms("model.layers.*.mlp.routed_expert_norm.weight|"
                                      "model.layers.*.block_sparse_moe.routed_expert_norm.weight",
                                      k->eps);
}

static ExpertsSpec read_experts(const Kimi *k, const MlpSpec *mlp) {
    const Config *c = &k->text;
    int width = config_size(c, "moe_intermediate_size"), n_shared = config_count_or(c, "num_shared_experts", 0);
    ExpertsSpec e =
        standard_experts(k->published ? EXPERTS_IN_BLOCK_SPARSE_MOE : EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = read_rule(k);
    e.expert.situ = mlp->situ;
    e.expert.situ_up = mlp->situ_up;
    e.correction = "model.layers.*.mlp.e_score_correction_bias|"
                   "model.layers.*.block_sparse_moe.gate.e_score_correction_bias|"
                   "model.layers.*.block_sparse_moe.e_score_correction_bias";
    e.shared = standard_shared_experts(c, mlp, width, n_shared);
    if (k->published) {
        e.shared.gate.name = "model.layers.*.block_sparse_moe.shared_experts.gate_proj";
        e.shared.up.name = "model.layers.*.block_sparse_moe.shared_experts.up_proj";
        e.shared.down.name = "model.layers.*.block_sparse_moe.shared_experts.down_proj";
    }
    if (k->third) put_latent(k, &e);
    return e;
}

static bool is_mixture(const Kimi *k) {
    return config_size_unless_null(&k->text, "num_experts", 0) > 0;
}

/* Every moe_layer_freq-th layer counted from 0, but the first few. */
static bool has_experts(const Kimi *k, int layer) {
    int first = config_count_or(&k->text, "first_k_dense_replace", 0);
    return is_mixture(k) && layer >= first && layer % config_size_or(&k->text, "moe_layer_freq", 1) == 0;
}

/* ---- the whole ---- */

static ResidualSpec residual(const char *norm, const char *proj, float eps) {
    return (ResidualSpec){standard_rms(norm, eps), {.name = proj, .bare = true}};
}

static void put_residuals(const Kimi *k, Blueprint *b) {
    b->residual_block = config_size_unless_null(&k->text, "attn_res_block_size", 0);
    if (!b->residual_block) return;
    b->out_residual = residual("model.output_attn_res_norm.weight|model.output_attn_res.norm_weight",
                               "model.output_attn_res_proj.weight|model.output_attn_res.proj_weight", k->eps);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].mixer_residual = residual(
            "model.layers.*.self_attention_res_norm.weight|model.layers.*.self_attention_res.norm_weight",
            "model.layers.*.self_attention_res_proj.weight|model.layers.*.self_attention_res.proj_weight", k->eps);
        b->layers[i].ffn_residual =
            residual("model.layers.*.mlp_res_norm.weight|model.layers.*.mlp_res.norm_weight",
                     "model.layers.*.mlp_res_proj.weight|model.layers.*.mlp_res.proj_weight", k->eps);
    }
}

static bool kimi_blueprint(const Config *root, Blueprint *b) {
    Config text = config_text(root), *c = &text, linear = config_section(c, "linear_attn_config");
    StandardDefaults d = {
        .norm_eps = 1e-5, .max_position = config_size_or(c, "model_max_length", 1048576), .tie = TIE_NO};
    standard_model(c, &d, b);
    Kimi k = read_kimi(root, b->final_norm.eps);
    MlaSpec mla = read_mla(&k);
    DeltaSpec delta = read_delta(&k, &linear);
    MlpSpec mlp = read_mlp(&k);
    ExpertsSpec experts = {0};
    if (is_mixture(&k)) experts = read_experts(&k, &mlp);
    b->n_extra_layers = standard_extra_layers(c, 0);
    if (!config_ok(c) || !blueprint_allocate(c, b, k.n_layers, 0)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < k.n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        *layer = standard_layer(&none, &mlp, k.eps);
        layer->mixer = is_delta(&k, &linear, i) ? &mixer_delta : &mixer_mla;
        layer->mla = mla;
        layer->delta = delta;
        if (has_experts(&k, i)) standard_use_experts(layer, &experts);
    }
    if (k.third) put_residuals(&k, b);
    return config_ok(c);
}

const Family family_kimi_linear = {"kimi_linear",   model_types,    irrelevant_keys,
                                   skipped_tensors, kimi_blueprint, standard_wrapper_roots};
