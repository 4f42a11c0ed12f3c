/* The forward path. It reads like the paper: embed; in each layer norm, mix, add, norm, feed forward, add; norm, head.
 *
 * Every operation is row by row but attention, which sees other rows of the same sequence only. A row that fails
 * becomes zeros and stays in place, so that no loop needs to know. Invariant: nothing here looks at how many rows there
 * are except to schedule work. */
#include "model/mechanism.h"

#include <string.h>

enum { EMBED_ROWS = 16, FINITE_ROWS = 4 };

float *step_floats(Step *s, int rows, int cols) {
    return arena_array(s->arena, (size_t)rows * (size_t)cols, sizeof(float));
}

void step_tap(const Step *s, int layer, const char *operation, const float *values, int cols) {
    if (!s->tap) return;
    const LayerSpec *spec = layer < 0 ? NULL : &s->blueprint->layers[layer];
    s->tap(s->tap_context, layer, spec ? spec->mixer->kind(spec) : "", operation, values, s->n, cols);
}

/* ---- faults ---- */

void step_fail(Step *s, int row, int layer, const char *operation) {
    size_t hidden = (size_t)s->blueprint->hidden;
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
    if (!a || !linear_apply(jobs, n_jobs, a, s->pool, s->arena)) return false;
    if (activations_first_bad(a) >= 0)
        for (int r = 0; r < s->n; r++)
            if (activations_bad(a, r)) step_fail(s, r, layer, operation);
    for (int j = 0; j < n_jobs; j++) step_zero_failed(s, jobs[j].y, linear_rows(jobs[j].w));
    return true;
}

/* ---- embedding ---- */

static void embed_task(void *context, int task, int thread) {
    const Step *s = context;
    size_t hidden = (size_t)s->blueprint->hidden;
    (void)thread;
    for (int r = task * EMBED_ROWS; r < (task + 1) * EMBED_ROWS && r < s->n; r++) {
        float *out = s->hidden + (size_t)r * hidden;
        if (s->rows[r].embedding)
            memcpy(out, s->rows[r].embedding, hidden * sizeof *out);
        else
            linear_row(s->weights->embedding, s->rows[r].token, out);
    }
}

static void embed(Step *s) {
    pool_run(s->pool, embed_task, s, (s->n + EMBED_ROWS - 1) / EMBED_ROWS);
    step_tap(s, -1, "embedding", s->hidden, s->blueprint->hidden);
}

/* ---- layers ---- */

static bool layer_forward(Step *s, int layer, float *x, float *y) {
    const Blueprint *b = s->blueprint;
    const LayerSpec *spec = &b->layers[layer];
    const LayerWeights *w = &s->weights->layers[layer];

    ops_rms_norm(s->pool, s->hidden, w->mixer_norm, b->norm_eps, x, s->n, b->hidden);
    step_tap(s, layer, "mixer norm", x, b->hidden);
    if (!spec->mixer->run(s, layer, x, y)) return false;
    ops_add_rms_norm(s->pool, s->hidden, y, s->hidden, w->ffn_norm, b->norm_eps, x, s->n, b->hidden);
    step_tap(s, layer, "ffn norm", x, b->hidden);
    if (!spec->ffn->run(s, layer, x, y)) return false;
    ops_add(s->pool, s->hidden, y, s->hidden, s->n, b->hidden);
    step_tap(s, layer, "residual", s->hidden, b->hidden);
    return true;
}

/* ---- head ---- */

typedef struct FiniteJob {
    const float *logits;
    int rows, vocab;
    bool *finite;
} FiniteJob;

static void finite_task(void *context, int task, int thread) {
    const FiniteJob *job = context;
    (void)thread;
    for (int r = task * FINITE_ROWS; r < (task + 1) * FINITE_ROWS && r < job->rows; r++)
        job->finite[r] = ops_all_finite(job->logits + (size_t)r * (size_t)job->vocab, job->vocab);
}

/* The hidden rows that want logits, in a row of their own; `from` gets where each came from. */
static float *gather_wanted(Step *s, int *from, int n_wanted) {
    size_t hidden = (size_t)s->blueprint->hidden;
    float *wanted = step_floats(s, n_wanted, s->blueprint->hidden);
    for (int r = 0, i = 0; wanted && r < s->n; r++)
        if (s->rows[r].wants_logits) {
            memcpy(wanted + (size_t)i * hidden, s->hidden + (size_t)r * hidden, hidden * sizeof *wanted);
            from[i++] = r;
        }
    return wanted;
}

/* Marks the rows whose head input or logits are not finite, and gives failed rows zeros. */
static bool check_logits(Step *s, Activations *a, const int *from, float *logits, int n) {
    int vocab = s->blueprint->vocab;
    bool *finite = arena_array(s->arena, (size_t)n, sizeof *finite);
    FiniteJob job = {logits, n, vocab, finite};
    if (!finite) return false;
    pool_run(s->pool, finite_task, &job, (n + FINITE_ROWS - 1) / FINITE_ROWS);
    for (int i = 0; i < n; i++)
        if (!finite[i] || activations_bad(a, i)) step_fail(s, from[i], -1, "logits");
    for (int i = 0; i < n && s->n_failed; i++)
        if (s->faults[from[i]].failed) memset(logits + (size_t)i * (size_t)vocab, 0, (size_t)vocab * sizeof *logits);
    return true;
}

static bool head_forward(Step *s, int n, const float **out) {
    const Blueprint *b = s->blueprint;
    int *from = arena_array(s->arena, (size_t)n, sizeof *from);
    float *logits = step_floats(s, n, b->vocab), *x = from ? gather_wanted(s, from, n) : NULL;
    if (!logits || !x) return false;
    ops_rms_norm(s->pool, x, s->weights->final_norm, b->norm_eps, x, n, b->hidden);
    Activations *a = activations_new(s->arena, x, n, b->hidden, s->numeric->activation_bits);
    LinearJob job = {s->weights->head, logits};
    if (!a || !linear_apply(&job, 1, a, s->pool, s->arena) || !check_logits(s, a, from, logits, n)) return false;
    if (n == s->n) { /* the tap shows values of all rows or none */
        step_tap(s, -1, "final norm", x, b->hidden);
        step_tap(s, -1, "logits", logits, b->vocab);
    }
    *out = logits;
    return true;
}

static bool make_angles(Step *s) {
    const Blueprint *b = s->blueprint;
    RopeAngles *angles = arena_array(s->arena, (size_t)b->n_ropes, sizeof *angles);
    for (int i = 0; angles && i < b->n_ropes; i++) {
        const RopeTable *table = &b->ropes[i].table;
        angles[i].cos = step_floats(s, s->n, table->dims / 2);
        angles[i].sin = step_floats(s, s->n, table->dims / 2);
        if (!angles[i].cos || !angles[i].sin) return false;
        rope_angles(s->pool, table, s->positions, s->n, angles[i].cos, angles[i].sin);
    }
    s->angles = angles;
    return angles != NULL;
}

bool decoder_run(Step *s, const float **logits) {
    const Blueprint *b = s->blueprint;
    int n_wanted = 0;
    s->hidden = step_floats(s, s->n, b->hidden);
    float *x = step_floats(s, s->n, b->hidden), *y = step_floats(s, s->n, b->hidden);
    if (!s->hidden || !x || !y || !make_angles(s)) return false;

    embed(s);
    for (int i = 0; i < b->n_layers; i++) {
        ArenaMark mark = arena_mark(s->arena);
        if (!layer_forward(s, i, x, y)) return false;
        arena_rewind(s->arena, mark);
    }
    for (int r = 0; r < s->n; r++) n_wanted += s->rows[r].wants_logits;
    *logits = NULL;
    return n_wanted == 0 || head_forward(s, n_wanted, logits);
}
