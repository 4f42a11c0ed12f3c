/* The row-wise operations between linears, each split over rows in parallel when there are many. Sums run over 16 lanes
 * with the fixed fold of docs/arithmetic.md. x and y are [rows][cols], dense; in place (y == x) is allowed everywhere.
 */
#ifndef LOCKSTEP_MATH_OPS_H
#define LOCKSTEP_MATH_OPS_H

#include "base/pool.h"

#include <stdbool.h>

/* y = x / sqrt(mean(x^2) + eps) * weight; weight [cols] or NULL for none. rsqrt is 1 / sqrt, both IEEE. */
void ops_rms_norm(Pool *pool, const float *x, const float *weight, float eps, float *y, int rows, int cols);
/* y = d / sqrt(mean(d^2) + eps) * weight + bias with d = x - mean(x); weight and bias [cols] or NULL. */
void ops_layer_norm(Pool *pool, const float *x, const float *weight, const float *bias, float eps, float *y, int rows,
                    int cols);
/* The same norms over each head of x [rows][heads][dim], weight and bias [heads][dim]: head h has its own. */
void ops_rms_norm_heads(Pool *pool, const float *x, const float *weight, float eps, float *y, int rows, int heads,
                        int dim);
void ops_layer_norm_heads(Pool *pool, const float *x, const float *weight, const float *bias, float eps, float *y,
                          int rows, int heads, int dim);
/* y = (x + add) kept in sum, and its rms norm in y: one pass for a residual. sum may be x. */
void ops_add_rms_norm(Pool *pool, const float *x, const float *add, float *sum, const float *weight, float eps,
                      float *y, int rows, int cols);

/* Element by element. */
void ops_add(Pool *pool, const float *x, const float *add, float *y, int rows, int cols); /* x + add */
void ops_mul(Pool *pool, const float *x, const float *z, float *y, int rows, int cols);   /* x * z */
void ops_scale(Pool *pool, const float *x, float factor, float *y, int rows, int cols);   /* x * factor */
/* x + add * factor: the product is rounded, then the sum, as the references' residual multipliers. */
void ops_add_scaled(Pool *pool, const float *x, const float *add, float factor, float *y, int rows, int cols);
/* cap * tanh(x / cap); small values keep their relative accuracy. */
void ops_softcap(Pool *pool, const float *x, float cap, float *y, int rows, int cols);

/* All over f32 with an error of a few units in the last place of the result (absolutely: below 2e-7 of its scale). */
typedef enum Activation {
    ACT_NONE,       /* x */
    ACT_SILU,       /* x / (1 + exp(-x)) */
    ACT_GELU,       /* x / 2 (1 + erf(x / sqrt 2)) */
    ACT_GELU_TANH,  /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    ACT_GELU_QUICK, /* x / (1 + exp(-1.702 x)) */
    ACT_RELU,       /* max(x, 0) */
    ACT_RELU2,      /* max(x, 0)^2 */
    ACT_SIGMOID,    /* 1 / (1 + exp(-x)) */
    ACT_TANH,
    ACT_SOFTPLUS, /* log(1 + exp(x)) */
    ACT_EXP,
} Activation;
/* y = act(x). */
void ops_act(Pool *pool, Activation act, const float *x, float *y, int rows, int cols);
/* y = act(gate) * up. */
void ops_act_mul(Pool *pool, Activation act, const float *gate, const float *up, float *y, int rows, int cols);

/* xIELU (arXiv:2411.13010): p x^2 + beta x where x > 0, else (expm1(min(x, eps)) - x) n + beta x, with
 * p = softplus(alpha_p) and n = beta + softplus(alpha_n). */
typedef struct XieluParams {
    float alpha_p, alpha_n, beta, eps;
} XieluParams;
void ops_xielu(Pool *pool, const XieluParams *params, const float *x, float *y, int rows, int cols);

/* log-probability of one id of a row of raw logits: x[id] - max - log(sum exp(x - max)), over 16 lanes. */
float ops_log_prob(const float *logits, int n, int id);
/* out [n]: exp(x - max) / sum over 16 lanes. */
void ops_softmax(const float *x, float *out, int n);
/* false when a value is NaN or infinite. */
bool ops_all_finite(const float *x, int n);

#endif
