/* Hyper-connections (Xie et al., arXiv:2512.24880). The streams of a row lie one after the other, so that all of them
 * together are the vector that the mixes are computed from. Sums over streams are in ascending order; the matrix is
 * made doubly stochastic by dividing columns and rows in turn (Sinkhorn and Knopp), row by row of the step. */
#include "model/step.h"

#include <string.h>

enum { MIX_ROWS = 8 };

static size_t streams_width(const Step *s) {
    return (size_t)s->blueprint->hyper.n * (size_t)s->blueprint->hidden;
}

bool hyper_begin(Step *s) {
    const HyperSpec *h = &s->blueprint->hyper;
    size_t hidden = (size_t)s->blueprint->hidden, width = streams_width(s);
    s->hyper = step_keep(s, (int)width);
    s->hyper_mix = step_keep(s, (2 + h->n) * h->n);
    s->hyper_sum = step_keep(s, h->n);
    if (!s->hyper || !s->hyper_mix || !s->hyper_sum) return false;
    for (size_t r = 0; r < (size_t)s->n; r++)
        for (size_t k = 0; k < (size_t)h->n; k++) {
            memcpy(s->hyper + r * width + k * hidden, s->hidden + r * hidden, hidden * sizeof *s->hidden);
            s->hyper_sum[r * (size_t)h->n + k] = k == 0;
        }
    return true;
}

/* ---- the mixes ---- */

static void divide_columns(float *m, int n, float eps) {
    for (int c = 0; c < n; c++) {
        float sum = 0;
        for (int r = 0; r < n; r++) sum += m[r * n + c];
        for (int r = 0; r < n; r++) m[r * n + c] /= sum + eps;
    }
}

static void divide_rows(float *m, int n, float eps) {
    for (int r = 0; r < n; r++) {
        float sum = 0;
        for (int c = 0; c < n; c++) sum += m[r * n + c];
        for (int c = 0; c < n; c++) m[r * n + c] /= sum + eps;
    }
}

/* The matrix of one row's mixes, in place: rows of a softmax, then rows and columns that sum to 1. */
static void make_matrix(const HyperSpec *h, float *m) {
    for (int r = 0; r < h->n; r++) ops_softmax(m + r * h->n, m + r * h->n, h->n);
    for (int i = 0; i < h->n * h->n; i++) m[i] += h->eps;
    divide_columns(m, h->n, h->eps);
    for (int i = 1; i < h->rounds; i++) {
        divide_rows(m, h->n, h->eps);
        divide_columns(m, h->n, h->eps);
    }
}

/* Which of the three scales mix i has. */
static int scale_of(const HyperSpec *h, int i) {
    return i < h->n ? 0 : i < 2 * h->n ? 1 : 2;
}

/* out [n][mixes] = fn(norm(streams)) * scale + base. */
static bool project(Step *s, const HyperWeights *w, int layer, int mixes, float *out) {
    const HyperSpec *h = &s->blueprint->hyper;
    int width = (int)streams_width(s);
    float *normed = step_floats(s, s->n, width);
    LinearJob job = {.w = w->fn, .y = out};
    step_zero_failed(s, s->hyper, width);
    if (!normed) return false;
    ops_rms_norm(s->pool, s->hyper, NULL, h->norm_eps, normed, s->n, width);
    if (!step_linear(s, &job, 1, normed, width, layer, "hyper-connection")) return false;
    for (int r = 0; r < s->n; r++)
        for (int i = 0; i < mixes; i++) {
            float *x = &out[(size_t)r * (size_t)mixes + (size_t)i];
            *x = *x * w->scale[scale_of(h, i)] + w->base[i];
        }
    return true;
}

/* Sigmoids of the first n of each row's mixes, eps added: what the sum over streams weighs them with. */
static void make_sum(const Step *s, const float *mix, int mixes, float *sum) {
    const HyperSpec *h = &s->blueprint->hyper;
    for (int r = 0; r < s->n; r++) {
        float *row = sum + (size_t)r * (size_t)h->n;
        memcpy(row, mix + (size_t)r * (size_t)mixes, (size_t)h->n * sizeof *row);
    }
    ops_act(s->pool, ACT_SIGMOID, sum, sum, s->n, h->n);
    for (int i = 0; i < s->n * h->n; i++) sum[i] += h->eps;
}

static bool make_mixes(Step *s, const HyperWeights *w, int layer) {
    const HyperSpec *h = &s->blueprint->hyper;
    int n = h->n, mixes = (2 + n) * n;
    if (!project(s, w, layer, mixes, s->hyper_mix)) return false;
    for (int r = 0; r < s->n; r++) {
        float *row = s->hyper_mix + (size_t)r * (size_t)mixes;
        ops_act(s->pool, ACT_SIGMOID, row + n, row + n, 1, n);
        for (int i = n; i < 2 * n; i++) row[i] *= 2;
        make_matrix(h, row + 2 * n);
    }
    return true;
}

/* ---- sums and mixtures of streams ---- */

static void sum_task(void *context, int task, int thread) {
    const Step *s = context;
    size_t hidden = (size_t)s->blueprint->hidden, n = (size_t)s->blueprint->hyper.n;
    (void)thread;
    for (size_t r = (size_t)task * MIX_ROWS; r < (size_t)(task + 1) * MIX_ROWS && r < (size_t)s->n; r++)
        for (size_t c = 0; c < hidden; c++) {
            float sum = 0;
            for (size_t k = 0; k < n; k++) sum += s->hyper_sum[r * n + k] * s->hyper[(r * n + k) * hidden + c];
            s->hidden[r * hidden + c] = sum;
        }
}

static void sum_streams(Step *s) {
    pool_run(s->pool, sum_task, s, (s->n + MIX_ROWS - 1) / MIX_ROWS);
    step_zero_failed(s, s->hidden, s->blueprint->hidden);
}

bool hyper_before(Step *s, int layer, HyperHalf half) {
    const HyperSpec *h = &s->blueprint->hyper;
    const LayerWeights *w = &s->weights->layers[layer];
    int mixes = (2 + h->n) * h->n;
    if (!make_mixes(s, half == HYPER_MIXER ? &w->hyper_mixer : &w->hyper_ffn, layer)) return false;
    if (h->delayed) sum_streams(s); /* with what the half before left */
    make_sum(s, s->hyper_mix, mixes, s->hyper_sum);
    if (!h->delayed) sum_streams(s);
    step_tap(s, layer, "hyper sum", s->hidden, s->blueprint->hidden);
    return true;
}

typedef struct AfterJob {
    const Step *step;
    const float *y;
} AfterJob;

/* stream k = post[k] * y + sum over j of matrix[j][k] * stream j, all from the streams as they were. */
static void after_task(void *context, int task, int thread) {
    const AfterJob *job = context;
    const Step *s = job->step;
    size_t hidden = (size_t)s->blueprint->hidden, n = (size_t)s->blueprint->hyper.n;
    (void)thread;
    for (size_t r = (size_t)task * MIX_ROWS; r < (size_t)(task + 1) * MIX_ROWS && r < (size_t)s->n; r++) {
        const float *post = s->hyper_mix + r * (2 + n) * n + n, *matrix = post + n;
        for (size_t c = 0; c < hidden; c++) {
            float old[HYPER_MAX], *stream = s->hyper + r * n * hidden + c;
            for (size_t k = 0; k < n; k++) old[k] = stream[k * hidden];
            for (size_t k = 0; k < n; k++) {
                float sum = 0;
                for (size_t j = 0; j < n; j++) sum += matrix[j * n + k] * old[j];
                stream[k * hidden] = post[k] * job->y[r * hidden + c] + sum;
            }
        }
    }
}

void hyper_after(Step *s, int layer, const float *y) {
    AfterJob job = {s, y};
    pool_run(s->pool, after_task, &job, (s->n + MIX_ROWS - 1) / MIX_ROWS);
    step_tap(s, layer, "hyper streams", s->hyper, (int)streams_width(s));
}

bool hyper_end(Step *s) {
    const HyperSpec *h = &s->blueprint->hyper;
    if (!h->delayed) {
        float *mix = step_floats(s, s->n, h->n);
        if (!mix || !project(s, &s->weights->hyper_end, -1, h->n, mix)) return false;
        make_sum(s, mix, h->n, s->hyper_sum);
    }
    sum_streams(s);
    return true;
}
