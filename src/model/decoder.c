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

static void mixer_norm(Step *s, int layer, float *x) {
    const Blueprint *b = s->blueprint;
    ops_rms_norm(s->pool, s->hidden, s->weights->layers[layer].mixer_norm, b->norm_eps, x, s->n, b->hidden);
    step_tap(s, layer, "mixer norm", x, b->hidden);
}

/* A layer after its mixer: add, norm, feed forward, add. x is scratch; y holds the mixer's output and is scratch then.
 */
static bool layer_finish(Step *s, int layer, float *x, float *y) {
    const Blueprint *b = s->blueprint;
    const LayerWeights *w = &s->weights->layers[layer];
    ops_add_rms_norm(s->pool, s->hidden, y, s->hidden, w->ffn_norm, b->norm_eps, x, s->n, b->hidden);
    step_tap(s, layer, "ffn norm", x, b->hidden);
    if (!b->layers[layer].ffn->run(s, layer, x, y)) return false;
    ops_add(s->pool, s->hidden, y, s->hidden, s->n, b->hidden);
    step_tap(s, layer, "residual", s->hidden, b->hidden);
    return true;
}

static bool layer_forward(Step *s, int layer, float *x, float *y) {
    mixer_norm(s, layer, x);
    return s->blueprint->layers[layer].mixer->run(s, layer, x, y) && layer_finish(s, layer, x, y);
}

/* ---- the last layer, when some rows want no logits ---- */

static void keep_rows(float *x, const int *from, int n, int cols) {
    for (int i = 0; i < n; i++) /* from[i] >= i: nothing is overwritten before it is moved */
        memmove(x + (size_t)i * (size_t)cols, x + (size_t)from[i] * (size_t)cols, (size_t)cols * sizeof *x);
}

/* The step shrinks to the n rows that want logits; from[i] is where row i was. x [n][hidden] shrinks with it. */
static bool keep_wanted(Step *s, const int *from, int n, float *x) {
    const Blueprint *b = s->blueprint;
    Row *rows = arena_array(s->arena, (size_t)n, sizeof *rows);
    RowFault *faults = arena_array(s->arena, (size_t)n, sizeof *faults);
    if (!rows || !faults) return false;
    s->n_failed = 0;
    for (int i = 0; i < n; i++) {
        rows[i] = s->rows[from[i]];
        faults[i] = s->faults[from[i]];
        s->n_failed += faults[i].failed;
    }
    keep_rows(s->hidden, from, n, b->hidden);
    keep_rows(x, from, n, b->hidden);
    for (int i = 0; i < b->n_ropes; i++) {
        keep_rows(s->angles[i].cos, from, n, b->ropes[i].table.dims / 2);
        keep_rows(s->angles[i].sin, from, n, b->ropes[i].table.dims / 2);
    }
    s->rows = rows;
    s->faults = faults;
    s->n = n;
    return true;
}

/* A row that wants no logits is done when its sequence's later rows can see it. */
static bool last_layer_forward(Step *s, int layer, const int *from, int n_wanted, float *x, float *y) {
    const Mechanism *mixer = s->blueprint->layers[layer].mixer;
    mixer_norm(s, layer, x);
    if (!mixer->store(s, layer, x)) return false;
    if (n_wanted == 0) return true;
    return keep_wanted(s, from, n_wanted, x) && mixer->read(s, layer, x, y) && layer_finish(s, layer, x, y);
}

/* Faults of the rows that were kept, back among all; the rows after them of the same sequence fail with them. */
static void return_faults(const Step *kept, const int *from, const Step *all) {
    for (int i = 0; i < kept->n; i++) {
        if (!kept->faults[i].failed) continue;
        for (int r = from[i]; r < all->n && all->rows[r].state == kept->rows[i].state; r++)
            if (!all->faults[r].failed) all->faults[r] = kept->faults[i];
    }
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

/* Marks the rows whose logits are not finite, and gives failed rows zeros. */
static bool check_logits(Step *s, float *logits) {
    int vocab = s->blueprint->vocab;
    bool *finite = arena_array(s->arena, (size_t)s->n, sizeof *finite);
    FiniteJob job = {logits, s->n, vocab, finite};
    if (!finite) return false;
    pool_run(s->pool, finite_task, &job, (s->n + FINITE_ROWS - 1) / FINITE_ROWS);
    for (int r = 0; r < s->n; r++)
        if (!finite[r]) step_fail(s, r, -1, "logits");
    step_zero_failed(s, logits, vocab);
    return true;
}

/* All rows of the step want logits here. */
static bool head_forward(Step *s, float *x, const float **out) {
    const Blueprint *b = s->blueprint;
    float *logits = step_floats(s, s->n, b->vocab);
    LinearJob job = {s->weights->head, logits};
    if (!logits) return false;
    ops_rms_norm(s->pool, s->hidden, s->weights->final_norm, b->norm_eps, x, s->n, b->hidden);
    step_tap(s, -1, "final norm", x, b->hidden);
    if (!step_linear(s, &job, 1, x, b->hidden, -1, "logits") || !check_logits(s, logits)) return false;
    step_tap(s, -1, "logits", logits, b->vocab);
    *out = logits;
    return true;
}

/* ---- the whole ---- */

/* The table of row r. Rows of many sequences may need both in one step. */
static const RopeTable *row_table(const Step *s, const RopeSpec *rope, int r) {
    return rope->boundary && state_side(s->rows[r].state) ? &rope->long_table : &rope->table;
}

static void rope_spec_angles(const Step *s, const RopeSpec *rope, const RopeAngles *out) {
    for (int first = 0, end; first < s->n; first = end) {
        const RopeTable *table = row_table(s, rope, first);
        for (end = first + 1; end < s->n && row_table(s, rope, end) == table;) end++;
        size_t at = (size_t)first * (size_t)(table->dims / 2);
        rope_angles(s->pool, table, s->positions + first, end - first, out->cos + at, out->sin + at);
    }
}

static bool make_angles(Step *s) {
    const Blueprint *b = s->blueprint;
    RopeAngles *angles = arena_array(s->arena, (size_t)b->n_ropes, sizeof *angles);
    for (int i = 0; angles && i < b->n_ropes; i++) {
        int half = b->ropes[i].table.dims / 2;
        angles[i] = (RopeAngles){step_floats(s, s->n, half), step_floats(s, s->n, half)};
        if (!angles[i].cos || !angles[i].sin) return false;
        rope_spec_angles(s, &b->ropes[i], &angles[i]);
    }
    s->angles = angles;
    return angles != NULL;
}

static bool layers_forward(Step *s, int end, float *x, float *y) {
    for (int i = 0; i < end; i++) {
        ArenaMark mark = arena_mark(s->arena);
        if (!layer_forward(s, i, x, y)) return false;
        arena_rewind(s->arena, mark);
    }
    return true;
}

bool decoder_run(Step *s, const float **logits) {
    const Blueprint *b = s->blueprint;
    const Step all = *s;
    int n_wanted = 0, *from = arena_array(s->arena, (size_t)s->n, sizeof *from);
    s->hidden = step_floats(s, s->n, b->hidden);
    float *x = step_floats(s, s->n, b->hidden), *y = step_floats(s, s->n, b->hidden);
    if (!from || !s->hidden || !x || !y || !make_angles(s)) return false;
    for (int r = 0; r < s->n; r++)
        if (s->rows[r].wants_logits) from[n_wanted++] = r;

    embed(s);
    int last = b->n_layers - 1;
    bool some = n_wanted < s->n;
    if (!layers_forward(s, some ? last : last + 1, x, y)) return false;
    if (some && !last_layer_forward(s, last, from, n_wanted, x, y)) return false;
    *logits = NULL;
    if (n_wanted > 0 && !head_forward(s, x, logits)) return false;
    if (some && n_wanted > 0) return_faults(s, from, &all);
    return true;
}
