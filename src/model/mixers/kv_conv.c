/* The convolutions of keys and of values run along each sequence's rows, side by side. */
#include "model/mixers/kv_conv.h"
#include "model/mixers/stretch.h"

size_t kv_conv_state(int kernel, int k_width, int v_width) {
    return (size_t)(kernel - 1) * ((size_t)k_width + (size_t)v_width);
}

bool kv_conv_bind(Binder *b, const AttentionSpec *a, int layer, int k_width, int v_width, AttentionWeights *w) {
    return bind_conv(b, &a->k_conv, layer, k_width, a->kernel, &w->k_conv) &&
           bind_conv(b, &a->v_conv, layer, v_width, a->kernel, &w->v_conv);
}

typedef struct KvConvJob {
    const Stretch *stretches;
    const AttentionWeights *w;
    int layer, kernel, k_width, v_width;
    const float *k, *v;
    float *k_out, *v_out;
} KvConvJob;

/* Task 2 i: keys of stretch i; 2 i + 1: its values. */
static void conv_task(void *context, int task, int thread) {
    const KvConvJob *j = context;
    const Stretch *t = &j->stretches[task / 2];
    float *window = state_recurrent(t->state, j->layer);
    (void)thread;
    if (task % 2 == 0) {
        stretch_conv(t, &j->w->k_conv, j->k_width, j->kernel, window, j->k, j->k_out);
    } else {
        window += (size_t)(j->kernel - 1) * (size_t)j->k_width;
        stretch_conv(t, &j->w->v_conv, j->v_width, j->kernel, window, j->v, j->v_out);
    }
}

bool kv_conv_apply(Step *s, int layer, int k_width, int v_width, float **k, float **v) {
    int n;
    KvConvJob job = {.stretches = stretches_of(s, &n),
                     .w = &s->weights->layers[layer].attention,
                     .layer = layer,
                     .kernel = s->blueprint->layers[layer].attention.kernel,
                     .k_width = k_width,
                     .v_width = v_width,
                     .k = *k,
                     .v = *v,
                     .k_out = step_floats(s, s->n, k_width),
                     .v_out = step_floats(s, s->n, v_width)};
    if (!job.stretches || !job.k_out || !job.v_out) return false;
    pool_run(s->pool, conv_task, &job, 2 * n);
    *k = job.k_out;
    *v = job.v_out;
    return true;
}
