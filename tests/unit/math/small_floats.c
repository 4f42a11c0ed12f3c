/* Rounding to small floats, on values worked by hand. */
#include "math/small_floats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect(const float *x, const float *expected, int n) {
    for (int i = 0; i < n; i++)
        if (x[i] != expected[i]) fail_msg("value %d is %.9g, expected %.9g", i, (double)x[i], (double)expected[i]);
}

/* The largest is 448, so the scale is 1: steps of 1/8 of the binade, halves to even, and 2^-9 below 2^-6. */
static void e4m3_keeps_three_bits(void **state) {
    float x[8] = {448, 17, 19, -1.0625f, 0.00293f, 0.0009f, 0, -430};
    const float expected[8] = {448, 16, 20, -1, 0.00390625f, 0, 0, -416};
    (void)state;
    small_floats_e4m3(x, 8, 8);
    expect(x, expected, 8);
}

/* 449 does not fit: the scale is 2. Blocks have scales of their own, of at least that of 1e-4. */
static void e4m3_scales_are_powers_of_two(void **state) {
    float x[6] = {449, 3, -447, 0.000001f, 0, -0.00005f};
    const float expected[6] = {448, 3, -448, 0.00000095367432f, 0, -0.000049591064f};
    (void)state;
    small_floats_e4m3(x, 6, 3);
    expect(x, expected, 6);
}

/* 0, 1/2, 1, 3/2, 2, 3, 4, 6; halves to even. */
static void e2m1_has_eight_magnitudes(void **state) {
    float x[12] = {6, 0.25f, 0.26f, 0.75f, -1.25f, 1.75f, 2.5f, 3.5f, 5, 5.01f, -0.2f, 0};
    const float expected[12] = {6, 0, 0.5f, 1, -1, 2, 2, 4, 4, 6, -0.0f, 0};
    (void)state;
    small_floats_e2m1(x, 12, 12);
    expect(x, expected, 12);
    float y[2] = {7, 1.5f}; /* scale 2 */
    small_floats_e2m1(y, 2, 2);
    expect(y, (float[]){8, 2}, 2);
}

/* 6.6 / 6 = 1.1 is 1.125 in e4m3; a block of nothing has the least scale. */
static void e2m1_scales_may_be_e4m3(void **state) {
    float x[4] = {6.6f, -1.6f, 0, 0};
    const float expected[4] = {6.75f, -1.6875f, 0, 0};
    (void)state;
    small_floats_e2m1_scaled(x, 4, 2);
    expect(x, expected, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e4m3_keeps_three_bits),
        cmocka_unit_test(e4m3_scales_are_powers_of_two),
        cmocka_unit_test(e2m1_has_eight_magnitudes),
        cmocka_unit_test(e2m1_scales_may_be_e4m3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
