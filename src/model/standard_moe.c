/* What mixtures of experts have in common: the names of their tensors in both layouts, and the router that most of the
 * newer ones took from DeepSeek-V3 (arXiv:2412.19437). */
#include "model/mechanism.h"
#include "model/standard.h"

#include <string.h>

/* ---- names ---- */

typedef struct ExpertTemplates {
    const char *router;
    const char *stacked[3], *each[3]; /* gate, up, down */
    const char *fused, *fused_down;
} ExpertTemplates;

static const ExpertTemplates templates[] = {
    [EXPERTS_IN_MLP] = {"model.layers.*.mlp.gate",
                        {"model.layers.*.mlp.switch_mlp.gate_proj|model.layers.*.mlp.experts.gate_proj",
                         "model.layers.*.mlp.switch_mlp.up_proj|model.layers.*.mlp.experts.up_proj",
                         "model.layers.*.mlp.switch_mlp.down_proj|model.layers.*.mlp.experts.down_proj"},
                        {"model.layers.*.mlp.experts.#.gate_proj", "model.layers.*.mlp.experts.#.up_proj",
                         "model.layers.*.mlp.experts.#.down_proj"},
                        "model.layers.*.mlp.experts.gate_up_proj",
                        "model.layers.*.mlp.experts.down_proj"},
    [EXPERTS_IN_BLOCK_SPARSE_MOE] = {"model.layers.*.block_sparse_moe.gate",
                                     {"model.layers.*.block_sparse_moe.switch_mlp.gate_proj",
                                      "model.layers.*.block_sparse_moe.switch_mlp.up_proj",
                                      "model.layers.*.block_sparse_moe.switch_mlp.down_proj"},
                                     {"model.layers.*.block_sparse_moe.experts.#.w1",
                                      "model.layers.*.block_sparse_moe.experts.#.w3",
                                      "model.layers.*.block_sparse_moe.experts.#.w2"},
                                     "model.layers.*.block_sparse_moe.experts.gate_up_proj",
                                     "model.layers.*.block_sparse_moe.experts.down_proj"},
    [EXPERTS_IN_FEED_FORWARD] = {"model.layers.*.feed_forward.gate",
                                 {"model.layers.*.feed_forward.switch_mlp.gate_proj",
                                  "model.layers.*.feed_forward.switch_mlp.up_proj",
                                  "model.layers.*.feed_forward.switch_mlp.down_proj"},
                                 {"model.layers.*.feed_forward.experts.#.gate_proj",
                                  "model.layers.*.feed_forward.experts.#.up_proj",
                                  "model.layers.*.feed_forward.experts.#.down_proj"},
                                 "model.layers.*.feed_forward.experts.gate_up_proj",
                                 "model.layers.*.feed_forward.experts.down_proj"},
};

ExpertsSpec standard_experts(ExpertNames names, int width, Activation act) {
    const ExpertTemplates *t = &templates[names];
    RowSlice first = {2 * (int64_t)width, 0, width, width}, second = {2 * (int64_t)width, width, width, width};
    return (ExpertsSpec){
        .router = {.name = t->router},
        .gate = {{.name = t->stacked[0]}, {.name = t->each[0]}, {.name = t->fused, .rows = first, .bare = true}},
        .up = {{.name = t->stacked[1]}, {.name = t->each[1]}, {.name = t->fused, .rows = second, .bare = true}},
        .down = {{.name = t->stacked[2]}, {.name = t->each[2]}, {.name = t->fused_down, .bare = true}},
        .expert = {.width = width, .activation = act, .gate = {.name = "gate"}}};
}

MlpSpec standard_shared_experts(const Config *c, const MlpSpec *mlp, int width, int n) {
    MlpSpec m = *mlp;
    if ((int64_t)width * n > CONFIG_MAX_SIZE)
        config_fail(c, "%d shared experts of %d are more than any model has", n, width);
    else
        m.width = width * n;
    m.gate.name = "model.layers.*.mlp.shared_experts.gate_proj";
    m.up.name = "model.layers.*.mlp.shared_experts.up_proj";
    m.down.name = "model.layers.*.mlp.shared_experts.down_proj";
    return m;
}

void standard_gated_shared_expert(const Config *c, const MlpSpec *mlp, int width, ExpertsSpec *e) {
    e->shared = *mlp;
    e->shared.width = config_size_or(c, "shared_expert_intermediate_size", width);
    e->shared.gate.name = "model.layers.*.mlp.shared_expert.gate_proj";
    e->shared.up.name = "model.layers.*.mlp.shared_expert.up_proj";
    e->shared.down.name = "model.layers.*.mlp.shared_expert.down_proj";
    e->shared_gate.name = "model.layers.*.mlp.shared_expert_gate";
}

bool standard_sparse_layer(const Config *c, int layer) {
    const JsonValue *dense = config_array(c, "mlp_only_layers", -1);
    int step = config_size_or(c, "decoder_sparse_step", 1);
    return !standard_lists(dense, layer) && (layer + 1) % step == 0;
}

bool standard_has_experts(const Config *c, int n_layers, int layer, bool otherwise) {
    const JsonValue *types = config_array(c, "mlp_layer_types", n_layers);
    const JsonValue *type = types ? json_item(types, (uint32_t)layer) : NULL;
    if (!type) return otherwise;
    if (!json_equals(type, "sparse") && !json_equals(type, "dense"))
        config_fail(c, "\"mlp_layer_types\" item %d is neither \"sparse\" nor \"dense\"", layer);
    return json_equals(type, "sparse");
}

void standard_use_experts(LayerSpec *layer, const ExpertsSpec *e) {
    layer->ffn = &ffn_experts;
    layer->experts = *e;
}

/* ---- the router of DeepSeek-V3 ---- */

/* Both names stand for the same rule, which is the only one the references have for these families. */
static void check_rule_names(const Config *c) {
    const char *score = config_string_or(c, "scoring_func", "sigmoid");
    const char *method = config_string_or(c, "topk_method", "noaux_tc");
    if (strcmp(score, "sigmoid") != 0 && strcmp(score, "noaux_tc") != 0)
        config_fail(c, "\"scoring_func\" is \"%.40s\", which the references do not have for this family", score);
    if (strcmp(method, "noaux_tc") != 0)
        config_fail(c, "\"topk_method\" is \"%.40s\", which the references do not have for this family", method);
}

static const char *spelling(const Config *c, const char *first, const char *second, const char *third) {
    return config_has(c, second) ? second : config_has(c, third) ? third : first;
}

static RouterRule read_rule(const Config *c, const CorrectedDefaults *d) {
    RouterRule r = {.score = ROUTER_SIGMOID,
                    .n_experts = config_size_or(c, spelling(c, "n_routed_experts", "num_experts", "num_local_experts"),
                                                d->n_experts),
                    .n_chosen = config_size_or(c, "num_experts_per_tok", d->n_chosen),
                    .n_groups = config_size_or(c, "n_group", 1),
                    .n_kept_groups = config_size_or(c, "topk_group", 1),
                    .renormalise = config_bool_or(c, "norm_topk_prob", d->renormalise),
                    .renormalise_eps = 1e-20f,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", d->scale)};
    if (r.n_experts % r.n_groups || r.n_kept_groups > r.n_groups)
        config_fail(c, "%d experts in %d groups, of which %d are kept, cannot be", r.n_experts, r.n_groups,
                    r.n_kept_groups);
    check_rule_names(c);
    return r;
}

ExpertsSpec standard_corrected_experts(const Config *c, const CorrectedDefaults *d, const MlpSpec *mlp) {
    int width = config_size_or(c, "moe_intermediate_size", d->width);
    const char *count = config_has(c, "num_shared_experts") ? "num_shared_experts" : "n_shared_experts";
    int n_shared = config_is_null(c, count) ? 0 : config_count_or(c, count, d->n_shared);
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, width, mlp->activation);
    e.rule = read_rule(c, d);
    e.correction = "model.layers.*.mlp.gate.e_score_correction_bias|model.layers.*.mlp.e_score_correction_bias";
    e.shared = standard_shared_experts(c, mlp, width, n_shared);
    return e;
}
