/* Sparse indexers: what is chosen against the definition, for every instruction set, with many equal scores. */
#include "math/index.h"
#include "base/memory.h"
#include "support/random.h"
#include "support/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_POSITIONS = 300 };

typedef struct Cache {
    KvView view;
    uint8_t *pages[MAX_POSITIONS / KV_PAGE + 1];
} Cache;

static void cache_fill(Cache *c, int dim, const float *k, int n) {
    c->view = (KvView){{KV_F32, 1, dim, 0}, c->pages};
    size_t bytes = kv_page_bytes(&c->view.shape);
    for (int p = 0; p * KV_PAGE < n; p++) {
        c->pages[p] = mem_aligned(bytes, 1);
        memset(c->pages[p], 0, bytes);
    }
    for (int i = 0; i < n; i++) assert_true(kv_write(&c->view, i, k + i * dim, k));
}

static void cache_clear(Cache *c, int n) {
    for (int p = 0; p * KV_PAGE < n; p++) mem_free(c->pages[p]);
}

static float define_score(const IndexArgs *args, const IndexRow *row, const float *k, int dim) {
    float sum = 0;
    for (int h = 0; h < args->n_heads; h++) {
        float dot = 0;
        for (int d = 0; d < dim; d++) dot = fmaf(row->q[h * dim + d], k[d], dot);
        float score = dot * args->scale;
        float weighted = row->weights[h] * (score > 0 ? score : 0);
        sum += weighted;
    }
    return sum;
}

/* Whether fewer than n_chosen positions go before p. */
static bool define_choice(const float *scores, int n, int n_chosen, int p) {
    int before = 0;
    for (int i = 0; i < n; i++) before += scores[i] > scores[p] || (scores[i] == scores[p] && i < p);
    return before < n_chosen;
}

static int count_chosen(const IndexArgs *args, const IndexRow *row) {
    int n = row->position + 1;
    return n < args->n_chosen ? n : args->n_chosen;
}

/* The positions that the row should choose, to expected [n_chosen]. */
static void define_chosen(const IndexArgs *args, const IndexRow *row, const float *k, int dim, int *expected) {
    float scores[MAX_POSITIONS];
    int n = row->position + 1, at = 0;
    for (int p = 0; p < n; p++) scores[p] = define_score(args, row, k + p * dim, dim);
    for (int p = 0; p < n; p++)
        if (define_choice(scores, n, args->n_chosen, p)) expected[at++] = p;
    assert_int_equal(at, count_chosen(args, row));
}

/* Small whole numbers, so that equal scores, and zeros, are common. */
static void fill(float *x, int n, int most) {
    for (int i = 0; i < n; i++) x[i] = (float)(random_below(2 * most + 1) - most);
}

static void the_best_positions_are_chosen(void **state) {
    (void)state;
    Pool *pool = pool_new(2, NULL);
    for (int round = 0; round < 60; round++) {
        int n = 1 + random_below(MAX_POSITIONS), dim = 1 + random_below(40), heads = 1 + random_below(40);
        IndexArgs args = {.n_heads = heads, .n_chosen = 1 + random_below(n + 3), .scale = 0.25f};
        float *k = mem_array((size_t)(n * dim), sizeof *k), *q = mem_array((size_t)(n * heads * dim), sizeof *q);
        float *weights = mem_array((size_t)(n * heads), sizeof *weights);
        int *chosen = mem_array((size_t)(n * args.n_chosen), sizeof *chosen);
        int *expected = mem_array((size_t)(n * args.n_chosen), sizeof *expected);
        IndexRow *rows = mem_zeroed((size_t)n, sizeof *rows);
        Cache c;
        fill(k, n * dim, 1 + round % 3);
        fill(q, n * heads * dim, 1);
        fill(weights, n * heads, 2);
        for (int r = 0; r < n; r++) {
            rows[r] = (IndexRow){.view = &c.view,
                                 .position = r,
                                 .q = q + r * heads * dim,
                                 .weights = weights + r * heads,
                                 .chosen = chosen + r * args.n_chosen};
            define_chosen(&args, &rows[r], k, dim, expected + r * args.n_chosen);
        }
        for (int t = 0; t < n_kernel_tables; t++) {
            Arena arena;
            if (!kernel_tables[t]->supported()) continue;
            kernels_use(kernel_tables[t]);
            arena_init(&arena);
            cache_fill(&c, dim, k, n);
            memset(chosen, 0xFF, (size_t)(n * args.n_chosen) * sizeof *chosen);
            assert_true(index_choose(&args, rows, n, pool, &arena));
            for (int r = 0; r < n; r++)
                assert_memory_equal(rows[r].chosen, expected + r * args.n_chosen,
                                    (size_t)count_chosen(&args, &rows[r]) * sizeof *expected);
            cache_clear(&c, n);
            arena_clear(&arena);
        }
        mem_free(k), mem_free(q), mem_free(weights), mem_free(chosen), mem_free(expected), mem_free(rows);
    }
    pool_free(pool);
}

/* Blocks of 2 of 7 positions, of which 2 are kept: the last, and that of the best score; then only these compete. */
static void blocks_of_candidates_compete(void **state) {
    (void)state;
    Pool *pool = pool_new(1, NULL);
    Arena arena;
    Cache c;
    float k[7] = {5, 1, 2, 9, 8, 4, 3}, q = 1, weight = 1;
    int chosen[2] = {-1, -1}, kept[2] = {-1, -1}, given[2] = {0, 3};
    arena_init(&arena);
    cache_fill(&c, 1, k, 7);
    IndexArgs args = {.n_heads = 1, .n_chosen = 2, .scale = 1, .block = 2, .n_candidates = 2};
    IndexRow row = {.view = &c.view, .position = 6, .q = &q, .weights = &weight, .chosen = chosen, .keep = kept};
    assert_true(index_choose(&args, &row, 1, pool, &arena));
    assert_int_equal(chosen[0], 3);
    assert_int_equal(chosen[1], 4); /* keeping limits others only */
    assert_int_equal(kept[0], 1);
    assert_int_equal(kept[1], 3);
    row.keep = NULL;
    row.candidates = given;
    assert_true(index_choose(&args, &row, 1, pool, &arena));
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 6);
    cache_clear(&c, 7);
    arena_clear(&arena);
    pool_free(pool);
}

/* Blocks of 3 of 11 positions: the last is seen whatever it scores, and of the others the best, all their positions. */
static void whole_blocks_are_chosen(void **state) {
    (void)state;
    Pool *pool = pool_new(1, NULL);
    Arena arena;
    Cache c;
    float k[11] = {1, 1, 5, 2, 9, 0, 7, 7, 7, -8, -9}, up = 1, down = -1;
    int lists[3][9];
    arena_init(&arena);
    cache_fill(&c, 1, k, 11);
    BlockArgs args = {.block = 3, .n_chosen = 2, .n_local = 1};
    BlockRow rows[3] = {{.view = &c.view, .position = 10, .q = &up, .positions = lists[0]},
                        {.view = &c.view, .position = 10, .q = &down, .positions = lists[1]},
                        {.view = &c.view, .position = 6, .q = &up, .positions = lists[2]}};
    assert_true(index_blocks(&args, rows, 3, pool, &arena));
    static const int expected[3][5] = {{3, 4, 5, 9, 10}, {3, 4, 5, 9, 10}, {3, 4, 5, 6}};
    assert_int_equal(rows[0].n, 5);
    assert_int_equal(rows[1].n, 5); /* -0 of position 5 beats -1 of position 0 */
    assert_int_equal(rows[2].n, 4);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < rows[r].n; i++) assert_int_equal(lists[r][i], expected[r][i]);
    cache_clear(&c, 11);
    arena_clear(&arena);
    pool_free(pool);
}

/* Infinite weights times nothing is no number: the worst score, and of the lower position where all are. */
static void a_score_that_is_no_number_is_the_worst(void **state) {
    (void)state;
    Pool *pool = pool_new(1, NULL);
    Arena arena;
    Cache c;
    float k[4] = {-1, 0, 1, -2}, q = 1, weight = INFINITY;
    int chosen[2] = {-1, -1};
    arena_init(&arena);
    cache_fill(&c, 1, k, 4);
    IndexArgs args = {.n_heads = 1, .n_chosen = 2, .scale = 1};
    IndexRow row = {.view = &c.view, .position = 3, .q = &q, .weights = &weight, .chosen = chosen};
    assert_true(index_choose(&args, &row, 1, pool, &arena));
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 2);
    cache_clear(&c, 4);
    arena_clear(&arena);
    pool_free(pool);
}

int main(void) {
    tables_print();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_positions_are_chosen),
        cmocka_unit_test(blocks_of_candidates_compete),
        cmocka_unit_test(whole_blocks_are_chosen),
        cmocka_unit_test(a_score_that_is_no_number_is_the_worst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
