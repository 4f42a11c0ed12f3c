/* DeepSeek-V2 and V3 and their relatives (arXiv:2405.04434, 2412.19437): latent attention; after a few dense layers,
 * many small experts chosen group by group, and a few for every token. V2 scores by softmax and keeps groups by their
 * best expert; V3 by sigmoid, with a correction that counts for the choice alone, and keeps groups by their best two.
 */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"deepseek_v2",   "deepseek_v3", "kimi_k2", "kimi_k25",
                                          "glm4_moe_lite", "mistral4",    NULL};

static const NameRoot roots[] = {
    {"model.", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}, {NULL, NULL}};

static const char *const irrelevant_keys[] = {"pretraining_tp",
                                              "output_router_logits",
                                              "aux_loss_alpha",
                                              "seq_aux",
                                              "ep_size",
                                              "num_nextn_predict_layers", /* of the MTP block, which is skipped */
                                              "num_mtp_layers",
                                              "router_aux_loss_coef",
                                              "scoring_func", /* the model type says it; checked below */
                                              "vision_config",
                                              "media_placeholder_token_id",
                                              "rope_parameters.llama_4_scaling_beta", /* read where it counts */
                                              NULL};

static const char *const skipped_tensors[] = {"*.self_attn.rotary_emb.inv_freq", "*vision_tower.*", "*mm_projector.*",
                                              "*multi_modal_projector.*", NULL};

/* What the model types differ in. */
typedef struct Variant {
    const char *type;
    MlaDefaults mla;
    int n_experts, n_chosen, expert_width, n_shared, n_groups, n_kept_groups, first_dense;
    double theta, routed_scale;
    int max_position;
    bool sigmoid, normalise, best_group, always_interleaved;
} Variant;

static const Variant variants[] = {
    {"deepseek_v2", {1536, 512, 128, 64, 128, 0}, 64, 6, 1407, 2, 1, 1, 0, 10000, 1, 2048, false, false, true, true},
    {"deepseek_v3", {1536, 512, 128, 64, 128, 0}, 256, 8, 2048, 1, 8, 4, 3, 10000, 2.5, 4096, true, true, false, false},
    {"glm4_moe_lite",
     {768, 512, 192, 64, 256, 0},
     64,
     4,
     1536,
     1,
     1,
     1,
     1,
     10000,
     1.8,
     202752,
     true,
     true,
     false,
     false},
    {"mistral4", {1024, 256, 64, 64, 128, 0}, 128, 4, 2048, 1, 1, 1, 0, 10000, 1, 1048576, false, true, true, false},
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
                    .n_experts = config_size_or(c, "n_routed_experts", v->n_experts),
                    .n_chosen = config_size_or(c, "num_experts_per_tok", v->n_chosen),
                    .n_groups = config_size_or(c, "n_group", v->n_groups),
                    .n_kept_groups = config_size_or(c, "topk_group", v->n_kept_groups),
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
    int width = config_size_or(c, "moe_intermediate_size", v->expert_width);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = read_rule(c, v);
    if (v->sigmoid) e.correction = "model.layers.*.mlp.gate.e_score_correction_bias";
    e.shared = *mlp;
    e.shared.width =
        config_is_null(c, "n_shared_experts") ? 0 : width * config_size_or(c, "n_shared_experts", v->n_shared);
    e.shared.gate.name = "model.layers.*.mlp.shared_experts.gate_proj";
    e.shared.up.name = "model.layers.*.mlp.shared_experts.up_proj";
    e.shared.down.name = "model.layers.*.mlp.shared_experts.down_proj";
    return e;
}

/* Dense below first_k_dense_replace, then every moe_layer_freq-th layer has experts. */
static void put_layers(const Config *c, const Variant *v, Blueprint *b, const MlaSpec *mla, const ExpertsSpec *e) {
    int first = (int)config_number_or(c, "first_k_dense_replace", v->first_dense);
    int every = config_size_or(c, "moe_layer_freq", 1);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].mixer = &mixer_mla;
        b->layers[i].mla = *mla;
        if (i < first || i % every != 0) continue;
        b->layers[i].ffn = &ffn_experts;
        b->layers[i].experts = *e;
    }
}

static PositionScale read_position_scale(const Config *c) {
    Config section = rope_section(c);
    double beta = config_number_or(&section, "llama_4_scaling_beta", 0);
    return (PositionScale){beta, config_size_or(&section, "original_max_position_embeddings", 1), 0};
}

static bool deepseek_blueprint(const Config *root, Blueprint *b) {
    Config text = config_text(root), *c = &text;
    const Variant *v = find_variant(config_string_or(c, "model_type", ""));
    StandardDefaults d = {.max_position = v->max_position, .theta = v->theta};
    standard_model(c, &d, b);
    MlaSpec mla = standard_mla(c, &v->mla);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    ExpertsSpec experts = read_experts(c, v, &mlp);
    bool interleaved = config_bool_or(c, "rope_interleave", true) || v->always_interleaved;
    config_number_or(c, "partial_rotary_factor", 1); /* the rotated dims are qk_rope_head_dim */
    if (strcmp(v->type, "mistral4") == 0) mla.position_scale = read_position_scale(c);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < n_layers; i++) b->layers[i] = standard_layer(&none, &mlp, b->final_norm.eps);
    put_layers(c, v, b, &mla, &experts);
    return standard_rope(c, &d, b, 0, mla.rope_dim, interleaved) && config_ok(c);
}

const Family family_deepseek_v3 = {"deepseek_v3",   model_types,        irrelevant_keys,
                                   skipped_tensors, deepseek_blueprint, roots};
