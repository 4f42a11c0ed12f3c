/* Attention over residuals (Kimi K3). Everything here is a row's own: the softmax runs over the blocks of layers so far
 * and the running sum, whose logits are all one projection's, each of a normed row; the mix is in that order from +0.
 */
#include "model/step.h"

#include <string.h>

enum { MIX_ROWS = 4 };

typedef struct MixJob {
    const Step *step;
    const float *logits; /* [blocks + 1][n] */
    float *out;
} MixJob;

static const float *source_of(const Step *s, int i) {
    return i < s->n_blocks ? s->blocks[i] : s->hidden;
}

static void mix_task(void *context, int task, int thread) {
    const MixJob *job = context;
    const Step *s = job->step;
    size_t hidden = (size_t)s->blueprint->hidden;
    (void)thread;
    for (int r = task * MIX_ROWS; r < (task + 1) * MIX_ROWS && r < s->n; r++) {
        float *out = job->out + (size_t)r * hidden, share[BLOCKS_MAX + 1];
        for (int i = 0; i <= s->n_blocks; i++) share[i] = job->logits[i * s->n + r];
        ops_softmax(share, share, s->n_blocks + 1);
        memset(out, 0, hidden * sizeof *out);
        for (int i = 0; i <= s->n_blocks; i++) {
            const float *from = source_of(s, i) + (size_t)r * hidden;
            for (size_t c = 0; c < hidden; c++) out[c] += share[i] * from[c];
        }
    }
}

const float *residual_read(Step *s, int layer, const ResidualSpec *spec, const ResidualWeights *w, float *to) {
    int hidden = s->blueprint->hidden;
    if (s->n_blocks == 0) return s->hidden;
    float *logits = step_floats(s, s->n_blocks + 1, s->n);
    MixJob job = {s, logits, to};
    for (int i = 0; i <= s->n_blocks; i++) {
        LinearJob proj = {.w = w->proj, .y = logits + (size_t)i * (size_t)s->n};
        step_norm(s, &spec->norm, &w->norm, source_of(s, i), to, s->n, hidden);
        if (!logits || !step_linear(s, &proj, 1, to, hidden, layer, "residual logits")) return NULL;
    }
    pool_run(s->pool, mix_task, &job, (s->n + MIX_ROWS - 1) / MIX_ROWS);
    step_zero_failed(s, to, hidden);
    step_tap(s, layer, "mixed residuals", to, hidden);
    return to;
}

int residual_blocks(const Blueprint *b) {
    return b->residual_block ? (b->n_layers + b->residual_block - 1) / b->residual_block : 0;
}

bool residual_prepare(Step *s) {
    for (int i = 0; i < residual_blocks(s->blueprint); i++)
        if (!(s->blocks[i] = step_keep(s, s->blueprint->hidden))) return false;
    return true;
}

void residual_begin(Step *s, int layer) {
    const Blueprint *b = s->blueprint;
    size_t bytes = (size_t)s->n * (size_t)b->hidden * sizeof(float);
    if (b->residual_block == 0 || layer % b->residual_block) return;
    memcpy(s->blocks[s->n_blocks++], s->hidden, bytes);
    memset(s->hidden, 0, bytes);
}
