/* Linears: every instruction set of this machine against the scalar definition, byte for byte, on random shapes with
 * zeros, denormals and large values among the inputs; the scalar kernels against the formats' definition in double; and
 * many jobs over selected rows against one over all. */
#include "base/memory.h"
#include "math/format_read.h"
#include "math/linear.h"
#include "support/matrix.h"
#include "support/random.h"
#include "support/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void run_linear(const Linear *w, const float *x, int rows, int bits, Pool *pool, float *y, uint8_t *bad) {
    Arena arena;
    arena_init(&arena);
    Activations *a = activations_new(&arena, x, rows, linear_cols(w), bits);
    assert_true(linear_apply(&(LinearJob){w, a, y}, 1, pool, &arena));
    for (int r = 0; r < rows; r++) bad[r] = activations_bad(a, r);
    arena_clear(&arena);
}

static void check_isas(const Linear *w, const float *x, int rows, int bits, Pool *pool, const char *name) {
    size_t n = (size_t)rows * (size_t)linear_rows(w);
    float *expected = mem_array(n, sizeof *expected), *y = mem_array(n, sizeof *y);
    uint8_t *bad = mem_array((size_t)rows, 1), *bad2 = mem_array((size_t)rows, 1);
    kernels_use(&kernels_scalar);
    run_linear(w, x, rows, bits, pool, expected, bad);
    for (int t = 0; t < n_kernel_tables; t++) {
        if (!kernel_tables[t]->supported()) continue;
        char what[128];
        snprintf(what, sizeof what, "%s %s %d rows [%d, %d] %d-bit", kernel_tables[t]->name, name, rows, linear_rows(w),
                 linear_cols(w), bits);
        kernels_use(kernel_tables[t]);
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
    /* a band of 8 is whole, partial or followed by another; past 48 rows the loop is another one (kernels_avx512.c),
     * past 12 or 31 with AMX, whose squares of 32 rows are whole, partial or half; past 12 with AVX2, and 256 rows go
     * over a chunk together */
    static const int row_counts[] = {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 21, 32, 43, 48, 50, 64, 77, 260};
    enum { N_COUNTS = sizeof row_counts / sizeof *row_counts };
    for (size_t i = 0; i < (size_t)n_matrix_cases; i++)
        for (int round = 0; round < 4; round++) {
            const MatrixCase *c = &matrix_cases[i];
            int rows = round ? row_counts[random_below(N_COUNTS)] : 8, outputs = 1 + random_below(70),
                cols = random_cols(c);
            Matrix m = random_matrix(c, outputs, cols);
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

/* The largest codes and activations there are, nearly all of one sign: sums of products, and whatever a kernel makes of
 * them on the way, stay exact. */
static void largest_numbers_give_the_same_bytes(void **state) {
    (void)state;
    Error err;
    Pool *pool = pool_new(1, &err);
    static const int row_counts[] = {1, 9, 29, 70};
    for (size_t i = 0; i < (size_t)n_matrix_cases * 4; i++) {
        const MatrixCase *c = &matrix_cases[i / 4];
        if (!format_is_integer(c->format)) continue;
        int rows = row_counts[i % 4], outputs = 35, cols = random_cols(c);
        Matrix m = random_matrix(c, outputs, cols);
        WeightRowBytes bytes;
        assert_true(weight_row_bytes(&m.source, &bytes, &err));
        for (size_t k = 0; k < (size_t)outputs * bytes.codes; k++) m.codes[k] = random_below(9) ? 0xFF : 0;
        Linear *w = linear_new(&m.source, NULL, pool, &err);
        assert_non_null(w);
        float *x = mem_array((size_t)rows * (size_t)cols, sizeof *x);
        for (int k = 0; k < rows * cols; k++) x[k] = (k / cols % 2 ? 1.0f : -1.0f) * (random_below(9) ? 3.0f : -3.0f);
        check_isas(w, x, rows, 16, pool, "largest");
        check_isas(w, x, rows, 8, pool, "largest");
        linear_free(w);
        mem_free(x);
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
    for (size_t i = 0; i < (size_t)n_matrix_cases; i++) {
        const MatrixCase *c = &matrix_cases[i];
        int outputs = 37, cols = random_cols(c);
        Matrix m = random_matrix(c, outputs, cols);
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
    for (int t = 0; t < n_kernel_tables; t++) {
        if (!kernel_tables[t]->supported()) continue;
        float y;
        uint8_t bad;
        kernels_use(kernel_tables[t]);
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
    for (int t = 0; t < n_kernel_tables; t++) {
        if (!kernel_tables[t]->supported()) continue;
        float y;
        uint8_t bad;
        kernels_use(kernel_tables[t]);
        run_linear(l, x, 1, 16, pool, &y, &bad);
        assert_memory_equal(&lanes[0], &y, 4);
    }
    linear_free(l);
    pool_free(pool);
}

/* Jobs of several matrices over random selections of rows, as routed experts have them: each output row is what the
 * whole gives for that row. */
static void selected_rows_give_the_same_bytes(void **state) {
    (void)state;
    enum { JOBS = 12, ROWS = 50, OUTPUTS = 40 };
    Pool *pool = pool_new(2, NULL);
    for (int round = 0; round < 2 * n_matrix_cases; round++) {
        int total = round % 3 ? 9 : ROWS; /* a kernel may lay out many rows otherwise than few */
        const MatrixCase *c = &matrix_cases[round / 2],
                         *d = round % 4 < 2 ? c : &matrix_cases[(round / 2 + 7) % n_matrix_cases];
        int cols = c == d ? random_cols(c) : 256, bits = round % 2 ? 8 : 16, n[JOBS], rows[JOBS][2 * ROWS];
        float *x = random_floats((size_t)total * (size_t)cols), *whole = mem_array(ROWS * OUTPUTS, 4);
        float *y = mem_array((size_t)JOBS * 2 * ROWS * OUTPUTS, 4);
        x[3 * cols] = NAN;
        Matrix m[2] = {random_matrix(c, OUTPUTS, cols), random_matrix(d, OUTPUTS - 7, cols)};
        Linear *w[2] = {linear_new(&m[0].source, NULL, pool, NULL), linear_new(&m[1].source, NULL, pool, NULL)};
        kernels_use(kernel_tables[round % n_kernel_tables]->supported() ? kernel_tables[round % n_kernel_tables]
                                                                        : &kernels_scalar);
        Arena arena;
        arena_init(&arena);
        Activations *all = activations_new(&arena, x, total, cols, bits);
        LinearJob jobs[JOBS];
        for (int j = 0; j < JOBS; j++) {
            n[j] = random_below(2 * total);
            int first = random_below(total);
            for (int i = 0; i < n[j]; i++) rows[j][i] = random_below(total);
            if (j % 3 == 0) n[j] = total - first;
            for (int i = 0; j % 3 == 0 && i < n[j]; i++) rows[j][i] = first + i;
            jobs[j] = (LinearJob){w[j % 2], activations_select(&arena, all, rows[j], n[j]), y + j * 2 * ROWS * OUTPUTS};
            assert_non_null(jobs[j].x);
        }
        /* every other row of a selection is a selection of the whole */
        int evens[ROWS], n_even = (n[1] + 1) / 2;
        for (int i = 0; i < n_even; i++) evens[i] = 2 * i;
        jobs[2] = (LinearJob){w[0], activations_select(&arena, jobs[1].x, evens, n_even), jobs[2].y};
        n[2] = n_even;
        for (int i = 0; i < n_even; i++) rows[2][i] = rows[1][2 * i];
        jobs[4] = (LinearJob){w[0], jobs[3].x, jobs[4].y}; /* both matrices, perhaps of two group sizes, share one */
        n[4] = n[3];
        memcpy(rows[4], rows[3], sizeof rows[3]);
        assert_true(linear_apply(jobs, JOBS, pool, &arena));
        for (int k = 0; k < 2; k++) {
            uint8_t bad[ROWS];
            int outputs = linear_rows(w[k]);
            run_linear(w[k], x, total, bits, pool, whole, bad);
            for (int j = 0; j < JOBS; j++)
                for (int i = 0; i < n[j] && jobs[j].w == w[k]; i++) {
                    int row = rows[j][i];
                    assert_int_equal(activations_bad(jobs[j].x, i), row == 3);
                    if (row != 3)
                        assert_floats_equal(whole + row * outputs, jobs[j].y + i * outputs, (size_t)outputs,
                                            "selected");
                }
        }
        arena_clear(&arena);
        for (int k = 0; k < 2; k++) linear_free(w[k]), matrix_clear(&m[k]);
        mem_free(x);
        mem_free(y);
        mem_free(whole);
    }
    pool_free(pool);
}

int main(void) {
    tables_print();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_groups_by_hand),
        cmocka_unit_test(float_dot_folds_lanes_as_defined),
        cmocka_unit_test(largest_numbers_give_the_same_bytes),
        cmocka_unit_test(linears_follow_the_formats_definition),
        cmocka_unit_test(linears_give_the_same_bytes_on_every_isa),
        cmocka_unit_test(selected_rows_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
