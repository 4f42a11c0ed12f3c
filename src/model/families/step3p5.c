/* Step 3.5 (StepFun, 2026): norms of heads, a gate per head, layers with a window that have more heads, rope settings
 * layer by layer, and sigmoid-scored experts with a correction beside a shared one, with limits in some layers. The
 * reference is mlx-lm. Hugging Face stores norms minus one and names experts otherwise, which is how its layout is told
 * from MLX's. */
#include "model/standard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const model_types[] = {"step3p5", NULL};

static const char *const irrelevant_keys[] = {
    "num_key_value_heads", /* num_attention_groups counts */
    "max_seq_len",         /* max_position_embeddings counts */
    "need_fp32_gate",
    "use_moe",
    "use_moe_router_bias",
    "use_qk_norm",
    "zero_centered",
    "att_impl_type",
    "moe_every_n_layer",
    "moe_layer_offset",
    "use_rope_layers", /* published with one value each; read by no reference */
    NULL};

static const char *const skipped_tensors[] = {"*.mtp*", NULL};

/* Lists that count layers go on into those that predict further tokens. */
static bool is_sliding(const Config *c, int layer) {
    const JsonValue *types = config_array(c, "layer_types", -1);
    if (!types || types->length == 0) return layer % 2 == 0;
    const JsonValue *type = (uint32_t)layer < types->length ? json_item(types, (uint32_t)layer) : NULL;
    if (json_equals(type, "sliding_attention")) return true;
    if (!json_equals(type, "full_attention"))
        config_fail(c, "\"layer_types\" item %d is no kind of layer known here", layer);
    return false;
}

/* moe_layers_enum: "3,4,5"; without it all but the first. */
static bool has_experts(const Config *c, int layer) {
    const char *list = config_string_or(c, "moe_layers_enum", "");
    bool listed = *list == 0 && layer > 0;
    for (const char *at = list; *at;) {
        char *end;
        listed = listed || strtol(at, &end, 10) == layer;
        strtol(at, &end, 10);
        if (end == at || (*end && *end != ',')) {
            config_fail(c, "\"moe_layers_enum\" is \"%.40s\", expected numbers with commas between them", list);
            return false;
        }
        at = *end ? end + 1 : end;
    }
    return listed;
}

static bool is_hugging_face(const Config *c, int n_layers) {
    static const char any[] = "model.layers.*.moe.gate.weight|model.layers.*.share_expert.up_proj.weight";
    for (int i = 0; i < n_layers && i < 4096; i++)
        if (config_has_tensor(c, any, i)) return true;
    return false;
}

/* ---- attention ---- */

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, int hidden, float eps, float plus) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.n_kv_heads = config_size(c, "num_attention_groups");
    standard_head_norms(&a, SPAN_HEAD, eps);
    a.q_norm.norm.plus = a.k_norm.norm.plus = plus;
    if (!config_bool_or(c, "use_head_wise_attn_gate", true)) return a;
    a.gate = (LinearSpec){.name = "model.layers.*.self_attn.g_proj"};
    a.gate_kind = GATE_HEAD;
    a.gate_act = ACT_SIGMOID;
    return a;
}

static void read_sliding(const Config *c, AttentionSpec *a) {
    Config other = config_section(c, "attention_other_setting");
    a->window = config_size_or(c, "sliding_window", 512);
    if (!other.object) return;
    a->n_heads = config_size(&other, "num_attention_heads");
    a->n_kv_heads = config_size(&other, "num_attention_groups");
}

/* What is said beside the heads is said again: it must be the same. */
static void check_other_setting(const Config *c, int head_dim) {
    Config other = config_section(c, "attention_other_setting");
    const char *type = config_string_or(&other, "attention_type", "sliding_attention");
    int dim = config_size_or(&other, "head_dim", head_dim), true_dim = config_size_or(&other, "true_head_dim", dim);
    if (strcmp(type, "sliding_attention") != 0 || dim != head_dim || true_dim != head_dim)
        config_fail(c,
                    "\"attention_other_setting\" has another attention_type or head_dim than the layers with a window");
}

/* ---- rope ---- */

/* Whether the scaling of rope_scaling holds for a kind of layer. */
static bool is_scaled(const Config *c, const char *kind) {
    const JsonValue *kinds = config_array(c, "yarn_only_types", -1);
    for (uint32_t i = 0; kinds && i < kinds->length; i++)
        if (json_equals(json_item(kinds, i), kind)) return true;
    return !kinds || kinds->length == 0;
}

static bool read_rope(const Config *c, const Blueprint *b, int layer, int head_dim, RopeSpec *out) {
    const char *kind = config_has(c, "layer_types") && is_sliding(c, layer) ? "sliding_attention" : "full_attention";
    Config all = rope_section(c), none = {c->record, NULL, ""};
    double part = config_number_each(c, "partial_rotary_factors", layer, 1);
    RopeInput in = {.theta = config_number_each(c, "rope_theta", layer, 10000),
                    .dims = part > 0 && part <= 1 ? (int)(head_dim * part) : 0,
                    .max_position = b->max_context};
    return rope_read(is_scaled(c, kind) ? &all : &none, &in, out);
}

static bool same_rope(const RopeSpec *a, const RopeSpec *b) {
    return a->theta == b->theta && a->factor == b->factor && a->table.dims == b->table.dims &&
           strcmp(a->rule, b->rule) == 0;
}

/* Layers with the same settings share a table. */
static bool read_ropes(const Config *c, Blueprint *b) {
    int n = 0;
    for (int i = 0; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        int found = 0;
        if (!read_rope(c, b, i, a->head_dim, &b->ropes[n])) return false;
        while (!same_rope(&b->ropes[found], &b->ropes[n])) found++;
        if (found < n) rope_clear(&b->ropes[n]);
        if (found == n) n++;
        a->rope = found;
    }
    b->n_ropes = n;
    b->context_note = rope_context_note(&b->ropes[0]);
    return true;
}

/* ---- feed-forward ---- */

/* Limits of one layer's gate, after its activation, and up; 0, null or absent: none. */
static void limit(const Config *c, const char *key, int layer, MlpSpec *m) {
    double most = config_number_each(c, key, layer, 0);
    m->act_limit = m->up_limit = most > 0 ? (float)most : 0;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", 1280), mlp->activation);
    e.router.name = "model.layers.*.mlp.gate.gate|model.layers.*.moe.gate";
    e.correction = "model.layers.*.mlp.gate.router_bias|model.layers.*.moe.router_bias";
    e.gate[0].name = "model.layers.*.mlp.switch_mlp.gate_proj|model.layers.*.moe.gate_proj";
    e.up[0].name = "model.layers.*.mlp.switch_mlp.up_proj|model.layers.*.moe.up_proj";
    e.down[0].name = "model.layers.*.mlp.switch_mlp.down_proj|model.layers.*.moe.down_proj";
    e.rule = (RouterRule){.score = ROUTER_SIGMOID,
                          .n_experts = config_size_or(c, "moe_num_experts", 288),
                          .n_chosen = config_size_or(c, "moe_top_k", 8),
                          .renormalise = config_bool_or(c, "norm_expert_weight", true),
                          .renormalise_eps = 1e-20f,
                          .scale = (float)config_number_or(c, "moe_router_scaling_factor", 3)};
    e.shared = *mlp;
    e.shared.width = config_size_or(c, "share_expert_dim", 1280);
    e.shared.gate.name = "model.layers.*.mlp.share_expert.gate_proj|model.layers.*.share_expert.gate_proj";
    e.shared.up.name = "model.layers.*.mlp.share_expert.up_proj|model.layers.*.share_expert.up_proj";
    e.shared.down.name = "model.layers.*.mlp.share_expert.down_proj|model.layers.*.share_expert.down_proj";
    const char *score = config_string_or(c, "moe_router_activation", "sigmoid");
    if (strcmp(score, "sigmoid") != 0)
        config_fail(c, "\"moe_router_activation\" is \"%.40s\": known is sigmoid", score);
    return e;
}

static void shape_ffn(const Config *c, int layer, const ExpertsSpec *experts, LayerSpec *l) {
    limit(c, "swiglu_limits_shared", layer, &l->mlp);
    if (!has_experts(c, layer)) return;
    standard_use_experts(l, experts);
    limit(c, "swiglu_limits", layer, &l->experts.expert);
    limit(c, "swiglu_limits_shared", layer, &l->experts.shared);
}

static bool step3p5_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults d = {.norm_eps = 1e-5, .max_position = 262144, .tie = TIE_NO};
    standard_model(c, &d, b);
    int n_layers = standard_layer_count(c);
    float eps = b->final_norm.eps, plus = is_hugging_face(c, n_layers) ? 1 : 0;
    AttentionSpec attention = read_attention(c, &d, b->hidden, eps, plus);
    MlpSpec mlp = standard_mlp(c, &d, config_size(c, "intermediate_size"));
    ExpertsSpec experts = read_experts(c, &mlp);
    check_other_setting(c, attention.head_dim);
    b->n_extra_layers = standard_extra_layers(c, 0);
    b->final_norm.plus = plus;
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, n_layers)) return false;
    for (int i = 0; i < n_layers; i++) {
        LayerSpec *l = &b->layers[i];
        *l = standard_layer(&attention, &mlp, eps);
        l->mixer_norm.plus = l->ffn_norm.plus = plus;
        if (is_sliding(c, i)) read_sliding(c, &l->attention);
        shape_ffn(c, i, &experts, l);
    }
    return config_ok(c) && read_ropes(c, b) && config_ok(c);
}

const Family family_step3p5 = {"step3p5", model_types, irrelevant_keys, skipped_tensors, step3p5_blueprint, NULL};
