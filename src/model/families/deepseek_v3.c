/* DeepSeek-V2 and V3 and their relatives (arXiv:2405.04434, 2412.19437): latent attention; after a few dense layers,
 * many small experts chosen group by group, and a few for every token. V2 scores by softmax and keeps groups by their
 * best expert; V3 by sigmoid, with a correction that counts for the choice alone, and keeps groups by their best two.
 * V3.2 and GLM-5 let each layer see only the positions that an index chooses; in GLM-5 some layers take the choice of
 * an earlier one (arXiv:2603.12201; mlx-lm does not have that). Two references differ in the eps of the index's norm:
 * it is transformers' 1e-6. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"deepseek_v2", "deepseek_v3",  "kimi_k2",     "kimi_k25", "glm4_moe_lite",
                                          "mistral4",    "deepseek_v32", "glm_moe_dsa", "kimi_vl",  NULL};

static const char *const irrelevant_keys[] = {"pretraining_tp",
                                              "output_router_logits",
                                              "aux_loss_alpha",
                                              "seq_aux",
                                              "ep_size",
                                              "router_aux_loss_coef",
                                              "scoring_func", /* the model type says it; checked below */
                                              "vision_config",
                                              "media_placeholder_token_id",
                                              "ignore_index",
                                              "rope_parameters.llama_4_scaling_beta", /* read where it counts */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "*vision_tower.*", "*mm_projector.*",
                                              "*multi_modal_projector.*", NULL};

/* What the model types differ in. */
typedef struct Variant {
    const char *type;
    MlaDefaults mla;
    struct {
        int n, n_chosen, width, n_shared, n_groups, n_kept_groups;
    } experts;
    int first_dense;
    double theta, routed_scale;
    int max_position;
    bool sigmoid, normalise, best_group, always_interleaved;
    int index_heads; /* 0: no index */
    double norm_eps; /* 0: 1e-6 */
} Variant;

static const Variant variants[] = {
    {.type = "deepseek_v2",
     .mla = {1536, 512, 128, 64, 128, 0},
     .experts = {64, 6, 1407, 2, 1, 1},
     .theta = 10000,
     .routed_scale = 1,
     .max_position = 2048,
     .best_group = true,
     .always_interleaved = true},
    {.type = "deepseek_v3",
     .mla = {1536, 512, 128, 64, 128, 0},
     .experts = {256, 8, 2048, 1, 8, 4},
     .first_dense = 3,
     .theta = 10000,
     .routed_scale = 2.5,
     .max_position = 4096,
     .sigmoid = true,
     .normalise = true},
    {.type = "glm4_moe_lite",
     .mla = {768, 512, 192, 64, 256, 0},
     .experts = {64, 4, 1536, 1, 1, 1},
     .first_dense = 1,
     .theta = 10000,
     .routed_scale = 1.8,
     .max_position = 202752,
     .sigmoid = true,
     .normalise = true},
    {.type = "mistral4",
     .mla = {1024, 256, 64, 64, 128, 0},
     .experts = {128, 4, 2048, 1, 1, 1},
     .theta = 10000,
     .routed_scale = 1,
     .max_position = 1048576,
     .normalise = true,
     .best_group = true},
    {.type = "deepseek_v32",
     .mla = {1536, 512, 128, 64, 128, 0},
     .experts = {256, 8, 2048, 1, 8, 4},
     .first_dense = 3,
     .theta = 10000,
     .routed_scale = 2.5,
     .max_position = 163840,
     .sigmoid = true,
     .normalise = true,
     .always_interleaved = true,
     .index_heads = 64},
    {.type = "glm_moe_dsa",
     .mla = {2048, 512, 192, 64, 256, 0},
     .experts = {256, 8, 2048, 1, 1, 1},
     .first_dense = 3,
     .theta = 10000,
     .routed_scale = 2.5,
     .max_position = 202752,
     .sigmoid = true,
     .normalise = true,
     .always_interleaved = true,
     .index_heads = 32,
     .norm_eps = 1e-5},
    {.type = "kimi_vl",
     .mla = {1536, 512, 128, 64, 128, 0},
     .experts = {64, 1, 1407, 0, 1, 1},
     .theta = 10000,
     .routed_scale = 1,
     .max_position = 2048,
     .sigmoid = true,
     .normalise = true},
};

static const Variant *find_variant(const char *type) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i].type, type) == 0) return &variants[i];
    return &variants[1]; /* Kimi K2 is a V3 */
}

/* V2's topk_method says whether groups count. */
static bool groups_in_use(const Config *c, const Variant *v) {
    const char *method = config_string_or(c, "topk_method", v->sigmoid ? "noaux_tc" : "greedy");
    if (strcmp(v->type, "deepseek_v2") != 0 || strcmp(method, "group_limited_greedy") == 0) return true;
    if (strcmp(method, "greedy") != 0) config_fail(c, "\"topk_method\" is \"%.40s\", not known here", method);
    return false;
}

static RouterRule read_rule(const Config *c, const Variant *v) {
    RouterRule r = {.score = v->sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX,
                    .n_experts = config_size_or(c, "n_routed_experts", v->experts.n),
                    .n_chosen = config_size_or(c, "num_experts_per_tok", v->experts.n_chosen),
                    .n_groups = config_size_or(c, "n_group", v->experts.n_groups),
                    .n_kept_groups = config_size_or(c, "topk_group", v->experts.n_kept_groups),
                    .group_by_best = v->best_group,
                    .rejected_zero = !v->sigmoid,
                    .renormalise = config_bool_or(c, "norm_topk_prob", v->normalise),
                    .renormalise_eps = v->sigmoid ? 1e-20f : 0,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", v->routed_scale)};
    const char *score = config_string_or(c, "scoring_func", v->sigmoid ? "sigmoid" : "softmax");
    if (strcmp(score, v->sigmoid ? "sigmoid" : "softmax") != 0)
        config_fail(c, "\"scoring_func\" is \"%.40s\", which the references do not have for this family", score);
    if (strcmp(v->type, "deepseek_v2") == 0) r.renormalise = false; /* neither reference does */
    if (!groups_in_use(c, v)) r.n_groups = 1;
    if (r.n_experts % r.n_groups || r.n_kept_groups > r.n_groups)
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", r.n_experts, r.n_groups,
                    r.n_kept_groups);
    return r;
}

static ExpertsSpec read_experts(const Config *c, const Variant *v, const MlpSpec *mlp) {
    int width = config_size_or(c, "moe_intermediate_size", v->experts.width);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = read_rule(c, v);
    if (v->sigmoid) e.correction = "model.layers.*.mlp.gate.e_score_correction_bias";
    int n_shared =
        config_is_null(c, "n_shared_experts") ? 0 : config_count_or(c, "n_shared_experts", v->experts.n_shared);
    e.shared = standard_shared_experts(c, mlp, width, n_shared);
    return e;
}

/* Without mlp_layer_types: dense below first_k_dense_replace, then every moe_layer_freq-th layer has experts. */
static void put_layers(const Config *c, const Variant *v, Blueprint *b, const MlaSpec *mla, const ExpertsSpec *e) {
    int first = (int)config_number_or(c, "first_k_dense_replace", v->first_dense);
    int every = config_size_or(c, "moe_layer_freq", 1);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].mixer = &mixer_mla;
        b->layers[i].mla = *mla;
        if (!standard_has_experts(c, b->n_layers, i, i >= first && i % every == 0)) continue;
        b->layers[i].ffn = &ffn_experts;
        b->layers[i].experts = *e;
    }
}

static PositionScale read_position_scale(const Config *c) {
    Config section = rope_section(c);
    double beta = config_number_or(&section, "llama_4_scaling_beta", 0);
    return (PositionScale){beta, config_size_or(&section, "original_max_position_embeddings", 1), 0};
}

/* Whether a layer takes the choice of the last one that made any: a list, a pattern "FSS", or every how many layers one
 * chooses after the first few. */
static bool shares_index(const Config *c, int n_layers, int layer) {
    const JsonValue *types = config_array(c, "indexer_types", n_layers);
    int every = config_count_or(c, "index_topk_freq", 1), offset = config_count_or(c, "index_skip_topk_offset", 2);
    const char *pattern = config_string_or(c, "index_topk_pattern", NULL);
    if (types) {
        const JsonValue *type = json_item(types, (uint32_t)layer);
        if (!json_equals(type, "full") && !json_equals(type, "shared"))
            config_fail(c, "\"indexer_types\" item %d is neither \"full\" nor \"shared\"", layer);
        return json_equals(type, "shared");
    }
    if (pattern && (strlen(pattern) != (size_t)n_layers || strspn(pattern, "FS") != (size_t)n_layers))
        config_fail(c, "\"index_topk_pattern\" is not one F or S for each of %d layers", n_layers);
    if (pattern) return config_ok(c) && pattern[layer] == 'S';
    return layer >= offset && (layer - offset + 1) % (every > 0 ? every : 1) != 0;
}

static bool put_index(const Config *c, const Variant *v, Blueprint *b) {
    bool glm = strcmp(v->type, "glm_moe_dsa") == 0;
    StandardDefaults d = {.theta = v->theta};
    IndexSpec index = standard_index(c, v->index_heads, b->max_context);
    const JsonValue *types = config_array(c, "layer_types", b->n_layers);
    index.rope = 1;
    for (int i = 0; i < b->n_layers; i++) {
        index.shared = glm && shares_index(c, b->n_layers, i);
        b->layers[i].mla.index = index;
        if (types && !json_equals(json_item(types, (uint32_t)i), "indexed_attention"))
            config_fail(c, "\"layer_types\" item %d is not \"indexed_attention\"", i);
    }
    if (b->layers[0].mla.index.shared) config_fail(c, "has a first layer that shares the index of one before it");
    bool interleaved = config_bool_or(c, "indexer_rope_interleave", glm);
    return standard_rope(c, &d, b, 1, b->layers[0].mla.rope_dim, interleaved) && config_ok(c);
}

static bool deepseek_blueprint(const Config *root, Blueprint *b) {
    Config text = config_text(root), *c = &text;
    const char *whole = config_string_or(root, "model_type", ""), *type = config_string_or(c, "model_type", whole);
    const Variant *v = find_variant(strcmp(whole, "kimi_vl") == 0 ? whole : type); /* its text is a "deepseek_v3" */
    StandardDefaults d = {.max_position = v->max_position, .theta = v->theta, .norm_eps = v->norm_eps};
    standard_model(c, &d, b);
    MlaSpec mla = standard_mla(c, &v->mla);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    ExpertsSpec experts = read_experts(c, v, &mlp);
    bool interleaved = config_bool_or(c, "rope_interleave", true) || v->always_interleaved;
    config_number_or(c, "partial_rotary_factor", 1); /* the rotated dims are qk_rope_head_dim */
    if (strcmp(v->type, "mistral4") == 0) mla.position_scale = read_position_scale(c);
    int n_layers = standard_layer_count(c);
    b->n_extra_layers = standard_extra_layers(c, 0);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, v->index_heads ? 2 : 1)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < n_layers; i++) b->layers[i] = standard_layer(&none, &mlp, b->final_norm.eps);
    put_layers(c, v, b, &mla, &experts);
    return (!v->index_heads || put_index(c, v, b)) && standard_rope(c, &d, b, 0, mla.rope_dim, interleaved) &&
           config_ok(c);
}

const Family family_deepseek_v3 = {"deepseek_v3",   model_types,        irrelevant_keys,
                                   skipped_tensors, deepseek_blueprint, standard_wrapper_roots};
