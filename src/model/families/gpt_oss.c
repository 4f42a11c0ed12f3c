/* gpt-oss (OpenAI, 2025): a window in every other layer, a sink for every head, biases everywhere, and experts whose
 * gate and up are limited. Hugging Face saves the experts' matrices as [inputs, outputs], gate and up in turns, column
 * by column. mlx-lm always rounds yarn's range; transformers obeys `truncate`, and counts. */
#include "model/standard.h"

static const char *const model_types[] = {"gpt_oss", NULL};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef",
                                              "experts_per_token",      /* num_experts_per_tok counts */
                                              "initial_context_length", /* the rope section has it */
                                              NULL};

static const char fused[] = "model.layers.*.mlp.experts.gate_up_proj";

static ExpertsSpec read_experts(const Config *c, const MlpSpec *mlp) {
    int64_t width = mlp->width;
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, mlp->width, ACT_GELU_QUICK);
    float limit = (float)config_number_or(c, "swiglu_limit", 7);
    if (config_number_or(c, "swiglu_alpha", 1.702) != 1.702)
        config_fail(c, "\"swiglu_alpha\" is not 1.702, the only one known here");
    if (!(limit > 0)) config_fail(c, "\"swiglu_limit\" is %g, expected more than 0", (double)limit);
    e.router = (LinearSpec){.name = "model.layers.*.mlp.router", .bias = true};
    e.rule = (RouterRule){
        .score = ROUTER_SOFTMAX_CHOSEN,
        .n_experts = config_size_or(c, config_has(c, "num_experts") ? "num_experts" : "num_local_experts", 128),
        .n_chosen = config_size_or(c, "num_experts_per_tok", 4)};
    e.gate[1] = (LinearSpec){.name = fused, .rows = {2 * width, 0, 1, 2}, .transposed = true, .bare = true};
    e.up[1] = (LinearSpec){.name = fused, .rows = {2 * width, 1, 1, 2}, .transposed = true, .bare = true};
    e.down[1] = (LinearSpec){.name = "model.layers.*.mlp.experts.down_proj", .transposed = true, .bare = true};
    e.gate[2] = e.up[2] = e.down[2] = (LinearSpec){0};
    for (int i = 0; i < 2; i++) e.gate[i].bias = e.up[i].bias = e.down[i].bias = true;
    e.expert.gate_limit = e.expert.up_limit = limit;
    e.expert.up_plus = 1;
    return e;
}

/* Without any rope settings transformers has those of the published models. */
static bool published_rope(const Config *c, const StandardDefaults *d, Blueprint *b, int head_dim) {
    static const char text[] = "{\"rope_type\": \"yarn\", \"factor\": 32, \"beta_fast\": 32, \"beta_slow\": 1,"
                               " \"truncate\": false, \"original_max_position_embeddings\": 4096}";
    JsonDoc *doc = json_parse(text, sizeof text - 1, 0, NULL);
    RopeInput in = {
        .theta = config_number_or(c, "rope_theta", d->theta), .dims = head_dim, .max_position = b->max_context};
    if (!doc) return config_fail(c, "out of memory for a rotary table");
    Config section = {c->record, json_root(doc), "rope_parameters."};
    bool ok = rope_read(&section, &in, &b->ropes[0]);
    json_free(doc);
    return ok;
}

static bool read_rope(const Config *c, const StandardDefaults *d, Blueprint *b, int head_dim) {
    bool said = config_has(c, "rope_scaling") || config_has(c, "rope_parameters");
    return said ? standard_rope(c, d, b, 0, head_dim, false) : published_rope(c, d, b, head_dim);
}

static bool gpt_oss_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults defaults = {.norm_eps = 1e-5,
                                              .theta = 150000,
                                              .max_position = 131072,
                                              .head_dim = 64,
                                              .kv_heads = 8,
                                              .tie = TIE_NO,
                                              .attention_bias = true};
    standard_model(c, &defaults, b);
    AttentionSpec attention = standard_attention(c, &defaults, b->hidden);
    MlpSpec mlp = standard_mlp(c, &defaults, config_size_or(c, "intermediate_size", 2880));
    ExpertsSpec experts = read_experts(c, &mlp);
    int n_layers = standard_layer_count(c), window = config_size_unless_null(c, "sliding_window", 128);
    attention.sinks = "model.layers.*.self_attn.sinks";
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) {
        b->layers[i] = standard_layer(&attention, &mlp, b->final_norm.eps);
        standard_set_window(c, b, i, standard_layer_kind(c, n_layers, i, standard_pattern_kind(i, 2)), window);
        standard_use_experts(&b->layers[i], &experts);
    }
    return read_rope(c, &defaults, b, attention.head_dim) && config_ok(c);
}

const Family family_gpt_oss = {"gpt_oss", model_types, irrelevant_keys, NULL, gpt_oss_blueprint, NULL};
