/* Attention: softmax(q k^T scale) v over the positions a row sees, with grouped key-value heads, rotary positions and
 * an optional window. Keys and values of all rows are written before any row attends, so that a row of a prefill chunk
 * finds those of the rows before it where it would find them after a step of its own. */
#include "model/mechanism.h"

#include <stdio.h>

enum { WRITE_ROWS = 8, MAX_HEAD_DIM = 1024 /* of math/attend.c */ };

static bool attention_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const AttentionSpec *a = &spec->attention;
    int64_t hidden = bind_hidden(b), q = (int64_t)a->n_heads * a->head_dim, kv = (int64_t)a->n_kv_heads * a->head_dim;
    if (a->n_heads % a->n_kv_heads)
        return bind_fail(b, "config.json: %d attention heads do not divide over %d key-value heads", a->n_heads,
                         a->n_kv_heads);
    if (q > CONFIG_MAX_SIZE || a->head_dim > MAX_HEAD_DIM)
        return bind_fail(b, "config.json: %d heads of %d dims are more than any model has", a->n_heads, a->head_dim);
    return bind_linear(b, a->q, layer, q, hidden, &out->q) && bind_linear(b, a->k, layer, kv, hidden, &out->k) &&
           bind_linear(b, a->v, layer, kv, hidden, &out->v) && bind_linear(b, a->o, layer, hidden, q, &out->o);
}

typedef struct WriteJob {
    const Step *step;
    const float *k, *v;
    int layer, width;
    bool *bad; /* [rows] */
} WriteJob;

static void write_task(void *context, int task, int thread) {
    const WriteJob *job = context;
    const Step *s = job->step;
    (void)thread;
    for (int r = task * WRITE_ROWS; r < (task + 1) * WRITE_ROWS && r < s->n; r++) {
        size_t at = (size_t)r * (size_t)job->width;
        job->bad[r] =
            !kv_write(state_layer(s->rows[r].state, job->layer), s->rows[r].position, job->k + at, job->v + at);
    }
}

/* Positions are distinct, so rows can be written in any order. */
static bool write_keys_values(Step *s, int layer, const float *k, const float *v, int width) {
    bool *bad = arena_array(s->arena, (size_t)s->n, sizeof *bad);
    WriteJob job = {s, k, v, layer, width, bad};
    if (!bad) return false;
    pool_run(s->pool, write_task, &job, (s->n + WRITE_ROWS - 1) / WRITE_ROWS);
    for (int r = 0; r < s->n; r++)
        if (bad[r]) step_fail(s, r, layer, "kv_write");
    return true;
}

static bool attend_rows(Step *s, int layer, const AttentionSpec *a, const float *q, float *out) {
    AttendRow *rows = arena_array(s->arena, (size_t)s->n, sizeof *rows);
    AttendArgs args = {.n_heads = a->n_heads, .scale = a->scale};
    size_t width = (size_t)a->n_heads * (size_t)a->head_dim;
    if (!rows) return false;
    for (int r = 0; r < s->n; r++) {
        int position = s->rows[r].position;
        rows[r] = (AttendRow){.view = state_layer(s->rows[r].state, layer),
                              .first = a->window && position >= a->window ? position - a->window + 1 : 0,
                              .position = position,
                              .q = q + (size_t)r * width,
                              .out = out + (size_t)r * width};
    }
    return attend(&args, rows, s->n, s->pool, s->arena);
}

/* Keys and values of all rows into the cache; k and v as they left their linears. */
static bool store_keys_values(Step *s, int layer, float *k, float *v) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const RopeAngles *angles = &s->angles[a->rope];
    int width = a->n_kv_heads * a->head_dim;
    step_tap(s, layer, "k_proj", k, width);
    step_tap(s, layer, "v_proj", v, width);
    rope_rotate(s->pool, &s->blueprint->ropes[a->rope].table, angles->cos, angles->sin, k, s->n, a->n_kv_heads,
                a->head_dim);
    step_tap(s, layer, "rope k", k, width);
    return write_keys_values(s, layer, k, v, width);
}

/* q as it left its linear; what the rows see, through the output projection. */
static bool read_values(Step *s, int layer, float *q, float *out) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    const RopeAngles *angles = &s->angles[a->rope];
    int width = a->n_heads * a->head_dim;
    float *mixed = step_floats(s, s->n, width);
    step_tap(s, layer, "q_proj", q, width);
    rope_rotate(s->pool, &s->blueprint->ropes[a->rope].table, angles->cos, angles->sin, q, s->n, a->n_heads,
                a->head_dim);
    step_tap(s, layer, "rope q", q, width);
    if (!mixed || !attend_rows(s, layer, a, q, mixed)) return false;
    step_zero_failed(s, mixed, width);
    step_tap(s, layer, "attention", mixed, width);
    LinearJob o = {s->weights->layers[layer].o, out};
    if (!step_linear(s, &o, 1, mixed, width, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

static float *queries(Step *s, int layer) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    return step_floats(s, s->n, a->n_heads * a->head_dim);
}

static float *keys_or_values(Step *s, int layer) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    return step_floats(s, s->n, a->n_kv_heads * a->head_dim);
}

static bool attention_run(Step *s, int layer, const float *x, float *out) {
    const LayerWeights *w = &s->weights->layers[layer];
    float *q = queries(s, layer), *k = keys_or_values(s, layer), *v = keys_or_values(s, layer);
    LinearJob qkv[] = {{w->q, q}, {w->k, k}, {w->v, v}};
    return q && k && v && step_linear(s, qkv, 3, x, s->blueprint->hidden, layer, "q_proj") &&
           store_keys_values(s, layer, k, v) && read_values(s, layer, q, out);
}

static bool attention_store(Step *s, int layer, const float *x) {
    const LayerWeights *w = &s->weights->layers[layer];
    float *k = keys_or_values(s, layer), *v = keys_or_values(s, layer);
    LinearJob kv[] = {{w->k, k}, {w->v, v}};
    return k && v && step_linear(s, kv, 2, x, s->blueprint->hidden, layer, "q_proj") &&
           store_keys_values(s, layer, k, v);
}

static bool attention_read(Step *s, int layer, const float *x, float *out) {
    float *q = queries(s, layer);
    LinearJob job = {s->weights->layers[layer].q, q};
    return q && step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "q_proj") && read_values(s, layer, q, out);
}

static const char *attention_kind(const LayerSpec *spec) {
    return spec->attention.window ? "sliding" : "full";
}

static void attention_describe(const LayerSpec *spec, Buffer *out) {
    const AttentionSpec *a = &spec->attention;
    buffer_printf(out, "attention: %d heads, %d key-value heads, %d dims", a->n_heads, a->n_kv_heads, a->head_dim);
    if (a->window) buffer_printf(out, ", window %d", a->window);
    if (a->q.bias) buffer_text(out, ", biases");
}

const Mechanism mixer_attention = {.name = "attention",
                                   .bind = attention_bind,
                                   .run = attention_run,
                                   .store = attention_store,
                                   .read = attention_read,
                                   .kind = attention_kind,
                                   .describe = attention_describe};
