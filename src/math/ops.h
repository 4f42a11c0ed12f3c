/* The row-wise operations between linears, each split over rows in parallel when there are many. Sums run over 16 lanes
 * with the fixed fold of docs/arithmetic.md. x and y are [rows][cols], dense; in place (y == x) is allowed everywhere.
 */
#ifndef LOCKSTEP_MATH_OPS_H
#define LOCKSTEP_MATH_OPS_H

#include "base/pool.h"

#include <stdbool.h>

/* y = x / sqrt(mean(x^2) + eps) * weight; weight [cols] or NULL for none. rsqrt is 1 / sqrt, both IEEE. */
void ops_rms_norm(Pool *pool, const float *x, const float *weight, float eps, float *y, int rows, int cols);
/* y = x + add. */
void ops_add(Pool *pool, const float *x, const float *add, float *y, int rows, int cols);
/* y = (x + add) kept in sum, and its rms norm in y: one pass for a residual. sum may be x. */
void ops_add_rms_norm(Pool *pool, const float *x, const float *add, float *sum, const float *weight, float eps,
                      float *y, int rows, int cols);

typedef enum Activation {
    ACT_SILU, /* x / (1 + exp(-x)) */
} Activation;
/* y = act(gate) * up. */
void ops_act_mul(Pool *pool, Activation act, const float *gate, const float *up, float *y, int rows, int cols);

/* log-probability of one id of a row of raw logits: x[id] - max - log(sum exp(x - max)), over 16 lanes. */
float ops_log_prob(const float *logits, int n, int id);
/* out [n]: exp(x - max) / sum over 16 lanes. */
void ops_softmax(const float *x, float *out, int n);
/* false when a value is NaN or infinite. */
bool ops_all_finite(const float *x, int n);

#endif
