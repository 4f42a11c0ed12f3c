/* Pooling: every mode over rows worked out by hand, the prompt's rows left out, and length 1. */
#include "math/pooling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { DIMS = 2, ROWS = 4 };

static const float rows[ROWS][DIMS] = {{8, -1}, {1, 2}, {-3, 4}, {5, 0}};

/* Rows [first, ROWS) into out. */
static void pool(const PoolSpec *spec, int first, float *out) {
    float sums[64 * DIMS];
    Pooling p = {spec, DIMS, first, ROWS, sums};
    assert_true(pooling_floats(DIMS) <= sizeof sums / sizeof *sums);
    pooling_begin(&p);
    for (int r = 0; r < ROWS; r++)
        if (pooling_wants(spec, first, ROWS, r)) pooling_add(&p, r, rows[r]);
    pooling_finish(&p, out);
}

static void check(PoolMode mode, int first, float x, float y) {
    PoolSpec spec = {{mode}, 1};
    float out[DIMS];
    pool(&spec, first, out);
    assert_float_equal(out[0], x, 1e-6f);
    assert_float_equal(out[1], y, 1e-6f);
}

static void each_mode_is_what_it_says(void **state) {
    (void)state;
    check(POOL_FIRST, 0, 8, -1);
    check(POOL_MAX, 0, 8, 4);
    check(POOL_MEAN, 0, 2.75f, 1.25f);
    check(POOL_MEAN_SQRT, 0, 5.5f, 2.5f);
    check(POOL_WEIGHTED, 0, 2.1f, 1.5f); /* (8 + 2 - 9 + 20) / 10, (-1 + 4 + 12) / 10 */
    check(POOL_LAST, 0, 5, 0);
}

/* Weights stay those of the whole text's positions. */
static void a_prompt_is_left_out(void **state) {
    (void)state;
    check(POOL_FIRST, 1, 1, 2);
    check(POOL_MAX, 1, 5, 4);
    check(POOL_MEAN, 1, 1, 2);
    check(POOL_WEIGHTED, 1, 13 / 9.0f, 16 / 9.0f);
}

static void several_modes_follow_one_another(void **state) {
    PoolSpec spec = {{POOL_LAST, POOL_FIRST}, 2};
    float out[2 * DIMS];
    (void)state;
    pool(&spec, 0, out);
    assert_float_equal(out[0], 5, 0);
    assert_float_equal(out[2], 8, 0);
    assert_false(pooling_wants(&spec, 0, ROWS, 1));
    assert_true(pooling_wants(&spec, 0, ROWS, 3));
}

static void vectors_get_length_1(void **state) {
    const float x[] = {3, -4}, zero[] = {0, 0};
    float y[2];
    (void)state;
    pooling_unit(x, y, 2);
    assert_float_equal(y[0], 0.6f, 1e-7f);
    assert_float_equal(y[1], -0.8f, 1e-7f);
    pooling_unit(zero, y, 2);
    assert_float_equal(y[0], 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mode_is_what_it_says), cmocka_unit_test(a_prompt_is_left_out),
        cmocka_unit_test(several_modes_follow_one_another), cmocka_unit_test(vectors_get_length_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
