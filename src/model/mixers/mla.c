/* Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), in its absorbed form: the cache holds one latent vector
 * and one rotated key part per position, queries are taken into the latent space head by head, and what a head mixes is
 * taken out of it. Prefill and decode are the same arithmetic; the references expand keys in one of them, which is the
 * same in exact numbers.
 *
 * As the attention sees it: one key-value head, keys [latent, rotated part], values the latent. */
#include "math/rope.h"
#include "model/mechanism.h"
#include "model/mixers/heads.h"
#include "model/mixers/heads.h"
#include "model/mixers/indexer.h"
#include "model/mixers/position_scale.h"

#include <string.h>

enum { MAX_KEY_DIM = 1024 /* of math/attend.c */ };

static int key_dim(const MlaSpec *m) {
    return m->kv_rank + m->rope_dim;
}

static int query_dim(const MlaSpec *m) {
    return m->nope_dim + m->rope_dim;
}

static int gate_width(const MlaSpec *m) {
    return m->gate_each ? m->n_heads * m->v_dim : m->n_heads;
}

static bool mla_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const MlaSpec *m = &spec->mla;
    MlaWeights *w = &out->mla;
    int64_t hidden = bind_hidden(b), queries = (int64_t)m->n_heads * query_dim(m);
    if (key_dim(m) > MAX_KEY_DIM || queries > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: a latent of %d and %d rotated dims for %d heads is more than any model has",
                         m->kv_rank, m->rope_dim, m->n_heads);
    if (m->q_rank && !(bind_linear(b, &m->q_a, layer, m->q_rank, hidden, &w->q_a) &&
                       bind_norm(b, &m->q_norm, layer, m->q_rank, &w->q_norm)))
        return false;
    return indexer_bind(b, m, layer, &w->index) &&
           bind_linear(b, &m->q, layer, queries, m->q_rank ? m->q_rank : hidden, &w->q) &&
           bind_linear(b, &m->kv_a, layer, m->kv_rank, hidden, &w->kv_a) &&
           bind_linear(b, &m->k_rope, layer, m->rope_dim, hidden, &w->k_rope) &&
           bind_norm(b, &m->kv_norm, layer, m->kv_rank, &w->kv_norm) &&
           bind_experts(b, m->embed_q, layer, m->n_heads, m->kv_rank, m->nope_dim, &w->embed_q) &&
           bind_experts(b, m->unembed, layer, m->n_heads, m->v_dim, m->kv_rank, &w->unembed) &&
           bind_linear(b, &m->gate, layer, gate_width(m), hidden, &w->gate) &&
           bind_linear(b, &m->o, layer, hidden, (int64_t)m->n_heads * m->v_dim, &w->o);
}

static void rotate(const Step *s, const MlaSpec *m, float *x, int heads, int head_dim) {
    if (m->rope == NO_ROPE) return;
    const RopeAngles *angles = &s->angles[m->rope];
    rope_rotate(s->pool, &s->blueprint->ropes[m->rope].table, angles->cos, angles->sin, x, s->n, heads, head_dim);
}

/* ---- keys: what a position leaves ---- */

static bool mla_store(Step *s, int layer, const float *x) {
    const MlaSpec *m = &s->blueprint->layers[layer].mla;
    const MlaWeights *w = &s->weights->layers[layer].mla;
    float *latent = step_floats(s, s->n, m->kv_rank), *rope = step_floats(s, s->n, m->rope_dim);
    float *keys = step_floats(s, s->n, key_dim(m));
    LinearJob jobs[] = {{.w = w->kv_a, .y = latent}, {.w = w->k_rope, .y = rope}};
    if (!latent || !rope || !keys || !step_linear(s, jobs, 2, x, s->blueprint->hidden, layer, "kv_a_proj"))
        return false;
    step_tap(s, layer, "kv_a_proj", latent, m->kv_rank);
    step_norm(s, &m->kv_norm, &w->kv_norm, latent, latent, s->n, m->kv_rank);
    if (m->kv_scale != 0) ops_scale(s->pool, latent, m->kv_scale, latent, s->n, m->kv_rank);
    rotate(s, m, rope, 1, m->rope_dim);
    heads_copy(latent, m->kv_rank, 0, keys, key_dim(m), 0, m->kv_rank, s->n);
    heads_copy(rope, m->rope_dim, 0, keys, key_dim(m), m->kv_rank, m->rope_dim, s->n);
    step_tap(s, layer, "latent keys", keys, key_dim(m));
    return indexer_store(s, layer, x) && step_store(s, layer, keys, key_dim(m), latent, m->kv_rank);
}

/* ---- queries ---- */

/* q [rows][heads * (nope + rope)], from the input or through the query's own latent, which an index may ask as well. */
static bool project_queries(Step *s, int layer, const float *x, float *q) {
    const MlaSpec *m = &s->blueprint->layers[layer].mla;
    const MlaWeights *w = &s->weights->layers[layer].mla;
    LinearJob whole = {.w = w->q, .y = q};
    if (!m->q_rank) return step_linear(s, &whole, 1, x, s->blueprint->hidden, layer, "q_proj");
    float *latent = step_floats(s, s->n, m->q_rank);
    LinearJob down = {.w = w->q_a, .y = latent};
    if (!latent || !step_linear(s, &down, 1, x, s->blueprint->hidden, layer, "q_a_proj")) return false;
    step_norm(s, &m->q_norm, &w->q_norm, latent, latent, s->n, m->q_rank);
    if (m->q_scale != 0) ops_scale(s->pool, latent, m->q_scale, latent, s->n, m->q_rank);
    return step_linear(s, &whole, 1, latent, m->q_rank, layer, "q_b_proj") && indexer_choose(s, layer, x, latent);
}

/* Queries as the cache's keys are: per head [latent, rotated part]. */
static bool absorb_queries(Step *s, int layer, float *q, float *out) {
    const MlaSpec *m = &s->blueprint->layers[layer].mla;
    const MlaWeights *w = &s->weights->layers[layer].mla;
    int heads = m->n_heads, dim = query_dim(m), width = heads * key_dim(m);
    float *latent = step_floats(s, s->n * heads, m->kv_rank), *rope = step_floats(s, s->n, heads * m->rope_dim);
    if (!latent || !rope) return false;
    position_scale_apply(&m->position_scale, s, q, heads * dim);
    if (!heads_linear(s, layer, w->embed_q, heads, q, dim, 0, latent, "embed_q")) return false;
    for (int h = 0; h < heads; h++)
        heads_copy(q, heads * dim, h * dim + m->nope_dim, rope, heads * m->rope_dim, h * m->rope_dim, m->rope_dim,
                   s->n);
    rotate(s, m, rope, heads, m->rope_dim);
    for (int h = 0; h < heads; h++) {
        const float *from = latent + (size_t)h * (size_t)s->n * (size_t)m->kv_rank;
        heads_copy(from, m->kv_rank, 0, out, width, h * key_dim(m), m->kv_rank, s->n);
        heads_copy(rope, heads * m->rope_dim, h * m->rope_dim, out, width, h * key_dim(m) + m->kv_rank, m->rope_dim,
                   s->n);
    }
    step_tap(s, layer, "latent queries", out, width);
    return true;
}

/* ---- what comes out ---- */

static bool attend_latents(Step *s, int layer, const MlaSpec *m, const float *q, float *out) {
    AttendRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    AttendArgs args = {.n_heads = m->n_heads, .scale = m->scale};
    if (!rows) return false;
    for (int r = 0; r < s->n; r++)
        rows[r] = (AttendRow){.view = state_layer(s->rows[r].state, layer),
                              .position = s->rows[r].position,
                              .q = q + (size_t)r * (size_t)m->n_heads * (size_t)key_dim(m),
                              .out = out + (size_t)r * (size_t)m->n_heads * (size_t)m->kv_rank};
    if (m->index.n_chosen && !indexer_apply(s, layer, rows)) return false;
    return attend(&args, rows, s->n, s->pool, s->arena);
}

/* values [n][n_heads * v_dim] times a gate per head, or one each. */
static bool gate_values(Step *s, int layer, const float *x, float *values) {
    const MlaSpec *m = &s->blueprint->layers[layer].mla;
    LinearJob job = {.w = s->weights->layers[layer].mla.gate};
    if (!job.w) return true;
    job.y = step_floats(s, s->n, gate_width(m));
    if (!job.y || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "gate")) return false;
    if (m->gate_each) {
        ops_act_mul(s->pool, ACT_SIGMOID, job.y, values, values, s->n, gate_width(m));
        return true;
    }
    ops_act(s->pool, ACT_SIGMOID, job.y, job.y, s->n, m->n_heads);
    heads_gate(s, job.y, values, m->n_heads, m->v_dim);
    return true;
}

static bool mla_read(Step *s, int layer, const float *x, float *out) {
    const MlaSpec *m = &s->blueprint->layers[layer].mla;
    const MlaWeights *w = &s->weights->layers[layer].mla;
    int heads = m->n_heads, width = heads * m->v_dim;
    float *q = step_floats(s, s->n, heads * query_dim(m)), *absorbed = step_floats(s, s->n, heads * key_dim(m));
    float *mixed = step_floats(s, s->n, heads * m->kv_rank), *values = step_floats(s, s->n * heads, m->v_dim);
    float *joined = step_floats(s, s->n, width);
    if (!q || !absorbed || !mixed || !values || !joined) return false;
    if (!project_queries(s, layer, x, q)) return false;
    step_tap(s, layer, "q_proj", q, heads * query_dim(m));
    if (!absorb_queries(s, layer, q, absorbed) || !attend_latents(s, layer, m, absorbed, mixed)) return false;
    step_zero_failed(s, mixed, heads * m->kv_rank);
    step_tap(s, layer, "attention", mixed, heads * m->kv_rank);
    if (!heads_linear(s, layer, w->unembed, heads, mixed, m->kv_rank, 0, values, "unembed_out")) return false;
    for (int h = 0; h < heads; h++)
        heads_copy(values + (size_t)h * (size_t)s->n * (size_t)m->v_dim, m->v_dim, 0, joined, width, h * m->v_dim,
                   m->v_dim, s->n);
    LinearJob o = {.w = w->o, .y = out};
    if (!gate_values(s, layer, x, joined)) return false;
    if (!step_linear(s, &o, 1, joined, width, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

static bool mla_run(Step *s, int layer, const float *x, float *out) {
    return mla_store(s, layer, x) && mla_read(s, layer, x, out);
}

static void mla_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    *out = (LayerShape){.kv = {kv, 1, key_dim(&spec->mla), spec->mla.kv_rank}};
}

static void mla_side_state(const LayerSpec *spec, KvFormat kv, int kind, LayerShape *out) {
    const IndexSpec *i = &spec->mla.index;
    (void)kv;
    if (kind == STEP_INDEX && i->n_chosen && !i->shared)
        *out = (LayerShape){.kv = {KV_F32, 1, i->head_dim, 0}, .exact = true};
}

static const char *mla_kind(const LayerSpec *spec) {
    return spec->mla.index.n_chosen ? "sparse latent" : "latent";
}

static void mla_describe(const LayerSpec *spec, Buffer *out) {
    const MlaSpec *m = &spec->mla;
    buffer_printf(out, "latent attention: %d heads of %d + %d dims, latent %d", m->n_heads, m->nope_dim, m->rope_dim,
                  m->kv_rank);
    if (m->q_rank) buffer_printf(out, ", query latent %d", m->q_rank);
    if (m->gate.name) buffer_text(out, m->gate_each ? ", gate per value" : ", gate per head");
    if (m->index.shared) buffer_text(out, ", of positions that the last index chose");
    if (m->index.n_chosen && !m->index.shared)
        buffer_printf(out, ", of %d positions that an index of %d heads of %d chooses", m->index.n_chosen,
                      m->index.n_heads, m->index.head_dim);
}

const Mechanism mixer_mla = {.name = "latent attention",
                             .bind = mla_bind,
                             .run = mla_run,
                             .store = mla_store,
                             .read = mla_read,
                             .state = mla_state,
                             .side_state = mla_side_state,
                             .kind = mla_kind,
                             .describe = mla_describe};
