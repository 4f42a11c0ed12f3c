/* Scores page by page, then the n best. Which rows share a thread changes nothing: a row is a task. A score
 * that is no number counts as the worst, so that every machine chooses alike. */
#include "math/index.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 16 /* whose scores of a page are held at a time */ };

typedef struct IndexContext {
    const IndexArgs *args;
    const IndexRow *rows;
    uint64_t *ranks; /* [threads][stride] */
    size_t stride;
} IndexContext;

static int pages_of(int position) {
    return position / KV_PAGE + 1;
}

/* Scores of one page, summed over the heads in ascending order. */
static void score_page(const IndexArgs *args, const IndexRow *row, int page, float *sums) {
    float scores[QUERIES][KV_PAGE], *out[QUERIES];
    const float *q[QUERIES];
    memset(sums, 0, KV_PAGE * sizeof *sums);
    for (int first = 0; first < args->n_heads; first += QUERIES) {
        int n = args->n_heads - first < QUERIES ? args->n_heads - first : QUERIES;
        for (int i = 0; i < n; i++) {
            q[i] = row->q + (size_t)(first + i) * (size_t)row->view->shape.k_dim;
            out[i] = scores[i];
        }
        kv_page_scores(row->view, page, 0, q, n, args->scale, out);
        for (int i = 0; i < n; i++)
            for (int p = 0; p < KV_PAGE; p++)
                sums[p] += row->weights[first + i] * (scores[i][p] > 0 ? scores[i][p] : 0);
    }
}

/* Orders as the score does, then the lower position first; no two are equal. */
static uint64_t rank_of(float score, int position) {
    uint32_t bits;
    if (isnan(score)) score = -INFINITY;
    memcpy(&bits, &score, sizeof bits);
    uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)ordered << 32 | (uint32_t)(INT32_MAX - position);
}

static void swap(uint64_t *a, uint64_t *b) {
    uint64_t t = *a;
    *a = *b;
    *b = t;
}

static uint64_t middle_of(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* The n-th largest (from 1) of `count` distinct values, which are reordered. */
static uint64_t nth_largest(uint64_t *x, int count, int n) {
    int low = 0, high = count - 1, wanted = n - 1;
    while (low < high) {
        uint64_t pivot = middle_of(x[low], x[low + (high - low) / 2], x[high]);
        int i = low, j = high;
        while (i <= j) {
            while (x[i] > pivot) i++;
            while (x[j] < pivot) j--;
            if (i <= j) swap(&x[i++], &x[j--]);
        }
        if (wanted <= j)
            high = j;
        else if (wanted >= i)
            low = i;
        else
            break;
    }
    return x[wanted];
}

/* The n best of `count` ranks, as ascending indices; sorted: scratch [count]. */
static void take_best(const uint64_t *ranks, uint64_t *sorted, int count, int n, int *out) {
    int at = 0;
    memcpy(sorted, ranks, (size_t)count * sizeof *ranks);
    uint64_t least = nth_largest(sorted, count, n);
    for (int i = 0; i < count; i++)
        if (ranks[i] >= least) out[at++] = i;
}

/* ---- blocks of candidates ---- */

/* How many of a row's n blocks are kept. */
static int kept_blocks(const IndexArgs *args, int n) {
    return n < args->n_candidates ? n : args->n_candidates;
}

/* A block ranks as its best position does, but by its own number among equals; ranks [n], scratch [2 * n]. */
static void keep_blocks(const IndexArgs *args, const uint64_t *ranks, int n, uint64_t *scratch, int *out) {
    int blocks = (n + args->block - 1) / args->block;
    uint64_t *best = scratch, *sorted = scratch + blocks;
    for (int b = 0; b < blocks; b++) {
        uint64_t most = 0;
        for (int i = b * args->block; i < (b + 1) * args->block && i < n; i++) most = ranks[i] > most ? ranks[i] : most;
        best[b] = (most & ~(uint64_t)UINT32_MAX) | (uint32_t)(INT32_MAX - b);
    }
    best[blocks - 1] = UINT64_MAX;
    take_best(best, sorted, blocks, kept_blocks(args, blocks), out);
}

/* Positions outside the candidates rank last. */
static void limit_to_candidates(const IndexArgs *args, const int *candidates, uint64_t *ranks, int n) {
    int blocks = (n + args->block - 1) / args->block, kept = kept_blocks(args, blocks), at = 0;
    for (int b = 0; b < blocks; b++) {
        if (at < kept && candidates[at] == b) {
            at++;
            continue;
        }
        for (int i = b * args->block; i < (b + 1) * args->block && i < n; i++) ranks[i] = rank_of(-INFINITY, i);
    }
}

static void index_task(void *context, int task, int thread) {
    const IndexContext *c = context;
    const IndexRow *row = &c->rows[task];
    int n = row->position + 1;
    if (n <= c->args->n_chosen) {
        for (int p = 0; p < n; p++) row->chosen[p] = p;
        return;
    }
    uint64_t *ranks = c->ranks + (size_t)thread * 3 * c->stride, *scratch = ranks + c->stride; /* [2 * stride] */
    for (int page = 0; page < pages_of(row->position); page++) {
        float sums[KV_PAGE];
        score_page(c->args, row, page, sums);
        for (int i = 0; i < KV_PAGE; i++) ranks[page * KV_PAGE + i] = rank_of(sums[i], page * KV_PAGE + i);
    }
    if (row->keep) keep_blocks(c->args, ranks, n, scratch, row->keep);
    if (row->candidates) limit_to_candidates(c->args, row->candidates, ranks, n);
    take_best(ranks, scratch, n, c->args->n_chosen, row->chosen);
}

bool index_choose(const IndexArgs *args, const IndexRow *rows, int n_rows, Pool *pool, Arena *arena) {
    IndexContext c = {.args = args, .rows = rows};
    for (int r = 0; r < n_rows; r++) {
        size_t wanted = (size_t)pages_of(rows[r].position) * KV_PAGE;
        if (rows[r].position >= args->n_chosen && wanted > c.stride) c.stride = wanted;
    }
    c.ranks = arena_array(arena, (size_t)pool_threads(pool) * 3, c.stride * sizeof *c.ranks);
    if (!c.ranks) return false;
    pool_run(pool, index_task, &c, n_rows);
    return true;
}

/* ---- whole blocks ---- */

typedef struct BlockContext {
    const BlockArgs *args;
    BlockRow *rows;
    uint64_t *ranks; /* [threads][2 * stride] */
    int *chosen;     /* [threads][n_chosen] */
    size_t stride;
} BlockContext;

/* The ranks of all blocks up to the row's own. */
static void rank_blocks(const BlockArgs *args, const BlockRow *row, uint64_t *ranks, int n) {
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    for (int page = 0; page < pages_of(row->position); page++) {
        float scores[KV_PAGE], *out[1] = {scores};
        kv_page_scores(row->view, page, 0, &row->q, 1, 1, out);
        for (int i = 0; i < KV_PAGE && page * KV_PAGE + i <= row->position; i++) {
            int block = (page * KV_PAGE + i) / args->block;
            uint64_t rank = rank_of(scores[i], block);
            ranks[block] = rank > ranks[block] ? rank : ranks[block];
        }
    }
    for (int b = n > args->n_local ? n - args->n_local : 0; b < n; b++)
        ranks[b] = (uint64_t)UINT32_MAX << 32 | (uint32_t)(INT32_MAX - b);
}

static void block_task(void *context, int task, int thread) {
    const BlockContext *c = context;
    BlockRow *row = &c->rows[task];
    int n = row->position / c->args->block + 1, n_chosen = c->args->n_chosen;
    uint64_t *ranks = c->ranks + (size_t)thread * 2 * c->stride;
    int *chosen = c->chosen + (size_t)thread * (size_t)n_chosen;
    rank_blocks(c->args, row, ranks, n);
    take_best(ranks, ranks + c->stride, n, n_chosen, chosen);
    row->n = 0;
    for (int i = 0; i < n_chosen; i++)
        for (int p = chosen[i] * c->args->block; p < (chosen[i] + 1) * c->args->block && p <= row->position; p++)
            row->positions[row->n++] = p;
}

bool index_blocks(const BlockArgs *args, BlockRow *rows, int n_rows, Pool *pool, Arena *arena) {
    BlockContext c = {.args = args, .rows = rows};
    size_t threads = (size_t)pool_threads(pool);
    for (int r = 0; r < n_rows; r++) {
        size_t wanted = (size_t)(rows[r].position / args->block + 1);
        if (wanted > c.stride) c.stride = wanted;
    }
    c.ranks = arena_array(arena, threads * 2, c.stride * sizeof *c.ranks);
    c.chosen = arena_array(arena, threads, (size_t)args->n_chosen * sizeof *c.chosen);
    if (!c.ranks || !c.chosen) return false;
    pool_run(pool, block_task, &c, n_rows);
    return true;
}
