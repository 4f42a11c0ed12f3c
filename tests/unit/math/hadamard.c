/* The transform on values worked by hand, and as its own inverse. */
#include "math/hadamard.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Rows of the matrix of 4: ++++, +-+-, ++--, +--+, over 2. */
static void blocks_of_four_are_as_worked_by_hand(void **state) {
    float x[8] = {1, 2, 3, 4, 0, 0, 6, 0};
    const float expected[8] = {5, -1, -2, 0, 3, 3, -3, -3};
    (void)state;
    hadamard_turn(x, 8, 4);
    for (int i = 0; i < 8; i++) assert_true(x[i] == expected[i]);
}

static void twice_is_nothing(void **state) {
    float x[1024];
    (void)state;
    for (int i = 0; i < 1024; i++) x[i] = (float)(i * 37 % 101) - 50;
    hadamard_turn(x, 1024, 512);
    assert_true(fabsf(x[0]) < 5000 && x[1] != -13); /* it does something */
    hadamard_turn(x, 1024, 512);
    for (int i = 0; i < 1024; i++) assert_true(fabsf(x[i] - ((float)(i * 37 % 101) - 50)) < 1e-3f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_four_are_as_worked_by_hand),
        cmocka_unit_test(twice_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
