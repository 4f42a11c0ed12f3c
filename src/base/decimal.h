/* Numbers between decimal text and double, exact both ways and the same under every locale: strtod and printf follow
 * setlocale, which a library in the process may have called. */
#ifndef LOCKSTEP_BASE_DECIMAL_H
#define LOCKSTEP_BASE_DECIMAL_H

#include <stddef.h>

/* The double nearest to s[0..n), ties to even; past the range: infinity, or zero. The text must have the form
 * -?digits(.digits)?([eE][+-]?digits)? */
double decimal_parse(const char *s, size_t n);

/* Python's repr of a finite d, NUL-terminated: the shortest digits that read back as d, with an exponent from 1e16 on
 * and below 1e-4. Returns the length. */
enum { DECIMAL_MAX = 32 };
size_t decimal_write(double d, char out[DECIMAL_MAX]);

#endif
