/* For tests that compare every kernel table of this build, also those that share a name. */
#ifndef LOCKSTEP_TESTS_SUPPORT_TABLES_H
#define LOCKSTEP_TESTS_SUPPORT_TABLES_H

#include "math/kernel_table.h"

/* One line per table: compared, or skipped because this machine lacks it. */
void tables_print(void);
/* Fails the test at the first element whose bytes differ. */
void assert_floats_equal(const float *scalar, const float *other, size_t n, const char *what);

#endif
