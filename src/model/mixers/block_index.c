/* MiniMax-M3's lightning indexer: a small query for each key-value head asks one key per position, and its heads see
 * the blocks of the best answers and the last few. Index keys are f32 in every cache format: a choice has no small
 * errors. */
#include "model/mixers/block_index.h"
#include "math/index.h"

bool block_index_bind(Binder *b, const AttentionSpec *a, int layer, AttentionWeights *w) {
    const BlockIndexSpec *i = &a->block_index;
    int64_t hidden = bind_hidden(b), queries = (int64_t)i->n_heads * i->head_dim;
    if (!i->n_chosen) return true;
    if (i->head_dim > 1024 || queries > CONFIG_MAX_SIZE || i->block < 1 || i->block > 65536 || i->n_chosen > 65536 ||
        i->n_heads < 1 || a->n_heads % i->n_heads || i->n_local > i->n_chosen)
        return bind_fail(b, "config.json: an index of %d heads of %d dims that chooses %d blocks of %d cannot be",
                         i->n_heads, i->head_dim, i->n_chosen, i->block);
    return bind_linear(b, &i->q, layer, queries, hidden, &w->index_q) &&
           bind_linear(b, &i->k, layer, i->head_dim, hidden, &w->index_k) &&
           bind_norm(b, &i->q_norm, layer, i->head_dim, &w->index_q_norm) &&
           bind_norm(b, &i->k_norm, layer, i->head_dim, &w->index_k_norm);
}

static void rotate(const Step *s, const AttentionSpec *a, float *x, int heads) {
    const RopeAngles *angles = &s->angles[a->rope];
    rope_rotate(s->pool, &s->blueprint->ropes[a->rope].table, angles->cos, angles->sin, x, s->n, heads,
                a->block_index.head_dim);
}

bool block_index_store(Step *s, int layer, const float *x) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    int dim = a->block_index.head_dim;
    if (!w->index_k) return true;
    float *k = step_floats(s, s->n, dim);
    LinearJob job = {.w = w->index_k, .y = k};
    if (!k || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "index k")) return false;
    step_norm(s, &a->block_index.k_norm, &w->index_k_norm, k, k, s->n, dim);
    rotate(s, a, k, 1);
    step_tap(s, layer, "index keys", k, dim);
    return step_store_side(s, STEP_INDEX, layer, k, dim, k, 0);
}

/* Every query head takes the list of the index head of its group. */
static void hand_out(const BlockIndexSpec *i, const BlockRow *rows, int n_heads, AttendKeys *keys) {
    for (int h = 0; h < n_heads; h++) {
        const BlockRow *row = &rows[h / (n_heads / i->n_heads)];
        keys[h] = (AttendKeys){row->positions, row->n};
    }
}

bool block_index_choose(Step *s, int layer, const float *x, AttendKeys **keys) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    const BlockIndexSpec *i = &a->block_index;
    size_t heads = (size_t)i->n_heads, listed = (size_t)i->n_chosen * (size_t)i->block;
    if (!w->index_q) return true;
    float *q = step_floats(s, s->n, i->n_heads * i->head_dim);
    AttendKeys *all = arena_array(s->arena, (size_t)s->n * (size_t)a->n_heads, sizeof *all);
    BlockRow *rows = arena_array(s->arena, (size_t)s->n * heads, sizeof *rows);
    LinearJob job = {.w = w->index_q, .y = q};
    BlockArgs args = {i->block, i->n_chosen, i->n_local};
    if (!q || !all || !rows || !step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "index q")) return false;
    step_norm(s, &i->q_norm, &w->index_q_norm, q, q, s->n * i->n_heads, i->head_dim);
    rotate(s, a, q, i->n_heads);
    step_tap(s, layer, "index queries", q, i->n_heads * i->head_dim);
    int n = 0;
    for (int r = 0; r < s->n; r++)
        for (size_t h = 0; h < heads && s->positions[r] / i->block >= i->n_chosen; h++, n++) {
            rows[n] = (BlockRow){.view = step_side(s, STEP_INDEX, layer, r),
                                 .position = s->positions[r],
                                 .q = q + ((size_t)r * heads + h) * (size_t)i->head_dim,
                                 .positions = arena_array(s->arena, listed, sizeof(int))};
            if (!rows[n].positions) return false;
        }
    if (!index_blocks(&args, rows, n, s->pool, s->arena)) return false;
    n = 0;
    for (int r = 0; r < s->n; r++) {
        AttendKeys *own = all + (size_t)r * (size_t)a->n_heads;
        bool sparse = s->positions[r] / i->block >= i->n_chosen;
        for (int h = 0; h < a->n_heads; h++) own[h] = (AttendKeys){NULL, 0};
        if (sparse) hand_out(i, rows + n, a->n_heads, own);
        n += sparse ? i->n_heads : 0;
    }
    *keys = all;
    return true;
}
