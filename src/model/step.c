/* What mechanisms do with a step's rows: scratch, faults, norms, linears, writing keys and values. */
#include "model/step.h"
#include "model/mechanism.h"

#include <string.h>

enum { WRITE_ROWS = 8 };

float *step_floats(Step *s, int rows, int cols) {
    return arena_array(s->arena, (size_t)rows * (size_t)cols, sizeof(float));
}

void step_tap(const Step *s, int layer, const char *operation, const float *values, int cols) {
    if (!s->tap) return;
    const LayerSpec *spec = layer < 0 ? NULL : &s->blueprint->layers[layer];
    s->tap(s->tap_context, layer, spec && spec->mixer ? spec->mixer->kind(spec) : "", operation, values, s->n, cols);
}

/* ---- faults ---- */

void step_fail(Step *s, int row, int layer, const char *operation) {
    size_t hidden = (size_t)s->blueprint->hidden;
    while (s->blueprint->encoder && row > 0 && s->rows[row - 1].state == s->rows[row].state) row--;
    for (int r = row; r < s->n && s->rows[r].state == s->rows[row].state; r++) {
        if (s->faults[r].failed) continue;
        s->faults[r] = (RowFault){true, layer, operation};
        s->n_failed++;
        memset(s->hidden + (size_t)r * hidden, 0, hidden * sizeof(float));
    }
}

void step_zero_failed(const Step *s, float *x, int cols) {
    for (int r = 0; r < s->n && s->n_failed; r++)
        if (s->faults[r].failed) memset(x + (size_t)r * (size_t)cols, 0, (size_t)cols * sizeof *x);
}

bool step_linear(Step *s, const LinearJob *jobs, int n_jobs, const float *x, int cols, int layer,
                 const char *operation) {
    Activations *a = activations_new(s->arena, x, s->n, cols, s->numeric->activation_bits);
    LinearJob *all = arena_array(s->arena, (size_t)n_jobs, sizeof *all);
    if (!a || !all) return false;
    for (int j = 0; j < n_jobs; j++) all[j] = (LinearJob){jobs[j].w, a, jobs[j].y};
    if (!linear_apply(all, n_jobs, s->pool, s->arena)) return false;
    if (activations_first_bad(a) >= 0)
        for (int r = 0; r < s->n; r++)
            if (activations_bad(a, r)) step_fail(s, r, layer, operation);
    for (int j = 0; j < n_jobs; j++) step_zero_failed(s, jobs[j].y, linear_rows(jobs[j].w));
    return true;
}

static void scaled_norm(const Step *s, const NormSpec *spec, const Norm *norm, const float *x, float *y, int rows,
                        int cols) {
    for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) y[i] = x[i] * norm->weight[i % (size_t)cols];
    ops_rms_norm(s->pool, y, NULL, spec->eps, y, rows, cols);
}

void step_norm(const Step *s, const NormSpec *spec, const Norm *norm, const float *x, float *y, int rows, int cols) {
    if (spec->kind == NORM_RMS)
        ops_rms_norm(s->pool, x, norm->weight, spec->eps, y, rows, cols);
    else if (spec->kind == NORM_LAYER)
        ops_layer_norm(s->pool, x, norm->weight, norm->bias, spec->eps, y, rows, cols);
    else if (spec->kind == NORM_SCALED)
        scaled_norm(s, spec, norm, x, y, rows, cols);
    else if (spec->kind == NORM_GAIN)
        ops_scale(s->pool, x, norm->weight[0], y, rows, cols);
}

float *step_keep(Step *s, int cols) {
    if (s->n_kept == STEP_BUFFERS) return NULL;
    float *values = step_floats(s, s->n, cols);
    if (values) s->kept[s->n_kept++] = (StepBuffer){values, cols};
    return values;
}

/* ---- keys and values ---- */

const KvView *step_view(const Step *s, int row, int layer) {
    return s->views ? &s->views[s->places[row].sequence] : state_layer(s->rows[row].state, layer);
}

/* Each sequence's pages one after the other. Rows of a sequence follow one another, so its last one says how long it
 * is. */
bool step_open_views(Step *s, const KvShape *shape) {
    size_t bytes = kv_page_bytes(shape);
    KvView *views = arena_array(s->arena, (size_t)s->n_sequences, sizeof *views);
    if (!views) return false;
    for (int r = 0; r < s->n; r++) {
        if (r > 0 && s->places[r].sequence == s->places[r - 1].sequence) continue;
        size_t n = ((size_t)s->places[r].end + KV_PAGE - 1) / KV_PAGE;
        uint8_t *memory = arena_array(s->arena, n, bytes), **pages = arena_array(s->arena, n, sizeof *pages);
        if (!memory || !pages) return false;
        for (size_t i = 0; i < n; i++) pages[i] = memory + i * bytes;
        views[s->places[r].sequence] = (KvView){*shape, pages};
    }
    s->views = views;
    return true;
}

typedef struct WriteJob {
    const Step *step;
    const float *k, *v;
    int store, k_width, v_width; /* store: layer of the state */
    bool *bad;                   /* [rows] */
} WriteJob;

static void write_task(void *context, int task, int thread) {
    const WriteJob *job = context;
    const Step *s = job->step;
    (void)thread;
    for (int r = task * WRITE_ROWS; r < (task + 1) * WRITE_ROWS && r < s->n; r++)
        job->bad[r] = !kv_write(step_view(s, r, job->store), s->rows[r].position,
                                job->k + (size_t)r * (size_t)job->k_width, job->v + (size_t)r * (size_t)job->v_width);
}

/* Positions are distinct, so rows can be written in any order. */
static bool write_rows(WriteJob *job, Step *s, int layer) {
    job->step = s;
    job->bad = arena_array(s->arena, (size_t)s->n, sizeof *job->bad);
    if (!job->bad) return false;
    pool_run(s->pool, write_task, job, (s->n + WRITE_ROWS - 1) / WRITE_ROWS);
    for (int r = 0; r < s->n; r++)
        if (job->bad[r]) step_fail(s, r, layer, "kv_write");
    return true;
}

bool step_store(Step *s, int layer, const float *k, int k_width, const float *v, int v_width) {
    WriteJob job = {.k = k, .v = v, .store = layer, .k_width = k_width, .v_width = v_width};
    return write_rows(&job, s, layer);
}

bool step_store_side(Step *s, int kind, int layer, const float *k, int k_width, const float *v, int v_width) {
    int store = kind * s->blueprint->n_layers + layer;
    WriteJob job = {.k = k, .v = v, .store = store, .k_width = k_width, .v_width = v_width};
    return write_rows(&job, s, layer);
}

const KvView *step_side(const Step *s, int kind, int layer, int r) {
    return state_layer(s->rows[r].state, kind * s->blueprint->n_layers + layer);
}
