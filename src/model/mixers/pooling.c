/* Pooling, channel by channel: the maximum over an entry's rows, exponentials, their sum and the weighted values, all
 * in ascending position. Rows are read where the state keeps them, also those of the same step, so that an entry is the
 * same however the prompt was cut. The first entry of an overlapping pool has no group before it. */
#include "model/mixers/pooling.h"
#include "math/kernel_table.h"

#include <string.h>

bool pooling_bind(Binder *b, const PoolSpec *p, int layer, PoolWeights *out) {
    int64_t width = (int64_t)p->dim * (p->overlap ? 2 : 1), hidden = bind_hidden(b);
    if (p->every == 0) return true;
    if (p->every > 4096 || width > CONFIG_MAX_SIZE / 8)
        return bind_fail(b, "config.json: entries of %d dims for %d positions are more than any model has", p->dim,
                         p->every);
    return bind_linear(b, &p->kv, layer, width, hidden, &out->kv) &&
           bind_linear(b, &p->gate, layer, width, hidden, &out->gate) &&
           bind_vector(b, p->bias, layer, width * p->every, 0, &out->bias) &&
           bind_norm(b, &p->norm, layer, p->dim, &out->norm);
}

int pooling_width(const PoolSpec *p) {
    return p->every > 1 ? p->dim * (p->overlap ? 2 : 1) : 0;
}

int pooling_window(const PoolSpec *p) {
    return p->every * (p->overlap ? 2 : 1);
}

bool pooling_completed(Step *s, int every, Completed *out) {
    Completed c = {.rows = arena_array(s->arena, (size_t)s->n, sizeof *c.rows),
                   .entries = arena_array(s->arena, (size_t)s->n, sizeof *c.entries),
                   .positions = arena_array(s->arena, (size_t)s->n, sizeof *c.positions)};
    if (!c.rows || !c.entries || !c.positions) return false;
    for (int r = 0; r < s->n; r++) {
        if ((s->positions[r] + 1) % every) continue;
        c.rows[c.n] = r;
        c.entries[c.n] = s->positions[r] / every;
        c.positions[c.n++] = s->positions[r] + 1 - every;
    }
    *out = c;
    return true;
}

typedef struct PoolJob {
    const Step *step;
    const PoolSpec *spec;
    const PoolWeights *weights;
    const PoolSource *from;
    const Completed *done;
    float *out;
    float *scratch; /* [threads][scratch_floats] */
} PoolJob;

/* Gates of all slots of an entry, then a maximum and a sum per channel. */
static size_t scratch_floats(const PoolSpec *p) {
    return (size_t)(pooling_window(p) + 2) * (size_t)p->dim;
}

/* One entry's slots: n of them, of which the last `every` are its own rows. */
typedef struct Slots {
    const KvView *view;
    int first, n; /* position of slot 0 */
} Slots;

/* The values of a slot; its gates lie pooling_width after. */
static const float *slot_values(const PoolJob *job, const Slots *slots, int i) {
    const PoolSpec *p = job->spec;
    bool own = i >= slots->n - p->every;
    return kv_value(slots->view, slots->first + i) + job->from->at + (p->overlap && own ? p->dim : 0);
}

/* gates [n][dim], biases added. */
static void read_gates(const PoolJob *job, const Slots *slots, float *gates) {
    const PoolSpec *p = job->spec;
    int dim = p->dim, width = pooling_width(p);
    for (int i = 0; i < slots->n; i++) {
        const float *from = slot_values(job, slots, i) + width;
        int row = (slots->first + i) % p->every, part = p->overlap && i >= slots->n - p->every ? dim : 0;
        const float *bias = job->weights->bias ? job->weights->bias + (size_t)row * (size_t)width + part : NULL;
        for (int c = 0; c < dim; c++) gates[i * dim + c] = bias ? from[c] + bias[c] : from[c];
    }
}

/* gates -> exp(gate - maximum), and their sums. */
static void weigh_gates(float *gates, int n, int dim, float *most, float *sum) {
    memcpy(most, gates, (size_t)dim * sizeof *most);
    for (int i = 1; i < n; i++)
        for (int c = 0; c < dim; c++) most[c] = gates[i * dim + c] > most[c] ? gates[i * dim + c] : most[c];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < dim; c++) gates[i * dim + c] -= most[c];
    ElementJob exp = {.kind = ELEMENT_ACT, .act = ACT_EXP, .x = gates, .y = gates, .n = n * dim};
    kernels()->elements(&exp);
    memset(sum, 0, (size_t)dim * sizeof *sum);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < dim; c++) sum[c] += gates[i * dim + c];
}

static void pool_task(void *context, int task, int thread) {
    const PoolJob *job = context;
    const PoolSpec *p = job->spec;
    int dim = p->dim, entry = job->done->entries[task], before = p->overlap && entry > 0 ? p->every : 0;
    Slots slots = {step_side(job->step, STEP_RAW, job->from->layer, job->done->rows[task]),
                   job->done->positions[task] - before, p->every + before};
    float *gates = job->scratch + (size_t)thread * scratch_floats(p), *most = gates + (size_t)slots.n * (size_t)dim;
    float *sum = most + dim, *out = job->out + (size_t)task * (size_t)dim;
    read_gates(job, &slots, gates);
    weigh_gates(gates, slots.n, dim, most, sum);
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int i = 0; i < slots.n; i++) {
        const float *values = slot_values(job, &slots, i);
        for (int c = 0; c < dim; c++) out[c] += values[c] * (gates[i * dim + c] / sum[c]);
    }
}

bool pooling_run(Step *s, const PoolSpec *spec, const PoolWeights *w, const PoolSource *from, const Completed *done,
                 float *out) {
    PoolJob job = {s, spec, w, from, done, out, NULL};
    job.scratch = arena_array(s->arena, (size_t)pool_threads(s->pool), scratch_floats(spec) * sizeof *job.scratch);
    if (!job.scratch) return false;
    pool_run(s->pool, pool_task, &job, done->n);
    ops_rms_norm(s->pool, out, w->norm.weight, spec->norm.eps, out, done->n, spec->dim);
    return true;
}
