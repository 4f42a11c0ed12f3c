/* Attention: against softmax in double, and every instruction set, thread count and cut of the rows against one row at
 * a time in scalar, byte for byte. */
#include "math/attend.h"
#include "base/memory.h"
#include "support/random.h"
#include "support/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Cache {
    KvView view;
    uint8_t *pages[32];
} Cache;

static void cache_fill(Cache *c, KvShape shape, const float *k, const float *v, int n) {
    c->view = (KvView){shape, c->pages};
    for (int p = 0; p * KV_PAGE < n; p++)
        c->pages[p] = mem_aligned(kv_page_bytes(&shape), 1), memset(c->pages[p], 0, kv_page_bytes(&shape));
    for (int i = 0; i < n; i++)
        assert_true(kv_write(&c->view, i, k + (size_t)i * (size_t)(shape.heads * shape.k_dim),
                             v + (size_t)i * (size_t)(shape.heads * shape.v_dim)));
}

static void cache_clear(Cache *c, int n) {
    for (int p = 0; p * KV_PAGE < n; p++) mem_free(c->pages[p]);
}

static void attention_gives_the_same_bytes_however_it_is_cut(void **state) {
    (void)state;
    Error err;
    Pool *pools[2] = {pool_new(1, &err), pool_new(2, &err)};
    Arena arena;
    arena_init(&arena);
    for (int round = 0; round < 24; round++) {
        KvShape shape = {(KvFormat)(round % 4), 1 + random_below(3), 8 * (1 + random_below(9)),
                         8 * (1 + random_below(9))};
        int group = 1 + random_below(4), heads = shape.heads * group, n = round < 20 ? 1 + random_below(180) : 1100,
            window = round % 3 ? 0 : 1 + random_below(40);
        size_t kn = (size_t)n * (size_t)(shape.heads * shape.k_dim),
               vn = (size_t)n * (size_t)(shape.heads * shape.v_dim);
        size_t qn = (size_t)(heads * shape.k_dim), on = (size_t)(heads * shape.v_dim);
        float *k = random_floats(kn), *v = random_floats(vn), *q = random_floats(qn * (size_t)n);
        for (size_t i = 0; i < kn; i++) k[i] = fminf(k[i], 3.0f);
        for (size_t i = 0; i < vn; i++) v[i] = fminf(v[i], 3.0f);
        for (size_t i = 0; i < qn * (size_t)n; i++) q[i] = fminf(q[i], 3.0f);
        float *expected = mem_zeroed(on * (size_t)n, 4), *out = mem_zeroed(on * (size_t)n, 4);
        float sinks[12] = {0.5f, -1, 2, 30, 0, 0, 1, 2, 3, 4, 5, 6};
        AttendArgs args = {heads, 0.125f, round % 2 ? sinks : NULL};
        AttendRow *rows = mem_zeroed((size_t)n, sizeof *rows);
        for (int t = 0; t < n_kernel_tables; t++) {
            if (!kernel_tables[t]->supported()) continue;
            kernels_use(&kernels_scalar);
            Cache c;
            cache_fill(&c, shape, k, v, n);
            int checked = n > 200 ? 12 : n; /* the last rows of a long one */
            for (int i = n - checked; i < n; i++)
                rows[i] = (AttendRow){&c.view, window && i >= window ? i - window + 1 : 0, i, q + qn * (size_t)i,
                                      expected + on * (size_t)i};
            for (int i = n - checked; i < n; i++) assert_true(attend(&args, &rows[i], 1, pools[0], &arena));
            cache_clear(&c, n);
            kernels_use(kernel_tables[t]);
            cache_fill(&c, shape, k, v, n);
            for (int i = n - checked; i < n; i++) rows[i].out = out + on * (size_t)i;
            for (int i = n - checked; i < n;) {
                int chunk = 1 + random_below(40);
                if (chunk > n - i) chunk = n - i;
                assert_true(attend(&args, &rows[i], chunk, pools[round % 2], &arena));
                i += chunk;
            }
            cache_clear(&c, n);
            assert_floats_equal(expected + on * (size_t)(n - checked), out + on * (size_t)(n - checked),
                                on * (size_t)checked, kernel_tables[t]->name);
        }
        mem_free(rows);
        mem_free(k);
        mem_free(v);
        mem_free(q);
        mem_free(expected);
        mem_free(out);
    }
    arena_clear(&arena);
    pool_free(pools[0]);
    pool_free(pools[1]);
}

static void attention_is_softmax_of_scores_times_values(void **state) {
    (void)state;
    Error err;
    Pool *pool = pool_new(1, &err);
    Arena arena;
    arena_init(&arena);
    assert_true(kernels_select(NULL, &err));
    enum { N = 700, D = 24 };
    static float k[N * D], v[N * D];
    float q[D], out[D];
    for (int i = 0; i < N * D; i++)
        k[i] = (float)(int32_t)random_u32() * 0x1p-31f, v[i] = (float)(int32_t)random_u32() * 0x1p-31f;
    for (int i = 0; i < D; i++) q[i] = (float)(int32_t)random_u32() * 0x1p-30f;
    static const double tolerance[] = {[KV_I16] = 2e-5, [KV_F32] = 1e-6, [KV_F16] = 1e-3, [KV_BF16] = 8e-3};
    for (int f = KV_I16; f <= KV_BF16; f++) {
        Cache c;
        cache_fill(&c, (KvShape){(KvFormat)f, 1, D, D}, k, v, N);
        int first = 3;
        AttendRow row = {&c.view, first, N - 1, q, out};
        assert_true(attend(&(AttendArgs){1, 0.3f, NULL}, &row, 1, pool, &arena));
        double total = 0, sum[D] = {0};
        for (int p = first; p < N; p++) {
            double s = 0;
            for (int d = 0; d < D; d++) s += (double)q[d] * (double)k[p * D + d];
            double e = exp(0.3 * s);
            total += e;
            for (int d = 0; d < D; d++) sum[d] += e * (double)v[p * D + d];
        }
        for (int d = 0; d < D; d++) assert_true(fabs(sum[d] / total - (double)out[d]) < tolerance[f]);
        cache_clear(&c, N);
    }
    arena_clear(&arena);
    pool_free(pool);
}

static void a_non_finite_key_is_refused(void **state) {
    (void)state;
    float k[16] = {1, 2, 3}, v[16] = {0};
    for (int f = KV_I16; f <= KV_BF16; f++) {
        Cache c;
        cache_fill(&c, (KvShape){(KvFormat)f, 1, 16, 16}, k, v, 1);
        float bad[16] = {0};
        bad[15] = NAN;
        assert_false(kv_write(&c.view, 1, bad, v));
        bad[15] = INFINITY;
        assert_false(kv_write(&c.view, 1, k, bad));
        bad[15] = 1e6f; /* past f16 only */
        assert_int_equal(kv_write(&c.view, 1, k, bad), f != KV_F16);
        cache_clear(&c, 1);
    }
}

int main(void) {
    tables_print();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_softmax_of_scores_times_values),
        cmocka_unit_test(attention_gives_the_same_bytes_however_it_is_cut),
        cmocka_unit_test(a_non_finite_key_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
