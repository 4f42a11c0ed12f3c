/* One token's step of the recurrences that mixers are made of (docs/arithmetic.md, "Recurrences"). The state is f32 and
 * advances one token at a time; lanes run over channels, so no sum depends on a vector's width. */
#ifndef LOCKSTEP_MATH_RECURRENT_H
#define LOCKSTEP_MATH_RECURRENT_H

#include <stdbool.h>

/* A matrix state of one head: S [k_dim][v_dim].
 *
 *     S[i] *= decay[i];   u = beta * v, or with `correct` beta * (v - sum over i of S[i] k[i]);
 *     S[i] += k[i] * u;   out = sum over i of S[i] q[i]
 *
 * sums by fma in ascending i from +0. The gated delta rule corrects; lightning attention and Mamba-2 do not. */
typedef struct OuterStep {
    float *state;
    int k_dim, v_dim;
    const float *decay; /* [k_dim], or [1] for all */
    bool decay_each;
    const float *k, *q; /* [k_dim] */
    const float *v;     /* [v_dim] */
    float beta;
    bool correct;
    float *out; /* [v_dim]; may be v */
} OuterStep;
void recurrent_outer_step(const OuterStep *step);

/* RWKV 7 (arXiv:2503.14456): a matrix state of one head, S [k_dim][v_dim], that passes on by a diagonal and an outer
 * product.
 *
 *     u = sum over i of S[i] a[i];   S[i] = S[i] * decay[i] + k[i] * v + b[i] * u;   out = sum over i of S[i] q[i]
 *
 * sums by fma in ascending i from +0; the new state by fma of k onto the faded one, then by fma of b. */
typedef struct WkvStep {
    float *state;
    int k_dim, v_dim;
    const float *decay, *a, *b, *k, *q; /* [k_dim] */
    const float *v;                     /* [v_dim] */
    float *out;                         /* [v_dim]; may be v */
} WkvStep;
void recurrent_wkv_step(const WkvStep *step);

/* A causal convolution over time, channel by channel: y = bias + sum over j of weights[j] * x[t - kernel + 1 + j], by
 * fma in ascending j from +0, then the bias; the window then moves on by one. */
typedef struct ConvStep {
    int channels, kernel;
    const float *weights; /* [kernel][channels] */
    const float *bias;    /* [channels] or NULL */
    float *window;        /* [kernel - 1][channels], the oldest first */
    const float *x;       /* [channels] */
    float *y;             /* [channels], not x */
} ConvStep;
void recurrent_conv_step(const ConvStep *step);

/* A selective scan (Mamba 1, arXiv:2312.00752), for channels [from, from + n):
 *
 *     S[i][c] = S[i][c] * exp(dt[c] * rate[i][c]) + (dt[c] * x[c]) * b[i];   out[c] = sum over i of S[i][c] * q[i]
 *                                                                                     + skip[c] * x[c]
 *
 * the product with b by fma onto the faded state, the sum by fma in ascending i from +0, then skip by fma. */
typedef struct ScanStep {
    int channels, dims; /* dims: of the state of a channel */
    int from, n;
    float *state;               /* [dims][channels] */
    const float *rate;          /* [dims][channels], not positive */
    const float *dt, *x, *skip; /* [channels] */
    const float *b, *q;         /* [dims] */
    float *out;                 /* [channels], not x */
} ScanStep;
void recurrent_scan_step(const ScanStep *step);

/* The real-gated linear unit of Griffin (arXiv:2402.19427), for channels [from, from + n): with l = rate[c] * gate[c]
 *
 *     h[c] = h[c] * exp(l) + x[c] * sqrt(max(1 - exp(2 l), 0));   out = h
 *
 * the sum by fma onto the product with x; the first position takes x as it is. */
typedef struct LruStep {
    int from, n;
    float *state;             /* h */
    const float *rate, *gate; /* not positive; 0 .. 1 */
    const float *x;
    bool first;
    float *out; /* may be x */
} LruStep;
void recurrent_lru_step(const LruStep *step);

#endif
