/* AltUp and Laurel (Gemma 3n). Of several hidden streams a layer computes one; before it all are predicted from all,
 * with coefficients that the active stream's row chooses, and after it all are corrected by what the layer changed.
 * Sums over streams are in ascending order. */
#include "model/step.h"

#include <math.h>
#include <string.h>

/* [n][streams] = tanh(router(norm(x) / hidden)). x [n][hidden]. */
static float *modalities(Step *s, int layer, const float *x, float *scratch) {
    const Blueprint *b = s->blueprint;
    const LayerWeights *w = &s->weights->layers[layer];
    float *out = step_floats(s, s->n, b->altup.n);
    LinearJob job = {.w = w->altup_router, .y = out};
    step_norm(s, &b->altup.router_norm, &w->altup_norm, x, scratch, s->n, b->hidden);
    ops_scale(s->pool, scratch, 1 / (float)b->hidden, scratch, s->n, b->hidden);
    if (!out || !step_linear(s, &job, 1, scratch, b->hidden, layer, "altup router")) return NULL;
    ops_act(s->pool, ACT_TANH, out, out, s->n, b->altup.n);
    return out;
}

typedef struct MixJob {
    const Step *step;
    const float *coefs; /* [n][streams * streams], or [n][streams] */
} MixJob;

enum { MIX_ROWS = 8 };

/* stream i += sum over k of coefs[i][k] * stream k, all from the streams as they were. */
static void predict_task(void *context, int task, int thread) {
    const MixJob *job = context;
    const Step *s = job->step;
    int n = s->blueprint->altup.n, hidden = s->blueprint->hidden;
    (void)thread;
    for (int r = task * MIX_ROWS; r < (task + 1) * MIX_ROWS && r < s->n; r++) {
        const float *coefs = job->coefs + (size_t)r * (size_t)n * (size_t)n;
        for (int c = 0; c < hidden; c++) {
            size_t at = (size_t)r * (size_t)hidden + (size_t)c;
            float old[ALTUP_MAX];
            for (int k = 0; k < n; k++) old[k] = s->streams[k][at];
            for (int i = 0; i < n; i++) {
                float sum = 0;
                for (int k = 0; k < n; k++) sum += coefs[i * n + k] * old[k];
                s->streams[i][at] = sum + old[i];
            }
        }
    }
}

/* stream i += (coefs[i] + 1) * (hidden - predicted hidden). */
static void correct_task(void *context, int task, int thread) {
    const MixJob *job = context;
    const Step *s = job->step;
    int n = s->blueprint->altup.n, hidden = s->blueprint->hidden;
    (void)thread;
    for (int r = task * MIX_ROWS; r < (task + 1) * MIX_ROWS && r < s->n; r++)
        for (int c = 0; c < hidden; c++) {
            size_t at = (size_t)r * (size_t)hidden + (size_t)c;
            float change = s->hidden[at] - s->streams[s->blueprint->altup.active][at];
            for (int i = 0; i < n; i++)
                s->streams[i][at] += change * (job->coefs[(size_t)r * (size_t)n + (size_t)i] + 1);
        }
}

bool altup_predict(Step *s, int layer, float *scratch) {
    const Blueprint *b = s->blueprint;
    int n = b->altup.n;
    float *modality = modalities(s, layer, s->streams[b->altup.active], scratch), *coefs = step_floats(s, s->n, n * n);
    LinearJob job = {.w = s->weights->layers[layer].altup_predict, .y = coefs};
    if (!modality || !coefs || !step_linear(s, &job, 1, modality, n, layer, "altup prediction")) return false;
    MixJob mix = {s, coefs};
    pool_run(s->pool, predict_task, &mix, (s->n + MIX_ROWS - 1) / MIX_ROWS);
    memcpy(s->hidden, s->streams[b->altup.active], (size_t)s->n * (size_t)b->hidden * sizeof *s->hidden);
    step_tap(s, layer, "altup prediction", s->hidden, b->hidden);
    return true;
}

/* What the per-layer input reads, and the other streams to which it is added. */
static bool add_layer_input(Step *s, int layer, float *scratch) {
    const Blueprint *b = s->blueprint;
    const float *scale = s->weights->layers[layer].altup_scale, *active = s->streams[b->altup.active];
    float *read = step_floats(s, s->n, b->hidden);
    if (!read) return false;
    for (int r = 0; r < s->n; r++)
        for (int c = 0; c < b->hidden; c++) {
            size_t at = (size_t)r * (size_t)b->hidden + (size_t)c;
            read[at] = scale ? active[at] * scale[c] : active[at];
        }
    if (!per_layer_apply(s, layer, read, scratch)) return false;
    for (int i = 1; i < b->altup.n; i++) ops_add(s->pool, s->streams[i], scratch, s->streams[i], s->n, b->hidden);
    return true;
}

bool altup_correct(Step *s, int layer, float *scratch) {
    const Blueprint *b = s->blueprint;
    int n = b->altup.n;
    float *modality = modalities(s, layer, s->hidden, scratch), *coefs = step_floats(s, s->n, n);
    LinearJob job = {.w = s->weights->layers[layer].altup_correct, .y = coefs};
    if (!modality || !coefs || !step_linear(s, &job, 1, modality, n, layer, "altup correction")) return false;
    MixJob mix = {s, coefs};
    pool_run(s->pool, correct_task, &mix, (s->n + MIX_ROWS - 1) / MIX_ROWS);
    step_tap(s, layer, "altup correction", s->streams[b->altup.active], b->hidden);
    return !s->per_layer || add_layer_input(s, layer, scratch);
}

/* ---- into and out of the streams ---- */

/* x scaled to the magnitude (root of the mean square, at least 1e-5 under the root) of `like`, row by row; sums in
 * double. */
static void match_magnitude(float *x, const float *like, int rows, int cols) {
    for (int r = 0; r < rows; r++) {
        float *to = x + (size_t)r * (size_t)cols;
        const float *from = like + (size_t)r * (size_t)cols;
        double own = 0, target = 0;
        for (int c = 0; c < cols; c++) {
            own += (double)to[c] * (double)to[c];
            target += (double)from[c] * (double)from[c];
        }
        float factor = (float)(sqrt(target / cols) / sqrt(fmax(own / cols, 1e-5)));
        for (int c = 0; c < cols; c++) to[c] *= factor;
    }
}

bool altup_begin(Step *s) {
    const Blueprint *b = s->blueprint;
    for (int i = 0; i < b->altup.n; i++)
        if (!(s->streams[i] = step_keep(s, b->hidden))) return false;
    memcpy(s->streams[0], s->hidden, (size_t)s->n * (size_t)b->hidden * sizeof *s->hidden);
    for (int i = 1; i < b->altup.n; i++) {
        LinearJob job = {.w = s->weights->altup_embed[i - 1], .y = s->streams[i]};
        if (!step_linear(s, &job, 1, s->hidden, b->hidden, -1, "altup projection")) return false;
        match_magnitude(s->streams[i], s->hidden, s->n, b->hidden);
    }
    return true;
}

bool altup_end(Step *s) {
    const Blueprint *b = s->blueprint;
    float *out = step_floats(s, s->n, b->hidden);
    if (!out) return false;
    memcpy(s->hidden, s->streams[0], (size_t)s->n * (size_t)b->hidden * sizeof *s->hidden);
    for (int i = 1; i < b->altup.n; i++) {
        LinearJob job = {.w = s->weights->altup_unembed[i - 1], .y = out};
        if (!step_linear(s, &job, 1, s->streams[i], b->hidden, -1, "altup projection")) return false;
        match_magnitude(out, s->streams[0], s->n, b->hidden);
        ops_add(s->pool, s->hidden, out, s->hidden, s->n, b->hidden);
    }
    ops_scale(s->pool, s->hidden, 1 / (float)b->altup.n, s->hidden, s->n, b->hidden);
    return true;
}

/* ---- Laurel ---- */

bool laurel_add(Step *s, int layer, const float *x, const float *y) {
    const Blueprint *b = s->blueprint;
    const LaurelSpec *l = &b->layers[layer].laurel;
    const LayerWeights *w = &s->weights->layers[layer];
    float *low = step_floats(s, s->n, l->rank), *high = step_floats(s, s->n, b->hidden);
    LinearJob left = {.w = w->laurel_left, .y = low}, right = {.w = w->laurel_right, .y = high};
    if (!low || !high || !step_linear(s, &left, 1, x, b->hidden, layer, "laurel") ||
        !step_linear(s, &right, 1, low, l->rank, layer, "laurel"))
        return false;
    step_norm(s, &l->norm, &w->laurel_norm, high, high, s->n, b->hidden);
    ops_add(s->pool, high, x, high, s->n, b->hidden);
    ops_add(s->pool, s->hidden, y, s->hidden, s->n, b->hidden);
    ops_add(s->pool, s->hidden, high, s->hidden, s->n, b->hidden);
    ops_scale(s->pool, s->hidden, 0.70710678f, s->hidden, s->n, b->hidden);
    step_tap(s, layer, "laurel", s->hidden, b->hidden);
    return true;
}
