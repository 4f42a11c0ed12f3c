/* Per-layer inputs. Each layer's is (norm(projection of the embedded row) + the token's own) / sqrt(2); a row that was
 * given as an embedding has no token, so its projection alone. */
#include "model/step.h"

#include <string.h>

enum { LOOK_UP_ROWS = 16 };

typedef struct LookUp {
    const Step *step;
    float *scratch; /* [threads][n_layers * width] */
} LookUp;

static void look_up_task(void *context, int task, int thread) {
    const LookUp *job = context;
    const Step *s = job->step;
    const PerLayerSpec *p = &s->blueprint->per_layer;
    size_t width = (size_t)p->width * (size_t)s->blueprint->n_layers;
    float *own = job->scratch + (size_t)thread * width;
    for (int r = task * LOOK_UP_ROWS; r < (task + 1) * LOOK_UP_ROWS && r < s->n; r++) {
        float *out = s->per_layer + (size_t)r * width;
        if (s->rows[r].embedding) continue;
        int32_t token = s->rows[r].token < p->vocab ? s->rows[r].token : 0; /* as the references do with ids past it */
        linear_row(s->weights->per_layer_embedding, token, own);
        for (size_t i = 0; i < width; i++) out[i] = (out[i] + own[i] * p->embedding_scale) * 0.70710678f;
    }
}

bool per_layer_prepare(Step *s) {
    const Blueprint *b = s->blueprint;
    const PerLayerSpec *p = &b->per_layer;
    int width = p->width * b->n_layers;
    LookUp job = {s, step_floats(s, pool_threads(s->pool), width)};
    s->per_layer = step_keep(s, width);
    LinearJob projection = {.w = s->weights->per_layer_projection, .y = s->per_layer};
    if (!job.scratch || !s->per_layer || !step_linear(s, &projection, 1, s->hidden, b->hidden, -1, "per-layer inputs"))
        return false;
    ops_scale(s->pool, s->per_layer, p->hidden_scale, s->per_layer, s->n, width);
    step_norm(s, &p->norm, &s->weights->per_layer_norm, s->per_layer, s->per_layer, s->n * b->n_layers, p->width);
    pool_run(s->pool, look_up_task, &job, (s->n + LOOK_UP_ROWS - 1) / LOOK_UP_ROWS);
    return true;
}

bool per_layer_apply(Step *s, int layer, const float *x, float *to) {
    const Blueprint *b = s->blueprint;
    const PerLayerSpec *p = &b->per_layer;
    const LayerWeights *w = &s->weights->layers[layer];
    float *gate = step_floats(s, s->n, p->width), *input = step_floats(s, s->n, p->width);
    LinearJob in = {.w = w->per_layer_gate, .y = gate}, out = {.w = w->per_layer_out, .y = to};
    if (!gate || !input || !step_linear(s, &in, 1, x, b->hidden, layer, "per-layer gate")) return false;
    for (int r = 0; r < s->n; r++)
        memcpy(input + (size_t)r * (size_t)p->width,
               s->per_layer + ((size_t)r * (size_t)b->n_layers + (size_t)layer) * (size_t)p->width,
               (size_t)p->width * sizeof *input);
    ops_act_mul(s->pool, p->act, gate, input, gate, s->n, p->width);
    if (!step_linear(s, &out, 1, gate, p->width, layer, "per-layer projection")) return false;
    step_norm(s, &p->out_norm, &w->per_layer_norm, to, to, s->n, b->hidden);
    step_tap(s, layer, "per-layer input", to, b->hidden);
    return true;
}
