/* The shift goes along a sequence's rows, and over the end of a step by way of its state; everything else is row by
 * row.
 */
#include "model/mixers/token_shift.h"

#include <string.h>

enum { ROWS = 8 }; /* of a task */

float *token_shift(Step *s, int layer, const Stretch *stretches, int n_stretches, const float *x) {
    size_t hidden = (size_t)s->blueprint->hidden;
    float *shift = step_floats(s, s->n, s->blueprint->hidden);
    for (int i = 0; shift && i < n_stretches; i++) {
        const Stretch *t = &stretches[i];
        float *kept = state_recurrent(t->state, layer);
        for (int r = t->first; r < t->first + t->n; r++) {
            const float *now = x + (size_t)r * hidden, *before = r == t->first ? kept : now - hidden;
            for (size_t c = 0; c < hidden; c++) shift[(size_t)r * hidden + c] = before[c] - now[c];
        }
        memcpy(kept, x + (size_t)(t->first + t->n - 1) * hidden, hidden * sizeof *kept);
    }
    return shift;
}

typedef struct MixJob {
    const float *x, *shift, *mix;
    float *out;
    int rows;
    size_t cols;
} MixJob;

static void mix_task(void *context, int task, int thread) {
    const MixJob *job = context;
    (void)thread;
    for (int r = task * ROWS; r < (task + 1) * ROWS && r < job->rows; r++) {
        size_t at = (size_t)r * job->cols;
        for (size_t c = 0; c < job->cols; c++) {
            float part = job->shift[at + c] * job->mix[c];
            job->out[at + c] = job->x[at + c] + part;
        }
    }
}

void token_mix(const Step *s, const float *x, const float *shift, const float *mix, float *out) {
    MixJob job = {x, shift, mix, out, s->n, (size_t)s->blueprint->hidden};
    pool_run(s->pool, mix_task, &job, (s->n + ROWS - 1) / ROWS);
}
