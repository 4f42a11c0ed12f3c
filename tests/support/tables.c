/* The kernel tables of this build, and how their results are compared. */
#include "support/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const KernelTable *const tables[] = {
    &kernels_scalar,
#if defined(__x86_64__)
    &kernels_avx512,
    &kernels_avx512_base,
    &kernels_avx2,
#elif defined(__aarch64__)
    &kernels_neon,
#endif
};
const int n_tables = sizeof tables / sizeof *tables;

void tables_print(void) {
    for (int t = 0; t < n_tables; t++)
        printf("%s %s\n",
               tables[t]->supported() ? "compared here:" : "skipped, this machine lacks it:", tables[t]->name);
}

void assert_floats_equal(const float *scalar, const float *other, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&scalar[i], &other[i], 4) != 0) {
            print_error("%s: element %zu of %zu is %a, scalar gives %a\n", what, i, n, (double)other[i],
                        (double)scalar[i]);
            fail();
        }
}
