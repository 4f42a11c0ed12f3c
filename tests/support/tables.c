/* How the results of the kernel tables are compared. */
#include "support/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void tables_print(void) {
    for (int t = 0; t < n_kernel_tables; t++)
        printf("%s %s\n", kernel_tables[t]->supported() ? "compared here:" : "skipped, this machine lacks it:",
               kernel_tables[t]->name);
}

void assert_floats_equal(const float *scalar, const float *other, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&scalar[i], &other[i], 4) != 0) {
            print_error("%s: element %zu of %zu is %a, scalar gives %a\n", what, i, n, (double)other[i],
                        (double)scalar[i]);
            fail();
        }
}
