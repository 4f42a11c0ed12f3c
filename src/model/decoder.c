/* The forward path. It reads like the paper: embed; in each layer norm, mix, add, norm, feed forward, add; norm, head.
 *
 * Every operation is row by row but those of mixers and of what remembers: attention, recurrences and convolutions see
 * earlier rows of the same sequence, and no others (an encoder's attention: all of them). A row that fails
 * becomes zeros and stays in place, so that no loop needs to know. Invariant: nothing here looks at how many rows there
 * are except to schedule work. */
#include "model/mechanism.h"

#include <math.h>
#include <string.h>

enum { EMBED_ROWS = 16, FINITE_ROWS = 4 };

/* ---- embedding ---- */

static void add_row(const Linear *from, int row, float *out, float *scratch) {
    linear_row(from, row, scratch);
    for (int i = 0; i < linear_cols(from); i++) out[i] += scratch[i];
}

static void add_position(const Step *s, int row, float *out, float *scratch) {
    add_row(s->weights->positions, s->positions[row] + s->blueprint->position_offset, out, scratch);
}

typedef struct EmbedJob {
    const Step *step;
    float *scratch; /* [threads][hidden] */
} EmbedJob;

static void embed_task(void *context, int task, int thread) {
    const EmbedJob *job = context;
    const Step *s = job->step;
    size_t hidden = (size_t)s->blueprint->hidden;
    for (int r = task * EMBED_ROWS; r < (task + 1) * EMBED_ROWS && r < s->n; r++) {
        float *out = s->hidden + (size_t)r * hidden;
        if (s->rows[r].embedding)
            memcpy(out, s->rows[r].embedding, hidden * sizeof *out);
        else
            linear_row(s->weights->embedding, s->rows[r].token, out);
        float scale = s->weights->embedding_scale;
        for (size_t i = 0; i < hidden && scale != 1 && !s->rows[r].embedding; i++) out[i] *= scale;
        if (s->weights->positions) add_position(s, r, out, job->scratch + (size_t)thread * hidden);
        if (s->weights->token_types)
            add_row(s->weights->token_types, s->rows[r].token_type, out, job->scratch + (size_t)thread * hidden);
    }
}

/* What layers skip to must outlive them. */
static bool keep_embedding(Step *s) {
    const Blueprint *b = s->blueprint;
    bool wanted = false;
    for (int i = 0; i < b->n_layers; i++) wanted = wanted || b->layers[i].skip;
    if (!wanted) return true;
    if (!(s->embedding = step_keep(s, b->hidden))) return false;
    memcpy(s->embedding, s->hidden, (size_t)s->n * (size_t)b->hidden * sizeof *s->hidden);
    return true;
}

/* A row given as an embedding is taken as it is: its scale is the giver's affair. */
static bool embed(Step *s) {
    const Blueprint *b = s->blueprint;
    EmbedJob job = {s, step_floats(s, pool_threads(s->pool), b->hidden)};
    if (!job.scratch) return false;
    pool_run(s->pool, embed_task, &job, (s->n + EMBED_ROWS - 1) / EMBED_ROWS);
    if (b->ngram.longest && !ngram_add(s)) return false;
    step_norm(s, &b->embedding_norm, &s->weights->embedding_norm, s->hidden, s->hidden, s->n, b->hidden);
    step_tap(s, -1, "embedding", s->hidden, b->hidden);
    return keep_embedding(s);
}

/* ---- layers ---- */

/* Two scratch rows of the hidden width; which one holds what changes as a layer goes on. */
typedef struct Scratch {
    float *x, *y, *z;
} Scratch;

/* What the mixer reads: the hidden row, normed into `to` where the layer norms first. NULL: out of memory. */
static const float *mixer_input(Step *s, int layer, float *to) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    const LayerWeights *w = &s->weights->layers[layer];
    const float *x = residual_read(s, layer, &spec->mixer_residual, &w->mixer_residual, to);
    if (!x || spec->mixer_norm.kind == NORM_NONE) return x;
    step_norm(s, &spec->mixer_norm, &w->mixer_norm, x, to, s->n, s->blueprint->hidden);
    step_tap(s, layer, "mixer norm", to, s->blueprint->hidden);
    return to;
}

static void scale_rows(const Step *s, float scale, float *y) {
    if (scale != 0 && scale != 1) ops_scale(s->pool, y, scale, y, s->n, s->blueprint->hidden);
}

/* The mixer's result, normed and scaled as the layer says, in place; and the feed-forward's. */
static void finish_mixer(const Step *s, int layer, float *y) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    step_norm(s, &spec->mixer_out, &s->weights->layers[layer].mixer_out, y, y, s->n, s->blueprint->hidden);
    scale_rows(s, spec->mixer_scale, y);
}

static void finish_ffn(const Step *s, int layer, float *y) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    step_norm(s, &spec->ffn_out, &s->weights->layers[layer].ffn_out, y, y, s->n, s->blueprint->hidden);
    scale_rows(s, spec->ffn_scale, y);
}

static const float *ffn_input(Step *s, int layer, const float *fallback, float *to) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    const LayerWeights *w = &s->weights->layers[layer];
    if (spec->ffn_norm.kind == NORM_NONE) return fallback;
    const float *x = residual_read(s, layer, &spec->ffn_residual, &w->ffn_residual, to);
    if (!x) return NULL;
    step_norm(s, &spec->ffn_norm, &w->ffn_norm, x, to, s->n, s->blueprint->hidden);
    step_tap(s, layer, "ffn norm", to, s->blueprint->hidden);
    return to;
}

/* Adds a half's result y to the hidden rows, through a gate where there is one. False: out of memory. */
static bool add_half(Step *s, const ResidualGateSpec *spec, const float *gate, const float *y) {
    int hidden = s->blueprint->hidden;
    if (!gate) {
        ops_add(s->pool, s->hidden, y, s->hidden, s->n, hidden);
        return true;
    }
    float *a = step_floats(s, 1, hidden), *b = step_floats(s, 1, hidden);
    if (!a || !b) return false;
    for (int c = 0; c < hidden; c++) {
        b[c] = gate[c] / spec->temperature;
        a[c] = -b[c];
    }
    ops_act(s->pool, ACT_SIGMOID, a, a, 1, hidden);
    ops_act(s->pool, ACT_SIGMOID, b, b, 1, hidden);
    for (int c = 0; c < hidden; c++) a[c] = sqrtf(fmaxf(a[c] * (1 + b[c]), 1e-3f));
    for (size_t i = 0; i < (size_t)s->n * (size_t)hidden; i++) {
        size_t c = i % (size_t)hidden;
        s->hidden[i] = a[c] * s->hidden[i] + b[c] * y[i];
    }
    return true;
}

/* Adds the mixer's output y to the hidden rows (in: what it read) and norms them for the feed-forward: the usual pair
 * in one pass. */
static const float *add_mixer(Step *s, int layer, const float *in, Scratch *t) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    const LayerWeights *w = &s->weights->layers[layer];
    int hidden = s->blueprint->hidden;
    finish_mixer(s, layer, t->y);
    scale_rows(s, spec->mixer_keep, s->hidden);
    if (spec->mid_norm.kind != NORM_NONE) {
        ops_add(s->pool, s->hidden, t->y, s->hidden, s->n, hidden);
        step_norm(s, &spec->mid_norm, &w->mid_norm, s->hidden, s->hidden, s->n, hidden);
        step_tap(s, layer, "mid norm", s->hidden, hidden);
        return ffn_input(s, layer, s->hidden, t->x);
    }
    if (w->mixer_gate)
        return add_half(s, &spec->mixer_gate, w->mixer_gate, t->y) ? ffn_input(s, layer, s->hidden, t->x) : NULL;
    if (spec->laurel.rank) return laurel_add(s, layer, in, t->y) ? ffn_input(s, layer, s->hidden, t->x) : NULL;
    if (spec->ffn_norm.kind != NORM_RMS || s->n_blocks) {
        ops_add(s->pool, s->hidden, t->y, s->hidden, s->n, hidden);
        return ffn_input(s, layer, s->hidden, t->x);
    }
    ops_add_rms_norm(s->pool, s->hidden, t->y, s->hidden, w->ffn_norm.weight, spec->ffn_norm.eps, t->x, s->n, hidden);
    step_tap(s, layer, "ffn norm", t->x, hidden);
    return t->x;
}

/* After the halves: what happens to the layer's output. */
static void finish_output(Step *s, int layer) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    const LayerWeights *w = &s->weights->layers[layer];
    int hidden = s->blueprint->hidden;
    if (w->scalar) ops_scale(s->pool, s->hidden, *w->scalar, s->hidden, s->n, hidden);
    if (w->skip) ops_add_scaled(s->pool, s->hidden, s->embedding, *w->skip, s->hidden, s->n, hidden);
    step_norm(s, &spec->output_norm, &w->output_norm, s->hidden, s->hidden, s->n, hidden);
    step_tap(s, layer, "residual", s->hidden, s->blueprint->hidden);
}

/* Mixer and feed-forward side by side. in: what the mixer read. */
static bool finish_parallel(Step *s, int layer, const float *in, Scratch *t) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    int hidden = s->blueprint->hidden;
    finish_mixer(s, layer, t->y);
    if (!spec->ffn->run(s, layer, ffn_input(s, layer, in, t->x), t->z)) return false;
    finish_ffn(s, layer, t->z);
    ops_add(s->pool, t->y, t->z, t->y, s->n, hidden);
    ops_add(s->pool, s->hidden, t->y, s->hidden, s->n, hidden);
    finish_output(s, layer);
    return true;
}

/* The same with hyper-connections, which add each half's result and say what the next one reads. */
static bool finish_hyper(Step *s, int layer, Scratch *t) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    hyper_after(s, layer, t->y);
    if (!hyper_before(s, layer, HYPER_FFN)) return false;
    if (!spec->ffn->run(s, layer, ffn_input(s, layer, s->hidden, t->x), t->y)) return false;
    hyper_after(s, layer, t->y);
    return true;
}

/* A layer after its mixer, whose output is in y; `in` is what the mixer read. */
static bool layer_finish(Step *s, int layer, const float *in, Scratch *t) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    if (s->blueprint->hyper.n) return finish_hyper(s, layer, t);
    residual_begin(s, layer);
    if (spec->parallel) return finish_parallel(s, layer, in, t);
    const float *x =
        spec->mixer ? (spec->ffn ? add_mixer(s, layer, in, t) : NULL) : ffn_input(s, layer, s->hidden, t->x);
    if (spec->ffn) {
        if (!x || !spec->ffn->run(s, layer, x, t->y)) return false;
        finish_ffn(s, layer, t->y);
        scale_rows(s, spec->ffn_keep, s->hidden);
    } else if (spec->mixer) {
        finish_mixer(s, layer, t->y);
    }
    if ((spec->mixer || spec->ffn) && !add_half(s, &spec->ffn_gate, s->weights->layers[layer].ffn_gate, t->y))
        return false;
    if (s->per_layer && !s->blueprint->altup.n) { /* with several streams it is added to the others */
        if (!per_layer_apply(s, layer, s->hidden, t->y)) return false;
        ops_add(s->pool, s->hidden, t->y, s->hidden, s->n, s->blueprint->hidden);
    }
    finish_output(s, layer);
    return true;
}

static bool layer_forward(Step *s, int layer, Scratch *t) {
    const Mechanism *mixer = s->blueprint->layers[layer].mixer;
    if (!mixer) return layer_finish(s, layer, NULL, t);
    const float *in = mixer_input(s, layer, t->x);
    return in && mixer->run(s, layer, in, t->y) && layer_finish(s, layer, in, t);
}

/* ---- rows that want no logits leave once nothing reads them any more ---- */

static void keep_rows(float *x, const int *from, int n, int cols) {
    for (int i = 0; i < n; i++) /* from[i] >= i: nothing is overwritten before it is moved */
        memmove(x + (size_t)i * (size_t)cols, x + (size_t)from[i] * (size_t)cols, (size_t)cols * sizeof *x);
}

/* The step shrinks to the n rows that want logits; from[i] is where row i was. */
static bool keep_wanted(Step *s, const int *from, int n) {
    const Blueprint *b = s->blueprint;
    Row *rows = arena_array(s->arena, (size_t)n, sizeof *rows);
    RowFault *faults = arena_array(s->arena, (size_t)n, sizeof *faults);
    int *positions = arena_array(s->arena, (size_t)n, sizeof *positions);
    RowPlace *places = arena_array(s->arena, (size_t)n, sizeof *places);
    if (!rows || !faults || !positions || !places) return false;
    s->n_failed = 0;
    for (int i = 0; i < n; i++) {
        rows[i] = s->rows[from[i]];
        faults[i] = s->faults[from[i]];
        positions[i] = s->positions[from[i]];
        places[i] = s->places[from[i]];
        s->n_failed += faults[i].failed;
    }
    for (int i = 0; i < s->n_kept; i++) keep_rows(s->kept[i].values, from, n, s->kept[i].cols);
    for (int i = 0; i < b->n_ropes; i++) {
        keep_rows(s->angles[i].cos, from, n, b->ropes[i].table.dims / 2);
        keep_rows(s->angles[i].sin, from, n, b->ropes[i].table.dims / 2);
    }
    s->rows = rows;
    s->faults = faults;
    s->positions = positions;
    s->places = places;
    s->n = n;
    return true;
}

/* The last layer that leaves something in a state: a row that wants no logits is done when that is there. */
static bool storing_layer_forward(Step *s, int layer, const int *from, int n_wanted, Scratch *t) {
    const Mechanism *mixer = s->blueprint->layers[layer].mixer;
    const float *in = mixer_input(s, layer, t->x);
    if (!in) return false;
    if (!mixer->store) { /* what a recurrence leaves comes with what it gives */
        if (!mixer->run(s, layer, in, t->y)) return false;
        if (n_wanted == 0) return true;
        keep_rows(t->y, from, n_wanted, s->blueprint->hidden);
        if (!keep_wanted(s, from, n_wanted)) return false;
        in = mixer_input(s, layer, t->x);
        return in && layer_finish(s, layer, in, t);
    }
    if (!mixer->store(s, layer, in)) return false;
    if (n_wanted == 0) return true;
    if (!keep_wanted(s, from, n_wanted)) return false;
    in = mixer_input(s, layer, t->x); /* of the rows that stay */
    return in && mixer->read(s, layer, in, t->y) && layer_finish(s, layer, in, t);
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
    const float *x;
    int rows, cols;
    bool *finite;
} FiniteJob;

static void finite_task(void *context, int task, int thread) {
    const FiniteJob *job = context;
    (void)thread;
    for (int r = task * FINITE_ROWS; r < (task + 1) * FINITE_ROWS && r < job->rows; r++)
        job->finite[r] = ops_all_finite(job->x + (size_t)r * (size_t)job->cols, job->cols);
}

/* Marks the rows whose results [n][cols] are not finite, and gives failed rows zeros. */
static bool check_finite(Step *s, float *x, int cols, const char *operation) {
    bool *finite = arena_array(s->arena, (size_t)s->n, sizeof *finite);
    FiniteJob job = {x, s->n, cols, finite};
    if (!finite) return false;
    pool_run(s->pool, finite_task, &job, (s->n + FINITE_ROWS - 1) / FINITE_ROWS);
    for (int r = 0; r < s->n; r++)
        if (!finite[r]) step_fail(s, r, -1, operation);
    step_zero_failed(s, x, cols);
    return true;
}

/* Scale and soft cap of the logits. */
static void shape_logits(Step *s, float *logits) {
    const Blueprint *b = s->blueprint;
    const float *gain = s->weights->logit_gain;
    if (gain) ops_scale(s->pool, logits, *gain, logits, s->n, b->vocab);
    if (b->logit_scale != 0 && b->logit_scale != 1) ops_scale(s->pool, logits, b->logit_scale, logits, s->n, b->vocab);
    if (b->logit_softcap != 0) ops_softcap(s->pool, logits, b->logit_softcap, logits, s->n, b->vocab);
}

/* What the final norm gives into x. All rows of the step are wanted here. False: out of memory. */
static bool final_norm(Step *s, float *x) {
    const Blueprint *b = s->blueprint;
    const float *hidden = residual_read(s, -1, &b->out_residual, &s->weights->out_residual, x);
    if (!hidden) return false;
    if (b->final_norm.kind != NORM_NONE)
        step_norm(s, &b->final_norm, &s->weights->final_norm, hidden, x, s->n, b->hidden);
    else if (hidden != x)
        memcpy(x, hidden, (size_t)s->n * (size_t)b->hidden * sizeof *x);
    return true;
}

static bool vectors_forward(Step *s, float *x, const float **out) {
    if (!final_norm(s, x)) return false;
    if (!check_finite(s, x, s->blueprint->hidden, "final norm")) return false;
    step_tap(s, -1, "final norm", x, s->blueprint->hidden);
    *out = x;
    return true;
}

static bool head_forward(Step *s, float *x, const float **out) {
    const Blueprint *b = s->blueprint;
    float *logits = step_floats(s, s->n, b->vocab);
    LinearJob job = {.w = s->weights->head, .y = logits};
    if (!logits || !final_norm(s, x)) return false;
    if (b->head_scale != 0 && b->head_scale != 1) ops_scale(s->pool, x, b->head_scale, x, s->n, b->hidden);
    step_tap(s, -1, "final norm", x, b->hidden);
    if (!step_linear(s, &job, 1, x, b->hidden, -1, "logits")) return false;
    shape_logits(s, logits);
    if (!check_finite(s, logits, b->vocab, "logits")) return false;
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

/* Room for what layers lend each other, where some do. */
static bool make_lent(Step *s) {
    int k = 0, v = 0;
    for (int i = 0; i < s->blueprint->n_layers; i++) {
        const LayerSpec *l = &s->blueprint->layers[i];
        const AttentionSpec *a = &l->attention;
        int width = a->n_kv_heads * a->head_dim, values = a->n_kv_heads * (a->v_dim ? a->v_dim : a->head_dim);
        if (l->rwkv7.lends && s->blueprint->hidden > v) v = s->blueprint->hidden;
        if (!a->lends) continue;
        k = width > k ? width : k;
        v = values > v ? values : v;
    }
    if (k && !(s->lent_k = step_floats(s, s->n, k))) return false;
    return v == 0 || (s->lent_v = step_floats(s, s->n, v)) != NULL;
}

/* Room for what indexers choose, where some do: a later layer may read an earlier one's. */
static bool make_chosen(Step *s) {
    for (int i = 0; i < s->blueprint->n_layers; i++) {
        const LayerSpec *spec = &s->blueprint->layers[i];
        int n = spec->mixer == &mixer_mla          ? spec->mla.index.n_chosen
                : spec->mixer == &mixer_compressed ? spec->compressed.index.n_chosen
                                                   : 0;
        if (n > s->n_chosen) s->n_chosen = n;
        if (spec->compressed.n_candidates > s->n_candidates) s->n_candidates = spec->compressed.n_candidates;
    }
    if (s->n_candidates && !(s->candidates = step_keep(s, s->n_candidates))) return false;
    return s->n_chosen == 0 || (s->chosen = step_keep(s, s->n_chosen)) != NULL;
}

/* Room for what a layer's experts give the next one, where some do. */
static bool make_shortcut(Step *s) {
    bool wanted = false;
    for (int i = 0; i < s->blueprint->n_layers; i++)
        wanted = wanted || s->blueprint->layers[i].ffn == &ffn_shortcut_begin;
    return !wanted || (s->shortcut = step_keep(s, s->blueprint->hidden)) != NULL;
}

static bool keeps_state(const LayerSpec *spec) {
    LayerShape shape = {0};
    if (spec->mixer && spec->attention.both_ways) return true; /* as long as the step */
    if (spec->mixer && spec->mixer->state) spec->mixer->state(spec, KV_F32, &shape);
    return shape.kv.heads > 0 || shape.recurrent > 0;
}

/* The last layer that leaves something in the sequences' states; -1: none does. */
static int last_storing_layer(const Blueprint *b) {
    int last = b->n_layers - 1;
    while (last >= 0 && !keeps_state(&b->layers[last])) last--;
    return last;
}

static bool layers_forward(Step *s, const int *from, int n_wanted, Scratch *t) {
    const Blueprint *b = s->blueprint;
    int leave = n_wanted < s->n ? last_storing_layer(b) : b->n_layers; /* where the others leave */
    for (int i = 0; i < b->n_layers; i++) {
        ArenaMark mark = arena_mark(s->arena);
        step_norm(s, &b->layers[i].enter_norm, &s->weights->layers[i].enter_norm, s->hidden, s->hidden, s->n,
                  b->hidden);
        if (b->altup.n && !altup_predict(s, i, t->x)) return false;
        if (b->hyper.n && !hyper_before(s, i, HYPER_MIXER)) return false;
        if (!(i == leave ? storing_layer_forward(s, i, from, n_wanted, t) : layer_forward(s, i, t))) return false;
        if (i == leave && n_wanted == 0) return true;
        if (b->altup.n && !altup_correct(s, i, t->x)) return false;
        if (i != leave) arena_rewind(s->arena, mark); /* the rows that stay live on */
    }
    return true;
}

bool decoder_run(Step *s, bool headless, const float **out) {
    const Blueprint *b = s->blueprint;
    const Step all = *s;
    int n_wanted = 0, *from = arena_array(s->arena, (size_t)s->n, sizeof *from);
    s->hidden = step_keep(s, b->hidden);
    Scratch t = {step_floats(s, s->n, b->hidden), step_floats(s, s->n, b->hidden), step_floats(s, s->n, b->hidden)};
    if (!from || !s->hidden || !t.x || !t.y || !t.z || !make_angles(s) || !make_lent(s) || !make_chosen(s) ||
        !make_shortcut(s) || !residual_prepare(s))
        return false;
    for (int r = 0; r < s->n; r++)
        if (s->rows[r].wants_logits) from[n_wanted++] = r;
    bool some = n_wanted < all.n;

    if (!embed(s) || (b->per_layer.width && !per_layer_prepare(s)) || (b->altup.n && !altup_begin(s)) ||
        (b->hyper.n && !hyper_begin(s)) || !layers_forward(s, from, n_wanted, &t))
        return false;
    *out = NULL;
    if (n_wanted > 0 && b->altup.n && !altup_end(s)) return false;
    if (n_wanted > 0 && b->hyper.n && !hyper_end(s)) return false;
    if (n_wanted > 0 && !(headless ? vectors_forward : head_forward)(s, t.x, out)) return false;
    if (some && n_wanted > 0) return_faults(s, from, &all);
    return true;
}
