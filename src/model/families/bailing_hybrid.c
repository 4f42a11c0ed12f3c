/* Ling 2.5 and 3 (inclusionAI), both of model_type bailing_hybrid: groups of layers, each ended by one of latent
 * attention; the last layers, of no whole group, are latent too. In the others, Ling 2.5 has lightning attention, and
 * Ling 3, whose architecture is BailingMoeV3ForCausalLM, Kimi's delta rule (arXiv:2510.26692) with a floor of its
 * decay, and a gate per head of the latent attention. Experts as DeepSeek-V3 has them. The references are mlx-lm's
 * bailing_hybrid and bailing_moe_v3, and transformers' bailing_hybrid, which is Ling 3 whatever its architecture is
 * called, and calls the delta rule's last matrix dense. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"bailing_hybrid", "bailing_moe_v3", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits",
                                              "router_aux_loss_coef",
                                              "embedding_dropout",
                                              "output_dropout",
                                              "pretraining_tp",
                                              "router_dtype",
                                              "mtp_loss_scaling_factor",
                                              "max_window_layers",
                                              "rotary_dim",
                                              NULL}; /* rotary_dim: partial_rotary_factor again */

static bool is_v3(const Config *c) {
    const JsonValue *names = config_array(c, "architectures", -1);
    bool v3 = strcmp(config_string_or(c, "model_type", ""), "bailing_moe_v3") == 0;
    for (uint32_t i = 0; names && i < names->length; i++)
        v3 = v3 || json_equals(json_item(names, i), "BailingMoeV3ForCausalLM");
    return v3 || config_has_tensor(c, "model.layers.*.attention.q_conv1d.weight", 0); /* transformers has one class */
}

static MlaSpec read_mla(const Config *c, const MlaDefaults *d) {
    MlaSpec m = standard_mla(c, d);
    if (m.q_rank) m.q_a.name = "model.layers.*.attention.q_a_proj";
    m.q.name = m.q_rank ? "model.layers.*.attention.q_b_proj" : "model.layers.*.attention.q_proj";
    m.q_norm.weight = "model.layers.*.attention.q_a_layernorm.weight";
    m.kv_a.name = m.k_rope.name = "model.layers.*.attention.kv_a_proj_with_mqa";
    m.kv_norm.weight = "model.layers.*.attention.kv_a_layernorm.weight";
    m.embed_q[0].name = "model.layers.*.attention.embed_q";
    m.unembed[0].name = "model.layers.*.attention.unembed_out";
    m.embed_q[1].name = m.unembed[1].name = "model.layers.*.attention.kv_b_proj";
    m.o.name = "model.layers.*.attention.dense";
    return m;
}

static DeltaSpec read_delta(const Config *c, float eps) {
    int heads = config_size(c, "num_attention_heads"), dim = config_size_or(c, "head_dim", 128);
    return (DeltaSpec){.k_heads = heads,
                       .v_heads = heads,
                       .k_dim = dim,
                       .v_dim = dim,
                       .kernel = config_size_or(c, "short_conv_kernel_size", 4),
                       .q = {.name = "model.layers.*.attention.q_proj"},
                       .k = {.name = "model.layers.*.attention.k_proj"},
                       .v = {.name = "model.layers.*.attention.v_proj"},
                       .o = {.name = "model.layers.*.attention.o_proj|model.layers.*.attention.dense"},
                       .q_conv = {.name = "model.layers.*.attention.q_conv1d.weight", .total = (int64_t)heads * dim},
                       .k_conv = {.name = "model.layers.*.attention.k_conv1d.weight", .total = (int64_t)heads * dim},
                       .v_conv = {.name = "model.layers.*.attention.v_conv1d.weight", .total = (int64_t)heads * dim},
                       .a = {.name = "model.layers.*.attention.f_proj"},
                       .z = {.name = "model.layers.*.attention.g_proj"},
                       .b = {.name = "model.layers.*.attention.b_proj"},
                       .a_log = "model.layers.*.attention.A_log",
                       .dt_bias = "model.layers.*.attention.dt_bias",
                       .decay_each = true,
                       .decay_floor = (float)config_number_unless_null(c, "kda_lower_bound", -5),
                       .norm = standard_rms("model.layers.*.attention.o_norm.weight", eps),
                       .gate_act = ACT_SIGMOID};
}

static ExpertsSpec read_v3_experts(const Config *c, const MlpSpec *mlp) {
    static const CorrectedDefaults defaults = {128, 8, 512, 1, 2.5, true};
    ExpertsSpec e = standard_corrected_experts(c, &defaults, mlp);
    int n_shared = config_count_or(c, "num_shared_experts", 1);
    e.correction = "model.layers.*.mlp.gate.expert_bias";
    e.shared = standard_shared_experts(c, mlp, config_size_or(c, "moe_shared_expert_intermediate_size", 512), n_shared);
    e.rule.n_groups = config_size_or(c, "n_group", 8);
    e.rule.n_kept_groups = config_size_or(c, "topk_group", 4);
    e.rule.renormalise = true; /* the reference always does */
    if (e.rule.n_experts % e.rule.n_groups || e.rule.n_kept_groups > e.rule.n_groups)
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", e.rule.n_experts, e.rule.n_groups,
                    e.rule.n_kept_groups);
    return e;
}

static bool put_v3(const Config *c, Blueprint *b, const MlpSpec *mlp) {
    float eps = b->final_norm.eps;
    const MlaDefaults latent = {256, 512, 128, 64, 128, eps};
    MlaSpec mla = read_mla(c, &latent);
    DeltaSpec delta = read_delta(c, eps);
    ExpertsSpec experts = read_v3_experts(c, mlp);
    int dense = config_count_or(c, "first_k_dense_replace", 1);
    mla.gate.name = "model.layers.*.attention.g_proj";
    if (!config_bool_or(c, "rope_interleave", true) || !config_bool_or(c, "no_kda_lora", true) ||
        !config_bool_or(c, "kda_safe_gate", true))
        config_fail(c, "\"rope_interleave\", \"no_kda_lora\" or \"kda_safe_gate\" is false, which no reference runs");
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->mixer = standard_ling_ends_group(c, b->n_layers, i, 4) ? &mixer_mla : &mixer_delta;
        layer->mla = mla;
        layer->delta = delta;
        if (i >= dense) standard_use_experts(layer, &experts);
    }
    return config_ok(c);
}

/* The shared experts' width is that of all of them together, where it is said. */
static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_ling_experts(c, mlp, "sigmoid", true);
    e.rule.rejected_zero = false;
    if (config_has(c, "moe_shared_expert_intermediate_size") && e.shared.width)
        e.shared.width = config_size(c, "moe_shared_expert_intermediate_size");
    return e;
}

static bool put_lightning(const Config *c, const StandardDefaults *d, Blueprint *b, const MlpSpec *mlp) {
    float eps = b->final_norm.eps;
    const MlaDefaults latent = {0, 512, 128, 64, 128, eps};
    Config section = rope_section(c);
    int heads = config_size(c, "num_attention_heads"), n = b->n_layers;
    int dim = config_size_or(c, "head_dim", b->hidden / heads > 0 ? b->hidden / heads : 1);
    MlaSpec mla = read_mla(c, &latent);
    LightningSpec lightning = standard_ling_lightning(c, heads, dim, true, eps);
    ExpertsSpec experts = read_experts(c, mlp);
    int dense = config_count_or(c, "first_k_dense_replace", 0);
    mla.q_a.bias = mla.kv_a.bias = mla.k_rope.bias = mla.o.bias = config_bool_or(c, "use_qkv_bias", false);
    for (int i = 0; i < n; i++) {
        LayerSpec *layer = &b->layers[i];
        layer->mixer = standard_ling_ends_group(c, n, i, 1) ? &mixer_mla : &mixer_lightning;
        layer->mla = mla;
        layer->lightning = lightning;
        layer->lightning.slope_scale = (float)(1 - (double)i / (n > 1 ? n - 1 : 1) + 1e-5);
        if (i >= dense) standard_use_experts(layer, &experts);
    }
    return config_ok(c) && standard_rope(c, d, b, 1, rope_partial_dims(c, &section, dim, 0.5), false);
}

static bool bailing_blueprint(const Config *c, Blueprint *b) {
    const StandardDefaults d = {
        .theta = 6000000, .max_position = 131072, .mlp_bias = config_bool_or(c, "use_bias", false)};
    bool v3 = is_v3(c), interleaved = config_bool_or(c, "rope_interleave", true);
    standard_model(c, &d, b);
    b->embedding.name = "model.word_embeddings";
    b->n_extra_layers = standard_extra_layers(c, 0);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    int n = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n, v3 ? 1 : 2)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < n; i++) b->layers[i] = standard_layer(&none, &mlp, b->final_norm.eps);
    return (v3 ? put_v3(c, b, &mlp) : put_lightning(c, &d, b, &mlp)) &&
           standard_rope(c, &d, b, 0, b->layers[0].mla.rope_dim, interleaved) && config_ok(c);
}

const Family family_bailing_hybrid = {"bailing_hybrid",         model_types,       irrelevant_keys,
                                      standard_skipped_tensors, bailing_blueprint, NULL};
