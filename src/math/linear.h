/* Linear layers: y = W x + bias for all rows of a step.
 *
 * Integer weights are laid out once as tiles of 16 outputs; activations become block fixed point per group; each
 * group's dot product is an exact integer, and groups are added in ascending order with two fused operations. Float
 * weights stay row-major where they are (mapped) and are dot products over 16 lanes with a fixed fold.
 * docs/arithmetic.md is the contract: nothing here may depend on how many rows there are, except which loop does the
 * same operations. */
#ifndef LOCKSTEP_MATH_LINEAR_H
#define LOCKSTEP_MATH_LINEAR_H

#include "base/arena.h"
#include "base/error.h"
#include "base/pool.h"
#include "math/format.h"

#include <stdint.h>

typedef struct Linear Linear;

/* Integer weights are copied into tiles (in parallel); float weights keep pointing at source->codes, which must outlive
 * the Linear. `bias` NULL or [rows], copied. */
Linear *linear_new(const WeightSource *source, const float *bias, Pool *pool, Error *err);
void linear_free(Linear *w);
int linear_rows(const Linear *w);     /* outputs */
int linear_cols(const Linear *w);     /* inputs */
size_t linear_bytes(const Linear *w); /* bytes of weights read by one step, scales included */
int linear_tiles(const Linear *w);    /* tiles of 16 outputs, each read once by a job of any number of rows */
bool linear_is_integer(const Linear *w);

/* The embedding of one id: row `row` as floats, out [cols]. */
void linear_row(const Linear *w, int row, float *out);

/* The inputs of one or more linears: x [rows][cols], row-major and dense, borrowed. The fixed-point forms (one per
 * group size in use) are made when first needed and kept, so that q, k and v share them. */
typedef struct Activations Activations;

/* bits: 16 or 8 (--activations). Lives in the arena. NULL when out of memory. */
Activations *activations_new(Arena *arena, const float *x, int rows, int cols, int bits);
/* Row i is row rows[i] of the parent: what an expert reads. Fixed-point forms come from the parent's, so that a row
 * chosen by four experts is quantised once; all rows in their order are not even copied. NULL when out of memory. */
Activations *activations_select(Arena *arena, Activations *parent, const int *rows, int n);
/* The first row with a NaN or an infinity in x, or -1. Only meaningful after a linear_apply. Per row: activations_bad.
 */
int activations_first_bad(const Activations *a);
bool activations_bad(const Activations *a, int row);

typedef struct LinearJob {
    const Linear *w;
    Activations *x; /* [rows][linear_cols(w)]; jobs may share it */
    float *y;       /* [rows of x][linear_rows(w)], dense */
} LinearJob;

/* All jobs, of any number and with any rows each, as one parallel region. A row with a non-finite input gets
 * unspecified outputs and is reported by activations_bad; other rows are untouched by it. False only when out of
 * memory. */
bool linear_apply(const LinearJob *jobs, int n_jobs, Pool *pool, Arena *arena);

#endif
