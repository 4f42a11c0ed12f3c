/* Reading latent attention from a config: one place for the dozen families that took it from DeepSeek. */
#include "model/standard.h"

#include <math.h>

/* yarn with mscale_all_dim sharpens the scores (DeepSeek-V2's yarn_get_mscale, squared). */
static double score_scale(const Config *c, int dims) {
    Config section = rope_section(c);
    double scale = 1 / sqrt((double)dims), factor = config_number_or(&section, "factor", 1);
    double all_dim = config_number_or(&section, "mscale_all_dim", 0);
    if (all_dim == 0 || factor <= 1) return scale;
    double mscale = 0.1 * all_dim * rope_log(factor) + 1;
    return scale * mscale * mscale;
}

static int read_q_rank(const Config *c, int fallback) {
    if (config_is_null(c, "q_lora_rank") || (!config_has(c, "q_lora_rank") && fallback == 0)) return 0;
    return config_size_or(c, "q_lora_rank", fallback);
}

static void read_sizes(const Config *c, const MlaDefaults *d, MlaSpec *m) {
    m->n_heads = config_size(c, "num_attention_heads");
    m->q_rank = read_q_rank(c, d->q_rank);
    m->kv_rank = config_size_or(c, "kv_lora_rank", d->kv_rank);
    m->nope_dim = config_size_or(c, "qk_nope_head_dim", d->nope_dim);
    m->rope_dim = config_size_or(c, "qk_rope_head_dim", d->rope_dim);
    m->v_dim = config_size_or(c, "v_head_dim", d->v_dim);
    config_size_or(c, "num_key_value_heads", m->n_heads); /* all heads share the latent, whatever it says */
    config_size_or(c, "head_dim", m->nope_dim);           /* some savers leave one */
}

MlaSpec standard_mla(const Config *c, const MlaDefaults *d) {
    float eps = d->norm_eps != 0 ? d->norm_eps : 1e-6f;
    bool bias = config_bool_or(c, "attention_bias", false);
    MlaSpec m = {0};
    read_sizes(c, d, &m);
    int64_t latent = (int64_t)m.kv_rank + m.rope_dim, per_head = (int64_t)m.nope_dim + m.v_dim;
    RowBlocks keys = {per_head * m.n_heads, 0, per_head}, values = {per_head * m.n_heads, m.nope_dim, per_head};
    m.scale = (float)score_scale(c, m.nope_dim + m.rope_dim);
    if (m.q_rank) m.q_a = (LinearSpec){.name = "model.layers.*.self_attn.q_a_proj", .bias = bias};
    m.q.name = m.q_rank ? "model.layers.*.self_attn.q_b_proj" : "model.layers.*.self_attn.q_proj";
    m.q_norm = standard_rms("model.layers.*.self_attn.q_a_layernorm.weight", eps);
    m.kv_a = (LinearSpec){
        .name = "model.layers.*.self_attn.kv_a_proj_with_mqa", .bias = bias, .rows = {latent, 0, m.kv_rank, m.kv_rank}};
    m.k_rope = m.kv_a;
    m.k_rope.rows = (RowSlice){latent, m.kv_rank, m.rope_dim, m.rope_dim};
    m.kv_norm = standard_rms("model.layers.*.self_attn.kv_a_layernorm.weight", eps);
    m.embed_q[0].name = "model.layers.*.self_attn.embed_q";
    m.embed_q[1] = (LinearSpec){.name = "model.layers.*.self_attn.kv_b_proj", .blocks = keys, .transposed = true};
    m.unembed[0].name = "model.layers.*.self_attn.unembed_out";
    m.unembed[1] = (LinearSpec){.name = "model.layers.*.self_attn.kv_b_proj", .blocks = values};
    m.o = (LinearSpec){.name = "model.layers.*.self_attn.o_proj", .bias = bias};
    return m;
}

IndexSpec standard_index(const Config *c, int n_heads, int context) {
    int n_chosen = config_size_or(c, "index_topk", 2048);
    IndexSpec i = {.n_heads = config_size_or(c, "index_n_heads", n_heads),
                   .head_dim = config_size_or(c, "index_head_dim", 128),
                   .n_chosen = n_chosen < context ? n_chosen : context,
                   .q = {.name = "model.layers.*.self_attn.indexer.wq_b"},
                   .k = {.name = "model.layers.*.self_attn.indexer.wk"},
                   .weights = {.name = "model.layers.*.self_attn.indexer.weights_proj"},
                   .k_norm = standard_layer_norm("model.layers.*.self_attn.indexer.k_norm.weight",
                                                 "model.layers.*.self_attn.indexer.k_norm.bias", 1e-6f)};
    return i;
}
