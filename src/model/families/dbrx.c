/* DBRX (Databricks, 2024): layer norms without bias, q, k and v in one matrix with limits on their values, and experts
 * whose weights sum to 1. Hugging Face keeps a matrix of all experts in one tensor, row under row; mlx-lm has a tensor
 * for each. The rotary base is attn_config's, which transformers 5 has come to pass over. */
#include "model/standard.h"

static const char *const model_types[] = {"dbrx", NULL};

static const char *const irrelevant_keys[] = {"emb_pdrop",
                                              "resid_pdrop",
                                              "attn_config.attn_pdrop",
                                              "ffn_config.moe_jitter_eps",
                                              "ffn_config.moe_loss_weight",
                                              "ffn_config.uniform_expert_assignment", /* of training */
                                              "output_router_logits",
                                              "router_aux_loss_coef",
                                              "attn_config.model_type",
                                              "ffn_config.model_type",
                                              "ffn_config.hidden_size", /* d_model counts */
                                              NULL};

static const NameRoot roots[] = {{"transformer.", ""}, {NULL, NULL}};

static AttentionSpec read_attention(const Config *c, const Config *section, const StandardDefaults *d, int hidden) {
    AttentionSpec a = standard_attention(c, d, hidden);
    a.n_kv_heads = config_size_or(section, "kv_n_heads", 1);
    a.clip = (float)config_number_or(section, "clip_qkv", 0);
    if (config_has(section, "clip_qkv") && !(a.clip > 0))
        config_fail(c, "\"attn_config.clip_qkv\" is %g, expected more than 0", (double)a.clip);
    standard_fuse_qkv(&a, "model.blocks.*.norm_attn_norm.attn.Wqkv");
    a.o.name = "model.blocks.*.norm_attn_norm.attn.out_proj";
    return a;
}

static Activation read_activation(const Config *section) {
    Config function = config_section(section, "ffn_act_fn");
    return standard_activation(&function, "name", "silu");
}

/* One tensor of all experts, row under row; of w2 the rows are inputs. */
static LinearSpec merged(const char *name, int n, int width) {
    return (LinearSpec){.name = name, .bare = true, .blocks = {(int64_t)n * width, 0, width}};
}

static ExpertsSpec read_experts(const Config *section) {
    int width = config_size_or(section, "ffn_hidden_size", 3584);
    int n = config_size_or(section, "moe_num_experts", 4);
    double norm = config_number_unless_null(section, "moe_normalize_expert_weights", 1);
    ExpertsSpec e = {
        .router = {.name = "model.blocks.*.ffn.router.layer"},
        .gate = {{.name = "model.blocks.*.ffn.experts.#.w1"}, merged("model.blocks.*.ffn.experts.mlp.w1", n, width)},
        .up = {{.name = "model.blocks.*.ffn.experts.#.v1"}, merged("model.blocks.*.ffn.experts.mlp.v1", n, width)},
        .down = {{.name = "model.blocks.*.ffn.experts.#.w2"}, merged("model.blocks.*.ffn.experts.mlp.w2", n, width)},
        .expert = {.width = width, .activation = read_activation(section), .gate = {.name = "gate"}}};
    e.down[1].transposed = true;
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = n,
                          .n_chosen = config_size_or(section, "moe_top_k", 1),
                          .renormalise = norm != 0};
    if (norm != 0 && norm != 1)
        config_fail(section, "\"ffn_config.moe_normalize_expert_weights\" is %g: known are 1 and null", norm);
    return e;
}

static bool dbrx_blueprint(const Config *c, Blueprint *b) {
    Config attention_section = config_section(c, "attn_config"), ffn_section = config_section(c, "ffn_config");
    const StandardDefaults d = {.theta = config_number_or(&attention_section, "rope_theta", 10000), .tie = TIE_NO};
    standard_model(c, &d, b);
    b->embedding.name = "model.wte";
    b->final_norm = standard_layer_norm("model.norm_f.weight", NULL, 1e-5f);
    AttentionSpec attention = read_attention(c, &attention_section, &d, b->hidden);
    ExpertsSpec experts = read_experts(&ffn_section);
    MlpSpec none = {0};
    LayerSpec layer = standard_layer(&attention, &none, 1e-5f);
    layer.mixer_norm = standard_layer_norm("model.blocks.*.norm_attn_norm.norm_1.weight", NULL, 1e-5f);
    layer.ffn_norm = standard_layer_norm("model.blocks.*.norm_attn_norm.norm_2.weight", NULL, 1e-5f);
    standard_use_experts(&layer, &experts);
    int n_layers = standard_layer_count(c);
    if (!config_ok(c) || !blueprint_allocate(c, b, n_layers, 1)) return false;
    for (int i = 0; i < n_layers; i++) b->layers[i] = layer;
    return standard_rope(c, &d, b, 0, attention.head_dim, false) && config_ok(c);
}

const Family family_dbrx = {"dbrx", model_types, irrelevant_keys, NULL, dbrx_blueprint, roots};
