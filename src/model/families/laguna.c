/* Laguna (Poolside, 2026): norms of heads, a softplus gate on the output of attention, layers with and without a window
 * that differ in heads and rope, and sigmoid-scored experts with a correction beside a shared one. The reference is
 * transformers, which gates each element where mlx-lm knows one gate per head; the tensors tell. */
#include "model/standard.h"

#include <string.h>

static const char *const model_types[] = {"laguna", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef",
                                              "rope_theta", /* each kind of layer has its own */
                                              NULL};

static RouterScore read_score(const Config *c) {
    const char *name = config_string_or(c, "moe_router_score_func", "sigmoid");
    if (strcmp(name, "sqrtsoftplus") == 0) return ROUTER_SQRT_SOFTPLUS;
    if (strcmp(name, "sigmoid") != 0)
        config_fail(c, "\"moe_router_score_func\" is \"%.40s\": known are sigmoid, sqrtsoftplus", name);
    return ROUTER_SIGMOID;
}

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "moe_intermediate_size", 512), mlp->activation);
    e.router.name = "model.layers.*.mlp.gate.proj|model.layers.*.mlp.gate";
    e.router_softcap = (float)config_number_or(c, "moe_router_logit_softcapping", 0);
    e.correction = "model.layers.*.mlp.gate.e_score_correction_bias|model.layers.*.mlp.experts.e_score_correction_bias";
    e.rule = (RouterRule){.score = read_score(c),
                          .n_experts = config_size_or(c, "num_experts", 256),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 8),
                          .renormalise = true};
    e.routed_scale = (float)config_number_or(c, "moe_routed_scaling_factor", 1);
    e.shared = *mlp;
    e.shared.width = config_size_or(c, "shared_expert_intermediate_size", 512);
    e.shared.gate.name = "model.layers.*.mlp.shared_expert.gate_proj|model.layers.*.mlp.shared_experts.gate_proj";
    e.shared.up.name = "model.layers.*.mlp.shared_expert.up_proj|model.layers.*.mlp.shared_experts.up_proj";
    e.shared.down.name = "model.layers.*.mlp.shared_expert.down_proj|model.layers.*.mlp.shared_experts.down_proj";
    if (e.router_softcap < 0) config_fail(c, "\"moe_router_logit_softcapping\" is below 0");
    if (config_bool_or(c, "moe_apply_router_weight_on_input", false))
        config_fail(c, "\"moe_apply_router_weight_on_input\" is on, which no reference does");
    return e;
}

/* `gating`: true or "per-head", "per-element", or false, which means none to mlx-lm and every element to transformers.
 */
static GateKind read_gate(const Config *c) {
    const JsonValue *v = config_whole(c, "gating");
    bool on = true;
    if (!v || json_equals(v, "per-head") || (json_bool(v, &on) && on)) return GATE_HEAD;
    if (json_equals(v, "per-element")) return GATE_ELEMENT;
    if (on) config_fail(c, "\"gating\" is neither true, false, per-head nor per-element");
    return config_has_tensor(c, "model.layers.*.self_attn.g_proj.weight", 0) ? GATE_ELEMENT : GATE_NONE;
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    a.q.bias = a.k.bias = a.v.bias = config_bool_or(c, "qkv_bias", a.q.bias);
    standard_head_norms(&a, SPAN_HEAD, b->final_norm.eps);
    a.gate_kind = read_gate(c);
    a.gate_act = ACT_SOFTPLUS;
    if (a.gate_kind != GATE_NONE) a.gate.name = "model.layers.*.self_attn.g_proj";
    return a;
}

/* A kind of layer that the model does not have needs no settings: its rope is the other's. */
static bool read_ropes(const Config *c, Blueprint *b, int head_dim) {
    bool full = false, sliding = false;
    for (int i = 0; i < b->n_layers; i++) *(b->layers[i].attention.window ? &sliding : &full) = true;
    return standard_kind_rope(c, b, 0, full ? "full_attention" : "sliding_attention", 500000, full ? 0.5 : 1,
                              head_dim) &&
           standard_kind_rope(c, b, 1, sliding ? "sliding_attention" : "full_attention", 10000, 1, head_dim);
}

static bool laguna_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults d = {.max_position = 131072, .heads = 48, .kv_heads = 8, .head_dim = 128};
    standard_model(c, &d, b);
    AttentionSpec attention = read_attention(c, &d, b);
    MlpSpec mlp = standard_mlp(c, &d, config_size_or(c, "intermediate_size", 8192));
    ExpertsSpec e = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c), window = config_size_or(c, "sliding_window", 512);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 2)) return false;
    for (int i = 0; i < n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        if (config_has(c, "num_attention_heads_per_layer"))
            a->n_heads = config_size_at(c, "num_attention_heads_per_layer", n_layers, i);
        standard_set_window(c, b, i, standard_layer_kind(c, n_layers, i, LAYER_FULL), window);
        a->rope = a->window ? 1 : 0;
        if (standard_has_experts(c, n_layers, i, i > 0)) standard_use_experts(&b->layers[i], &e);
    }
    return read_ropes(c, b, attention.head_dim) && config_ok(c);
}

const Family family_laguna = {
    "laguna", model_types, irrelevant_keys, standard_wrapper_skipped_tensors, laguna_blueprint, standard_wrapper_roots};
