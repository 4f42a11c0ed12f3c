/* Orders, gains and grids of heads. Each value by itself, so that nothing depends on how many rows there are. */
#include "model/mixers/heads.h"

#include <math.h>
#include <string.h>

bool heads_reorder(Step *s, HeadOrder to, float *x, int heads, int kv_heads, int dim) {
    size_t width = (size_t)heads * (size_t)dim, bytes = (size_t)dim * sizeof *x;
    int group = heads / kv_heads;
    float *row = step_floats(s, 1, heads * dim);
    if (!row) return false;
    for (int r = 0; r < s->n; r++) {
        float *at = x + (size_t)r * width;
        memcpy(row, at, width * sizeof *row);
        for (int kv = 0; kv < kv_heads; kv++)
            for (int i = 0; i < group; i++) {
                size_t grouped = (size_t)(kv * group + i) * (size_t)dim,
                       tiled = (size_t)(i * kv_heads + kv) * (size_t)dim;
                if (to == ORDER_GROUPED)
                    memcpy(at + grouped, row + tiled, bytes);
                else
                    memcpy(at + tiled, row + grouped, bytes);
            }
    }
    return true;
}

void heads_scale(const Step *s, const float *gain, float *x, int heads, int dim) {
    for (int i = 0; gain && i < s->n * heads; i++)
        for (int d = 0; d < dim; d++) x[(size_t)i * (size_t)dim + (size_t)d] *= gain[i % heads];
}

void heads_round(const float *grid, float *x, size_t n) {
    for (size_t i = 0; grid && i < n; i++) {
        float steps = rintf(x[i] / *grid);
        x[i] = (steps > 127 ? 127 : steps < -128 ? -128 : steps) * *grid;
    }
}

void heads_dot(const Step *s, const float *q, const float *weight, const float *bias, float *out, int heads, int dim) {
    for (int i = 0; i < s->n * heads; i++) {
        const float *x = q + (size_t)i * (size_t)dim, *w = weight + (size_t)(i % heads) * (size_t)dim;
        float sum = 0;
        for (int d = 0; d < dim; d++) sum += x[d] * w[d];
        out[i] = bias ? sum + bias[i % heads] : sum;
    }
}

void heads_gate(const Step *s, const float *gate, float *x, int heads, int dim) {
    for (size_t i = 0; i < (size_t)s->n * (size_t)heads; i++)
        for (size_t d = 0; d < (size_t)dim; d++) x[i * (size_t)dim + d] *= gate[i];
}

void heads_mix(const Step *s, const float *gate, const float *x, float *y, int heads, int dim) {
    for (int i = 0; i < s->n * heads; i++)
        for (int d = 0; d < dim; d++) {
            size_t at = (size_t)i * (size_t)dim + (size_t)d;
            y[at] = gate[i] * x[at] + (1 - gate[i]) * y[at];
        }
}

void heads_unit(const Step *s, float *x, int heads, int dim, float eps, float scale) {
    ops_rms_norm(s->pool, x, NULL, eps / (float)dim, x, s->n * heads, dim);
    ops_scale(s->pool, x, scale / sqrtf((float)dim), x, s->n, heads * dim);
}

void heads_copy(const float *x, int cols, int from, float *y, int y_cols, int to, int n, int rows) {
    for (int r = 0; r < rows; r++)
        memcpy(y + (size_t)r * (size_t)y_cols + (size_t)to, x + (size_t)r * (size_t)cols + (size_t)from,
               (size_t)n * sizeof *y);
}

bool heads_linear(Step *s, int layer, const Linear **w, int heads, const float *x, int stride, int from, float *y,
                  const char *operation) {
    int cols = linear_cols(w[0]), outputs = linear_rows(w[0]);
    LinearJob *jobs = arena_array(s->arena, (size_t)heads, sizeof *jobs);
    if (!jobs) return false;
    for (int h = 0; h < heads; h++) {
        float *in = step_floats(s, s->n, cols);
        if (!in) return false;
        heads_copy(x, heads * stride, h * stride + from, in, cols, 0, cols, s->n);
        Activations *a = activations_new(s->arena, in, s->n, cols, s->numeric->activation_bits);
        if (!a) return false;
        jobs[h] = (LinearJob){w[h], a, y + (size_t)h * (size_t)s->n * (size_t)outputs};
    }
    if (!linear_apply(jobs, heads, s->pool, s->arena)) return false;
    for (int h = 0; h < heads; h++)
        for (int r = 0; r < s->n; r++)
            if (activations_bad(jobs[h].x, r)) step_fail(s, r, layer, operation);
    return true;
}
