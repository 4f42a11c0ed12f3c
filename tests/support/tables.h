/* Every kernel table of this build, also those that share a name, for tests that compare them. */
#ifndef LOCKSTEP_TESTS_SUPPORT_TABLES_H
#define LOCKSTEP_TESTS_SUPPORT_TABLES_H

#include "math/kernel_table.h"

extern const KernelTable *const tables[];
extern const int n_tables;

/* One line per table: compared, or skipped because this machine lacks it. */
void tables_print(void);
/* Fails the test at the first element whose bytes differ. */
void assert_floats_equal(const float *scalar, const float *other, size_t n, const char *what);

#endif
