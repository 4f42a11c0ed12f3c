/* Row-wise operations: the kernel table does a row, this file splits rows over threads when there is enough to split.
 */
#include "math/ops.h"
#include "math/kernel_table.h"
#include "math/rope.h"

typedef enum OpKind { OP_RMS_NORM, OP_ADD, OP_ADD_RMS_NORM, OP_SILU_MUL } OpKind;

typedef struct Op {
    OpKind kind;
    const float *x, *other, *weight;
    float *y, *sum;
    float number; /* eps */
    int rows, cols, rows_per_task;
} Op;

static void op_row(const Op *op, int row) {
    const KernelTable *k = kernels();
    size_t at = (size_t)row * (size_t)op->cols;
    switch (op->kind) {
    case OP_RMS_NORM: k->rms_norm(op->x + at, op->weight, op->number, op->y + at, op->cols); break;
    case OP_ADD: k->add(op->x + at, op->other + at, op->y + at, op->cols); break;
    case OP_ADD_RMS_NORM:
        k->add(op->x + at, op->other + at, op->sum + at, op->cols);
        k->rms_norm(op->sum + at, op->weight, op->number, op->y + at, op->cols);
        break;
    case OP_SILU_MUL: k->silu_mul(op->x + at, op->other + at, op->y + at, op->cols); break;
    }
}

static void op_task(void *context, int task, int thread) {
    (void)thread;
    const Op *op = context;
    int first = task * op->rows_per_task;
    for (int r = first; r < first + op->rows_per_task && r < op->rows; r++) op_row(op, r);
}

static void op_run(Pool *pool, Op op) {
    op.rows_per_task = (int64_t)op.rows * op.cols < 16384 ? op.rows : 8;
    if (op.rows > 0) pool_run(pool, op_task, &op, (op.rows + op.rows_per_task - 1) / op.rows_per_task);
}

void ops_rms_norm(Pool *pool, const float *x, const float *weight, float eps, float *y, int rows, int cols) {
    op_run(pool,
           (Op){.kind = OP_RMS_NORM, .x = x, .weight = weight, .number = eps, .y = y, .rows = rows, .cols = cols});
}

void ops_add(Pool *pool, const float *x, const float *add, float *y, int rows, int cols) {
    op_run(pool, (Op){.kind = OP_ADD, .x = x, .other = add, .y = y, .rows = rows, .cols = cols});
}

void ops_add_rms_norm(Pool *pool, const float *x, const float *add, float *sum, const float *weight, float eps,
                      float *y, int rows, int cols) {
    op_run(pool, (Op){.kind = OP_ADD_RMS_NORM,
                      .x = x,
                      .other = add,
                      .sum = sum,
                      .weight = weight,
                      .number = eps,
                      .y = y,
                      .rows = rows,
                      .cols = cols});
}

void ops_act_mul(Pool *pool, Activation act, const float *gate, const float *up, float *y, int rows, int cols) {
    (void)act; /* one kind so far */
    op_run(pool, (Op){.kind = OP_SILU_MUL, .x = gate, .other = up, .y = y, .rows = rows, .cols = cols});
}

float ops_log_prob(const float *logits, int n, int id) {
    float max = kernels()->maximum(logits, n, logits[0]);
    float sum = kernels()->exp_sum(logits, max, 0, n);
    return logits[id] - max - (float)rope_log((double)sum);
}

void ops_softmax(const float *x, float *out, int n) {
    float max = kernels()->maximum(x, n, x[0]);
    float sum = kernels()->exp_sum(x, max, out, n);
    for (int i = 0; i < n; i++) out[i] /= sum;
}

bool ops_all_finite(const float *x, int n) {
    return kernels()->all_finite(x, n);
}
