/* Linear layers over the kernel table: layout at load, fixed-point forms of the inputs on demand, and the split of
 * outputs over threads. A task is some tiles (or some outputs) times all rows; a sum is never split. */
#include "math/linear.h"
#include "base/memory.h"
#include "math/format_read.h"
#include "math/hadamard.h"
#include "math/kernel_table.h"

#include <string.h>

struct Linear {
    WeightSource source; /* codes of float weights stay borrowed */
    bool integer;
    TileFormat format;
    uint8_t *tiles; /* mem_map */
    size_t tile_bytes, map_bytes;
    int rows, cols, n_tiles;
    float *bias;    /* NULL or [rows] */
    int32_t *order; /* NULL, or [cols]: the input of each of the tiles' columns */
    float *signs;   /* NULL, or [cols]: of the inputs before they are turned, block by block */
    int turned;     /* size of these blocks */
};

enum { STREAMED_ROWS = 16, FEW_ROWS = 64, GROUP_SIZES = 4 };
/* Outputs of float weights in a task: whole blocks of 2, 3 or 4, as kernels take them. */
enum { FLOAT_TASK = 48 };

struct Activations {
    const float *x; /* NULL in a selection until float weights ask for it */
    int rows, cols, bits;
    QuantRows *forms[GROUP_SIZES]; /* groups of 16, 32, 64, 128 */
    uint8_t *bad;                  /* [rows] */
    bool scanned;                  /* bad is known, or will be when the forms planned now are made */
    Activations *parent;           /* a selection: row i is row from[i] of the parent, which has no parent */
    int *from;
    bool consecutive;        /* from[i] = from[0] + i: floats point into the parent */
    struct Ordered *ordered; /* the same inputs in other orders, or turned, as weights have asked for them */
};

typedef struct Ordered {
    const int32_t *order; /* [cols]; NULL: signs and blocks instead */
    const float *signs;
    int turned;
    Activations *inputs;
    struct Ordered *next;
} Ordered;

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
    if (w->integer && source->order) {
        w->order = mem_array((size_t)w->cols, sizeof *w->order);
        if (!w->order) goto memory;
        memcpy(w->order, source->order, (size_t)w->cols * sizeof *w->order);
    }
    if (w->integer && source->turned) {
        w->signs = mem_array((size_t)w->cols, sizeof *w->signs);
        if (!w->signs) goto memory;
        memcpy(w->signs, source->signs, (size_t)w->cols * sizeof *w->signs);
        w->turned = source->turned;
    }
    w->source.order = NULL;
    w->source.signs = NULL;
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
    mem_free(w->order);
    mem_free(w->signs);
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
        tile_row(&w->format, w->tiles + (size_t)(row / TILE_ROWS) * w->tile_bytes, row % TILE_ROWS, w->cols, w->order,
                 out);
    else
        weight_row(&w->source, row, out);
    if (!w->signs) return;
    hadamard_turn(out, w->cols, w->turned);
    for (int k = 0; k < w->cols; k++) out[k] *= w->signs[k];
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
    /* the first look at x tells which rows are bad; another form may be made at the same time and tells nobody */
    q->bad = a->scanned ? arena_array(arena, rows, 1) : a->bad;
    return q->codes && q->steps && q->bad ? q : NULL;
}

/* ---- what the jobs' inputs still lack, made in one parallel region for all of them ---- */

/* Rows of one form (or of the floats) of one input: of the whole ones quantised or looked at, of selections copied. */
typedef struct FillJob {
    const Activations *a;
    QuantRows *form; /* NULL: the floats, copied to x or looked at for what is not finite */
    float *x;
    const int32_t *order; /* the floats go to x in this order */
    const float *signs;   /* or multiplied by these and turned */
    int turned;
} FillJob;

typedef struct FillContext {
    FillJob *jobs;
    int *first_task; /* [n_jobs + 1] */
    int n_jobs;
    int64_t elements;
} FillContext;

enum { FILL_ROWS = 8, FORK_ELEMENTS = 1 << 15 };

static void turn_row(const FillJob *job, const float *from, float *to, int cols) {
    for (int k = 0; k < cols; k++) to[k] = from[k] * job->signs[k];
    hadamard_turn(to, cols, job->turned);
}

static void fill_row(const FillJob *job, int row) {
    const Activations *a = job->a;
    size_t cols = (size_t)a->cols;
    const float *from = a->parent ? a->parent->x + (size_t)a->from[row] * cols : a->x + (size_t)row * cols;
    if (job->order)
        for (size_t k = 0; k < cols; k++) job->x[(size_t)row * cols + k] = from[job->order[k]];
    else if (job->signs)
        turn_row(job, from, job->x + (size_t)row * cols, a->cols);
    else if (a->parent && job->form)
        kernels()->quant_copy(job->form, row, a->parent->forms[group_index(job->form->group)], a->from[row]);
    else if (a->parent)
        memcpy(job->x + (size_t)row * cols, from, cols * sizeof(float));
    else if (job->form)
        kernels()->quantize(from, job->form, row);
    else
        a->bad[row] = !kernels()->all_finite(from, a->cols);
}

static void fill_task(void *context, int task, int thread) {
    (void)thread;
    const FillContext *c = context;
    int j = pool_job_of_task(c->first_task, c->n_jobs, task);
    int first = (task - c->first_task[j]) * FILL_ROWS, end = first + FILL_ROWS;
    for (int r = first; r < end && r < c->jobs[j].a->rows; r++) fill_row(&c->jobs[j], r);
}

static void fill_add(FillContext *c, FillJob job) {
    int tasks = (job.a->rows + FILL_ROWS - 1) / FILL_ROWS;
    c->jobs[c->n_jobs++] = job;
    c->first_task[c->n_jobs] = c->first_task[c->n_jobs - 1] + tasks;
    c->elements += (int64_t)job.a->rows * job.a->cols;
}

/* Little work stays on the calling thread: waking the others costs more. */
static void fill_run(FillContext *c, Pool *pool) {
    int n_tasks = c->first_task[c->n_jobs];
    if (c->elements >= FORK_ELEMENTS)
        pool_run(pool, fill_task, c, n_tasks);
    else
        for (int t = 0; t < n_tasks; t++) fill_task(c, t, 0);
    c->n_jobs = 0;
    c->elements = 0;
}

/* The form that w needs of inputs that are no selection. */
static bool plan_whole(Activations *a, const Linear *w, FillContext *fill, Arena *arena) {
    if (!w->integer) {
        if (!a->scanned) fill_add(fill, (FillJob){.a = a});
        a->scanned = true;
        return true;
    }
    QuantRows **form = &a->forms[group_index(w->format.group)];
    if (*form) return true;
    *form = form_new(a, w->format.group, arena);
    if (!*form) return false;
    a->scanned = true;
    fill_add(fill, (FillJob){.a = a, .form = *form});
    return true;
}

/* What w needs of a selection, whose parent has it. */
static bool plan_selection(Activations *a, const Linear *w, FillContext *fill, Arena *arena) {
    for (int i = 0; i < a->rows; i++) a->bad[i] = a->parent->bad[a->from[i]];
    if (!w->integer) {
        if (a->x) return true;
        float *x = arena_array(arena, (size_t)a->rows, (size_t)a->cols * sizeof *x);
        if (!x) return false;
        fill_add(fill, (FillJob){.a = a, .x = x});
        a->x = x;
        return true;
    }
    QuantRows **form = &a->forms[group_index(w->format.group)];
    if (*form) return true;
    if (a->consecutive && a->rows == a->parent->rows) {
        *form = a->parent->forms[group_index(w->format.group)];
        return true;
    }
    *form = form_new(a, w->format.group, arena);
    if (!*form) return false;
    fill_add(fill, (FillJob){.a = a, .form = *form});
    return true;
}

/* ---- inputs in another order, or turned ---- */

static bool asks_for(const Linear *w, const Ordered *o) {
    size_t cols = (size_t)w->cols;
    if (w->order) return o->order && memcmp(o->order, w->order, cols * sizeof *w->order) == 0;
    return o->signs && o->turned == w->turned && memcmp(o->signs, w->signs, cols * sizeof *w->signs) == 0;
}

/* The inputs as w wants them, which q, k and v, or gate and up, mostly share: rows of their own, of a
 * selection only those that it has. What is bad in them is bad in `a`. */
static Activations *order_inputs(Activations *a, const Linear *w, FillContext *fill, Arena *arena) {
    size_t cols = (size_t)a->cols;
    for (Ordered *o = a->ordered; o; o = o->next)
        if (asks_for(w, o)) return o->inputs;
    Ordered *o = arena_array(arena, 1, sizeof *o);
    float *x = arena_array(arena, (size_t)a->rows, cols * sizeof *x);
    Activations *inputs = o && x ? activations_new(arena, x, a->rows, a->cols, a->bits) : NULL;
    if (!inputs) return NULL;
    fill_add(fill, (FillJob){.a = a, .x = x, .order = w->order, .signs = w->signs, .turned = w->turned});
    if (a->parent && !a->ordered) a->bad = inputs->bad; /* not a part of the parent's, which another form may write */
    inputs->bad = a->bad;
    inputs->scanned = a->scanned;
    a->scanned = true;
    *o = (Ordered){w->order, w->signs, w->turned, inputs, a->ordered};
    a->ordered = o;
    return inputs;
}

/* Jobs whose weights want the inputs in another order, or turned, get them so: *jobs becomes a copy. */
static bool order_jobs(const LinearJob **jobs, int n_jobs, Pool *pool, Arena *arena) {
    LinearJob *own = NULL;
    FillContext fill = {.jobs = NULL};
    for (int j = 0; j < n_jobs; j++) {
        if (!(*jobs)[j].w->order && !(*jobs)[j].w->signs) continue;
        if (!own) {
            own = arena_array(arena, (size_t)n_jobs, sizeof *own);
            fill.jobs = arena_array(arena, (size_t)n_jobs, sizeof *fill.jobs);
            fill.first_task = arena_array(arena, (size_t)n_jobs + 1, sizeof *fill.first_task);
            if (!own || !fill.jobs || !fill.first_task) return false;
            memcpy(own, *jobs, (size_t)n_jobs * sizeof *own);
            fill.first_task[0] = 0;
        }
        if (!(own[j].x = order_inputs(own[j].x, own[j].w, &fill, arena))) return false;
    }
    if (!own) return true;
    fill_run(&fill, pool);
    *jobs = own;
    return true;
}

static bool prepare_jobs(const LinearJob *jobs, int n_jobs, Pool *pool, Arena *arena) {
    FillContext fill = {.jobs = arena_array(arena, (size_t)n_jobs, sizeof *fill.jobs),
                        .first_task = arena_array(arena, (size_t)n_jobs + 1, sizeof *fill.first_task)};
    if (!fill.jobs || !fill.first_task) return false;
    fill.first_task[0] = 0;
    for (int j = 0; j < n_jobs; j++)
        if (!plan_whole(jobs[j].x->parent ? jobs[j].x->parent : jobs[j].x, jobs[j].w, &fill, arena)) return false;
    fill_run(&fill, pool);
    for (int j = 0; j < n_jobs; j++)
        if (jobs[j].x->parent && !plan_selection(jobs[j].x, jobs[j].w, &fill, arena)) return false;
    fill_run(&fill, pool);
    return true;
}

/* ---- the parallel region ---- */

typedef struct ApplyContext {
    const LinearJob *jobs;
    int n_jobs;
    int *first_task;  /* [n_jobs + 1]: tasks of job j are [first_task[j], first_task[j + 1]) */
    int *per_task;    /* [n_jobs] tiles, or outputs of float weights */
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
                  .bias = w->bias ? w->bias + first : NULL,
                  .y = job->y + first,
                  .y_stride = (size_t)w->rows};
    if (bytes.scales) f.scales = (const uint8_t *)w->source.scales + (size_t)first * bytes.scales;
    kernels()->floats(&f);
}

static void apply_task(void *context, int task, int thread) {
    const ApplyContext *c = context;
    int j = pool_job_of_task(c->first_task, c->n_jobs, task), per_task = c->per_task[j];
    const LinearJob *job = &c->jobs[j];
    int units = job->w->integer ? job->w->n_tiles : job->w->rows;
    int first = (task - c->first_task[j]) * per_task, n = units - first < per_task ? units - first : per_task;
    if (job->w->integer)
        apply_tiles(job, first, n, c->scratch + (size_t)thread * c->scratch_bytes);
    else
        apply_floats(job, first, n);
}

/* Tiles per task; even, since kernels take tiles in pairs. Many rows: small enough that threads end together, but for
 * up to FEW_ROWS longer, since kernels that look ahead do so inside a task. Streamed rows wait for memory, and every
 * task begins with a cold stream: a few long ones for all jobs together, of which a mixture has dozens. */
static int tiles_per_task(const Linear *w, int rows, int threads, int64_t all_streamed) {
    int64_t n = rows <= STREAMED_ROWS ? all_streamed / (threads * 2) : w->n_tiles / (threads * 4);
    const int most = rows <= FEW_ROWS ? 4 * TASK_PANELS : TASK_PANELS;
    if (rows > STREAMED_ROWS && n > most) n = most;
    if (n > w->n_tiles) n = w->n_tiles;
    return n < 2 ? 2 : (int)(n + 1) / 2 * 2;
}

/* Tiles of the jobs with few rows. */
static int64_t streamed_tiles(const LinearJob *jobs, int n_jobs) {
    int64_t n = 0;
    for (int j = 0; j < n_jobs; j++)
        if (jobs[j].w->integer && jobs[j].x->rows <= STREAMED_ROWS) n += jobs[j].w->n_tiles;
    return n;
}

bool linear_apply(const LinearJob *jobs, int n_jobs, Pool *pool, Arena *arena) {
    if (!order_jobs(&jobs, n_jobs, pool, arena)) return false;
    ApplyContext c = {.jobs = jobs,
                      .n_jobs = n_jobs,
                      .first_task = arena_array(arena, (size_t)n_jobs + 1, sizeof *c.first_task),
                      .per_task = arena_array(arena, (size_t)n_jobs, sizeof *c.per_task)};
    int threads = pool_threads(pool);
    if (!c.first_task || !c.per_task || !prepare_jobs(jobs, n_jobs, pool, arena)) return false;
    int64_t streamed = streamed_tiles(jobs, n_jobs);
    c.first_task[0] = 0;
    for (int j = 0; j < n_jobs; j++) {
        const Linear *w = jobs[j].w;
        int rows = jobs[j].x->rows, per_task = w->integer ? tiles_per_task(w, rows, threads, streamed) : FLOAT_TASK;
        int units = w->integer ? w->n_tiles : w->rows, tasks = rows > 0 ? (units + per_task - 1) / per_task : 0;
        c.per_task[j] = per_task;
        c.first_task[j + 1] = c.first_task[j] + tasks;
        if (!w->integer) continue;
        int panels = per_task < TASK_PANELS ? per_task : TASK_PANELS;
        size_t bytes = tile_scratch_bytes(&w->format, w->cols, panels);
        if (bytes > c.scratch_bytes) c.scratch_bytes = (bytes + 63) / 64 * 64;
    }
    if (c.scratch_bytes) {
        c.scratch = arena_array(arena, (size_t)threads, c.scratch_bytes);
        if (!c.scratch) return false;
    }
    pool_run(pool, apply_task, &c, c.first_task[n_jobs]);
    return true;
}
