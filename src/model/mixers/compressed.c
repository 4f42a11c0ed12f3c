/* DeepSeek-V4's attention. Two things are read with one softmax: the keys of a window, and entries that stand for many
 * positions each. Both are asked as attentions of their own and added up by what each leaves of its softmax, sinks
 * included, so that each keeps the fixed blocks of docs/arithmetic.md.
 *
 * A sequence keeps the window's keys, the rows that the next entries are made of, the entries, and the entries' index
 * keys (f32 in every cache format: a choice has no small errors). An entry is written by the step whose row completes
 * it, before any row reads. */
#include "math/index.h"
#include "math/kernel_table.h"
#include "math/rope.h"
#include "math/small_floats.h"
#include "model/mechanism.h"
#include "model/mixers/heads.h"
#include "model/mixers/pooling.h"

#include <math.h>
#include <string.h>

enum { MAX_KEY_DIM = 1024 /* of math/attend.c */, KEY_BLOCK = 32, ENTRY_BLOCK = 16 };

/* ---- binding ---- */

static bool check_spec(Binder *b, const CompressedSpec *m) {
    if (m->head_dim > MAX_KEY_DIM || m->index.head_dim > MAX_KEY_DIM || m->rope_dim > m->head_dim ||
        (int64_t)m->n_heads * m->head_dim > CONFIG_MAX_SIZE || (int64_t)m->n_groups * m->o_rank > CONFIG_MAX_SIZE ||
        (m->index.q.name && m->rope_dim > m->index.head_dim) ||
        (int64_t)m->index.n_heads * m->index.head_dim > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: %d heads of %d dims (%d rotated) with an index of %d heads of %d cannot be",
                         m->n_heads, m->head_dim, m->rope_dim, m->index.n_heads, m->index.head_dim);
    if (m->n_heads % m->n_groups)
        return bind_fail(b, "config.json: %d attention heads do not divide over %d \"o_groups\"", m->n_heads,
                         m->n_groups);
    return true;
}

static bool bind_index(Binder *b, const CompressedSpec *m, int layer, CompressedWeights *w) {
    const IndexSpec *i = &m->index;
    int64_t queries = (int64_t)i->n_heads * i->head_dim;
    return bind_linear(b, &i->q, layer, queries, m->q_rank, &w->index.q) &&
           bind_linear(b, &i->weights, layer, i->n_heads, bind_hidden(b), &w->index.weights) &&
           bind_linear(b, &i->k, layer, i->head_dim, m->head_dim, &w->index.k) &&
           bind_norm(b, &i->k_norm, layer, i->head_dim, &w->index.k_norm) &&
           pooling_bind(b, &m->index_pool, layer, &w->index_pool);
}

static bool compressed_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const CompressedSpec *m = &spec->compressed;
    CompressedWeights *w = &out->compressed;
    int64_t hidden = bind_hidden(b), width = (int64_t)m->n_heads * m->head_dim;
    if (!check_spec(b, m)) return false;
    return bind_linear(b, &m->q_a, layer, m->q_rank, hidden, &w->q_a) &&
           bind_norm(b, &m->q_a_norm, layer, m->q_rank, &w->q_a_norm) &&
           bind_linear(b, &m->q, layer, width, m->q_rank, &w->q) &&
           bind_norm(b, &m->q_norm, layer, m->head_dim, &w->q_norm) &&
           bind_linear(b, &m->kv, layer, m->head_dim, hidden, &w->kv) &&
           bind_norm(b, &m->kv_norm, layer, m->head_dim, &w->kv_norm) &&
           bind_vector(b, m->sinks, layer, m->n_heads, 0, &w->sinks) &&
           bind_experts(b, m->o_a, layer, m->n_groups, m->o_rank, width / m->n_groups, &w->o_a) &&
           bind_linear(b, &m->o, layer, hidden, (int64_t)m->n_groups * m->o_rank, &w->o) &&
           pooling_bind(b, &m->pool, layer, &w->pool) && bind_index(b, m, layer, w);
}

/* ---- rotation, of the last dims of a head ---- */

static void rotate(const Step *s, const CompressedSpec *m, const RopeAngles *angles, float *x, int rows, int heads,
                   int dim) {
    rope_rotate(s->pool, &s->blueprint->ropes[m->rope].table, angles->cos, angles->sin, x + (dim - m->rope_dim), rows,
                heads, dim);
}

/* Of the rows where what was read is rotated back. */
static bool turned_angles(Step *s, const CompressedSpec *m, RopeAngles *out) {
    int half = m->rope_dim / 2;
    *out = (RopeAngles){s->angles[m->rope].cos, step_floats(s, s->n, half)};
    for (size_t i = 0; out->sin && i < (size_t)s->n * (size_t)half; i++) out->sin[i] = -s->angles[m->rope].sin[i];
    return out->sin != NULL;
}

/* Of entries, at the position of their first row. */
static bool entry_angles(Step *s, const CompressedSpec *m, const Completed *done, RopeAngles *out) {
    const RopeTable *table = &s->blueprint->ropes[m->rope].table;
    *out = (RopeAngles){step_floats(s, done->n, table->dims / 2), step_floats(s, done->n, table->dims / 2)};
    if (!out->cos || !out->sin) return false;
    rope_angles(s->pool, table, done->positions, done->n, out->cos, out->sin);
    return true;
}

/* ---- what a position leaves ---- */

static bool store_keys(Step *s, int layer, const float *x) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const CompressedWeights *w = &s->weights->layers[layer].compressed;
    float *k = step_floats(s, s->n, m->head_dim);
    LinearJob job = {.w = w->kv, .y = k};
    if (!k || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "kv_proj")) return false;
    step_norm(s, &m->kv_norm, &w->kv_norm, k, k, s->n, m->head_dim);
    rotate(s, m, &s->angles[m->rope], k, s->n, 1, m->head_dim);
    if (m->rounds && m->head_dim % KEY_BLOCK == 0) small_floats_e4m3(k, s->n * m->head_dim, KEY_BLOCK);
    step_tap(s, layer, "keys", k, m->head_dim);
    return step_store(s, layer, k, m->head_dim, k, m->head_dim);
}

static int raw_width(const CompressedSpec *m) {
    return 2 * (pooling_width(&m->pool) + pooling_width(&m->index_pool));
}

/* Values and gates of both pools, of all rows: [values, gates, index values, index gates]. */
static bool store_raw(Step *s, int layer, const float *x) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const CompressedWeights *w = &s->weights->layers[layer].compressed;
    const Linear *const parts[] = {w->pool.kv, w->pool.gate, w->index_pool.kv, w->index_pool.gate};
    int width = raw_width(m), at = 0, n = 0;
    float *rows = step_floats(s, s->n, width);
    LinearJob jobs[4];
    for (int i = 0; i < 4 && parts[i]; i++) {
        jobs[n++] = (LinearJob){.w = parts[i], .y = step_floats(s, s->n, linear_rows(parts[i]))};
        if (!jobs[n - 1].y) return false;
    }
    if (!rows || !step_linear(s, jobs, n, x, s->blueprint->hidden, layer, "compressor")) return false;
    for (int i = 0; i < n; i++) {
        int cols = linear_rows(jobs[i].w);
        heads_copy(jobs[i].y, cols, 0, rows, width, at, cols, s->n);
        at += cols;
    }
    step_tap(s, layer, "compressor", rows, width);
    return step_store_side(s, STEP_RAW, layer, rows, 0, rows, width);
}

/* Entries [done][dim] into the state; rows whose entry is not finite fail. */
static void write_entries(Step *s, int layer, int kind, const Completed *done, const float *x, int dim) {
    for (int i = 0; i < done->n; i++) {
        const float *entry = x + (size_t)i * (size_t)dim;
        if (!kv_write(step_side(s, kind, layer, done->rows[i]), done->entries[i], entry, entry))
            step_fail(s, done->rows[i], layer, "compressor");
    }
}

/* Linear w of x [done][cols] as y [done][outputs]. */
static bool entries_linear(Step *s, const Linear *w, const float *x, int rows, int cols, float *y) {
    Activations *a = activations_new(s->arena, x, rows, cols, s->numeric->activation_bits);
    LinearJob job = {w, a, y};
    return a && linear_apply(&job, 1, s->pool, s->arena);
}

/* The index keys of the entries: of those themselves, before their rotation, or pooled likewise. */
static bool store_index_keys(Step *s, int layer, const Completed *done, const RopeAngles *angles, const float *latent) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const CompressedWeights *w = &s->weights->layers[layer].compressed;
    int dim = m->index.head_dim;
    float *k = step_floats(s, done->n, dim);
    PoolSource from = {layer, 2 * pooling_width(&m->pool)};
    if (!k) return false;
    if (w->index.k) {
        if (!entries_linear(s, w->index.k, latent, done->n, m->head_dim, k)) return false;
        step_norm(s, &m->index.k_norm, &w->index.k_norm, k, k, done->n, dim);
    } else if (!pooling_run(s, &m->index_pool, &w->index_pool, &from, done, k)) {
        return false;
    }
    rotate(s, m, angles, k, done->n, 1, dim);
    if (m->rounds && dim % KEY_BLOCK == 0) small_floats_e2m1(k, done->n * dim, KEY_BLOCK);
    write_entries(s, layer, STEP_INDEX, done, k, dim);
    return true;
}

/* Whether index keys of its own entries are kept. */
static bool has_index_keys(const CompressedSpec *m) {
    return m->pool.every && (m->index.k.name || m->index_pool.every);
}

/* latent [done][dim]: entries of one row each are that row's, which needs no keeping. */
static bool make_entries(Step *s, int layer, const float *x, const Completed *done, float *latent) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const PoolWeights *w = &s->weights->layers[layer].compressed.pool;
    PoolSource from = {layer, 0};
    LinearJob job = {.w = w->kv, .y = latent};
    if (m->pool.every > 1) return pooling_run(s, &m->pool, w, &from, done, latent);
    if (!step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "compressor")) return false;
    step_norm(s, &m->pool.norm, &w->norm, latent, latent, s->n, m->head_dim);
    return true;
}

static bool store_entries(Step *s, int layer, const float *x) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    Completed done;
    RopeAngles angles;
    if (!pooling_completed(s, m->pool.every, &done)) return false;
    if (done.n == 0) return true;
    float *entries = step_floats(s, done.n, m->head_dim), *latent = step_floats(s, done.n, m->head_dim);
    size_t n = (size_t)done.n * (size_t)m->head_dim;
    if (!entries || !latent || !make_entries(s, layer, x, &done, latent) || !entry_angles(s, m, &done, &angles))
        return false;
    if (has_index_keys(m) && !store_index_keys(s, layer, &done, &angles, latent)) return false;
    memcpy(entries, latent, n * sizeof *entries);
    rotate(s, m, &angles, entries, done.n, 1, m->head_dim);
    if (m->rounds && m->head_dim % ENTRY_BLOCK == 0) small_floats_e2m1_scaled(entries, (int)n, ENTRY_BLOCK);
    write_entries(s, layer, STEP_POOLED, &done, entries, m->head_dim);
    return true;
}

static bool compressed_store(Step *s, int layer, const float *x) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    if (!store_keys(s, layer, x)) return false;
    if (m->pool.every > 1 && !store_raw(s, layer, x)) return false;
    return m->pool.every == 0 || store_entries(s, layer, x);
}

/* ---- which entries a row reads ---- */

/* Those that are complete when row r is there. */
static int entries_of(const Step *s, const CompressedSpec *m, int r) {
    return (s->positions[r] + 1) / m->every;
}

static int *chosen_of(const Step *s, int row) {
    return (int *)(void *)(s->chosen + (size_t)row * (size_t)s->n_chosen);
}

static int *candidates_of(const Step *s, int row) {
    return (int *)(void *)(s->candidates + (size_t)row * (size_t)s->n_candidates);
}

/* Asks the index for all rows that have entries; latent [n][q_rank]. */
static bool choose_entries(Step *s, int layer, const float *x, const float *latent) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const CompressedWeights *w = &s->weights->layers[layer].compressed;
    const IndexSpec *i = &m->index;
    int width = i->n_heads * i->head_dim, n = 0;
    float *q = step_floats(s, s->n, width), *weights = step_floats(s, s->n, i->n_heads);
    IndexRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    LinearJob queries = {.w = w->index.q, .y = q}, weigh = {.w = w->index.weights, .y = weights};
    if (!q || !weights || !rows || !step_linear(s, &queries, 1, latent, m->q_rank, layer, "index q") ||
        !step_linear(s, &weigh, 1, x, s->blueprint->hidden, layer, "index weights"))
        return false;
    rotate(s, m, &s->angles[m->rope], q, s->n, i->n_heads, i->head_dim);
    if (m->rounds && i->head_dim % KEY_BLOCK == 0)
        for (int r = 0; r < s->n; r++) small_floats_e2m1(q + (size_t)r * (size_t)width, width, KEY_BLOCK);
    ops_scale(s->pool, weights, (float)(1 / sqrt((double)i->n_heads)), weights, s->n, i->n_heads);
    for (int r = 0; r < s->n; r++)
        if (entries_of(s, m, r) > 0) {
            rows[n] = (IndexRow){.view = step_side(s, STEP_INDEX, m->index_layer, r),
                                 .position = entries_of(s, m, r) - 1,
                                 .q = q + (size_t)r * (size_t)width,
                                 .weights = weights + (size_t)r * (size_t)i->n_heads,
                                 .chosen = chosen_of(s, r)};
            if (m->n_candidates && m->keeps_candidates) rows[n].keep = candidates_of(s, r);
            if (m->n_candidates && !m->keeps_candidates) rows[n].candidates = candidates_of(s, r);
            n++;
        }
    IndexArgs args = {i->n_heads, i->n_chosen, (float)(1 / sqrt((double)i->head_dim)), m->block, m->n_candidates};
    return index_choose(&args, rows, n, s->pool, s->arena);
}

/* ---- reading ---- */

/* What the window gives, and what the entries give, of all rows and heads. */
typedef struct Reading {
    float *out;        /* [n][n_heads * head_dim], undivided */
    AttendPart *parts; /* [n][n_heads] */
} Reading;

static bool make_reading(Step *s, const CompressedSpec *m, Reading *out) {
    size_t heads = (size_t)s->n * (size_t)m->n_heads;
    *out = (Reading){step_floats(s, s->n, m->n_heads * m->head_dim), arena_array(s->arena, heads, sizeof *out->parts)};
    if (!out->out || !out->parts) return false;
    memset(out->out, 0, heads * (size_t)m->head_dim * sizeof *out->out);
    for (size_t i = 0; i < heads; i++) out->parts[i] = (AttendPart){-INFINITY, 0};
    return true;
}

static AttendRow reading_row(const Step *s, const CompressedSpec *m, int r, const float *q, const Reading *to) {
    size_t at = (size_t)r * (size_t)m->n_heads;
    return (AttendRow){.q = q + at * (size_t)m->head_dim,
                       .out = to->out + at * (size_t)m->head_dim,
                       .parts = to->parts + at,
                       .position = s->positions[r]};
}

static bool read_window(Step *s, int layer, const float *q, const Reading *to) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    AttendRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    AttendArgs args = {.n_heads = m->n_heads, .scale = m->scale};
    if (!rows) return false;
    for (int r = 0; r < s->n; r++) {
        int position = s->positions[r];
        rows[r] = reading_row(s, m, r, q, to);
        rows[r].view = state_layer(s->rows[r].state, layer);
        rows[r].first = position >= m->window ? position - m->window + 1 : 0;
    }
    return attend(&args, rows, s->n, s->pool, s->arena);
}

static bool read_entries(Step *s, int layer, const float *q, const Reading *to) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    AttendRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    AttendKeys *keys = arena_array(s->arena, (size_t)s->n, sizeof *keys);
    AttendArgs args = {.n_heads = m->n_heads, .scale = m->scale};
    int n = 0, n_chosen = m->index.n_chosen;
    if (!rows || !keys) return false;
    for (int r = 0; r < s->n; r++) {
        int entries = entries_of(s, m, r);
        if (entries == 0) continue;
        rows[n] = reading_row(s, m, r, q, to);
        rows[n].view = step_side(s, STEP_POOLED, m->pool_layer, r);
        rows[n].position = entries - 1;
        if (n_chosen && entries > n_chosen) {
            keys[n] = (AttendKeys){chosen_of(s, r), n_chosen};
            rows[n].keys = &keys[n];
        }
        n++;
    }
    return attend(&args, rows, n, s->pool, s->arena);
}

/* The weights of both readings of one head, such that they and the sink's sum to 1 when divided. */
static void add_readings(const AttendPart *a, const AttendPart *b, float sink, float *x, const float *y, int dim) {
    float most = a->max > b->max ? a->max : b->max, total = 0;
    if (sink > most) most = sink;
    float weights[3] = {a->max, b->max, sink};
    for (int i = 0; i < 3; i++) kernels()->exp_sum(&weights[i], most, &weights[i], 1);
    total = a->denominator * weights[0] + b->denominator * weights[1] + weights[2];
    for (int d = 0; d < dim; d++) x[d] = (x[d] * weights[0] + y[d] * weights[1]) / total;
}

/* Mixed values [n][n_heads * head_dim] of all rows, rotated back. */
static bool read_all(Step *s, int layer, const float *q, float **out) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const float *sinks = s->weights->layers[layer].compressed.sinks;
    Reading window, entries;
    RopeAngles back;
    if (!make_reading(s, m, &window) || !make_reading(s, m, &entries) || !turned_angles(s, m, &back) ||
        !read_window(s, layer, q, &window))
        return false;
    if (m->pool_layer >= 0 && !read_entries(s, layer, q, &entries)) return false;
    for (int i = 0; i < s->n * m->n_heads; i++) {
        size_t at = (size_t)i * (size_t)m->head_dim;
        add_readings(&window.parts[i], &entries.parts[i], sinks[i % m->n_heads], window.out + at, entries.out + at,
                     m->head_dim);
    }
    rotate(s, m, &back, window.out, s->n, m->n_heads, m->head_dim);
    step_zero_failed(s, window.out, m->n_heads * m->head_dim);
    step_tap(s, layer, "attention", window.out, m->n_heads * m->head_dim);
    *out = window.out;
    return true;
}

static bool project_out(Step *s, int layer, const float *mixed, float *out) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const CompressedWeights *w = &s->weights->layers[layer].compressed;
    int width = m->n_groups * m->o_rank, stride = m->n_heads * m->head_dim / m->n_groups;
    float *groups = step_floats(s, s->n * m->n_groups, m->o_rank), *joined = step_floats(s, s->n, width);
    LinearJob o = {.w = w->o, .y = out};
    if (!groups || !joined || !heads_linear(s, layer, w->o_a, m->n_groups, mixed, stride, 0, groups, "o_a_proj"))
        return false;
    for (int g = 0; g < m->n_groups; g++)
        heads_copy(groups + (size_t)g * (size_t)s->n * (size_t)m->o_rank, m->o_rank, 0, joined, width, g * m->o_rank,
                   m->o_rank, s->n);
    if (!step_linear(s, &o, 1, joined, width, layer, "o_b_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

static bool compressed_read(Step *s, int layer, const float *x, float *out) {
    const CompressedSpec *m = &s->blueprint->layers[layer].compressed;
    const CompressedWeights *w = &s->weights->layers[layer].compressed;
    float *latent = step_floats(s, s->n, m->q_rank), *q = step_floats(s, s->n, m->n_heads * m->head_dim), *mixed;
    LinearJob down = {.w = w->q_a, .y = latent}, up = {.w = w->q, .y = q};
    if (!latent || !q || !step_linear(s, &down, 1, x, s->blueprint->hidden, layer, "q_a_proj")) return false;
    step_norm(s, &m->q_a_norm, &w->q_a_norm, latent, latent, s->n, m->q_rank);
    if (!step_linear(s, &up, 1, latent, m->q_rank, layer, "q_b_proj")) return false;
    step_norm(s, &m->q_norm, &w->q_norm, q, q, s->n * m->n_heads, m->head_dim);
    rotate(s, m, &s->angles[m->rope], q, s->n, m->n_heads, m->head_dim);
    step_tap(s, layer, "queries", q, m->n_heads * m->head_dim);
    if (w->index.q && !choose_entries(s, layer, x, latent)) return false;
    return read_all(s, layer, q, &mixed) && project_out(s, layer, mixed, out);
}

/* ---- the mechanism ---- */

static bool compressed_run(Step *s, int layer, const float *x, float *out) {
    return compressed_store(s, layer, x) && compressed_read(s, layer, x, out);
}

static void compressed_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const CompressedSpec *m = &spec->compressed;
    *out = (LayerShape){.kv = {kv, 1, m->head_dim, m->head_dim}, .window = m->window};
}

static void compressed_side_state(const LayerSpec *spec, KvFormat kv, int kind, LayerShape *out) {
    const CompressedSpec *m = &spec->compressed;
    int every = m->pool.every;
    if (every == 0) return;
    if (kind == STEP_POOLED) *out = (LayerShape){.kv = {kv, 1, m->head_dim, m->head_dim}, .every = every};
    if (kind == STEP_INDEX && has_index_keys(m))
        *out = (LayerShape){.kv = {KV_F32, 1, m->index.head_dim, 0}, .every = every, .exact = true};
    if (kind == STEP_RAW && every > 1)
        *out = (LayerShape){.kv = {KV_F32, 1, 0, raw_width(m)}, .window = pooling_window(&m->pool), .exact = true};
}

static const char *compressed_kind(const LayerSpec *spec) {
    const CompressedSpec *m = &spec->compressed;
    return m->pool_layer < 0 ? "sliding" : m->index.n_chosen ? "sparse compressed" : "compressed";
}

static void compressed_describe(const LayerSpec *spec, Buffer *out) {
    const CompressedSpec *m = &spec->compressed;
    buffer_printf(out, "attention with one key for %d heads of %d dims, window %d", m->n_heads, m->head_dim, m->window);
    if (m->pool_layer >= 0) buffer_printf(out, ", and entries of %d positions each", m->every);
    if (m->pool_layer >= 0 && m->pool.every == 0) buffer_printf(out, " of layer %d", m->pool_layer);
    if (m->index.n_chosen)
        buffer_printf(out, ", of which an index of %d heads of %d chooses %d", m->index.n_heads, m->index.head_dim,
                      m->index.n_chosen);
}

const Mechanism mixer_compressed = {.name = "compressed attention",
                                    .bind = compressed_bind,
                                    .run = compressed_run,
                                    .store = compressed_store,
                                    .read = compressed_read,
                                    .state = compressed_state,
                                    .side_state = compressed_side_state,
                                    .kind = compressed_kind,
                                    .describe = compressed_describe};
