/* Row-wise operations: activations, soft cap and norms against double on many points, and worked by hand; every
 * instruction set against the scalar definition, byte for byte. */
#include "math/ops.h"
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

static Pool *pool;

static double act_exact(Activation act, double x) {
    switch (act) {
    case ACT_NONE: return x;
    case ACT_SILU: return x / (1 + exp(-x));
    case ACT_GELU: return x * 0.5 * erfc(-x / sqrt(2.0));
    case ACT_GELU_TANH: return x / (1 + exp(-2 * sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case ACT_GELU_QUICK: return x / (1 + exp(-1.702 * x));
    case ACT_RELU: return x > 0 ? x : 0;
    case ACT_RELU2: return x > 0 ? x * x : 0;
    case ACT_SIGMOID: return 1 / (1 + exp(-x));
    case ACT_TANH: return tanh(x);
    case ACT_SOFTPLUS: return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
    case ACT_EXP: return exp(x);
    }
    return NAN;
}

/* Relative errors of the normal range, and what the argument of the exponential loses when it is large. */
static double act_tolerance(Activation act, double x) {
    double size = fabs(x), exponent = 0;
    if (act == ACT_GELU) exponent = x * x / 2;
    if (act == ACT_GELU_TANH) exponent = 2 * (size + 0.05 * size * size * size);
    if (act == ACT_GELU_QUICK) exponent = 1.702 * size;
    return 2.5e-7 + (x < 0 ? exponent * 2e-7 : 0);
}

static void activations_are_close_to_double(void **state) {
    (void)state;
    enum { N = 200001 };
    float *x = mem_array(N, sizeof *x), *y = mem_array(N, sizeof *y);
    for (int i = 0; i < N; i++) x[i] = -20.0f + 40.0f * (float)i / (N - 1); /* and towards zero: 2^-1 .. 2^-60 */
    for (int i = 0; i < 1200; i++) x[i * 100] = (i % 2 ? -1.0f : 1.0f) * exp2f(-(float)i / 20);
    for (int act = ACT_NONE; act <= ACT_EXP; act++) {
        double worst = 0, worst_absolute = 0;
        ops_act(pool, (Activation)act, x, y, 1, N);
        for (int i = 0; i < N; i++) {
            double exact = act_exact((Activation)act, (double)x[i]), error = fabs((double)y[i] - exact);
            if (error > worst_absolute && fabs(exact) <= 1) worst_absolute = error;
            if (fabs(exact) < 1e-37) continue;
            error /= fabs(exact) * act_tolerance((Activation)act, (double)x[i]);
            if (error > worst) worst = error;
        }
        printf("activation %d: relative error over tolerance %.2f, absolute error %.2g\n", act, worst, worst_absolute);
        assert_true(worst <= 1);
        assert_true(worst_absolute < 1.2e-7);
    }
    mem_free(x);
    mem_free(y);
}

static void activations_at_the_edges(void **state) {
    (void)state;
    float x[5] = {-INFINITY, -300.0f, 0.0f, 300.0f, 1e30f}, y[5];
    static const float expected[][3] = {/* of -300, 0 and 300 */
                                        [ACT_NONE] = {-300, 0, 300},    [ACT_SILU] = {0, 0, 300},
                                        [ACT_GELU] = {0, 0, 300},       [ACT_GELU_TANH] = {0, 0, 300},
                                        [ACT_GELU_QUICK] = {0, 0, 300}, [ACT_RELU] = {0, 0, 300},
                                        [ACT_RELU2] = {0, 0, 90000},    [ACT_SIGMOID] = {0, 0.5f, 1},
                                        [ACT_TANH] = {-1, 0, 1},        [ACT_SOFTPLUS] = {0, 0.693147181f, 300},
                                        [ACT_EXP] = {0, 1, INFINITY}};
    for (int act = ACT_NONE; act <= ACT_EXP; act++) {
        ops_act(pool, (Activation)act, x, y, 1, 5);
        for (int i = 0; i < 3; i++) assert_true(y[i + 1] == expected[act][i]);
        float nan = NAN;
        ops_act(pool, (Activation)act, &nan, y, 1, 1);
        assert_true(isnan(y[0]));
    }
    ops_act(pool, ACT_TANH, x, y, 1, 5);
    assert_true(y[0] == -1 && y[4] == 1);
    ops_act(pool, ACT_SIGMOID, x, y, 1, 5);
    assert_true(y[0] == 0 && y[4] == 1);
}

/* What a soft cap of 30 does to small logits is nothing, to 300 almost everything. */
static void softcap_keeps_small_values(void **state) {
    (void)state;
    enum { N = 4000 };
    float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (i % 2 ? -1.0f : 1.0f) * exp2f(-40.0f + (float)i * 0.0125f);
    ops_softcap(pool, x, 30.0f, y, 1, N);
    for (int i = 0; i < N; i++) {
        double exact = 30 * tanh((double)x[i] / 30);
        assert_true(fabs((double)y[i] / exact - 1) < 3e-7);
    }
    float one = 300.0f;
    ops_softcap(pool, &one, 30.0f, y, 1, 1);
    assert_true(fabsf(y[0] - 30.0f) < 1e-5f);
}

/* Against double, with the eps of a file in bf16. Below zero the result is a difference, but each part is small. */
static void xielu_is_close_to_double(void **state) {
    (void)state;
    enum { N = 40001 };
    float *x = mem_array(N, sizeof *x), *y = mem_array(N, sizeof *y);
    const XieluParams p = {0.3f, -1.25f, 0.5f, -0x1.0cp-20f};
    double up = log1p(exp((double)0.3f)), down = 0.5 + log1p(exp(-1.25));
    for (int i = 0; i < N; i++) x[i] = i % 2 ? -10.0f + 20.0f * (float)i / (N - 1) : -exp2f(-(float)i / 1000);
    ops_xielu(pool, &p, x, y, 1, N);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i], least = v < (double)p.eps ? v : (double)p.eps;
        double exact = v > 0 ? up * v * v + 0.5 * v : (expm1(least) - v) * down + 0.5 * v;
        if (fabs((double)y[i] - exact) > 3e-7 * (fabs(exact) + fabs(v))) fail_msg("xielu(%g) is %g", v, (double)y[i]);
    }
    float edges[2] = {NAN, 0};
    ops_xielu(pool, &p, edges, y, 1, 2);
    assert_true(isnan(y[0]) && fabsf(y[1]) < 2e-6f);
    mem_free(x);
    mem_free(y);
}

static void small_operations_by_hand(void **state) {
    (void)state;
    float x[3] = {1, 2, -3}, z[3] = {0.5f, -4, 8}, y[3];
    ops_scale(pool, x, 1.5f, y, 1, 3);
    assert_true(y[0] == 1.5f && y[1] == 3 && y[2] == -4.5f);
    ops_mul(pool, x, z, y, 1, 3);
    assert_true(y[0] == 0.5f && y[1] == -8 && y[2] == -24);
    ops_add_scaled(pool, x, z, 0.25f, y, 1, 3);
    assert_true(y[0] == 1.125f && y[1] == 1 && y[2] == -1);
    /* two roundings: 0.1f * 0.1f + -0.01f is not what one fma gives */
    float a = -0.01f, b = 0.1f, product = b * b;
    ops_add_scaled(pool, &a, &b, 0.1f, y, 1, 1);
    assert_true(y[0] == a + product && y[0] != fmaf(b, b, a));
    ops_act_mul(pool, ACT_RELU2, z, x, y, 1, 3);
    assert_true(y[0] == 0.25f && y[1] == 0 && y[2] == -192);
}

static void layer_norm_by_hand(void **state) {
    (void)state;
    float x[4] = {1, 2, 3, 6}, w[4] = {1, 2, 1, -1}, b[4] = {0, 1, 0, 0.5f}, y[4]; /* mean 3, variance 14 / 4 */
    ops_layer_norm(pool, x, NULL, NULL, 0.5f, y, 1, 4);                            /* sqrt(4) */
    assert_true(y[0] == -1 && y[1] == -0.5f && y[2] == 0 && y[3] == 1.5f);
    ops_layer_norm(pool, x, w, b, 0.5f, y, 1, 4);
    assert_true(y[0] == -1 && y[1] == 0 && y[2] == 0 && y[3] == -1);
    /* a large mean does not eat the variance */
    float far[4] = {1000001, 1000002, 1000003, 1000006};
    ops_layer_norm(pool, far, NULL, NULL, 0.5f, y, 1, 4);
    assert_true(y[0] == -1 && y[1] == -0.5f && y[2] == 0 && y[3] == 1.5f);
}

static void heads_have_their_own_weights(void **state) {
    (void)state;
    enum { ROWS = 70, HEADS = 3, DIM = 24, N = ROWS * HEADS * DIM };
    float x[N], y[N], w[HEADS * DIM], b[HEADS * DIM], one[DIM];
    for (int i = 0; i < N; i++) x[i] = random_float();
    for (int i = 0; i < HEADS * DIM; i++) w[i] = random_float(), b[i] = random_float();
    for (int kind = 0; kind < 2; kind++) {
        if (kind)
            ops_layer_norm_heads(pool, x, w, b, 1e-5f, y, ROWS, HEADS, DIM);
        else
            ops_rms_norm_heads(pool, x, w, 1e-5f, y, ROWS, HEADS, DIM);
        for (int r = 0; r < ROWS * HEADS; r++) {
            int h = r % HEADS;
            if (kind)
                ops_layer_norm(pool, x + r * DIM, w + h * DIM, b + h * DIM, 1e-5f, one, 1, DIM);
            else
                ops_rms_norm(pool, x + r * DIM, w + h * DIM, 1e-5f, one, 1, DIM);
            assert_memory_equal(one, y + r * DIM, sizeof one);
        }
    }
}

enum { KINDS = 8 + 2 * (ACT_EXP + 1) + 1 };

static void run_kind(int kind, const float *x, const float *z, const float *w, float *y, float *sum, int rows,
                     int cols) {
    switch (kind) {
    case 0: ops_rms_norm(pool, x, w, 1e-5f, y, rows, cols); return;
    case 1: ops_add_rms_norm(pool, x, z, sum, NULL, 1e-6f, y, rows, cols); return;
    case 2: ops_layer_norm(pool, x, w, z, 1e-5f, y, rows, cols); return;
    case 3: ops_add(pool, x, z, y, rows, cols); return;
    case 4: ops_mul(pool, x, z, y, rows, cols); return;
    case 5: ops_scale(pool, x, 0.3f, y, rows, cols); return;
    case 6: ops_add_scaled(pool, x, z, 0.3f, y, rows, cols); return;
    case 7: ops_softcap(pool, x, 2.5f, y, rows, cols); return;
    default: break;
    }
    if (kind == KINDS - 1) {
        ops_xielu(pool, &(XieluParams){0.2f, -0.4f, 0.5f, -1e-6f}, x, y, rows, cols);
        return;
    }
    Activation act = (Activation)((kind - 8) / 2);
    if (kind % 2)
        ops_act_mul(pool, act, x, z, y, rows, cols);
    else
        ops_act(pool, act, x, y, rows, cols);
}

/* Also each row alone against all rows together, and in place. */
static void every_isa_gives_the_same_bytes(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        int rows = 1 + random_below(5), cols = round < 30 ? 1 + random_below(200) : 5000;
        size_t n = (size_t)rows * (size_t)cols;
        float *x = random_floats(n), *z = random_floats(n), *w = random_floats((size_t)cols);
        float *expected = mem_array(n, 4), *sum = mem_array(n, 4), *y = mem_array(n, 4), *sum2 = mem_array(n, 4);
        for (int kind = 0; kind < KINDS; kind++) {
            kernels_use(&kernels_scalar);
            for (int r = 0; r < rows; r++) {
                size_t at = (size_t)r * (size_t)cols;
                run_kind(kind, x + at, kind == 2 ? z : z + at, w, expected + at, sum + at, 1, cols);
            }
            for (int t = 0; t < n_kernel_tables; t++) {
                if (!kernel_tables[t]->supported()) continue;
                kernels_use(kernel_tables[t]);
                memcpy(y, x, n * sizeof *y);
                run_kind(kind, y, z, w, y, sum2, rows, cols);
                assert_floats_equal(expected, y, n, kernel_tables[t]->name);
                if (kind == 1) assert_floats_equal(sum, sum2, n, kernel_tables[t]->name);
            }
        }
        float *all[] = {x, z, w, expected, sum, y, sum2};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
    }
    assert_true(kernels_select(NULL, NULL));
}

static void softmax_gives_the_same_bytes_on_every_isa(void **state) {
    (void)state;
    for (int round = 0; round < 30; round++) {
        int n = 1 + random_below(200);
        float *x = random_floats((size_t)n), p[2][200], lp[2];
        for (int t = 0; t < n_kernel_tables; t++) {
            if (!kernel_tables[t]->supported()) continue;
            for (int i = 0; i < 2; i++) {
                kernels_use(i ? kernel_tables[t] : &kernels_scalar);
                ops_softmax(x, p[i], n);
                lp[i] = ops_log_prob(x, n, n / 2);
            }
            assert_floats_equal(p[0], p[1], (size_t)n, kernel_tables[t]->name);
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

static int start(void **state) {
    (void)state;
    pool = pool_new(2, NULL);
    return pool && kernels_select(NULL, NULL) ? 0 : -1;
}

static int stop(void **state) {
    (void)state;
    pool_free(pool);
    return 0;
}

int main(void) {
    tables_print();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_close_to_double),
        cmocka_unit_test(activations_at_the_edges),
        cmocka_unit_test(softcap_keeps_small_values),
        cmocka_unit_test(xielu_is_close_to_double),
        cmocka_unit_test(small_operations_by_hand),
        cmocka_unit_test(layer_norm_by_hand),
        cmocka_unit_test(heads_have_their_own_weights),
        cmocka_unit_test(every_isa_gives_the_same_bytes),
        cmocka_unit_test(softmax_gives_the_same_bytes_on_every_isa),
        cmocka_unit_test(exp_is_close_to_exp),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
