/* Rotary position embedding: tables and rotation (Su et al., arXiv:2104.09864).
 *
 * inv_freq is formed in f32, the angle is (float)pos * inv_freq in f32, and cos and sin of that f32 angle are formed in
 * double by our own deterministic functions and rounded once, as docs/arithmetic.md explains. */
#ifndef LOCKSTEP_MATH_ROPE_H
#define LOCKSTEP_MATH_ROPE_H

#include "base/pool.h"

#include <stdbool.h>

typedef struct RopeTable {
    int dims;         /* rotated dims of a head, even */
    bool interleaved; /* pairs (2i, 2i+1) instead of (i, i + dims/2) */
    float *inv_freq;  /* [dims / 2]; owned */
    float scale;      /* of cos and sin (yarn, longrope); 1 otherwise */
} RopeTable;

/* inv_freq[i] = 1 / (float)pow(theta, 2i/dims), the plain table; owned by the caller (mem_free). NULL when out of
 * memory. */
float *rope_plain(double theta, int dims);

/* Deterministic functions in double, the same bytes on every machine. */
double rope_pow(double base, double exponent); /* base > 0 */
void rope_sin_cos(double angle, double *sin_out, double *cos_out);
double rope_log(double x);

/* cos and sin for each of n positions: out_cos, out_sin [n][dims / 2]. */
void rope_angles(Pool *pool, const RopeTable *table, const int *positions, int n, float *out_cos, float *out_sin);
/* Rotates the first `dims` of each of `heads` heads of head_dim in x [n][heads * head_dim], in place.
 * half-split: (a, b) -> (a cos - b sin, b cos + a sin), each product rounded, as the references do. */
void rope_rotate(Pool *pool, const RopeTable *table, const float *cos_table, const float *sin_table, float *x, int n,
                 int heads, int head_dim);

#endif
