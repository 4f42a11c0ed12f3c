/* Rotary tables and rotation: our sin, cos, pow and log against mpmath (200 bits, rounded once), rotations by hand. */
#include "math/rope.h"
#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void sine_and_cosine_round_to_the_nearest_float(void **state) {
    static const struct {
        double angle;
        float sine, cosine;
    } cases[] = {
        /* angles are floats: among them multiples of pi/2 as near as floats come, and positions near 10^8 */
        {0.0, 0.0f, 0x1p+0f},
        {1.0000000031710769e-30, 0x1.4484cp-100f, 0x1p+0f},
        {1.0, 0x1.aed548p-1f, 0x1.14a28p-1f},
        {0.10000000149011612, 0x1.98eaeep-4f, 0x1.fd713p-1f},
        {0.785398006439209, 0x1.6a09e2p-1f, 0x1.6a09eap-1f},
        {1.5707963705062866, 0x1p+0f, -0x1.777a5cp-25f},
        {3.1415927410125732, -0x1.777a5cp-24f, -0x1p+0f},
        {-2.5, -0x1.326afp-1f, -0x1.9a2f7ep-1f},
        {100.0, -0x1.03425cp-1f, 0x1.b981dcp-1f},
        {1234.5670166015625, 0x1.42d2ecp-4f, -0x1.fe6846p-1f},
        {31415.92578125, -0x1.8ba72p-11f, 0x1.fffff6p-1f},
        {131071.0, -0x1.268614p-1f, -0x1.a2cebcp-1f},
        {614.2381591796875, -0x1.ff2ca8p-1f, 0x1.d10492p-5f},
        {1115.265380859375, 0x1.76a2a2p-17f, -0x1p+0f},
        {16777216.0, -0x1.8f22f8p-1f, 0x1.40ad68p-1f},
        {100000000.0, 0x1.dcffcap-1f, -0x1.741b38p-2f},
        {96962736.0, -0x1.fc023ep-1f, -0x1.fe7126p-4f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double s, c;
        rope_sin_cos(cases[i].angle, &s, &c);
        assert_true((float)s == cases[i].sine);
        assert_true((float)c == cases[i].cosine);
    }
}

static void powers_round_to_the_nearest_float(void **state) {
    static const struct {
        double base, exponent;
        float power;
    } cases[] = {
        {10000.0, 2.0 * 1 / 64, 0x1.5561aap+0f},      {10000.0, 2.0 * 15 / 64, 0x1.2bf52ap+6f},
        {10000.0, 2.0 * 31 / 64, 0x1.d4af12p+12f},    {500000.0, 2.0 * 7 / 16, 0x1.7ac16p+16f},
        {1000000.0, 2.0 * 63 / 128, 0x1.897a46p+19f}, {100000.0, 2.0 * 4 / 16, 0x1.3c3a4ep+8f},
        {10000.0, 2.0 * 8 / 32, 0x1.9p+6f},           {500000.0, 2.0 * 19 / 80, 0x1.fd57eep+8f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true((float)rope_pow(cases[i].base, cases[i].exponent) == cases[i].power);
    assert_true(rope_pow(10000.0, 0.0) == 1.0);
}

static void logarithms_are_within_two_units_in_the_last_place(void **state) {
    static const double cases[][2] = {{2, 0x1.62e42fefa39efp-1},     {0.5, -0x1.62e42fefa39efp-1},
                                      {10000, 0x1.26bb1bbb55516p+3}, {1e-5, -0x1.7069e2aa2aa5bp+3},
                                      {32, 0x1.bb9d3beb8c86bp+1},    {1.0000001, 0x1.ad7f2847b6492p-24}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(fabs(rope_log(cases[i][0]) - cases[i][1]) <= 2 * 0x1p-53 * fabs(cases[i][1]));
    assert_true(rope_log(1.0) == 0.0);
}

static void the_plain_table_is_one_over_the_rounded_power(void **state) {
    float *table = rope_plain(10000.0, 8);
    (void)state;
    assert_non_null(table);
    assert_true(table[0] == 1.0f && table[1] == 1.0f / 10.0f && table[2] == 1.0f / 100.0f &&
                table[3] == 1.0f / 1000.0f);
    mem_free(table);
}

/* Position 3 with frequencies 1 and 0.5: the angle is formed in float, the table holds rounded values times the scale.
 */
static void angles_are_position_times_frequency(void **state) {
    float inv_freq[] = {1.0f, 0.5f}, c[4], s[4];
    RopeTable table = {4, false, inv_freq, 1.0f};
    int positions[] = {0, 3};
    Pool *pool = pool_new(2, NULL);
    (void)state;
    rope_angles(pool, &table, positions, 2, c, s);
    assert_true(c[0] == 1.0f && c[1] == 1.0f && s[0] == 0.0f && s[1] == 0.0f);
    assert_true(c[2] == -0x1.fae04cp-1f && s[2] == 0x1.210386p-3f); /* cos 3, sin 3 */
    assert_true(c[3] == 0x1.21bd54p-4f && s[3] == 0x1.feb7aap-1f);  /* cos 1.5, sin 1.5 */
    table.scale = 1.25f;
    rope_angles(pool, &table, positions, 2, c, s);
    assert_true(c[2] == -0x1.fae04cp-1f * 1.25f && s[3] == 0x1.feb7aap-1f * 1.25f);
    pool_free(pool);
}

/* A quarter turn and a 3-4-5 triangle, chosen so that every product is exact. Dims past the rotated ones stay. */
static void rotation_pairs_halves_or_neighbours(void **state) {
    float inv_freq[2] = {0}, c[] = {0.0f, 0.75f}, s[] = {1.0f, 0.5f};
    RopeTable table = {4, false, inv_freq, 1.0f};
    float x[] = {1, 2, 3, 4, 9, -1, -2, -3, -4, 7};
    static const float split[] = {-3, -0.5f, 1, 4, 9, 3, 0.5f, -1, -4, 7};
    float y[] = {1, 2, 3, 4, 9, -1, -2, -3, -4, 7};
    static const float interleaved[] = {-2, 1, 0.25f, 4.5f, 9, 2, -1, -0.25f, -4.5f, 7};
    Pool *pool = pool_new(1, NULL);
    (void)state;
    rope_rotate(pool, &table, c, s, x, 1, 2, 5);
    assert_memory_equal(x, split, sizeof x);
    table.interleaved = true;
    rope_rotate(pool, &table, c, s, y, 1, 2, 5);
    assert_memory_equal(y, interleaved, sizeof y);
    pool_free(pool);
}

static void threads_do_not_change_a_byte(void **state) {
    enum { ROWS = 37, HEADS = 3, DIM = 8 };
    static float c[2][ROWS * 4], s[2][ROWS * 4], x[2][ROWS * HEADS * DIM];
    float *inv_freq = rope_plain(10000.0, DIM);
    RopeTable table = {DIM, false, inv_freq, 1.0f};
    int positions[ROWS];
    (void)state;
    for (int i = 0; i < ROWS; i++) positions[i] = 1000 * i + 7;
    for (int t = 0; t < 2; t++) {
        Pool *pool = pool_new(1 + t, NULL);
        for (int i = 0; i < ROWS * HEADS * DIM; i++) x[t][i] = (float)(i % 11) - 5.1f;
        rope_angles(pool, &table, positions, ROWS, c[t], s[t]);
        rope_rotate(pool, &table, c[t], s[t], x[t], ROWS, HEADS, DIM);
        pool_free(pool);
    }
    assert_memory_equal(c[0], c[1], sizeof c[0]);
    assert_memory_equal(s[0], s[1], sizeof s[0]);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    mem_free(inv_freq);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sine_and_cosine_round_to_the_nearest_float),
        cmocka_unit_test(powers_round_to_the_nearest_float),
        cmocka_unit_test(logarithms_are_within_two_units_in_the_last_place),
        cmocka_unit_test(the_plain_table_is_one_over_the_rounded_power),
        cmocka_unit_test(angles_are_position_times_frequency),
        cmocka_unit_test(rotation_pairs_halves_or_neighbours),
        cmocka_unit_test(threads_do_not_change_a_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
