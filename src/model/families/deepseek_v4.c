/* DeepSeek-V4 and V4.1 (2026): hyper-connections instead of a residual stream, one key for all heads in a window, and
 * beside it entries that each stand for some positions, all of them (V4's heavily compressed layers) or those that an
 * index chooses; many small experts, which V4's first layers choose by token. V4.1 reads a half's sum with the weights
 * of the half before, lets layers share entries, index keys and choices, and rounds what it keeps to small floats.
 *
 * The references are transformers (V4; it has no V4.1) and mlx-lm (V4.1; it has no V4). Names are those of either, or
 * those of the published files. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"deepseek_v4", "deepseek_v41", NULL};

static const NameRoot roots[] = {{"model.", ""}, {"", ""}, {NULL, NULL}};

static const char *const irrelevant_keys[] = {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise",
                                              "num_key_value_heads", /* one, whatever it says */
                                              "attention_bias",      /* no reference has any */
                                              "intermediate_size",   /* moe_intermediate_size counts */
                                              "vision_config",        "expert_dtype",         NULL};

/* An index or compressor that a layer without entries was saved with is not used. */
static const char *const skipped_tensors[] = {"mtp.*",
                                              "model.mtp.*",
                                              "vision.*",
                                              "aligner.*",
                                              "image_*",
                                              "*.gate.bias_vl",
                                              "*.attn.compressor.*",
                                              "*.self_attn.compressor.*",
                                              "*.attn.indexer.*",
                                              "*.self_attn.indexer.*",
                                              NULL};

/* Defaults of the two. */
typedef struct Variant {
    StandardDefaults common;
    int q_rank, rope_dim, experts, chosen, width, index_heads;
} Variant;

static const Variant v4 = {{.norm_eps = 1e-6, .max_position = 1048576, .vocab = 129280, .heads = 64, .tie = TIE_NO},
                           1024,
                           64,
                           256,
                           6,
                           2048,
                           64};
static const Variant v41 = {{.norm_eps = 1e-20, .max_position = 1048576, .vocab = 129280, .heads = 64, .tie = TIE_NO},
                            1280,
                            64,
                            384,
                            6,
                            2304,
                            32};

/* ---- attention ---- */

/* The output's first matrix is one of all groups, or a stack of one each. */
static void name_output(const Config *c, CompressedSpec *m) {
    static const char name[] = "model.layers.*.self_attn.o_a_proj|model.layers.*.attn.wo_a";
    const Tensor *t = config_tensor(c, "model.layers.*.self_attn.o_a_proj.weight|model.layers.*.attn.wo_a.weight", 0);
    RowBlocks blocks = {(int64_t)m->n_groups * m->o_rank, 0, m->o_rank};
    m->o_a[0].name = name;
    if (t && t->n_dims == 2) m->o_a[0].blocks = blocks;
    m->o.name = "model.layers.*.self_attn.o_b_proj|model.layers.*.attn.wo_b";
}

static CompressedSpec read_attention(const Config *c, const Variant *v, float eps) {
    CompressedSpec m = {
        .n_heads = config_size_or(c, "num_attention_heads", v->common.heads),
        .head_dim = config_size_or(c, "head_dim", 512),
        .q_rank = config_size_or(c, "q_lora_rank", v->q_rank),
        .window = config_size_or(c, "sliding_window", 128),
        .n_groups = config_size_or(c, "o_groups", 8),
        .o_rank = config_size_or(c, "o_lora_rank", 1024),
        .q_a = {.name = "model.layers.*.self_attn.q_a_proj|model.layers.*.attn.wq_a"},
        .q_a_norm = standard_rms("model.layers.*.self_attn.q_a_norm.weight|model.layers.*.attn.q_norm.weight", eps),
        .q = {.name = "model.layers.*.self_attn.q_b_proj|model.layers.*.attn.wq_b"},
        .kv = {.name = "model.layers.*.self_attn.kv_proj|model.layers.*.attn.wkv"},
        .kv_norm = standard_rms("model.layers.*.self_attn.kv_norm.weight|model.layers.*.attn.kv_norm.weight|"
                                "model.layers.*.attn.norm.weight",
                                eps),
        .sinks = "model.layers.*.self_attn.sinks|model.layers.*.attn.attn_sink",
        .pool_layer = -1};
    m.scale = (float)(1 / sqrt((double)m.head_dim));
    name_output(c, &m);
    return m;
}

static PoolSpec read_pool(const CompressedSpec *m, int every, float eps) {
    return (PoolSpec){
        .every = every,
        .dim = m->head_dim,
        .kv = {.name = "model.layers.*.self_attn.compressor.kv_proj|model.layers.*.attn.compressor.wkv"},
        .gate = {.name = "model.layers.*.self_attn.compressor.gate_proj|model.layers.*.attn.compressor.wgate"},
        .norm = standard_rms(
            "model.layers.*.self_attn.compressor.kv_norm.weight|model.layers.*.attn.compressor.norm.weight", eps)};
}

static IndexSpec read_index(const Config *c, const Variant *v, int context) {
    int n_chosen = config_size_or(c, "index_topk", 512);
    return (IndexSpec){
        .n_heads = config_size_or(c, "index_n_heads", v->index_heads),
        .head_dim = config_size_or(c, "index_head_dim", 128),
        .n_chosen = n_chosen < context ? n_chosen : context,
        .q = {.name = "model.layers.*.self_attn.compressor.indexer.q_b_proj|model.layers.*.self_attn.indexer.q_b_proj|"
                      "model.layers.*.attn.indexer.wq_b"},
        .weights = {.name = "model.layers.*.self_attn.compressor.indexer.scorer.weights_proj|"
                            "model.layers.*.self_attn.indexer.weights_proj|"
                            "model.layers.*.attn.indexer.weights_proj"}};
}

/* ---- V4's layers ---- */

typedef struct V4Layers {
    const JsonValue *types, *ratios; /* newer and older way to say which layer is what */
    int sparse, heavy;               /* positions of an entry */
} V4Layers;

static V4Layers read_layer_kinds(const Config *c) {
    Config rates = config_section(c, "compress_rates");
    V4Layers l = {.types = config_array(c, "layer_types", -1), .ratios = config_array(c, "compress_ratios", -1)};
    l.sparse = config_size_or(&rates, "compressed_sparse_attention", 4);
    l.heavy = config_size_or(&rates, "heavily_compressed_attention", 128);
    l.sparse = config_size_or(c, "compress_rate_csa", l.sparse);
    l.heavy = config_size_or(c, "compress_rate_hca", l.heavy);
    return l;
}

enum { KIND_SLIDING, KIND_SPARSE, KIND_HEAVY };

static int typed_kind(const Config *c, const JsonValue *types, int layer) {
    static const char *const names[] = {"sliding_attention", "compressed_sparse_attention",
                                        "heavily_compressed_attention"};
    const JsonValue *type = (uint32_t)layer < types->length ? json_item(types, (uint32_t)layer) : NULL;
    for (int kind = 0; kind < 3; kind++)
        if (type && json_equals(type, names[kind])) return kind;
    config_fail(c, "\"layer_types\" has no item %d that is a kind of layer known here", layer);
    return KIND_SLIDING;
}

static int layer_kind(const Config *c, const V4Layers *l, int layer) {
    int64_t ratio = -1;
    if (l->types) return typed_kind(c, l->types, layer);
    if (!l->ratios) return layer < 2 || layer % 2 == 0 ? KIND_HEAVY : KIND_SPARSE;
    if ((uint32_t)layer < l->ratios->length) json_int(json_item(l->ratios, (uint32_t)layer), &ratio);
    if (ratio != 0 && ratio != 4 && ratio != 128)
        config_fail(c, "\"compress_ratios\" has no item %d that is 0, 4 or 128", layer);
    return ratio == 4 ? KIND_SPARSE : ratio == 128 ? KIND_HEAVY : KIND_SLIDING;
}

static PoolSpec index_pool(const CompressedSpec *m, float eps) {
    return (PoolSpec){
        .every = m->every,
        .dim = m->index.head_dim,
        .overlap = true,
        .kv = {.name = "model.layers.*.self_attn.compressor.indexer.kv_proj|"
                       "model.layers.*.attn.indexer.compressor.wkv"},
        .gate = {.name = "model.layers.*.self_attn.compressor.indexer.gate_proj|"
                         "model.layers.*.attn.indexer.compressor.wgate"},
        .bias = "model.layers.*.self_attn.compressor.indexer.position_bias|model.layers.*.attn.indexer.compressor.ape",
        .norm = standard_rms("model.layers.*.self_attn.compressor.indexer.kv_norm.weight|"
                             "model.layers.*.attn.indexer.compressor.norm.weight",
                             eps)};
}

static void put_v4_attention(const Config *c, const V4Layers *l, const IndexSpec *index, int layer, float eps,
                             CompressedSpec *m) {
    int kind = layer_kind(c, l, layer);
    m->q_norm = standard_rms(NULL, eps);
    if (kind == KIND_SLIDING) return;
    m->rope = 1;
    m->every = kind == KIND_SPARSE ? l->sparse : l->heavy;
    if (m->every < 2) config_fail(c, "has entries of 1 position, which no reference has for this family");
    m->pool = read_pool(m, m->every, eps);
    m->pool.bias = "model.layers.*.self_attn.compressor.position_bias|model.layers.*.attn.compressor.ape";
    m->pool_layer = layer;
    if (kind == KIND_HEAVY) return;
    m->pool.overlap = true;
    m->index = *index;
    m->index_layer = layer;
    m->index_pool = index_pool(m, eps);
}

static bool hash_layer(const Config *c, int layer) {
    const JsonValue *types = config_array(c, "mlp_layer_types", -1);
    int first = config_count_or(c, "num_hash_layers", 3);
    if (!types) return layer < first;
    const JsonValue *type = (uint32_t)layer < types->length ? json_item(types, (uint32_t)layer) : NULL;
    if (!type || !(json_equals(type, "hash_moe") || json_equals(type, "moe")))
        config_fail(c, "\"mlp_layer_types\" has no item %d that is \"hash_moe\" or \"moe\"", layer);
    return type && json_equals(type, "hash_moe");
}

/* ---- V4.1's layers ---- */

static int64_t item_at(const JsonValue *list, int i) {
    int64_t value = 0;
    if (list && (uint32_t)i < list->length) json_int(json_item(list, (uint32_t)i), &value);
    return value;
}

/* What layers share as they go on: whose entries, index keys and choices the next ones read. */
typedef struct V41Layers {
    const JsonValue *ratios, *pools, *indexes;
    int pool_layer, index_layer; /* -1: none yet */
    int choice_every;            /* positions of the entries that were chosen from last; 0: none yet */
} V41Layers;

/* The index keys are made from entries, so a layer makes both or shares both. */
static void put_v41_index(V41Layers *l, const IndexSpec *index, int layer, bool own, CompressedSpec *m) {
    m->index = *index;
    if (own) {
        m->index.k.name = "model.layers.*.self_attn.indexer.k_proj|model.layers.*.attn.indexer.wk";
        m->index.k_norm = standard_rms(
            "model.layers.*.self_attn.indexer.k_norm.weight|model.layers.*.attn.indexer.k_norm.weight", m->kv_norm.eps);
        l->index_layer = layer;
    }
    m->index_layer = l->index_layer;
    l->choice_every = m->every;
}

static void put_v41_attention(const Config *c, V41Layers *l, const IndexSpec *index, int layer, const Blueprint *b,
                              CompressedSpec *m) {
    int64_t every = item_at(l->ratios, layer);
    bool pools = standard_lists(l->pools, layer), asks = standard_lists(l->indexes, layer);
    m->rounds = true;
    if (every == 0) return;
    if (every < 0 || every > 4096) config_fail(c, "\"compress_ratios\" item %d is no ratio known here", layer);
    m->rope = 1;
    m->every = (int)every;
    if (pools) {
        m->pool = read_pool(m, m->every, m->kv_norm.eps);
        if (every == 1) m->pool.gate.name = NULL;
        l->pool_layer = layer;
    }
    m->pool_layer = l->pool_layer;
    if (asks && (pools || l->index_layer >= 0)) put_v41_index(l, index, layer, pools, m);
    if (!asks) m->index.n_chosen = index->n_chosen; /* the last choice */
    const LayerSpec *source = m->pool_layer >= 0 && !pools ? &b->layers[m->pool_layer] : NULL;
    if (m->pool_layer < 0 || l->choice_every == 0) m->pool_layer = -1; /* as the reference: the window alone */
    if ((source && source->compressed.every != m->every) || (m->pool_layer >= 0 && l->choice_every != m->every) ||
        (m->index.q.name && b->layers[m->index_layer].compressed.every != m->every && m->index_layer != layer))
        config_fail(c, "layer %d shares entries or choices of layers with another \"compress_ratios\" item", layer);
}

/* Blocks of entries that one layer's index leaves to the later ones. */
static void put_candidates(const Config *c, Blueprint *b) {
    int source = (int)config_number_or(c, "candidate_source_layer_id", -1), every = 0;
    int blocks = config_count_or(c, "candidate_topk_blocks", 2048), size = config_size_or(c, "candidate_block_size", 8);
    for (int i = source < 0 ? b->n_layers : source; i < b->n_layers && blocks > 0; i++) {
        CompressedSpec *m = &b->layers[i].compressed;
        if (!m->index.q.name) continue;
        if (i == source) every = m->every;
        if (every == 0) return; /* the source has no index */
        if (m->every != every)
            config_fail(c, "layer %d and \"candidate_source_layer_id\" %d differ in \"compress_ratios\"", i, source);
        m->block = size;
        m->n_candidates = blocks < b->max_context ? blocks : b->max_context;
        m->keeps_candidates = i == source;
    }
}

/* ---- feed-forward ---- */

static RouterScore read_score(const Config *c) {
    const char *name = config_string_or(c, "scoring_func", "sqrtsoftplus");
    if (strcmp(name, "sqrtsoftplus") == 0) return ROUTER_SQRT_SOFTPLUS;
    if (strcmp(name, "sigmoid") == 0) return ROUTER_SIGMOID;
    if (strcmp(name, "softmax") == 0) return ROUTER_SOFTMAX;
    config_fail(c, "\"scoring_func\" is \"%.40s\"; known here: sqrtsoftplus, sigmoid, softmax", name);
    return ROUTER_SQRT_SOFTPLUS;
}

static RouterRule read_rule(const Config *c, const Variant *v) {
    RouterRule r = {.score = read_score(c),
                    .n_experts = config_size_or(c, "n_routed_experts", v->experts),
                    .n_chosen = config_size_or(c, "num_experts_per_tok", v->chosen),
                    .temperature = (float)config_number_or(c, "gate_temp", 1),
                    .renormalise = config_bool_or(c, "norm_topk_prob", true) || v == &v4,
                    .renormalise_eps = 1e-20f,
                    .scale = (float)config_number_or(c, "routed_scaling_factor", 1.5)};
    if (v == &v41 && r.n_chosen == 1) r.renormalise = false;
    if (!(r.temperature > 0)) config_fail(c, "\"gate_temp\" is %g, expected more than 0", (double)r.temperature);
    return r;
}

static void name_experts(ExpertsSpec *e) {
    int64_t width = e->expert.width;
    RowSlice first = {2 * width, 0, width, width}, second = {2 * width, width, width, width};
    static const char fused[] = "model.layers.*.mlp.experts.gate_up_proj";
    e->router.name = "model.layers.*.mlp.gate|model.layers.*.ffn.gate";
    e->gate[0].name = "model.layers.*.mlp.experts.switch_mlp.gate_proj";
    e->up[0].name = "model.layers.*.mlp.experts.switch_mlp.up_proj";
    e->down[0].name = "model.layers.*.mlp.experts.switch_mlp.down_proj";
    e->gate[1].name = "model.layers.*.ffn.experts.#.w1|model.layers.*.mlp.experts.#.gate_proj";
    e->up[1].name = "model.layers.*.ffn.experts.#.w3|model.layers.*.mlp.experts.#.up_proj";
    e->down[1].name = "model.layers.*.ffn.experts.#.w2|model.layers.*.mlp.experts.#.down_proj";
    e->gate[2] = (LinearSpec){.name = fused, .rows = first, .bare = true};
    e->up[2] = (LinearSpec){.name = fused, .rows = second, .bare = true};
    e->down[2] = (LinearSpec){.name = "model.layers.*.mlp.experts.down_proj", .bare = true};
}

static ExpertsSpec read_experts(const Config *c, const Variant *v) {
    int width = config_size_or(c, "moe_intermediate_size", v->width);
    float limit = (float)config_number_or(c, "swiglu_limit", 10);
    bool bias = config_bool_or(c, "mlp_bias", false);
    MlpSpec m = {.width = width, .activation = standard_activation(c, "hidden_act", "silu")};
    m.gate_limit = m.up_limit = limit;
    if (v == &v4 && !(limit > 0)) config_fail(c, "\"swiglu_limit\" is %g, expected more than 0", (double)limit);
    if (config_count_or(c, "n_shared_experts", 1) != 1)
        config_fail(c, "\"n_shared_experts\" is not 1, the only count that the references have");
    ExpertsSpec e = {.rule = read_rule(c, v), .expert = m, .shared = m};
    e.expert.gate.name = "gate";
    name_experts(&e);
    const char *names[] = {"model.layers.*.mlp.shared_experts.gate_proj|model.layers.*.ffn.shared_experts.w1",
                           "model.layers.*.mlp.shared_experts.up_proj|model.layers.*.ffn.shared_experts.w3",
                           "model.layers.*.mlp.shared_experts.down_proj|model.layers.*.ffn.shared_experts.w2"};
    e.shared.gate = (LinearSpec){.name = names[0], .bias = bias};
    e.shared.up = (LinearSpec){.name = names[1], .bias = bias};
    e.shared.down = (LinearSpec){.name = names[2], .bias = bias};
    return e;
}

static void put_experts(const ExpertsSpec *e, bool by_token, LayerSpec *layer) {
    standard_use_experts(layer, e);
    if (by_token)
        layer->experts.by_token = "model.layers.*.mlp.gate.tid2eid|model.layers.*.ffn.gate.tid2eid";
    else
        layer->experts.correction = "model.layers.*.mlp.gate.e_score_correction_bias|model.layers.*.ffn.gate.bias";
}

/* ---- ropes: 0 of layers with the window alone, 1 of the others ---- */

static bool read_rope(const Config *c, const Config *section, RopeInput in, Blueprint *b, int index) {
    in.max_position = b->max_context;
    in.interleaved = true;
    return config_ok(c) && rope_read(section, &in, &b->ropes[index]);
}

/* Settings kind by kind, or one set of them that is for the layers with entries; cos and sin are not scaled then. */
static bool read_v4_ropes(const Config *c, const Variant *v, int head_dim, Blueprint *b) {
    Config section = rope_section(c), none = {c->record, NULL, "rope_parameters."};
    double otherwise = (double)config_size_or(c, "qk_rope_head_dim", v->rope_dim * head_dim / 512) / head_dim;
    RopeInput main = {.theta = config_number_or(c, "rope_theta", 10000)};
    RopeInput entries = {.theta = config_number_or(c, "compress_rope_theta", 160000)};
    if (config_has(&section, "main") && config_has(&section, "compress")) {
        Config first = config_section(&section, "main"), second = config_section(&section, "compress");
        config_number_or(c, "partial_rotary_factor", otherwise);
        main.dims = rope_partial_dims(&first, &first, head_dim, 1);
        entries.dims = rope_partial_dims(&second, &second, head_dim, 1);
        return read_rope(c, &first, main, b, 0) && read_rope(c, &second, entries, b, 1);
    }
    main.dims = entries.dims = rope_partial_dims(c, &section, head_dim, otherwise);
    entries.fixed_theta = true;
    if (!read_rope(c, &none, main, b, 0) || !read_rope(c, &section, entries, b, 1)) return false;
    if (!config_has(&section, "attention_factor")) b->ropes[1].table.scale = 1;
    return true;
}

static bool read_v41_ropes(const Config *c, const Variant *v, Blueprint *b) {
    Config section = rope_section(c), none = {c->record, NULL, "rope_parameters."};
    RopeInput main = {.theta = config_number_or(c, "rope_theta", 10000)};
    RopeInput entries = {.theta = config_number_or(c, "compress_rope_theta", 160000), .fixed_theta = true};
    main.dims = entries.dims = config_size_or(c, "qk_rope_head_dim", v->rope_dim);
    if (!read_rope(c, &none, main, b, 0) || !read_rope(c, &section, entries, b, 1)) return false;
    b->ropes[1].table.scale = 1;
    return true;
}

/* ---- the whole ---- */

static HyperSpec read_hyper(const Config *c, const Variant *v, float eps) {
    HyperSpec h = {.n = config_size_or(c, "hc_mult", 4),
                   .rounds = config_size_or(c, "hc_sinkhorn_iters", 20),
                   .eps = (float)config_number_or(c, "hc_eps", 1e-6),
                   .norm_eps = eps,
                   .delayed = v == &v41,
                   .mixer = {{.name = "model.layers.*.attn_hc.fn|model.layers.*.hc_attn_fn", .bare = true},
                             "model.layers.*.attn_hc.base|model.layers.*.hc_attn_base",
                             "model.layers.*.attn_hc.scale|model.layers.*.hc_attn_scale"},
                   .ffn = {{.name = "model.layers.*.ffn_hc.fn|model.layers.*.hc_ffn_fn", .bare = true},
                           "model.layers.*.ffn_hc.base|model.layers.*.hc_ffn_base",
                           "model.layers.*.ffn_hc.scale|model.layers.*.hc_ffn_scale"}};
    if (v == &v4)
        h.end = (HyperNames){{.name = "model.hc_head.hc_fn|model.hc_head_fn", .bare = true},
                             "model.hc_head.hc_base|model.hc_head_base",
                             "model.hc_head.hc_scale|model.hc_head_scale"};
    return h;
}

static void put_v4_layers(const Config *c, const CompressedSpec *m, const IndexSpec *index, const ExpertsSpec *e,
                          Blueprint *b) {
    V4Layers kinds = read_layer_kinds(c);
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].compressed = *m;
        put_v4_attention(c, &kinds, index, i, b->final_norm.eps, &b->layers[i].compressed);
        put_experts(e, hash_layer(c, i), &b->layers[i]);
    }
}

static void put_v41_layers(const Config *c, const CompressedSpec *m, const IndexSpec *index, const ExpertsSpec *e,
                           Blueprint *b) {
    V41Layers l = {config_array(c, "compress_ratios", -1),
                   config_array(c, "kv_source_layer_ids", -1),
                   config_array(c, "index_source_layer_ids", -1),
                   -1,
                   -1,
                   0};
    const JsonValue *engrams = config_array(c, "engram_layer_ids", -1);
    if (engrams && engrams->length)
        config_fail(c, "\"engram_layer_ids\" has layers with engram memory, which no reference runs");
    for (int i = 0; i < b->n_layers; i++) {
        b->layers[i].compressed = *m;
        put_v41_attention(c, &l, index, i, b, &b->layers[i].compressed);
        put_experts(e, false, &b->layers[i]);
    }
    put_candidates(c, b);
}

static bool deepseek_v4_blueprint(const Config *root, Blueprint *b) {
    Config text = config_text(root), *c = &text;
    bool newer = strcmp(config_string_or(root, "model_type", ""), "deepseek_v41") == 0;
    const Variant *v = newer ? &v41 : &v4;
    config_string_or(c, "model_type", "");
    standard_model(c, &v->common, b);
    b->embedding.name = "model.embed_tokens|model.embed";
    b->head.name = "lm_head|head";
    float eps = b->final_norm.eps;
    b->hyper = read_hyper(c, v, eps);
    CompressedSpec m = read_attention(c, v, eps);
    IndexSpec index = read_index(c, v, b->max_context);
    ExpertsSpec experts = read_experts(c, v);
    standard_extra_layers(c, 0); /* under names of their own: mtp.* */
    if (!config_ok(c) || !blueprint_allocate(c, b, standard_layer_count(c), 2)) return false;
    if (!(newer ? read_v41_ropes(c, v, b) : read_v4_ropes(c, v, m.head_dim, b))) return false;
    for (int i = 0; i < b->n_layers; i++)
        b->layers[i] = (LayerSpec){
            .mixer_norm = standard_rms("model.layers.*.input_layernorm.weight|model.layers.*.attn_norm.weight", eps),
            .ffn_norm =
                standard_rms("model.layers.*.post_attention_layernorm.weight|model.layers.*.ffn_norm.weight", eps),
            .mixer = &mixer_compressed};
    (newer ? put_v41_layers : put_v4_layers)(c, &m, &index, &experts, b);
    for (int i = 0; i < b->n_layers; i++)
        b->layers[i].compressed.rope_dim = b->ropes[b->layers[i].compressed.rope].table.dims;
    return config_ok(c);
}

const Family family_deepseek_v4 = {"deepseek_v4",   model_types,           irrelevant_keys,
                                   skipped_tensors, deepseek_v4_blueprint, roots};
