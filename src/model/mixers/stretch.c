/* Finding stretches, and running convolutions along them. */
#include "model/mixers/stretch.h"
#include "math/recurrent.h"

Stretch *stretches_of(Step *s, int *n) {
    Stretch *list = arena_array(s->arena, (size_t)s->n, sizeof *list);
    *n = 0;
    for (int r = 0; list && r < s->n; r++) {
        if (*n > 0 && list[*n - 1].state == s->rows[r].state)
            list[*n - 1].n++;
        else
            list[(*n)++] = (Stretch){s->rows[r].state, r, 1};
    }
    return list;
}

/* ---- convolutions ---- */

typedef struct ConvRun {
    const Stretch *stretches;
    const ConvPart *parts;
    int layer, kernel, n_parts;
} ConvRun;

size_t conv_windows(int kernel, int channels) {
    return (size_t)(kernel - 1) * (size_t)channels;
}

/* Task i * parts + j: part j of stretch i. */
static void conv_task(void *context, int task, int thread) {
    const ConvRun *r = context;
    const Stretch *t = &r->stretches[task / r->n_parts];
    const ConvPart *part = &r->parts[task % r->n_parts];
    float *window = state_recurrent(t->state, r->layer);
    (void)thread;
    for (const ConvPart *p = r->parts; p < part; p++) window += conv_windows(r->kernel, p->channels);
    for (int i = 0; i < t->n; i++) {
        size_t at = (size_t)(t->first + i) * (size_t)part->channels;
        ConvStep step = {part->channels, r->kernel,    part->conv->weights, part->conv->bias,
                         window,         part->x + at, part->y + at};
        recurrent_conv_step(&step);
    }
}

void conv_stretches(const Step *s, int layer, const Stretch *stretches, int n, int kernel, const ConvPart *parts,
                    int n_parts) {
    ConvRun run = {stretches, parts, layer, kernel, n_parts};
    pool_run(s->pool, conv_task, &run, n * n_parts);
}
