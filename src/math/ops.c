/* Row-wise operations: the kernel table does a row, this file splits rows over threads when there is enough to split.
 * A task holds about as many elements whatever the width of a row, so that a norm over each head of many rows (short
 * rows, many of them) does not fork for a few hundred elements; element-wise operations take a task's rows as one. */
#include "math/ops.h"
#include "math/kernel_table.h"
#include "math/rope.h"

enum { TASK_ELEMENTS = 8192, FORK_ELEMENTS = 16384 };

typedef enum OpKind { OP_RMS_NORM, OP_LAYER_NORM, OP_ADD_RMS_NORM, OP_ELEMENTS } OpKind;

typedef struct Op {
    OpKind kind;
    ElementJob elements; /* x, other, y, number (eps of a norm); kind and act of OP_ELEMENTS */
    const float *weight, *bias;
    float *sum;
    int weights; /* row r of a norm has weight and bias r % weights */
    int rows, cols, rows_per_task;
} Op;

static void norm_row(const Op *op, int row) {
    const KernelTable *k = kernels();
    size_t at = (size_t)row * (size_t)op->cols, at_weight = (size_t)(row % op->weights) * (size_t)op->cols;
    const float *x = op->elements.x + at, *weight = op->weight ? op->weight + at_weight : NULL;
    float *y = op->elements.y + at, eps = op->elements.number;
    if (op->kind == OP_LAYER_NORM) {
        k->layer_norm(x, weight, op->bias ? op->bias + at_weight : NULL, eps, y, op->cols);
        return;
    }
    if (op->kind == OP_ADD_RMS_NORM) {
        k->add(x, op->elements.other + at, op->sum + at, op->cols);
        x = op->sum + at;
    }
    k->rms_norm(x, weight, eps, y, op->cols);
}

static void op_task(void *context, int task, int thread) {
    (void)thread;
    const Op *op = context;
    int first = task * op->rows_per_task, end = first + op->rows_per_task;
    if (end > op->rows) end = op->rows;
    if (op->kind != OP_ELEMENTS) {
        for (int r = first; r < end; r++) norm_row(op, r);
        return;
    }
    ElementJob job = op->elements;
    size_t at = (size_t)first * (size_t)op->cols;
    job.x += at;
    if (job.other) job.other += at;
    job.y += at;
    job.n = (end - first) * op->cols;
    kernels()->elements(&job);
}

static void op_run(Pool *pool, Op op) {
    if (op.rows <= 0 || op.cols <= 0) return;
    if (op.weights == 0) op.weights = 1;
    op.rows_per_task = op.cols < TASK_ELEMENTS ? TASK_ELEMENTS / op.cols : 1;
    if ((int64_t)op.rows * op.cols < FORK_ELEMENTS) op.rows_per_task = op.rows;
    pool_run(pool, op_task, &op, (op.rows + op.rows_per_task - 1) / op.rows_per_task);
}

void ops_rms_norm(Pool *pool, const float *x, const float *weight, float eps, float *y, int rows, int cols) {
    ops_rms_norm_heads(pool, x, weight, eps, y, rows, 1, cols);
}

void ops_layer_norm(Pool *pool, const float *x, const float *weight, const float *bias, float eps, float *y, int rows,
                    int cols) {
    ops_layer_norm_heads(pool, x, weight, bias, eps, y, rows, 1, cols);
}

void ops_rms_norm_heads(Pool *pool, const float *x, const float *weight, float eps, float *y, int rows, int heads,
                        int dim) {
    op_run(pool, (Op){.kind = OP_RMS_NORM,
                      .elements = {.x = x, .y = y, .number = eps},
                      .weight = weight,
                      .weights = heads,
                      .rows = rows * heads,
                      .cols = dim});
}

void ops_layer_norm_heads(Pool *pool, const float *x, const float *weight, const float *bias, float eps, float *y,
                          int rows, int heads, int dim) {
    op_run(pool, (Op){.kind = OP_LAYER_NORM,
                      .elements = {.x = x, .y = y, .number = eps},
                      .weight = weight,
                      .bias = bias,
                      .weights = heads,
                      .rows = rows * heads,
                      .cols = dim});
}

void ops_add_rms_norm(Pool *pool, const float *x, const float *add, float *sum, const float *weight, float eps,
                      float *y, int rows, int cols) {
    op_run(pool, (Op){.kind = OP_ADD_RMS_NORM,
                      .elements = {.x = x, .other = add, .y = y, .number = eps},
                      .sum = sum,
                      .weight = weight,
                      .rows = rows,
                      .cols = cols});
}

static void elements_run(Pool *pool, ElementJob job, int rows, int cols) {
    op_run(pool, (Op){.kind = OP_ELEMENTS, .elements = job, .rows = rows, .cols = cols});
}

void ops_add(Pool *pool, const float *x, const float *add, float *y, int rows, int cols) {
    elements_run(pool, (ElementJob){.kind = ELEMENT_ADD, .x = x, .other = add, .y = y}, rows, cols);
}

void ops_mul(Pool *pool, const float *x, const float *z, float *y, int rows, int cols) {
    elements_run(pool, (ElementJob){.kind = ELEMENT_MUL, .x = x, .other = z, .y = y}, rows, cols);
}

void ops_scale(Pool *pool, const float *x, float factor, float *y, int rows, int cols) {
    elements_run(pool, (ElementJob){.kind = ELEMENT_SCALE, .x = x, .number = factor, .y = y}, rows, cols);
}

void ops_add_scaled(Pool *pool, const float *x, const float *add, float factor, float *y, int rows, int cols) {
    ElementJob job = {.kind = ELEMENT_ADD_SCALED, .x = x, .other = add, .number = factor, .y = y};
    elements_run(pool, job, rows, cols);
}

void ops_softcap(Pool *pool, const float *x, float cap, float *y, int rows, int cols) {
    elements_run(pool, (ElementJob){.kind = ELEMENT_SOFTCAP, .x = x, .number = cap, .y = y}, rows, cols);
}

void ops_act(Pool *pool, Activation act, const float *x, float *y, int rows, int cols) {
    elements_run(pool, (ElementJob){.kind = ELEMENT_ACT, .act = act, .x = x, .y = y}, rows, cols);
}

void ops_xielu(Pool *pool, const XieluParams *p, const float *x, float *y, int rows, int cols) {
    float alphas[2] = {p->alpha_p, p->alpha_n};
    ops_act(pool, ACT_SOFTPLUS, alphas, alphas, 1, 2);
    float params[] = {alphas[0], p->beta + alphas[1], p->beta, p->eps};
    elements_run(pool, (ElementJob){.kind = ELEMENT_XIELU, .x = x, .params = params, .y = y}, rows, cols);
}

void ops_act_mul(Pool *pool, Activation act, const float *gate, const float *up, float *y, int rows, int cols) {
    ElementJob job = {.kind = ELEMENT_ACT_MUL, .act = act, .x = gate, .other = up, .y = y};
    elements_run(pool, job, rows, cols);
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
