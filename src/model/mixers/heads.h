/* What a few families do to the heads of queries, keys and values beside norms and rotation. */
#ifndef LOCKSTEP_MODEL_MIXERS_HEADS_H
#define LOCKSTEP_MODEL_MIXERS_HEADS_H

#include "model/step.h"

/* From the order in which head h reads key-value head h % kv_heads (TILED) to that in which it reads
 * h / (heads / kv_heads) (GROUPED), or back: x [n][heads * dim], in place. False: out of memory. */
typedef enum HeadOrder { ORDER_GROUPED, ORDER_TILED } HeadOrder;
bool heads_reorder(Step *s, HeadOrder to, float *x, int heads, int kv_heads, int dim);
/* Head h of x [n][heads * dim] times gain[h]; gain NULL: nothing to do. */
void heads_scale(const Step *s, const float *gain, float *x, int heads, int dim);
/* Each value of x [n] to the nearest multiple of *grid, halves to even, from -128 to 127 of them; grid NULL: nothing to
 * do. */
void heads_round(const float *grid, float *x, size_t n);
/* out [n][heads] = q . weight[h] + bias[h] for each head of q [n][heads * dim]; weight [heads][dim], bias NULL: none.
 */
void heads_dot(const Step *s, const float *q, const float *weight, const float *bias, float *out, int heads, int dim);
/* Head h of x [n][heads * dim] times gate [n][heads], in place. */
void heads_gate(const Step *s, const float *gate, float *x, int heads, int dim);
/* y = g * x + (1 - g) * y, head by head: gate [n][heads], x and y [n][heads * dim]. */
void heads_mix(const Step *s, const float *gate, const float *x, float *y, int heads, int dim);
/* Each head of x [n][heads * dim] times scale / sqrt(its sum of squares + eps), in place. */
void heads_unit(const Step *s, float *x, int heads, int dim, float eps, float scale);
/* Columns [from, from + n) of x [rows][cols] into columns [to, to + n) of y [rows][y_cols]. */
void heads_copy(const float *x, int cols, int from, float *y, int y_cols, int to, int n, int rows);
/* One linear per head, from columns of x [n][heads * stride] beginning at `from` of each head to y
 * [heads][n][outputs]. Rows that fail are named after `operation`. False: out of memory. */
bool heads_linear(Step *s, int layer, const Linear **w, int heads, const float *x, int stride, int from, float *y,
                  const char *operation);

#endif
