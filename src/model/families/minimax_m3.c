/* MiniMax-M3 (2026), the text model: norms that keep weight - 1, part of each head rotated, an index that chooses
 * blocks of positions for each key-value head in most layers, dense layers first and then experts with a shared one,
 * all with gpt-oss' activation. Published configs say in sparse_attention_config and moe_layer_freq what newer ones say
 * flat. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <stdio.h>

static const char *const model_types[] = {"minimax_m3_vl", "minimax_m3_vl_text", NULL};

static const char *const irrelevant_keys[] = {
    "output_router_logits", "router_aux_loss_coef",
    "router_jitter_noise",  "hidden_act", /* the activation has keys of its own */
    "vision_config",        "image_token_id",
    "image_token_index",    "video_token_id",
    "video_token_index",    "projector_hidden_size",
    "projector_hidden_act", NULL};

static const char *const skipped_tensors[] = {"*vision_tower.*", "*multi_modal_projector.*", "*patch_merge_mlp.*",
                                              "*mtp.*", NULL};

/* Gates at most `limit`, up within it and 1 more, gate * sigmoid(alpha * gate): the quick gelu where alpha is its own;
 * else silu(alpha * gate), which is alpha times that. */
typedef struct Swiglu {
    MlpSpec mlp; /* without width and names */
    float out_scale;
} Swiglu;

static Swiglu read_swiglu(const Config *c) {
    float alpha = (float)config_number_or(c, "swiglu_alpha", 1.702);
    float limit = (float)config_number_or(c, "swiglu_limit", 7);
    Swiglu s = {.mlp = {.activation = ACT_GELU_QUICK, .gate_limit = limit, .up_limit = limit, .up_plus = 1}};
    if (!(limit > 0) || !(alpha > 0)) config_fail(c, "\"swiglu_limit\" and \"swiglu_alpha\" are not above 0");
    if (alpha == 1.702f) return s;
    s.mlp.activation = ACT_SILU;
    s.mlp.gate_scale = alpha;
    s.mlp.gate_limit = alpha * limit;
    s.out_scale = 1 / alpha;
    return s;
}

/* One layout has gate and up in one tensor. */
static MlpSpec read_mlp(const Config *c, const Swiglu *s, int layer, int width, const char *const names[4]) {
    MlpSpec m = s->mlp;
    m.width = width;
    m.out_scale = s->out_scale;
    m.gate.name = names[0];
    m.up.name = names[1];
    m.down.name = names[2];
    char fused[NAME_MAX_BYTES];
    snprintf(fused, sizeof fused, "%s.weight", names[3]);
    if (config_has_tensor(c, fused, layer)) standard_fuse_gate_up(&m, names[3]);
    return m;
}

static MlpSpec read_dense(const Config *c, const Swiglu *s, int layer, int width) {
    static const char *const names[4] = {"model.layers.*.mlp.gate_proj|model.layers.*.block_sparse_moe.gate_proj",
                                         "model.layers.*.mlp.up_proj|model.layers.*.block_sparse_moe.up_proj",
                                         "model.layers.*.mlp.down_proj|model.layers.*.block_sparse_moe.down_proj",
                                         "model.layers.*.mlp.gate_up_proj"};
    return read_mlp(c, s, layer, width, names);
}

static ExpertsSpec read_experts(const Config *c, const Swiglu *s) {
    int width = config_size_or(c, "intermediate_size", 3072);
    bool in_mlp = config_has_tensor(c, "model.layers.*.mlp.experts.gate_up_proj", 0);
    for (int i = 1; i < standard_layer_count(c) && !in_mlp; i++)
        in_mlp = config_has_tensor(c, "model.layers.*.mlp.experts.gate_up_proj", i);
    ExpertsSpec e = standard_experts(in_mlp ? EXPERTS_IN_MLP : EXPERTS_IN_BLOCK_SPARSE_MOE, width, s->mlp.activation);
    MlpSpec expert = s->mlp;
    expert.width = width;
    expert.gate = e.expert.gate;
    e.expert = expert;
    e.routed_scale = s->out_scale;
    e.rule = (RouterRule){.score = ROUTER_SIGMOID,
                          .n_experts = config_size_or(c, "num_local_experts", 128),
                          .n_chosen = config_size_or(c, "num_experts_per_tok", 4),
                          .renormalise = true,
                          .scale = (float)config_number_or(c, "routed_scaling_factor", 2)};
    e.correction = "model.layers.*.block_sparse_moe.e_score_correction_bias|"
                   "model.layers.*.mlp.gate.e_score_correction_bias";
    return e;
}

static MlpSpec read_shared(const Config *c, const Swiglu *s, int layer, int width) {
    static const char *const names[4] = {
        "model.layers.*.block_sparse_moe.shared_experts.gate_proj|model.layers.*.mlp.shared_experts.gate_proj",
        "model.layers.*.block_sparse_moe.shared_experts.up_proj|model.layers.*.mlp.shared_experts.up_proj",
        "model.layers.*.block_sparse_moe.shared_experts.down_proj|model.layers.*.mlp.shared_experts.down_proj",
        "model.layers.*.mlp.shared_experts.gate_up_proj"};
    return read_mlp(c, s, layer, width, names);
}

/* Item `layer` of a list of 0 and 1; `otherwise` where there is none. */
static bool flag_at(const Config *c, const char *key, int n, int layer, bool otherwise) {
    return config_array(c, key, n) ? config_number_at(c, key, n, layer) != 0 : otherwise;
}

static bool is_sparse(const Config *c, const Config *older, int n, int layer) {
    const JsonValue *types = config_array(c, "layer_types", n);
    bool flagged = flag_at(older, "sparse_attention_freq", n, layer, false);
    if (!types) return flagged;
    const JsonValue *type = json_item(types, (uint32_t)layer);
    if (!json_equals(type, "full_attention") && !json_equals(type, "minimax_m3_sparse"))
        config_fail(c, "\"layer_types\" item %d is neither \"full_attention\" nor \"minimax_m3_sparse\"", layer);
    return json_equals(type, "minimax_m3_sparse");
}

static int older_or(const Config *c, const Config *older, const char *key, const char *older_key, int otherwise) {
    return config_count_or(older, older_key, config_count_or(c, key, otherwise));
}

static BlockIndexSpec read_index(const Config *c, const Config *older, const AttentionSpec *a, int context) {
    BlockIndexSpec i = {.n_heads = older_or(c, older, "index_n_heads", "sparse_num_index_heads", a->n_kv_heads),
                        .head_dim = older_or(c, older, "index_head_dim", "sparse_index_dim", 128),
                        .block = older_or(c, older, "index_block_size", "sparse_block_size", 128),
                        .n_chosen = older_or(c, older, "index_topk_blocks", "sparse_topk_blocks", 16),
                        .n_local = older_or(c, older, "index_local_blocks", "sparse_local_block", 1),
                        .q = {.name = "model.layers.*.self_attn.index_q_proj|model.layers.*.self_attn.indexer.q_proj"},
                        .k = {.name = "model.layers.*.self_attn.index_k_proj|model.layers.*.self_attn.indexer.k_proj"}};
    i.q_norm = a->q_norm.norm;
    i.k_norm = a->k_norm.norm;
    i.q_norm.weight = "model.layers.*.self_attn.index_q_norm.weight|model.layers.*.self_attn.indexer.q_norm.weight";
    i.k_norm.weight = "model.layers.*.self_attn.index_k_norm.weight|model.layers.*.self_attn.indexer.k_norm.weight";
    if (i.n_heads != a->n_kv_heads || i.head_dim < 1 || i.block < 1 || i.n_chosen < 1)
        config_fail(c, "has an index of %d heads for %d key-value heads, with %d blocks of %d", i.n_heads,
                    a->n_kv_heads, i.n_chosen, i.block);
    else if (i.n_chosen > context / i.block + 1)
        i.n_chosen = context / i.block + 1;
    return i;
}

/* mlx-lm reads rotary_dim, transformers partial_rotary_factor; published configs have both. */
static int rotated_dims(const Config *c, int head_dim) {
    Config section = rope_section(c);
    bool partial = config_has(c, "partial_rotary_factor") || config_has(&section, "partial_rotary_factor");
    int dims = config_count_or(c, "rotary_dim", 0), part = rope_partial_dims(c, &section, head_dim, 0.5);
    if (dims > head_dim || dims % 2 || (partial && dims && dims != part))
        config_fail(c, "\"rotary_dim\" %d of %d dims cannot be, or is another than \"partial_rotary_factor\" says",
                    dims, head_dim);
    return dims ? dims : part;
}

static AttentionSpec read_attention(const Config *c, const StandardDefaults *d, const Blueprint *b) {
    AttentionSpec a = standard_attention(c, d, b->hidden);
    standard_head_norms(&a, SPAN_HEAD, b->final_norm.eps);
    a.q_norm.norm.plus = a.k_norm.norm.plus = b->final_norm.plus;
    if (!config_bool_or(c, "use_qk_norm", true)) config_fail(c, "\"use_qk_norm\" is false, which no checkpoint has");
    return a;
}

static bool minimax_m3_blueprint(const Config *root, Blueprint *b) {
    static const StandardDefaults defaults = {.theta = 5e6,
                                              .max_position = 524288,
                                              .head_dim = 128,
                                              .heads = 64,
                                              .kv_heads = 4,
                                              .vocab = 200064,
                                              .tie = TIE_NO};
    const Config text = config_text(root), *c = &text;
    const Config older = config_section(c, "sparse_attention_config");
    standard_model(c, &defaults, b);
    b->final_norm.plus = config_bool_or(c, "use_gemma_norm", true) ? 1 : 0;
    AttentionSpec attention = read_attention(c, &defaults, b);
    BlockIndexSpec index = read_index(c, &older, &attention, b->max_context);
    Swiglu swiglu = read_swiglu(c);
    ExpertsSpec experts = read_experts(c, &swiglu);
    int dense = config_size_or(c, "dense_intermediate_size", 12288);
    int shared = config_size_or(c, "shared_intermediate_size", 3072);
    int n = standard_layer_count(c), dims = rotated_dims(c, attention.head_dim);
    if (!config_ok(c) || !blueprint_allocate(c, b, n, 1)) return false;
    for (int i = 0; i < n; i++) {
        MlpSpec mlp = read_dense(c, &swiglu, i, dense);
        LayerSpec *layer = &b->layers[i];
        *layer = standard_layer(&attention, &mlp, b->final_norm.eps);
        layer->mixer_norm.plus = layer->ffn_norm.plus = b->final_norm.plus;
        if (is_sparse(c, &older, n, i)) layer->attention.block_index = index;
        if (layer->attention.block_index.n_chosen && index.head_dim < dims)
            config_fail(c, "an index of %d dims cannot be rotated in %d", index.head_dim, dims);
        experts.shared = read_shared(c, &swiglu, i, shared);
        if (standard_has_experts(c, n, i, flag_at(c, "moe_layer_freq", n, i, true)))
            standard_use_experts(layer, &experts);
    }
    return standard_rope(c, &defaults, b, 0, dims, false) && config_ok(c);
}

const Family family_minimax_m3 = {"minimax_m3",    model_types,          irrelevant_keys,
                                  skipped_tensors, minimax_m3_blueprint, standard_wrapper_roots};
