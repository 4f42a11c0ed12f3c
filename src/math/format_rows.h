/* Taking a matrix out of a larger one before it becomes a Linear. */
#ifndef LOCKSTEP_MATH_FORMAT_ROWS_H
#define LOCKSTEP_MATH_FORMAT_ROWS_H

#include "math/format.h"

/* Row i of the result is row from + (i / take) * period + i % take of the source; take at least 1, all rows within the
 * source. */
typedef struct RowPick {
    int64_t rows, from, take, period;
} RowPick;

/* Rows that lie together are only pointed at, and *copy is NULL; others are copied to *copy, which is the caller's
 * (mem_free) and must outlive `out`. */
bool weight_rows_pick(const WeightSource *from, const RowPick *pick, WeightSource *out, void **copy, Error *err);
/* The same of the columns of a matrix [inputs, outputs], as rows; always copied: floats in their own type, quantised
 * weights as f32.
 */
bool weight_columns_pick(const WeightSource *from, const RowPick *pick, WeightSource *out, void **copy, Error *err);

#endif
