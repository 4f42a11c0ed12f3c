/* DeepSeek-V3.2's lightning indexer (arXiv:2512.02556): small queries from the query's latent ask one key per position,
 * kept beside the latent ones. Those keys are f32 in every cache format: a choice has no small errors. The authors'
 * Hadamard rotation of both sides and their 8-bit keys leave exact scores as they are, and the references have neither.
 */
#include "model/mixers/indexer.h"
#include "math/index.h"

#include <math.h>

bool indexer_bind(Binder *b, const MlaSpec *m, int layer, IndexWeights *out) {
    const IndexSpec *i = &m->index;
    int64_t hidden = bind_hidden(b), queries = (int64_t)i->n_heads * i->head_dim;
    if (!i->n_chosen || i->shared) return true;
    if (i->head_dim > 1024 || queries > CONFIG_MAX_SIZE || i->head_dim < m->rope_dim || !m->q_rank)
        return bind_fail(b, "config.json: an index of %d heads of %d dims cannot be (with %d rotated dims, latent %d)",
                         i->n_heads, i->head_dim, m->rope_dim, m->q_rank);
    return bind_linear(b, &i->q, layer, queries, m->q_rank, &out->q) &&
           bind_linear(b, &i->k, layer, i->head_dim, hidden, &out->k) &&
           bind_linear(b, &i->weights, layer, i->n_heads, hidden, &out->weights) &&
           bind_norm(b, &i->k_norm, layer, i->head_dim, &out->k_norm);
}

static void rotate(const Step *s, const IndexSpec *i, float *x, int heads) {
    const RopeAngles *angles = &s->angles[i->rope];
    rope_rotate(s->pool, &s->blueprint->ropes[i->rope].table, angles->cos, angles->sin, x, s->n, heads, i->head_dim);
}

bool indexer_store(Step *s, int layer, const float *x) {
    const IndexSpec *i = &s->blueprint->layers[layer].mla.index;
    const IndexWeights *w = &s->weights->layers[layer].mla.index;
    if (!i->n_chosen || i->shared) return true;
    float *k = step_floats(s, s->n, i->head_dim);
    LinearJob job = {.w = w->k, .y = k};
    if (!k || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "index k")) return false;
    step_norm(s, &i->k_norm, &w->k_norm, k, k, s->n, i->head_dim);
    rotate(s, i, k, 1);
    step_tap(s, layer, "index keys", k, i->head_dim);
    return step_store_side(s, STEP_INDEX, layer, k, i->head_dim, k, 0);
}

/* [n_chosen], in a buffer that shrinks with the rows. */
static int *chosen_of(const Step *s, int row) {
    return (int *)(void *)(s->chosen + (size_t)row * (size_t)s->n_chosen);
}

bool indexer_choose(Step *s, int layer, const float *x, const float *latent) {
    const MlaSpec *m = &s->blueprint->layers[layer].mla;
    const IndexSpec *i = &m->index;
    const IndexWeights *w = &s->weights->layers[layer].mla.index;
    if (!i->n_chosen || i->shared) return true;
    int width = i->n_heads * i->head_dim;
    float *q = step_floats(s, s->n, width), *weights = step_floats(s, s->n, i->n_heads);
    IndexRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    LinearJob queries = {.w = w->q, .y = q}, weigh = {.w = w->weights, .y = weights};
    if (!q || !weights || !rows || !step_linear(s, &queries, 1, latent, m->q_rank, layer, "index q") ||
        !step_linear(s, &weigh, 1, x, s->blueprint->hidden, layer, "index weights"))
        return false;
    rotate(s, i, q, i->n_heads);
    ops_scale(s->pool, weights, (float)(1 / sqrt((double)i->n_heads)), weights, s->n, i->n_heads);
    step_tap(s, layer, "index queries", q, width);
    step_tap(s, layer, "index weights", weights, i->n_heads);
    for (int r = 0; r < s->n; r++)
        rows[r] = (IndexRow){.view = step_side(s, STEP_INDEX, layer, r),
                             .position = s->rows[r].position,
                             .q = q + (size_t)r * (size_t)width,
                             .weights = weights + (size_t)r * (size_t)i->n_heads,
                             .chosen = chosen_of(s, r)};
    IndexArgs args = {.n_heads = i->n_heads, .n_chosen = i->n_chosen, .scale = (float)(1 / sqrt((double)i->head_dim))};
    return index_choose(&args, rows, s->n, s->pool, s->arena);
}

bool indexer_apply(Step *s, int layer, AttendRow *rows) {
    int n_chosen = s->blueprint->layers[layer].mla.index.n_chosen;
    AttendKeys *keys = arena_array(s->arena, (size_t)s->n, sizeof *keys);
    if (!keys) return false;
    for (int r = 0; r < s->n; r++) {
        if (rows[r].position < n_chosen) continue; /* it sees all */
        keys[r] = (AttendKeys){chosen_of(s, r), n_chosen};
        rows[r].keys = &keys[r];
    }
    return true;
}
