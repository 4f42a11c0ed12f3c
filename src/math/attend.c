/* Attention: scores page by page, then per block of 512 positions weights, denominator and weighted values, blocks
 * added in ascending order. A task is a few consecutive rows of one sequence times some heads that share keys, so that
 * a tile of keys is widened once for all of them; a few rows that see many positions are cut into blocks besides. Who
 * shares a task, and where tasks are cut, is scheduling and changes nothing. */
#include "math/attend.h"
#include "math/kernel_table.h"

#include <math.h>
#include <string.h>

static const char *const format_names[] = {[KV_I16] = "i16", [KV_F32] = "f32", [KV_F16] = "f16", [KV_BF16] = "bf16"};

const char *kv_format_name(KvFormat f) {
    return format_names[f];
}

bool kv_format_parse(const char *name, KvFormat *out) {
    for (int i = 0; i < (int)(sizeof format_names / sizeof *format_names); i++)
        if (strcmp(name, format_names[i]) == 0) {
            *out = (KvFormat)i;
            return true;
        }
    return false;
}

/* ---- a page: per head, key tiles, key scales, values, value scales ---- */

static size_t element_bytes(KvFormat f) {
    return f == KV_F32 ? 4 : 2;
}

static size_t scale_bytes(KvFormat f) {
    return f == KV_I16 ? KV_PAGE * sizeof(float) : 0;
}

static size_t head_bytes(const KvShape *s) {
    return (size_t)KV_PAGE * (size_t)(s->k_dim + s->v_dim) * element_bytes(s->format) + 2 * scale_bytes(s->format);
}

size_t kv_page_bytes(const KvShape *s) {
    return head_bytes(s) * (size_t)s->heads;
}

typedef struct HeadPage {
    uint8_t *keys, *values;
    float *key_scale, *value_scale;
} HeadPage;

static HeadPage head_page(const KvView *view, int page, int head) {
    const KvShape *s = &view->shape;
    uint8_t *p = view->pages[page] + (size_t)head * head_bytes(s);
    HeadPage h = {.keys = p};
    p += (size_t)KV_PAGE * (size_t)s->k_dim * element_bytes(s->format);
    h.key_scale = (float *)(void *)p;
    p += scale_bytes(s->format);
    h.values = p;
    p += (size_t)KV_PAGE * (size_t)s->v_dim * element_bytes(s->format);
    h.value_scale = (float *)(void *)p;
    return h;
}

/* Key element d of position i goes to [tile][d][i % 16]. */
static void scatter_key(uint8_t *keys, const void *from, int dim, int i, size_t bytes) {
    uint8_t *to = keys + (size_t)(i / KV_TILE) * (size_t)dim * KV_TILE * bytes + (size_t)(i % KV_TILE) * bytes;
    if (bytes == 2)
        for (int d = 0; d < dim; d++) memcpy(to + (size_t)d * KV_TILE * 2, (const uint8_t *)from + d * 2, 2);
    else
        for (int d = 0; d < dim; d++) memcpy(to + (size_t)d * KV_TILE * 4, (const uint8_t *)from + d * 4, 4);
}

enum { MAX_HEAD_DIM = 1024 };

/* Asks for the lines that scatter_key will write: each of its elements goes to a line of its own. */
static void fetch_key(const uint8_t *keys, int dim, int i, size_t bytes) {
    keys += ((size_t)(i / KV_TILE) * (size_t)dim * KV_TILE + (size_t)(i % KV_TILE)) * bytes;
    for (int d = 0; d < dim; d++) __builtin_prefetch(keys + (size_t)d * KV_TILE * bytes, 1);
}

bool kv_write(const KvView *view, int position, const float *k, const float *v) {
    const KvShape *s = &view->shape;
    size_t bytes = element_bytes(s->format);
    int i = position % KV_PAGE;
    for (int head = 0; head < s->heads; head++) {
        HeadPage page = head_page(view, position / KV_PAGE, head);
        uint8_t row[MAX_HEAD_DIM * 4];
        float scale = 0;
        if (head + 1 < s->heads) fetch_key(page.keys + head_bytes(s), s->k_dim, i, bytes);
        if (!kernels()->kv_encode(s->format, k + (size_t)head * (size_t)s->k_dim, s->k_dim, row, &scale)) return false;
        scatter_key(page.keys, row, s->k_dim, i, bytes);
        if (s->format == KV_I16) page.key_scale[i] = scale;
        uint8_t *value = page.values + (size_t)i * (size_t)s->v_dim * bytes;
        if (!kernels()->kv_encode(s->format, v + (size_t)head * (size_t)s->v_dim, s->v_dim, value, &scale))
            return false;
        if (s->format == KV_I16) page.value_scale[i] = scale;
    }
    return true;
}

const float *kv_value(const KvView *view, int position) {
    HeadPage page = head_page(view, position / KV_PAGE, 0);
    size_t at = (size_t)(position % KV_PAGE) * (size_t)view->shape.v_dim;
    return (const float *)(const void *)page.values + at;
}

/* ---- a task: rows [first_row, end_row) times heads [first_head, end_head) of one kv head ---- */

enum { SCORE_BUDGET = 1 << 20 };

/* Rows of one sequence ascend, so its first row sees the earliest key and its last row the latest. */
typedef struct Task {
    int first_row, end_row, first_head, end_head;
} Task;

typedef struct AttendContext {
    const AttendArgs *args;
    const AttendRow *rows;
    Task *tasks;
    int n_tasks;
    float *scratch; /* [threads][scratch_floats]: scores, then block sums */
    size_t scratch_floats;
} AttendContext;

typedef struct Query {
    const AttendRow *row;
    const AttendKeys *keys; /* NULL: all of row->first .. row->position; else the same list for all queries of a task */
    int head;
    float *scores; /* scores[p - base] */
    float *block;  /* [v_dim] sum of one block */
    float *out;    /* [v_dim] */
    float max, denominator;
    float block_total; /* of one block's weights */
} Query;

static int clamp(int x, int low, int high) {
    return x < low ? low : x > high ? high : x;
}

/* ---- which positions a query sees ---- */

/* The index of the first listed position at or after p. */
static int keys_from(const AttendKeys *keys, int p) {
    int low = 0, high = keys->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (keys->positions[middle] < p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The span of what a query sees inside [start, end): first == last when that is nothing. */
typedef struct Span {
    int first, last;
} Span;

static Span visible_span(const Query *q, int start, int end) {
    if (!q->keys) return (Span){clamp(q->row->first, start, end), clamp(q->row->position + 1, start, end)};
    int from = keys_from(q->keys, start), to = keys_from(q->keys, end);
    return from < to ? (Span){q->keys->positions[from], q->keys->positions[to - 1] + 1} : (Span){start, start};
}

/* Minus infinity where a position is not listed: its weight is an exact zero. scores[i] is position first + i. */
static void hide_unlisted(float *scores, int first, int n, const AttendKeys *keys) {
    int at = 0;
    for (int i = 0; i < keys->n; i++) {
        int next = keys->positions[i] - first;
        while (at < next) scores[at++] = -INFINITY;
        at = next + 1;
    }
    while (at < n) scores[at++] = -INFINITY;
}

static void cap_scores(float *scores, int n, float cap) {
    ElementJob job = {.kind = ELEMENT_SOFTCAP, .x = scores, .number = cap, .y = scores, .n = n};
    if (cap != 0) kernels()->elements(&job);
}

/* ---- scores ---- */

/* Tiles [first_tile, end_tile) of a page. */
static void page_scores(const KvView *view, int page, int kv_head, int first_tile, int end_tile, const float *const *q,
                        int n, float scale, float *const *out, const uint8_t *next) {
    HeadPage h = head_page(view, page, kv_head);
    ScoreJob job = {.format = view->shape.format,
                    .keys = h.keys,
                    .key_scale = h.key_scale,
                    .k_dim = view->shape.k_dim,
                    .first_tile = first_tile,
                    .end_tile = end_tile,
                    .q = q,
                    .out = out,
                    .n_queries = n,
                    .scale = scale,
                    .next = next ? next : h.keys};
    kernels()->scores(&job);
}

void kv_page_scores(const KvView *view, int page, int kv_head, const float *const *q, int n, float scale,
                    float *const *out) {
    page_scores(view, page, kv_head, 0, KV_PAGE / KV_TILE, q, n, scale, out, NULL);
}

/* Scores of all queries against the keys [first, end); base is a page start at or before the first visible position. */
static void fill_scores(const AttendContext *c, const KvView *view, int kv_head, Query *queries, int n, int base,
                        int first, int end) {
    const KvShape *s = &view->shape;
    const float *q[ATTEND_QUERIES];
    float *out[ATTEND_QUERIES];
    for (int page = first / KV_PAGE; page * KV_PAGE < end; page++) {
        int start = page * KV_PAGE, stop = end - start < KV_PAGE ? end : start + KV_PAGE;
        Span seen = {first > start ? first : start, stop};
        if (queries[0].keys) seen = visible_span(&queries[0], start, stop);
        if (seen.first == seen.last) continue;
        for (int i = 0; i < n; i++) {
            q[i] = queries[i].row->q + (size_t)queries[i].head * (size_t)s->k_dim;
            out[i] = queries[i].scores + (start - base);
        }
        const uint8_t *next =
            stop < end ? head_page(view, page + 1, kv_head).keys : head_page(view, first / KV_PAGE, kv_head).values;
        page_scores(view, page, kv_head, (seen.first - start) / KV_TILE, (seen.last - start + KV_TILE - 1) / KV_TILE, q,
                    n, c->args->scale, out, next);
    }
}

/* The weighted values of positions [first, end), all inside one page, for queries [from, to). */
static void add_values(const KvView *view, int kv_head, Query *queries, int from, int to, int base, int first,
                       int end) {
    if (first >= end || from >= to) return;
    int start = first / KV_PAGE * KV_PAGE;
    int page = first / KV_PAGE, last_page = queries[to - 1].row->position / KV_PAGE;
    HeadPage h = head_page(view, page, kv_head);
    const float *weights[ATTEND_QUERIES];
    float *acc[ATTEND_QUERIES];
    for (int i = from; i < to; i++) {
        weights[i - from] = queries[i].scores + (start - base);
        acc[i - from] = queries[i].block;
    }
    ValueJob job = {.format = view->shape.format,
                    .values = h.values,
                    .value_scale = h.value_scale,
                    .v_dim = view->shape.v_dim,
                    .first = first - start,
                    .end = end - start,
                    .weights = weights,
                    .acc = acc,
                    .n_queries = to - from,
                    .next = head_page(view, page < last_page ? page + 1 : page, kv_head).values};
    kernels()->values(&job);
}

/* Listed positions of one page, run by run: all queries have the same list. */
static void listed_values(const KvView *view, int kv_head, Query *queries, int n, int base, int start, int end) {
    const AttendKeys *keys = queries[0].keys;
    int to = keys_from(keys, end);
    for (int i = keys_from(keys, start), run; i < to; i = run) {
        for (run = i + 1; run < to && keys->positions[run] == keys->positions[run - 1] + 1;) run++;
        add_values(view, kv_head, queries, 0, n, base, keys->positions[i], keys->positions[run - 1] + 1);
    }
}

/* One page's part of a block. Positions that all queries see are done together; those at the edges query by query,
 * before and after: so each query still meets its positions in ascending order. */
static void page_values(const KvView *view, int kv_head, Query *queries, int n, int base, int start, int end) {
    int low = start, high = end;
    if (queries[0].keys) {
        listed_values(view, kv_head, queries, n, base, start, end);
        return;
    }
    for (int i = 0; i < n; i++) {
        low = clamp(queries[i].row->first, low, end);
        high = clamp(queries[i].row->position + 1, start, high);
    }
    if (high < low) high = low;
    for (int i = 0; i < n; i++) {
        int first = clamp(queries[i].row->first, start, end), last = clamp(queries[i].row->position + 1, start, end);
        add_values(view, kv_head, queries, i, i + 1, base, first, low < last ? low : last);
    }
    add_values(view, kv_head, queries, 0, n, base, low, high);
    for (int i = 0; i < n; i++) {
        int first = clamp(queries[i].row->first, start, end), last = clamp(queries[i].row->position + 1, start, end);
        add_values(view, kv_head, queries, i, i + 1, base, high > first ? high : first, last);
    }
}

/* One block of 512 positions: weights and their sum, and the weighted values. */
static void block_values(const KvView *view, int kv_head, Query *queries, int n, int base, int start, int end) {
    int v_dim = view->shape.v_dim;
    for (int i = 0; i < n; i++) {
        Query *q = &queries[i];
        memset(q->block, 0, (size_t)v_dim * sizeof *q->block);
        Span seen = visible_span(q, start, end);
        if (seen.first < seen.last)
            q->block_total =
                kernels()->exp_block(q->scores + (start - base), q->max, seen.first - start, seen.last - start);
    }
    for (int p = start; p < end; p += KV_PAGE)
        page_values(view, kv_head, queries, n, base, p, end - p < KV_PAGE ? end : p + KV_PAGE);
}

/* ... onto the running result, if the query sees any of it. */
static void block_add(Query *q, int v_dim, int start, int end) {
    Span seen = visible_span(q, start, end);
    if (seen.first >= seen.last) return;
    q->denominator += q->block_total;
    kernels()->add(q->out, q->block, q->out, v_dim);
}

static void finish_query(const AttendArgs *args, Query *q, int v_dim) {
    float total = q->denominator;
    if (q->row->parts) {
        q->row->parts[q->head] = (AttendPart){q->max, total};
        return;
    }
    if (args->sinks) {
        float sink[1] = {args->sinks[q->head]};
        total += kernels()->exp_sum(sink, q->max, NULL, 1);
    }
    for (int d = 0; d < v_dim && total != 0; d++) q->out[d] /= total; /* a list may be empty */
}

/* The positions that a task's queries see, from its first page on, cut into blocks. A window may begin inside the first
 * one: positions before base are seen by nobody. */
typedef struct Range {
    int base, first, end;
} Range;

static Range range_of(const AttendContext *c, const Task *t) {
    int first = c->rows[t->first_row].first;
    return (Range){first / KV_PAGE * KV_PAGE, first, c->rows[t->end_row - 1].position + 1};
}

static int range_width(Range r) {
    return (r.end - r.base + KV_PAGE - 1) / KV_PAGE * KV_PAGE;
}

static int range_blocks(Range r) {
    return (r.end - 1) / ATTEND_BLOCK - r.base / ATTEND_BLOCK + 1;
}

/* The part of block i that lies in the range. */
static Span range_block(Range r, int i) {
    int start = (r.base / ATTEND_BLOCK + i) * ATTEND_BLOCK, end = start + ATTEND_BLOCK;
    return (Span){start < r.base ? r.base : start, end < r.end ? end : r.end};
}

static int kv_head_of(const AttendContext *c, const Task *t) {
    return t->first_head / (c->args->n_heads / c->rows[t->first_row].view->shape.heads);
}

static void attend_queries(const AttendContext *c, const KvView *view, int kv_head, Range range, Query *queries, int n,
                           float *scratch) {
    int v_dim = view->shape.v_dim, width = range_width(range);
    for (int i = 0; i < n; i++) {
        queries[i].scores = scratch + (size_t)i * (size_t)width;
        queries[i].block = scratch + (size_t)n * (size_t)width + (size_t)i * (size_t)v_dim;
    }
    fill_scores(c, view, kv_head, queries, n, range.base, range.first, range.end);
    for (int i = 0; i < n; i++) {
        Query *q = &queries[i];
        float *visible = q->scores + (q->row->first - range.base);
        int n_visible = q->row->position + 1 - q->row->first;
        cap_scores(visible, n_visible, c->args->softcap);
        if (q->keys) hide_unlisted(visible, q->row->first, n_visible, q->keys);
        q->max = kernels()->maximum(visible, n_visible, visible[0]);
        if (c->args->sinks && c->args->sinks[q->head] > q->max) q->max = c->args->sinks[q->head];
        memset(q->out, 0, (size_t)v_dim * sizeof *q->out);
    }
    for (int b = 0; b < range_blocks(range); b++) {
        Span block = range_block(range, b);
        block_values(view, kv_head, queries, n, range.base, block.first, block.last);
        for (int i = 0; i < n; i++) block_add(&queries[i], v_dim, block.first, block.last);
    }
    for (int i = 0; i < n; i++) finish_query(c->args, &queries[i], v_dim);
}

static int task_queries(const AttendContext *c, const Task *t, Query queries[ATTEND_QUERIES]) {
    size_t v_dim = (size_t)c->rows[t->first_row].view->shape.v_dim;
    int n = 0;
    for (int r = t->first_row; r < t->end_row; r++)
        for (int h = t->first_head; h < t->end_head; h++) {
            const AttendRow *row = &c->rows[r];
            queries[n++] = (Query){.row = row,
                                   .keys = row->keys && row->keys_per_head ? &row->keys[h] : row->keys,
                                   .head = h,
                                   .out = row->out + (size_t)h * v_dim};
        }
    return n;
}

static void attend_task(void *context, int task, int thread) {
    const AttendContext *c = context;
    /* from the last: later rows see more, and large tasks that start early leave small ones to even out the end */
    const Task *t = &c->tasks[c->n_tasks - 1 - task];
    Query queries[ATTEND_QUERIES];
    int n = task_queries(c, t, queries);
    attend_queries(c, c->rows[t->first_row].view, kv_head_of(c, t), range_of(c, t), queries, n,
                   c->scratch + (size_t)thread * c->scratch_floats);
}

/* ---- few rows that see many positions: a block of a task at a time ----
 *
 * A few rows make fewer tasks than keep all threads busy, and heads that share keys would have to be parted for more.
 * So the same steps are taken block by block, on any thread: all scores, then each block's weights and values, and
 * then, in ascending order as always, the blocks are added up. */

typedef struct Blocks {
    const AttendContext *c;
    int *first;     /* [n_tasks + 1]: blocks of task t are [first[t], first[t + 1]) */
    Query *queries; /* [n_tasks][ATTEND_QUERIES] */
    int *n_queries; /* [n_tasks] */
    float **sums;   /* [n_tasks]: [block][query][v_dim] */
    float *max;     /* [blocks][ATTEND_QUERIES]: of each block's scores */
    float *total;   /* [blocks][ATTEND_QUERIES]: of each block's weights */
} Blocks;

static void block_scores_task(void *context, int block, int thread) {
    (void)thread;
    const Blocks *b = context;
    const AttendContext *c = b->c;
    int t = pool_job_of_task(b->first, c->n_tasks, block);
    const Task *task = &c->tasks[t];
    Range range = range_of(c, task);
    Span part = range_block(range, block - b->first[t]);
    Query *queries = b->queries + (size_t)t * ATTEND_QUERIES;
    fill_scores(c, c->rows[task->first_row].view, kv_head_of(c, task), queries, b->n_queries[t], range.base,
                part.first < range.first ? range.first : part.first, part.last);
    for (int i = 0; i < b->n_queries[t]; i++) {
        Span seen = visible_span(&queries[i], part.first, part.last);
        float *visible = queries[i].scores + (seen.first - range.base), *max = b->max + block * ATTEND_QUERIES + i;
        *max = -INFINITY;
        if (seen.first == seen.last) continue;
        cap_scores(visible, seen.last - seen.first, c->args->softcap);
        *max = kernels()->maximum(visible, seen.last - seen.first, visible[0]);
    }
}

static void block_values_task(void *context, int block, int thread) {
    (void)thread;
    const Blocks *b = context;
    const AttendContext *c = b->c;
    int t = pool_job_of_task(b->first, c->n_tasks, block), n = b->n_queries[t];
    const KvView *view = c->rows[c->tasks[t].first_row].view;
    Range range = range_of(c, &c->tasks[t]);
    Span part = range_block(range, block - b->first[t]);
    Query queries[ATTEND_QUERIES];
    for (int i = 0; i < n; i++) {
        queries[i] = b->queries[t * ATTEND_QUERIES + i];
        queries[i].block = b->sums[t] + (size_t)((block - b->first[t]) * n + i) * (size_t)view->shape.v_dim;
    }
    block_values(view, kv_head_of(c, &c->tasks[t]), queries, n, range.base, part.first, part.last);
    for (int i = 0; i < n; i++) b->total[block * ATTEND_QUERIES + i] = queries[i].block_total;
}

static void block_max(const Blocks *b, int t) {
    const AttendContext *c = b->c;
    for (int i = 0; i < b->n_queries[t]; i++) {
        Query *q = &b->queries[t * ATTEND_QUERIES + i];
        q->max = -INFINITY;
        for (int block = b->first[t]; block < b->first[t + 1]; block++)
            if (b->max[block * ATTEND_QUERIES + i] > q->max) q->max = b->max[block * ATTEND_QUERIES + i];
        if (c->args->sinks && c->args->sinks[q->head] > q->max) q->max = c->args->sinks[q->head];
    }
}

static void block_sums_task(void *context, int t, int thread) {
    (void)thread;
    const Blocks *b = context;
    const AttendContext *c = b->c;
    int v_dim = c->rows[c->tasks[t].first_row].view->shape.v_dim, n = b->n_queries[t];
    Range range = range_of(c, &c->tasks[t]);
    for (int i = 0; i < n; i++) {
        Query *q = &b->queries[t * ATTEND_QUERIES + i];
        memset(q->out, 0, (size_t)v_dim * sizeof *q->out);
        for (int block = 0; block < range_blocks(range); block++) {
            Span part = range_block(range, block);
            q->block = b->sums[t] + (size_t)(block * n + i) * (size_t)v_dim;
            q->block_total = b->total[(b->first[t] + block) * ATTEND_QUERIES + i];
            block_add(q, v_dim, part.first, part.last);
        }
        finish_query(c->args, q, v_dim);
    }
}

/* The queries of every task, and room for what their blocks leave. */
static bool blocks_plan(Blocks *b, Arena *arena) {
    const AttendContext *c = b->c;
    size_t n = (size_t)c->n_tasks;
    b->first = arena_array(arena, n + 1, sizeof *b->first);
    b->queries = arena_array(arena, n, ATTEND_QUERIES * sizeof *b->queries);
    b->n_queries = arena_array(arena, n, sizeof *b->n_queries);
    b->sums = arena_array(arena, n, sizeof *b->sums);
    if (!b->first || !b->queries || !b->n_queries || !b->sums) return false;
    b->first[0] = 0;
    for (int t = 0; t < c->n_tasks; t++) {
        Range range = range_of(c, &c->tasks[t]);
        Query *queries = b->queries + (size_t)t * ATTEND_QUERIES;
        int blocks = range_blocks(range), n_queries = task_queries(c, &c->tasks[t], queries);
        size_t width = (size_t)range_width(range), v_dim = (size_t)c->rows[c->tasks[t].first_row].view->shape.v_dim;
        float *scores = arena_array(arena, (size_t)n_queries, width * sizeof *scores);
        b->sums[t] = arena_array(arena, (size_t)(blocks * n_queries), v_dim * sizeof **b->sums);
        if (!scores || !b->sums[t]) return false;
        for (int i = 0; i < n_queries; i++) queries[i].scores = scores + (size_t)i * width;
        b->n_queries[t] = n_queries;
        b->first[t + 1] = b->first[t] + blocks;
    }
    size_t blocks = (size_t)b->first[c->n_tasks];
    b->max = arena_array(arena, blocks, ATTEND_QUERIES * sizeof *b->max);
    b->total = arena_array(arena, blocks, ATTEND_QUERIES * sizeof *b->total);
    return b->max && b->total;
}

static bool attend_blocks(const AttendContext *c, Pool *pool, Arena *arena) {
    Blocks b = {.c = c};
    if (!blocks_plan(&b, arena)) return false;
    pool_run(pool, block_scores_task, &b, b.first[c->n_tasks]);
    for (int t = 0; t < c->n_tasks; t++) block_max(&b, t);
    pool_run(pool, block_values_task, &b, b.first[c->n_tasks]);
    pool_run(pool, block_sums_task, &b, c->n_tasks);
    return true;
}

/* ---- the plan ---- */

/* Rows [first, end) of one sequence that one task takes: as many as ATTEND_QUERIES and the score budget allow; one
 * where the positions are listed. */
static int rows_end(const AttendRow *rows, int n_rows, int first, int heads) {
    int end = first + 1;
    if (rows[first].keys) return end;
    while (end < n_rows && rows[end].view == rows[first].view && !rows[end].keys &&
           (end + 1 - first) * heads <= ATTEND_QUERIES) {
        int64_t keys = rows[end].position + KV_PAGE - rows[first].first;
        if (keys * (end + 1 - first) * heads > SCORE_BUDGET) break;
        end++;
    }
    return end;
}

/* With tasks NULL only counts. Also finds the scratch that the largest task needs. */
static int plan(const AttendArgs *args, const AttendRow *rows, int n_rows, int heads, Task *tasks, size_t *floats) {
    int n = 0;
    for (int first = 0, end; first < n_rows; first = end) {
        end = rows_end(rows, n_rows, first, heads);
        int group = args->n_heads / rows[first].view->shape.heads;
        int step = rows[first].keys && rows[first].keys_per_head ? 1 : heads;
        for (int kv = 0; kv < args->n_heads; kv += group)
            for (int h = kv; h < kv + group; h += step) {
                int last = h + step < kv + group ? h + step : kv + group;
                if (tasks) tasks[n] = (Task){first, end, h, last};
                n++;
            }
        size_t keys = (size_t)(rows[end - 1].position + 1 - rows[first].first) + 2 * KV_PAGE;
        size_t wanted = (keys + (size_t)rows[first].view->shape.v_dim) * (size_t)((end - first) * heads);
        if (wanted > *floats) *floats = wanted;
    }
    return n;
}

/* How a step's rows are shared out. */
typedef struct Shares {
    int heads;   /* that share keys and a task */
    bool blocks; /* tasks go block by block */
} Shares;

enum { WORTH_BLOCKS = 2 * ATTEND_BLOCK, TASKS_EACH = 4 /* of a thread, so that all end together */ };

static bool sees_far(const AttendRow *rows, int n_rows) {
    int longest = 0;
    for (int r = 0; r < n_rows; r++) {
        int seen = rows[r].position + 1 - rows[r].first;
        if (rows[r].keys) return false;
        longest = seen > longest ? seen : longest;
    }
    return longest > WORTH_BLOCKS;
}

static Shares shares_of(const AttendArgs *args, const AttendRow *rows, int n_rows, int threads) {
    int kv_heads = rows[0].view->shape.heads, group = args->n_heads / kv_heads;
    int heads = group > ATTEND_QUERIES ? ATTEND_QUERIES : group, least = TASKS_EACH * threads;
    size_t unused = 0;
    if (threads == 1) return (Shares){heads, false};
    if (sees_far(rows, n_rows) && plan(args, rows, n_rows, heads, NULL, &unused) < least) return (Shares){heads, true};
    if (n_rows * kv_heads < least && (group + 1) / 2 < heads) heads = (group + 1) / 2;
    return (Shares){heads, false};
}

bool attend(const AttendArgs *args, const AttendRow *rows, int n_rows, Pool *pool, Arena *arena) {
    if (n_rows == 0) return true;
    int threads = pool_threads(pool);
    Shares shares = shares_of(args, rows, n_rows, threads);
    AttendContext c = {.args = args, .rows = rows};
    c.n_tasks = plan(args, rows, n_rows, shares.heads, NULL, &c.scratch_floats);
    c.scratch_floats = (c.scratch_floats + 15) / 16 * 16;
    c.tasks = arena_array(arena, (size_t)c.n_tasks, sizeof *c.tasks);
    if (!c.tasks) return false;
    plan(args, rows, n_rows, shares.heads, c.tasks, &c.scratch_floats);
    if (shares.blocks) return attend_blocks(&c, pool, arena);
    c.scratch = arena_array(arena, (size_t)threads, c.scratch_floats * sizeof *c.scratch);
    if (!c.scratch) return false;
    pool_run(pool, attend_task, &c, c.n_tasks);
    return true;
}
