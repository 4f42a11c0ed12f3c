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

bool weight_is_float(const WeightSource *source);
/* Each row of a float matrix divided by its length (plus 1e-7), rounded to the matrix's own type; in *copy. */
bool weight_unit_rows(const WeightSource *from, WeightSource *out, void **copy, Error *err);

#endif
