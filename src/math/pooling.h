/* One vector from the rows of a sequence: its first or last row, the largest value of each dimension, or a mean. Rows
 * come one by one in ascending position; sums run over 16 lanes by position, with the fixed fold of docs/arithmetic.md,
 * so that it does not matter in which steps the rows were made. */
#ifndef LOCKSTEP_MATH_POOLING_H
#define LOCKSTEP_MATH_POOLING_H

#include <stdbool.h>
#include <stddef.h>

typedef enum PoolMode {
    POOL_FIRST,
    POOL_MAX,
    POOL_MEAN,
    POOL_MEAN_SQRT, /* the sum over the square root of the count */
    POOL_WEIGHTED,  /* the mean, position p weighted with p + 1 */
    POOL_LAST,
    POOL_MODES
} PoolMode;

typedef struct PoolSpec {
    PoolMode modes[POOL_MODES]; /* each gives a vector; they follow one another */
    int n_modes;
} PoolSpec;

/* Rows [first, end) of one sequence, of `dims` values each. */
typedef struct Pooling {
    const PoolSpec *spec;
    int dims, first, end;
    float *sums; /* of pooling_floats */
} Pooling;

/* How many floats the sums take. */
size_t pooling_floats(int dims);
/* Whether row `position` counts. */
bool pooling_wants(const PoolSpec *spec, int first, int end, int position);
/* Before the first row; spec, dims, first, end and sums are set. */
void pooling_begin(Pooling *p);
/* The next row that is wanted: row [dims]. */
void pooling_add(Pooling *p, int position, const float *row);
/* After the last: out [n_modes * dims]. */
void pooling_finish(const Pooling *p, float *out);

/* y = x / max(|x|, 1e-12), x [n]; y may be x. */
void pooling_unit(const float *x, float *y, int n);

#endif
