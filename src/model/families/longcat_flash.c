/* LongCat-Flash (arXiv:2509.01322). A layer of the checkpoint holds two attentions and two mlps, one after the other,
 * which are two layers here; the experts read what the first mlp reads and are added after the second. Some experts
 * give back what they are given. norm_topk_prob, router_bias and mla_scale_* are mlx-lm's; transformers has their
 * defaults. The references differ in the eps of the latents' norms by enough to be seen (2e-4): a checkpoint in MLX's
 * layout has mlx-lm's 1e-5, others have transformers' 1e-6.
 *
 * The n-gram form (mlx-lm alone) adds embeddings of the last few tokens to each token's own. */
#include "model/mechanism.h"
#include "model/standard.h"

#include <math.h>
#include <string.h>

static const char *const model_types[] = {"longcat_flash", "longcat_flash_ngram", NULL};

static const char *const irrelevant_keys[] = {"num_hidden_layers", /* num_layers counts */
                                              "intermediate_size", /* ffn_hidden_size again */
                                              "output_router_logits", "router_dtype", "mtp_num_layers", NULL};

static const char *const skipped_tensors[] = {"model.mtp*", "*.self_attn.*.rotary_emb.inv_freq", NULL};

/* The names of one half. */
typedef struct HalfNames {
    const char *q_a, *q_b, *q, *q_norm, *kv_a, *kv_norm, *embed_q, *unembed, *kv_b, *o;
    const char *gate, *up, *down, *mixer_norm, *ffn_norm;
} HalfNames;

#define ATTENTION(half, name) "model.layers.*.self_attn." half "." name
#define HALF(half)                                                                                                \
    {                                                                                                             \
        ATTENTION(half, "q_a_proj"), ATTENTION(half, "q_b_proj"), ATTENTION(half, "q_proj"),                      \
            ATTENTION(half, "q_a_layernorm.weight"), ATTENTION(half, "kv_a_proj_with_mqa"),                       \
            ATTENTION(half, "kv_a_layernorm.weight"), ATTENTION(half, "embed_q"), ATTENTION(half, "unembed_out"), \
            ATTENTION(half, "kv_b_proj"), ATTENTION(half, "o_proj"), "model.layers.*.mlps." half ".gate_proj",    \
            "model.layers.*.mlps." half ".up_proj", "model.layers.*.mlps." half ".down_proj",                     \
            "model.layers.*.input_layernorm." half ".weight",                                                     \
            "model.layers.*.post_attention_layernorm." half ".weight"                                             \
    }

static const HalfNames halves[2] = {HALF("0"), HALF("1")};

static void name_half(LayerSpec *layer, const HalfNames *n) {
    MlaSpec *m = &layer->mla;
    m->q_a.name = n->q_a;
    m->q.name = m->q_rank ? n->q_b : n->q;
    m->q_norm.weight = n->q_norm;
    m->kv_a.name = m->k_rope.name = n->kv_a;
    m->kv_norm.weight = n->kv_norm;
    m->embed_q[0].name = n->embed_q;
    m->unembed[0].name = n->unembed;
    m->embed_q[1].name = m->unembed[1].name = n->kv_b;
    m->o.name = n->o;
    layer->mlp.gate.name = n->gate;
    layer->mlp.up.name = n->up;
    layer->mlp.down.name = n->down;
    layer->mixer_norm.weight = n->mixer_norm;
    layer->ffn_norm.weight = n->ffn_norm;
}

static bool has_ngrams(const Config *c) {
    return strcmp(config_string_or(c, "model_type", ""), "longcat_flash_ngram") == 0;
}

static MlaSpec read_mla(const Config *c, int hidden) {
    bool mlx = has_ngrams(c) || config_has_tensor(c, "model.layers.*.self_attn.0.embed_q.weight", 0);
    MlaDefaults defaults = {1536, 512, 128, 64, 128, mlx ? 1e-5f : 1e-6f};
    const char *method = config_string_or(c, "attention_method", "MLA");
    MlaSpec m = standard_mla(c, &defaults);
    if (strcmp(method, "MLA") != 0) config_fail(c, "\"attention_method\" is \"%.40s\", not \"MLA\"", method);
    if (config_size_or(c, "qk_head_dim", m.nope_dim + m.rope_dim) != m.nope_dim + m.rope_dim)
        config_fail(c, "\"qk_head_dim\" is not the sum of its two parts");
    if (config_bool_or(c, "mla_scale_q_lora", true) && m.q_rank) m.q_scale = (float)sqrt((double)hidden / m.q_rank);
    if (config_bool_or(c, "mla_scale_kv_lora", true)) m.kv_scale = (float)sqrt((double)hidden / m.kv_rank);
    return m;
}

static ExpertsSpec read_experts(const Config *c, Activation act) {
    ExpertsSpec e = standard_experts(EXPERTS_IN_MLP, config_size_or(c, "expert_ffn_hidden_size", 2048), act);
    const char *kind = config_string_or(c, "zero_expert_type", "identity");
    e.n_identity = config_size_unless_null(c, "zero_expert_num", 256);
    e.rule = (RouterRule){.score = ROUTER_SOFTMAX,
                          .n_experts = config_size_or(c, "n_routed_experts", 512) + e.n_identity,
                          .n_chosen = config_size_or(c, "moe_topk", 12),
                          .renormalise = config_bool_or(c, "norm_topk_prob", false),
                          .renormalise_eps = 1e-20f,
                          .scale = (float)config_number_or(c, "routed_scaling_factor", 6)};
    e.router =
        (LinearSpec){.name = "model.layers.*.mlp.router.classifier", .bias = config_bool_or(c, "router_bias", false)};
    e.correction = "model.layers.*.mlp.router.e_score_correction_bias";
    if (strcmp(kind, "identity") != 0) config_fail(c, "\"zero_expert_type\" is \"%.40s\", not \"identity\"", kind);
    return e;
}

static void read_ngrams(const Config *c, Blueprint *b) {
    enum { MAX_TABLES = 64, EXACT_IDS = 1 << 24 };
    NgramSpec *g = &b->ngram;
    int64_t rows = (int64_t)config_size_or(c, "ngram_vocab_size_ratio", 78) * b->vocab + 1;
    g->longest = config_size_or(c, "emb_neighbor_num", 4);
    g->tables = config_size_or(c, "emb_split_num", 4);
    g->table.name = "model.ngram_embeddings.embedders.#";
    g->projection.name = "model.ngram_embeddings.post_projs.#";
    b->embedding.name = "model.ngram_embeddings.word_embeddings|model.embed_tokens";
    int64_t n = (int64_t)(g->longest - 1) * g->tables;
    if (n < 1 || n > MAX_TABLES || n > b->hidden)
        config_fail(c, "\"emb_neighbor_num\" %d and \"emb_split_num\" %d make no embedding of %d", g->longest,
                    g->tables, b->hidden);
    else if (rows > CONFIG_MAX_SIZE || b->vocab > EXACT_IDS)
        config_fail(c, "\"ngram_vocab_size_ratio\" is too much for a vocabulary of %d", b->vocab);
    else {
        g->rows = (int)rows;
        g->dim = b->hidden / (int)n;
    }
}

static bool longcat_blueprint(const Config *c, Blueprint *b) {
    static const StandardDefaults d = {.norm_eps = 1e-5, .theta = 10000000, .max_position = 131072, .tie = TIE_NO};
    standard_model(c, &d, b);
    if (has_ngrams(c)) read_ngrams(c, b);
    MlaSpec mla = read_mla(c, b->hidden);
    MlpSpec mlp = standard_mlp(c, &d, config_size_or(c, "ffn_hidden_size", 12288));
    ExpertsSpec experts = read_experts(c, mlp.activation);
    int n_layers = config_size(c, "num_layers");
    if (!config_ok(c) || !blueprint_allocate(c, b, 2 * n_layers, 1)) return false;
    AttentionSpec none = {0};
    for (int i = 0; i < b->n_layers; i++) {
        LayerSpec *layer = &b->layers[i];
        *layer = standard_layer(&none, &mlp, b->final_norm.eps);
        layer->names_back = i - i / 2;
        layer->mixer = &mixer_mla;
        layer->mla = mla;
        name_half(layer, &halves[i % 2]);
        layer->experts = experts;
        layer->ffn = i % 2 ? &ffn_shortcut_end : &ffn_shortcut_begin;
    }
    return standard_rope(c, &d, b, 0, mla.rope_dim, true) && config_ok(c);
}

const Family family_longcat_flash = {"longcat_flash", model_types,       irrelevant_keys,
                                     skipped_tensors, longcat_blueprint, NULL};
