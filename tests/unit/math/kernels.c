/* Every instruction set of this machine against the scalar definition, byte for byte, on random shapes with zeros,
 * denormals and large values among the inputs; and the scalar kernels against the formats' definition in double. */
#include "base/memory.h"
#include "math/attend.h"
#include "math/format_read.h"
#include "math/kernel_table.h"
#include "math/linear.h"
#include "math/ops.h"
#include "support/random.h"
#include "support/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A weight matrix with random codes and modest scales. */
typedef struct Matrix {
    WeightSource source;
    uint8_t *codes, *scales, *biases, *d, *dmin;
} Matrix;

static void put_u16(uint8_t *p, size_t i, uint16_t v) {
    memcpy(p + 2 * i, &v, 2);
}

static Matrix random_matrix(WeightFormat format, int bits, int group, ScaleType type, int rows, int cols) {
    Matrix m = {
        .source = {.format = format, .bits = bits, .group = group, .rows = rows, .cols = cols, .scale_type = type}};
    WeightRowBytes bytes;
    Error err;
    assert_true(weight_row_bytes(&m.source, &bytes, &err));
    size_t n_codes = (size_t)rows * bytes.codes, n_scales = (size_t)rows * bytes.scales, n_d = (size_t)rows * bytes.d;
    m.codes = mem_zeroed(n_codes + 64, 1);
    m.scales = mem_zeroed(n_scales + 64, 1);
    m.biases = mem_zeroed(n_scales + 64, 1);
    m.d = mem_zeroed(n_d + 64, 1);
    m.dmin = mem_zeroed(n_d + 64, 1);
    for (size_t i = 0; i < n_codes; i++) m.codes[i] = (uint8_t)random_u32();
    if (!format_is_integer(format)) { /* floats of modest size; E4M3 codes without NaN */
        for (size_t i = 0; i < n_codes / 4 && format == WEIGHT_F32; i++) {
            float f = random_float();
            memcpy(m.codes + 4 * i, &f, 4);
        }
        for (size_t i = 0; i < n_codes / 2 && format == WEIGHT_F16; i++)
            put_u16(m.codes, i, (uint16_t)(random_u32() & 0xBFFF));
        for (size_t i = 0; i < n_codes / 2 && format == WEIGHT_BF16; i++)
            put_u16(m.codes, i, (uint16_t)((random_u32() & 0x80FF) | 0x3F00));
        for (size_t i = 0; i < n_codes && format == WEIGHT_MXFP8; i++)
            if ((m.codes[i] & 0x7F) == 0x7F) m.codes[i] = 0x12;
    }
    for (size_t i = 0; i < n_scales; i++) {
        m.scales[i] = (uint8_t)random_u32();
        if (format == WEIGHT_MXFP4 || format == WEIGHT_MXFP8) m.scales[i] = (uint8_t)(120 + random_below(12));
        if (format == WEIGHT_NVFP4) m.scales[i] = (uint8_t)random_below(0x7F);
    }
    if (format == WEIGHT_AFFINE && type == SCALE_F32)
        for (size_t i = 0; i < n_scales / 4; i++) {
            float s = random_float() * 0.01f, b = random_float() * 0.1f;
            memcpy(m.scales + 4 * i, &s, 4);
            memcpy(m.biases + 4 * i, &b, 4);
        }
    else if (format == WEIGHT_AFFINE)
        for (size_t i = 0; i < n_scales / 2; i++) {
            uint16_t base = type == SCALE_F16 ? 0x2000 : 0x3C00;
            put_u16(m.scales, i, (uint16_t)(base + random_below(0x300)));
            put_u16(m.biases, i, (uint16_t)((base + random_below(0x300)) | 0x8000));
        }
    for (size_t i = 0; i < n_d / 2; i++) {
        put_u16(m.d, i, (uint16_t)(0x1000 + random_below(0x300)));
        put_u16(m.dmin, i, (uint16_t)(0x1000 + random_below(0x300)));
    }
    m.source.codes = m.codes, m.source.scales = m.scales, m.source.biases = m.biases;
    m.source.d = m.d, m.source.dmin = m.dmin;
    return m;
}

static void matrix_clear(Matrix *m) {
    mem_free(m->codes);
    mem_free(m->scales);
    mem_free(m->biases);
    mem_free(m->d);
    mem_free(m->dmin);
}

static void run_linear(const Linear *w, const float *x, int rows, int bits, Pool *pool, float *y, uint8_t *bad) {
    Arena arena;
    arena_init(&arena);
    Activations *a = activations_new(&arena, x, rows, linear_cols(w), bits);
    assert_true(linear_apply(&(LinearJob){w, y}, 1, a, pool, &arena));
    for (int r = 0; r < rows; r++) bad[r] = activations_bad(a, r);
    arena_clear(&arena);
}

typedef struct Case {
    WeightFormat format;
    int bits, group;
    ScaleType type;
} Case;

static const Case cases[] = {
    {WEIGHT_AFFINE, 2, 64, SCALE_BF16}, {WEIGHT_AFFINE, 3, 32, SCALE_F16},  {WEIGHT_AFFINE, 4, 32, SCALE_F16},
    {WEIGHT_AFFINE, 4, 64, SCALE_BF16}, {WEIGHT_AFFINE, 4, 128, SCALE_F32}, {WEIGHT_AFFINE, 5, 64, SCALE_BF16},
    {WEIGHT_AFFINE, 6, 32, SCALE_BF16}, {WEIGHT_AFFINE, 8, 128, SCALE_F16}, {WEIGHT_AFFINE, 8, 32, SCALE_F32},
    {WEIGHT_MXFP4, 0, 0, SCALE_F32},    {WEIGHT_NVFP4, 0, 0, SCALE_F32},    {WEIGHT_Q2_K, 0, 0, SCALE_F32},
    {WEIGHT_Q3_K, 0, 0, SCALE_F32},     {WEIGHT_Q4_K, 0, 0, SCALE_F32},     {WEIGHT_Q5_K, 0, 0, SCALE_F32},
    {WEIGHT_Q6_K, 0, 0, SCALE_F32},     {WEIGHT_F32, 0, 0, SCALE_F32},      {WEIGHT_F16, 0, 0, SCALE_F32},
    {WEIGHT_BF16, 0, 0, SCALE_F32},     {WEIGHT_MXFP8, 0, 0, SCALE_F32},
};

static int random_cols(const Case *c) {
    Matrix probe = {.source = {.format = c->format, .bits = c->bits, .group = c->group}};
    int step = format_is_k(c->format) ? 256 : format_group(&probe.source);
    if (step == 0) return 1 + random_below(150);
    return step * (1 + random_below(step >= 128 ? 3 : 9));
}

static void check_isas(const Linear *w, const float *x, int rows, int bits, Pool *pool, const char *name) {
    size_t n = (size_t)rows * (size_t)linear_rows(w);
    float *expected = mem_array(n, sizeof *expected), *y = mem_array(n, sizeof *y);
    uint8_t *bad = mem_array((size_t)rows, 1), *bad2 = mem_array((size_t)rows, 1);
    kernels_use(&kernels_scalar);
    run_linear(w, x, rows, bits, pool, expected, bad);
    for (int t = 0; t < n_tables; t++) {
        if (!tables[t]->supported()) continue;
        char what[128];
        snprintf(what, sizeof what, "%s %s %d rows [%d, %d] %d-bit", tables[t]->name, name, rows, linear_rows(w),
                 linear_cols(w), bits);
        kernels_use(tables[t]);
        memset(y, 0x55, n * sizeof *y);
        run_linear(w, x, rows, bits, pool, y, bad2);
        assert_memory_equal(bad, bad2, rows);
        for (int r = 0; r < rows; r++)
            if (!bad[r])
                assert_floats_equal(expected + (size_t)r * (size_t)linear_rows(w),
                                    y + (size_t)r * (size_t)linear_rows(w), (size_t)linear_rows(w), what);
    }
    mem_free(expected);
    mem_free(y);
    mem_free(bad);
    mem_free(bad2);
}

static void linears_give_the_same_bytes_on_every_isa(void **state) {
    (void)state;
    Error err;
    Pool *pool = pool_new(2, &err);
    static const int row_counts[] = {1, 2, 3, 4, 5, 6, 7, 13};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int round = 0; round < 4; round++) {
            const Case *c = &cases[i];
            int rows = row_counts[random_below(8)], outputs = 1 + random_below(70), cols = random_cols(c);
            Matrix m = random_matrix(c->format, c->bits, c->group, c->type, outputs, cols);
            float *bias = round % 2 ? random_floats((size_t)outputs) : NULL;
            Linear *w = linear_new(&m.source, bias, pool, &err);
            assert_non_null(w);
            float *x = random_floats((size_t)rows * (size_t)cols);
            if (round == 3) x[random_below(rows * cols)] = random_below(2) ? NAN : -INFINITY;
            char name[64];
            weight_format_name(&m.source, name, sizeof name);
            check_isas(w, x, rows, 16, pool, name);
            check_isas(w, x, rows, 8, pool, name);
            linear_free(w);
            mem_free(x);
            mem_free(bias);
            matrix_clear(&m);
        }
    pool_free(pool);
}

/* The tile's embedding row equals the format's definition bit for bit, and the 16-bit product is near the exact one. */
static void linears_follow_the_formats_definition(void **state) {
    (void)state;
    Error err;
    Pool *pool = pool_new(1, &err);
    assert_true(kernels_select(NULL, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        int outputs = 37, cols = random_cols(c);
        Matrix m = random_matrix(c->format, c->bits, c->group, c->type, outputs, cols);
        Linear *w = linear_new(&m.source, NULL, pool, &err);
        float *x = mem_array((size_t)cols, sizeof *x), *row = mem_array((size_t)cols, sizeof *row), y[37];
        float *mine = mem_array((size_t)cols, sizeof *mine);
        for (int k = 0; k < cols; k++) x[k] = (float)(int32_t)random_u32() * 0x1p-31f;
        uint8_t bad;
        run_linear(w, x, 1, 16, pool, y, &bad);
        for (int o = 0; o < outputs; o++) {
            double exact = 0, size = 0;
            weight_row(&m.source, o, row);
            linear_row(w, o, mine);
            assert_floats_equal(row, mine, (size_t)cols, "embedding row");
            for (int k = 0; k < cols; k++) {
                exact += (double)row[k] * (double)x[k];
                size += fabs((double)row[k]) * 4; /* cancelling scale and bias terms are larger than their sum */
            }
            assert_true(fabs(exact - (double)y[o]) <= size * 3e-5 + 1e-30);
        }
        linear_free(w);
        mem_free(x);
        mem_free(row);
        mem_free(mine);
        matrix_clear(&m);
    }
    pool_free(pool);
}

/* Groups ascend and each adds fma(I, a * scale) then fma(bias, a * sum): two groups worked by hand. */
static void two_groups_by_hand(void **state) {
    (void)state;
    Error err;
    Pool *pool = pool_new(1, &err);
    uint8_t codes[32] = {0};
    for (int i = 0; i < 32; i++) codes[i] = 0x21; /* codes 1, 2, 1, 2, ... */
    float scales[2] = {0.5f, 0.25f}, biases[2] = {-1.0f, 2.0f}, x[64] = {0};
    x[0] = 1.0f, x[1] = -0.5f, x[33] = 2.0f;
    WeightSource s = {.format = WEIGHT_AFFINE,
                      .bits = 4,
                      .group = 32,
                      .rows = 1,
                      .cols = 64,
                      .codes = codes,
                      .scales = scales,
                      .biases = biases,
                      .scale_type = SCALE_F32};
    Linear *w = linear_new(&s, NULL, pool, &err);
    for (int t = 0; t < n_tables; t++) {
        if (!tables[t]->supported()) continue;
        float y;
        uint8_t bad;
        kernels_use(tables[t]);
        run_linear(w, x, 1, 16, pool, &y, &bad);
        /* group 0: X = 32512, -16256; I = 1*32512 - 2*16256 = 0; sum X = 16256, a = 1/32512: bias part -1 * 0.5
         * group 1: X = 32512, a = 2/32512: I = 2*32512 -> 2*2*0.25 = 1; bias part 2 * 2 = 4 */
        float a0 = 1.0f / 32512.0f, a1 = 2.0f / 32512.0f, acc = 0;
        acc = fmaf(0.0f, a0 * 0.5f, acc);
        acc = fmaf(-1.0f, a0 * 16256.0f, acc);
        acc = fmaf(65024.0f, a1 * 0.25f, acc);
        acc = fmaf(2.0f, a1 * 32512.0f, acc);
        assert_memory_equal(&acc, &y, 4);
        assert_true(fabsf(y - 4.5f) < 1e-5f);
    }
    linear_free(w);
    pool_free(pool);
}

static void float_dot_folds_lanes_as_defined(void **state) {
    (void)state;
    float w[37], x[37], lanes[16] = {0};
    for (int i = 0; i < 37; i++) w[i] = 1.0f / (float)(i + 1), x[i] = (float)(i % 7) - 2.5f;
    for (int i = 0; i < 37; i++) lanes[i % 16] = fmaf(x[i], w[i], lanes[i % 16]);
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lanes[j] += lanes[j + half];
    Error err;
    Pool *pool = pool_new(1, &err);
    WeightSource s = {.format = WEIGHT_F32, .rows = 1, .cols = 37, .codes = w};
    Linear *l = linear_new(&s, NULL, pool, &err);
    for (int t = 0; t < n_tables; t++) {
        if (!tables[t]->supported()) continue;
        float y;
        uint8_t bad;
        kernels_use(tables[t]);
        run_linear(l, x, 1, 16, pool, &y, &bad);
        assert_memory_equal(&lanes[0], &y, 4);
    }
    linear_free(l);
    pool_free(pool);
}

static void softmax_gives_the_same_bytes_on_every_isa(void **state) {
    (void)state;
    for (int round = 0; round < 30; round++) {
        int n = 1 + random_below(200);
        float *x = random_floats((size_t)n), p[2][200], lp[2];
        for (int t = 0; t < n_tables; t++) {
            if (!tables[t]->supported()) continue;
            for (int i = 0; i < 2; i++) {
                kernels_use(i ? tables[t] : &kernels_scalar);
                ops_softmax(x, p[i], n);
                lp[i] = ops_log_prob(x, n, n / 2);
            }
            assert_floats_equal(p[0], p[1], (size_t)n, tables[t]->name);
            assert_memory_equal(&lp[0], &lp[1], 4);
        }
        mem_free(x);
    }
}

static void exp_is_close_to_exp(void **state) {
    (void)state;
    Error err;
    assert_true(kernels_select(NULL, &err));
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        float x = -87.0f + 175.0f * (float)i / 200000.0f, e;
        kernels()->exp_sum(&x, 0, &e, 1);
        double error = fabs((double)e / exp((double)x) - 1);
        if (error > worst) worst = error;
    }
    assert_true(worst < 8.5e-8);
    float edge[4] = {-200.0f, 100.0f, 0.0f, -103.0f}, e[4];
    kernels()->exp_sum(edge, 0, e, 4);
    assert_true(e[0] == 0 && isinf(e[1]) && e[2] == 1.0f && e[3] > 0 && e[3] < 1e-44f);
}

/* ---- attention ---- */

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
        for (int t = 0; t < n_tables; t++) {
            if (!tables[t]->supported()) continue;
            kernels_use(&kernels_scalar);
            Cache c;
            cache_fill(&c, shape, k, v, n);
            int checked = n > 200 ? 12 : n; /* the last rows of a long one */
            for (int i = n - checked; i < n; i++)
                rows[i] = (AttendRow){&c.view, window && i >= window ? i - window + 1 : 0, i, q + qn * (size_t)i,
                                      expected + on * (size_t)i};
            for (int i = n - checked; i < n; i++) assert_true(attend(&args, &rows[i], 1, pools[0], &arena));
            cache_clear(&c, n);
            kernels_use(tables[t]);
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
                                on * (size_t)checked, tables[t]->name);
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
        cmocka_unit_test(two_groups_by_hand),
        cmocka_unit_test(float_dot_folds_lanes_as_defined),
        cmocka_unit_test(linears_follow_the_formats_definition),
        cmocka_unit_test(linears_give_the_same_bytes_on_every_isa),
        cmocka_unit_test(softmax_gives_the_same_bytes_on_every_isa),
        cmocka_unit_test(exp_is_close_to_exp),
        cmocka_unit_test(attention_is_softmax_of_scores_times_values),
        cmocka_unit_test(attention_gives_the_same_bytes_however_it_is_cut),
        cmocka_unit_test(a_non_finite_key_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
