/* Every golden against its reference. */
#include "math/kernels.h"
#include "support/golden_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_golden_is_within_its_tolerance(void **state) {
    static char folders[GOLDEN_MAX][256];
    int n = golden_list(folders);
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    for (int i = 0; i < n; i++) {
        GoldenWorst worst;
        golden_compare(folders[i], &worst);
        printf("%s: %d rows, max_abs %.2e (allowed %.0e)\n", folders[i], worst.rows, worst.max_abs, worst.tolerance);
        assert_true(worst.rows > 0);
    }
}

int main(int argc, char **argv) {
    golden_choose(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_is_within_its_tolerance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
