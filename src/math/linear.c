/* Linear layers over the kernel table: layout at load, fixed-point forms of the inputs on demand, and the split of
 * outputs over threads. A task is some tiles (or some outputs) times all rows; a sum is never split. */
#include "math/linear.h"
#include "base/memory.h"
#include "math/format_read.h"
#include "math/kernel_table.h"

#include <string.h>

struct Linear {
    WeightSource source; /* codes of float weights stay borrowed */
    bool integer;
    TileFormat format;
    uint8_t *tiles; /* mem_map */
    size_t tile_bytes, map_bytes;
    int rows, cols, n_tiles;
    float *bias; /* NULL or [rows] */
};

enum { STREAMED_ROWS = 16, GROUP_SIZES = 4, MAX_TASK_TILES = 4, FLOAT_TASK = 32, FORK_BYTES = 1 << 17 };

struct Activations {
    const float *x; /* NULL in a selection until float weights ask for it */
    int rows, cols, bits;
    QuantRows *forms[GROUP_SIZES]; /* groups of 16, 32, 64, 128 */
    uint8_t *bad;                  /* [rows] */
    bool scanned;                  /* for float weights */
    Activations *parent;           /* a selection: row i is row from[i] of the parent, which has no parent */
    int *from;
    bool consecutive; /* from[i] = from[0] + i: floats point into the parent */
};

typedef struct PackContext {
    const WeightSource *source;
    Linear *w;
} PackContext;

static void pack_task(void *context, int task, int thread) {
    (void)thread;
    PackContext *c = context;
    enum { TILES_PER_TASK = 8 };
    for (int t = task * TILES_PER_TASK; t < (task + 1) * TILES_PER_TASK && t < c->w->n_tiles; t++)
        tile_pack(c->source, &c->w->format, (int64_t)t * TILE_ROWS, c->w->tiles + (size_t)t * c->w->tile_bytes);
}

static bool pack_tiles(Linear *w, const WeightSource *source, Pool *pool, Error *err) {
    if (!tile_format(source, &w->format, err)) return false;
    w->n_tiles = linear_tiles(w);
    w->tile_bytes = tile_bytes(&w->format, w->cols);
    w->map_bytes = (size_t)w->n_tiles * w->tile_bytes;
    w->tiles = mem_map(w->map_bytes);
    if (!w->tiles) return error_memory(err, "weights");
    PackContext context = {source, w};
    pool_run(pool, pack_task, &context, (w->n_tiles + 7) / 8);
    return true;
}

Linear *linear_new(const WeightSource *source, const float *bias, Pool *pool, Error *err) {
    WeightRowBytes bytes;
    if (!weight_row_bytes(source, &bytes, err)) return NULL;
    if (source->rows < 1 || source->rows > INT32_MAX - 64) {
        error_set(err, "a weight matrix with %lld rows", (long long)source->rows);
        return NULL;
    }
    Linear *w = mem_zeroed(1, sizeof *w);
    if (!w) goto memory;
    *w = (Linear){.source = *source,
                  .integer = format_is_integer(source->format),
                  .rows = (int)source->rows,
                  .cols = (int)source->cols};
    if (bias) {
        w->bias = mem_array((size_t)w->rows, sizeof *w->bias);
        if (!w->bias) goto memory;
        memcpy(w->bias, bias, (size_t)w->rows * sizeof *bias);
    }
    if (w->integer && !pack_tiles(w, source, pool, err)) {
        linear_free(w);
        return NULL;
    }
    return w;
memory:
    linear_free(w);
    error_memory(err, "weights");
    return NULL;
}

void linear_free(Linear *w) {
    if (!w) return;
    mem_unmap(w->tiles, w->map_bytes);
    mem_free(w->bias);
    mem_free(w);
}

int linear_rows(const Linear *w) {
    return w->rows;
}

int linear_cols(const Linear *w) {
    return w->cols;
}

bool linear_is_integer(const Linear *w) {
    return w->integer;
}

int linear_tiles(const Linear *w) {
    return (w->rows + TILE_ROWS - 1) / TILE_ROWS;
}

size_t linear_bytes(const Linear *w) {
    if (w->integer) return w->map_bytes;
    WeightRowBytes bytes;
    if (!weight_row_bytes(&w->source, &bytes, NULL)) return 0;
    return (size_t)(bytes.codes + bytes.scales) * (size_t)w->rows;
}

void linear_row(const Linear *w, int row, float *out) {
    if (w->integer)
        tile_row(&w->format, w->tiles + (size_t)(row / TILE_ROWS) * w->tile_bytes, row % TILE_ROWS, w->cols, out);
    else
        weight_row(&w->source, row, out);
}

/* ---- inputs ---- */

Activations *activations_new(Arena *arena, const float *x, int rows, int cols, int bits) {
    Activations *a = arena_array(arena, 1, sizeof *a);
    uint8_t *bad = arena_array(arena, (size_t)rows, 1);
    if (!a || !bad) return NULL;
    memset(bad, 0, (size_t)rows);
    *a = (Activations){.x = x, .rows = rows, .cols = cols, .bits = bits, .bad = bad};
    return a;
}

static bool are_consecutive(const int *rows, int n) {
    for (int i = 1; i < n; i++)
        if (rows[i] != rows[0] + i) return false;
    return n > 0;
}

Activations *activations_select(Arena *arena, Activations *parent, const int *rows, int n) {
    Activations *a = arena_array(arena, 1, sizeof *a);
    int *from = arena_array(arena, (size_t)n, sizeof *from);
    uint8_t *bad = arena_array(arena, (size_t)n, 1);
    if (!a || !from || !bad) return NULL;
    for (int i = 0; i < n; i++) from[i] = parent->parent ? parent->from[rows[i]] : rows[i];
    if (parent->parent) parent = parent->parent;
    *a = (Activations){
        .rows = n, .cols = parent->cols, .bits = parent->bits, .bad = bad, .parent = parent, .from = from};
    a->consecutive = are_consecutive(from, n);
    if (a->consecutive) {
        a->x = parent->x + (size_t)from[0] * (size_t)parent->cols;
        a->bad = parent->bad + from[0];
    }
    return a;
}

bool activations_bad(const Activations *a, int row) {
    return a->bad[row];
}

int activations_first_bad(const Activations *a) {
    for (int r = 0; r < a->rows; r++)
        if (a->bad[r]) return r;
    return -1;
}

static int group_index(int group) {
    return group == 16 ? 0 : group == 32 ? 1 : group == 64 ? 2 : 3;
}

static QuantRows *form_new(const Activations *a, int group, Arena *arena) {
    QuantRows *q = arena_array(arena, 1, sizeof *q);
    if (!q) return NULL;
    *q = (QuantRows){
        .n_rows = a->rows, .cols = a->cols, .padded = (a->cols + 255) / 256 * 256, .group = group, .bits = a->bits};
    q->n_groups = a->cols / group;
    size_t rows = (size_t)a->rows, groups = rows * (size_t)q->n_groups;
    q->codes = arena_array(arena, rows, (size_t)q->padded * (size_t)a->bits / 8);
    q->steps = arena_array(arena, groups, sizeof *q->steps);
    q->bad = a->bad;
    return q->codes && q->steps ? q : NULL;
}

typedef struct PrepareContext {
    Activations *a;
    QuantRows *form; /* NULL: only look for non-finite inputs */
    int rows_per_task;
} PrepareContext;

static void prepare_task(void *context, int task, int thread) {
    (void)thread;
    PrepareContext *c = context;
    int first = task * c->rows_per_task, end = first + c->rows_per_task;
    for (int r = first; r < end && r < c->a->rows; r++) {
        const float *x = c->a->x + (size_t)r * (size_t)c->a->cols;
        if (c->form)
            kernels()->quantize(x, c->form, r);
        else
            c->a->bad[r] = !kernels()->all_finite(x, c->a->cols);
    }
}

/* Small steps stay on the calling thread: waking the others costs more than the work. */
static void prepare(Activations *a, QuantRows *form, Pool *pool) {
    PrepareContext context = {a, form, 8};
    if ((int64_t)a->rows * a->cols < 32768) context.rows_per_task = a->rows;
    pool_run(pool, prepare_task, &context, (a->rows + context.rows_per_task - 1) / context.rows_per_task);
}

/* The form that w needs of inputs that are no selection, made now if it is not there yet. */
static bool prepare_whole(Activations *a, const Linear *w, Pool *pool, Arena *arena) {
    if (!w->integer) {
        if (!a->scanned) prepare(a, NULL, pool);
        a->scanned = true;
        return true;
    }
    QuantRows **form = &a->forms[group_index(w->format.group)];
    if (*form) return true;
    *form = form_new(a, w->format.group, arena);
    if (!*form) return false;
    prepare(a, *form, pool);
    return true;
}

/* ---- selections: rows are copied, or all of them are the parent's ---- */

typedef struct CopyJob {
    const Activations *a;
    QuantRows *form; /* NULL: the floats go to x */
    float *x;
} CopyJob;

typedef struct CopyContext {
    CopyJob *jobs;
    int n_jobs, per_task;
    size_t bytes;
} CopyContext;

static void copy_task(void *context, int task, int thread) {
    (void)thread;
    const CopyContext *c = context;
    for (int j = task * c->per_task; j < (task + 1) * c->per_task && j < c->n_jobs; j++) {
        const Activations *a = c->jobs[j].a;
        QuantRows *form = c->jobs[j].form;
        size_t cols = (size_t)a->cols;
        for (int i = 0; i < a->rows; i++) {
            if (form)
                kernels()->quant_copy(form, i, a->parent->forms[group_index(form->group)], a->from[i]);
            else
                memcpy(c->jobs[j].x + (size_t)i * cols, a->parent->x + (size_t)a->from[i] * cols, cols * sizeof(float));
        }
    }
}

/* What w needs of a selection, whose parent has it: made now, or put on the list of what is to be copied. */
static bool plan_copy(Activations *a, const Linear *w, CopyContext *copies, Arena *arena) {
    for (int i = 0; i < a->rows; i++) a->bad[i] = a->parent->bad[a->from[i]];
    size_t bytes = (size_t)a->rows * (size_t)a->cols * sizeof(float);
    if (!w->integer) {
        if (a->x) return true;
        float *x = arena_array(arena, (size_t)a->rows, (size_t)a->cols * sizeof *x);
        if (!x) return false;
        copies->jobs[copies->n_jobs++] = (CopyJob){.a = a, .x = x};
        copies->bytes += bytes;
        a->x = x;
        return true;
    }
    int group = group_index(w->format.group);
    if (a->forms[group]) return true;
    if (a->consecutive && a->rows == a->parent->rows) {
        a->forms[group] = a->parent->forms[group];
        return true;
    }
    a->forms[group] = form_new(a, w->format.group, arena);
    if (!a->forms[group]) return false;
    copies->jobs[copies->n_jobs++] = (CopyJob){.a = a, .form = a->forms[group]};
    copies->bytes += bytes;
    return true;
}

static bool prepare_jobs(const LinearJob *jobs, int n_jobs, Pool *pool, Arena *arena) {
    CopyContext copies = {.jobs = arena_array(arena, (size_t)n_jobs, sizeof *copies.jobs), .per_task = 1};
    if (!copies.jobs) return false;
    for (int j = 0; j < n_jobs; j++) {
        Activations *a = jobs[j].x;
        if (!prepare_whole(a->parent ? a->parent : a, jobs[j].w, pool, arena)) return false;
        if (a->parent && !plan_copy(a, jobs[j].w, &copies, arena)) return false;
    }
    if (copies.n_jobs == 0) return true;
    if (copies.bytes < FORK_BYTES) copies.per_task = copies.n_jobs;
    pool_run(pool, copy_task, &copies, (copies.n_jobs + copies.per_task - 1) / copies.per_task);
    return true;
}

/* ---- the parallel region ---- */

/* Tasks of job j are [plan[j].first_task, plan[j + 1].first_task), each of per_task tiles, or outputs of float weights.
 */
typedef struct JobPlan {
    int first_task, per_task;
} JobPlan;

typedef struct ApplyContext {
    const LinearJob *jobs;
    int n_jobs;
    JobPlan *plan;    /* [n_jobs + 1] */
    uint8_t *scratch; /* [threads][scratch_bytes] */
    size_t scratch_bytes;
} ApplyContext;

static void add_bias(const Linear *w, float *y, int first, int n, int rows) {
    if (!w->bias) return;
    for (int r = 0; r < rows; r++) {
        float *out = y + (size_t)r * (size_t)w->rows + first;
        for (int i = 0; i < n; i++) out[i] += w->bias[first + i];
    }
}

static void apply_tiles(const LinearJob *job, int first, int n, uint8_t *scratch) {
    const Linear *w = job->w;
    int output = first * TILE_ROWS, outputs = n * TILE_ROWS;
    if (outputs > w->rows - output) outputs = w->rows - output;
    TileJob t = {.format = &w->format,
                 .tiles = w->tiles + (size_t)first * w->tile_bytes,
                 .tile_bytes = w->tile_bytes,
                 .n_tiles = n,
                 .n_outputs = outputs,
                 .x = job->x->forms[group_index(w->format.group)],
                 .y = job->y + output,
                 .y_stride = (size_t)w->rows,
                 .scratch = scratch};
    kernels()->tiles(&t);
    add_bias(w, job->y, output, outputs, job->x->rows);
}

static void apply_floats(const LinearJob *job, int first, int n) {
    const Linear *w = job->w;
    WeightRowBytes bytes;
    if (!weight_row_bytes(&w->source, &bytes, NULL)) return; /* checked at load */
    FloatJob f = {.format = w->source.format,
                  .weights = (const uint8_t *)w->source.codes + (size_t)first * bytes.codes,
                  .cols = w->cols,
                  .n_outputs = n,
                  .x = job->x->x,
                  .n_rows = job->x->rows,
                  .y = job->y + first,
                  .y_stride = (size_t)w->rows};
    if (bytes.scales) f.scales = (const uint8_t *)w->source.scales + (size_t)first * bytes.scales;
    kernels()->floats(&f);
    add_bias(w, job->y, first, n, job->x->rows);
}

static int job_of_task(const ApplyContext *c, int task) {
    int low = 0, high = c->n_jobs; /* plan[low].first_task <= task < plan[high].first_task */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (c->plan[middle].first_task <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void apply_task(void *context, int task, int thread) {
    const ApplyContext *c = context;
    int j = job_of_task(c, task);
    const LinearJob *job = &c->jobs[j];
    const JobPlan *plan = &c->plan[j];
    int units = job->w->integer ? job->w->n_tiles : job->w->rows;
    int first = (task - plan->first_task) * plan->per_task,
        n = units - first < plan->per_task ? units - first : plan->per_task;
    if (job->w->integer)
        apply_tiles(job, first, n, c->scratch + (size_t)thread * c->scratch_bytes);
    else
        apply_floats(job, first, n);
}

/* Tiles per task; even, since kernels take tiles in pairs. Many rows: small enough that threads end together. Few rows
 * wait for memory, and every task begins with a cold stream: a few long ones each. */
static int tiles_per_task(const Linear *w, int rows, int threads) {
    int n = w->n_tiles / (threads * (rows <= STREAMED_ROWS ? 2 : 4));
    if (rows > STREAMED_ROWS && n > MAX_TASK_TILES) n = MAX_TASK_TILES;
    return n < 2 ? 2 : (n + 1) / 2 * 2;
}

bool linear_apply(const LinearJob *jobs, int n_jobs, Pool *pool, Arena *arena) {
    ApplyContext c = {.jobs = jobs, .n_jobs = n_jobs};
    int threads = pool_threads(pool);
    c.plan = arena_array(arena, (size_t)n_jobs + 1, sizeof *c.plan);
    if (!c.plan || !prepare_jobs(jobs, n_jobs, pool, arena)) return false;
    c.plan[0].first_task = 0;
    for (int j = 0; j < n_jobs; j++) {
        const Linear *w = jobs[j].w;
        int rows = jobs[j].x->rows, per_task = w->integer ? tiles_per_task(w, rows, threads) : FLOAT_TASK;
        int units = w->integer ? w->n_tiles : w->rows, tasks = rows > 0 ? (units + per_task - 1) / per_task : 0;
        c.plan[j].per_task = per_task;
        c.plan[j + 1].first_task = c.plan[j].first_task + tasks;
        if (!w->integer) continue;
        size_t bytes = tile_scratch_bytes(&w->format, w->cols, 2); /* two tiles side by side */
        if (bytes > c.scratch_bytes) c.scratch_bytes = (bytes + 63) / 64 * 64;
    }
    if (c.scratch_bytes) {
        c.scratch = arena_array(arena, (size_t)threads, c.scratch_bytes);
        if (!c.scratch) return false;
    }
    pool_run(pool, apply_task, &c, c.plan[n_jobs].first_task);
    return true;
}
