/* Attention: against softmax in double, and every instruction set, thread count and cut of the rows against one row at
 * a time in scalar, byte for byte. */
#include "math/attend.h"
#include "base/memory.h"
#include "support/random.h"
#include "support/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Cache {
    KvView view;
    uint8_t *pages[32];
} Cache;

static void cache_fill(Cache *c, KvShape shape, const float *k, const float *v, int n) {
    c->view = (KvView){shape, c->pages};
    for (int p = 0; p * KV_PAGE < n; p++)
        c->pages[p] = mem_aligned(kv_page_bytes(&shape), 1), memset(c->pages[p], 0, kv_page_bytes(&shape));
    for (int i = 0; i < n; i++)
        assert_true(kv_write(&c->view, i, k + (size_t)i * (size_t)(shape.heads * shape.k_dim),
                             v + (size_t)i * (size_t)(shape.heads * shape.v_dim)));
}

static void cache_clear(Cache *c, int n) {
    for (int p = 0; p * KV_PAGE < n; p++) mem_free(c->pages[p]);
}

/* ---- problems: a cache, rows and what they see ---- */

typedef struct Problem {
    KvShape shape;
    AttendArgs args;
    int n, checked; /* positions; the last `checked` of them have queries */
    float *k, *v, *q, *expected, *out;
    size_t q_width, out_width;
    AttendRow *rows;  /* [n] */
    AttendKeys *keys; /* [n][heads], when positions are listed */
    int *positions;   /* [n][heads][n] */
} Problem;

static float *small_floats(size_t n) {
    float *x = random_floats(n);
    for (size_t i = 0; i < n; i++) x[i] = fminf(x[i], 3.0f);
    return x;
}

/* Random ascending lists, some empty, some with gaps longer than a page and a block. */
static void list_positions(Problem *p, bool per_head) {
    size_t heads = (size_t)p->args.n_heads, n = (size_t)p->n;
    p->keys = mem_zeroed(n * heads, sizeof *p->keys);
    p->positions = mem_array(n * heads * n, sizeof *p->positions);
    for (int r = p->n - p->checked; r < p->n; r++) {
        p->rows[r].keys = p->keys + (size_t)r * heads;
        p->rows[r].keys_per_head = per_head;
        for (size_t h = 0; h < heads; h++) {
            int *list = p->positions + ((size_t)r * heads + h) * n, count = 0;
            for (int at = p->rows[r].first; at <= r; at++) {
                if (random_below(30) == 0) at += random_below(700);
                if (at <= r && random_below(3)) list[count++] = at;
            }
            if (random_below(20) == 0) count = 0;
            p->keys[(size_t)r * heads + h] = (AttendKeys){list, count};
        }
    }
}

static Problem problem_new(KvShape shape, int group, int n, int window, int checked) {
    Problem p = {.shape = shape, .args = {.n_heads = shape.heads * group, .scale = 0.125f}, .n = n, .checked = checked};
    size_t kv = (size_t)n * (size_t)shape.heads;
    p.q_width = (size_t)(p.args.n_heads * shape.k_dim);
    p.out_width = (size_t)(p.args.n_heads * shape.v_dim);
    p.k = small_floats(kv * (size_t)shape.k_dim);
    p.v = small_floats(kv * (size_t)shape.v_dim);
    p.q = small_floats(p.q_width * (size_t)n);
    p.expected = mem_zeroed(p.out_width * (size_t)n, 4);
    p.out = mem_zeroed(p.out_width * (size_t)n, 4);
    p.rows = mem_zeroed((size_t)n, sizeof *p.rows);
    for (int i = 0; i < n; i++)
        p.rows[i] = (AttendRow){
            .first = window && i >= window ? i - window + 1 : 0, .position = i, .q = p.q + p.q_width * (size_t)i};
    return p;
}

static void problem_clear(Problem *p) {
    void *all[] = {p->k, p->v, p->q, p->expected, p->out, p->rows, p->keys, p->positions};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
}

/* The checked rows in chunks of random size up to `most`, outputs into `out`. */
static void problem_run(Problem *p, const KernelTable *table, int most, Pool *pool, float *out) {
    Arena arena;
    Cache c;
    arena_init(&arena);
    kernels_use(table);
    cache_fill(&c, p->shape, p->k, p->v, p->n);
    for (int i = 0; i < p->n; i++) p->rows[i].view = &c.view, p->rows[i].out = out + p->out_width * (size_t)i;
    for (int i = p->n - p->checked, chunk; i < p->n; i += chunk) {
        chunk = 1 + random_below(most);
        if (chunk > p->n - i) chunk = p->n - i;
        assert_true(attend(&p->args, &p->rows[i], chunk, pool, &arena));
    }
    cache_clear(&c, p->n);
    arena_clear(&arena);
}

static void assert_outputs_equal(const Problem *p, const char *what) {
    size_t at = p->out_width * (size_t)(p->n - p->checked);
    assert_floats_equal(p->expected + at, p->out + at, p->out_width * (size_t)p->checked, what);
}

static const float some_sinks[12] = {0.5f, -1, 2, 30, 0, 0, 1, 2, 3, 4, 5, 6};

static void attention_gives_the_same_bytes_however_it_is_cut(void **state) {
    (void)state;
    Pool *pools[2] = {pool_new(1, NULL), pool_new(2, NULL)};
    for (int round = 0; round < 48; round++) {
        KvShape shape = {(KvFormat)(round % 4), 1 + random_below(3), 8 * (1 + random_below(9)),
                         8 * (1 + random_below(9))};
        int n = round < 40 ? 1 + random_below(180) : 1100;
        if (round == 20) shape = (KvShape){KV_I16, 1, 576, 512}; /* MLA's latent keys and values */
        Problem p = problem_new(shape, 1 + random_below(4), n, round % 3 ? 0 : 1 + random_below(40), n > 200 ? 12 : n);
        p.args.sinks = round % 2 ? some_sinks : NULL;
        p.args.softcap = round % 5 == 1 ? 1.5f : 0;
        if (round / 4 % 3 == 1) list_positions(&p, round / 12 % 2);
        problem_run(&p, &kernels_scalar, 1, pools[0], p.expected);
        for (int t = 0; t < n_kernel_tables; t++) {
            if (!kernel_tables[t]->supported()) continue;
            problem_run(&p, kernel_tables[t], 40, pools[round % 2], p.out);
            assert_outputs_equal(&p, kernel_tables[t]->name);
        }
        problem_clear(&p);
    }
    pool_free(pools[0]);
    pool_free(pools[1]);
}

/* What a row reads in two places, added up by what is left of both softmaxes, is what it reads in one. */
static void parts_add_up_to_the_whole(void **state) {
    KvShape shape = {KV_F32, 1, 16, 8};
    Problem p = problem_new(shape, 2, 100, 0, 1);
    Pool *pool = pool_new(1, NULL);
    AttendPart parts[2][2];
    float halves[2][16];
    Arena arena;
    Cache c;
    (void)state;
    arena_init(&arena);
    cache_fill(&c, shape, p.k, p.v, p.n);
    AttendRow whole = {.view = &c.view, .position = 99, .q = p.q, .out = p.out};
    assert_true(attend(&p.args, &whole, 1, pool, &arena));
    for (int half = 0; half < 2; half++) {
        AttendRow row = {.view = &c.view, .q = p.q, .out = halves[half], .parts = parts[half]};
        row.first = half ? 40 : 0;
        row.position = half ? 99 : 39;
        assert_true(attend(&p.args, &row, 1, pool, &arena));
    }
    for (int i = 0; i < 16; i++) {
        const AttendPart *a = &parts[0][i / 8], *b = &parts[1][i / 8];
        double max = fmax((double)a->max, (double)b->max), x = exp((double)a->max - max), y = exp((double)b->max - max);
        double total = (double)a->denominator * x + (double)b->denominator * y;
        double sum = ((double)halves[0][i] * x + (double)halves[1][i] * y) / total;
        assert_true(fabs(sum - (double)p.out[i]) < 1e-5);
    }
    cache_clear(&c, p.n);
    arena_clear(&arena);
    pool_free(pool);
    problem_clear(&p);
}

/* ---- the definition, written out ---- */

static bool sees(const AttendRow *row, int head, int position) {
    if (position < row->first || position > row->position) return false;
    if (!row->keys) return true;
    const AttendKeys *keys = row->keys_per_head ? &row->keys[head] : row->keys;
    for (int i = 0; i < keys->n; i++)
        if (keys->positions[i] == position) return true;
    return false;
}

static float score(const Problem *p, const float *q, int kv_head, int position) {
    const float *k = p->k + ((size_t)position * (size_t)p->shape.heads + (size_t)kv_head) * (size_t)p->shape.k_dim;
    float sum = 0, cap = p->args.softcap;
    for (int d = 0; d < p->shape.k_dim; d++) sum = fmaf(q[d], k[d], sum);
    sum *= p->args.scale;
    if (cap != 0)
        kernels()->elements(&(ElementJob){.kind = ELEMENT_SOFTCAP, .x = &sum, .number = cap, .y = &sum, .n = 1});
    return sum;
}

/* One block's denominator, its weighted values added to out. */
static float define_block(const Problem *p, const AttendRow *row, int head, int kv_head, int start, const float *scores,
                          float max, float *out) {
    float lanes[16] = {0}, sum[1024] = {0};
    bool any = false;
    for (int at = start; at < start + ATTEND_BLOCK; at++) {
        if (!sees(row, head, at)) continue;
        const float *v = p->v + ((size_t)at * (size_t)p->shape.heads + (size_t)kv_head) * (size_t)p->shape.v_dim;
        float weight = kernels()->exp_sum(&scores[at], max, NULL, 1);
        lanes[at % 16] += weight;
        for (int d = 0; d < p->shape.v_dim; d++) sum[d] = fmaf(weight, v[d], sum[d]);
        any = true;
    }
    for (int d = 0; any && d < p->shape.v_dim; d++) out[d] += sum[d];
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lanes[j] += lanes[j + half];
    return lanes[0];
}

static void define_head(const Problem *p, const AttendRow *row, int head, float *out) {
    float scores[1200], max = -INFINITY, total = 0;
    int kv_head = head / (p->args.n_heads / p->shape.heads);
    memset(out, 0, (size_t)p->shape.v_dim * sizeof *out);
    if (p->args.sinks) max = p->args.sinks[head];
    for (int at = 0; at <= row->position; at++) {
        if (!sees(row, head, at)) continue;
        scores[at] = score(p, row->q + (size_t)head * (size_t)p->shape.k_dim, kv_head, at);
        if (scores[at] > max) max = scores[at];
    }
    for (int start = 0; start <= row->position; start += ATTEND_BLOCK)
        total += define_block(p, row, head, kv_head, start, scores, max, out);
    if (p->args.sinks) total += kernels()->exp_sum(&p->args.sinks[head], max, NULL, 1);
    for (int d = 0; d < p->shape.v_dim && total != 0; d++) out[d] /= total;
}

/* Blocks by absolute position, lanes by position mod 16, keys that are not listed as if they were not there. */
static void attention_is_what_the_definition_says(void **state) {
    (void)state;
    Pool *pool = pool_new(2, NULL);
    for (int round = 0; round < 22; round++) {
        KvShape shape = {KV_F32, 1 + random_below(2), 1 + random_below(70), 1 + random_below(70)};
        if (round == 3) shape = (KvShape){KV_F32, 1, 576, 512};
        int window = round % 2 ? 0 : round % 4 ? 600 : 1040; /* few rows that see over 1,024 go block by block */
        Problem p = problem_new(shape, 1 + random_below(3), 1100, window, 8);
        p.args.sinks = round % 4 < 2 ? some_sinks : NULL;
        p.args.softcap = round % 3 == 0 ? 2.0f : 0;
        if (round >= 12) list_positions(&p, round % 2);
        for (int r = p.n - p.checked; r < p.n; r++)
            for (int h = 0; h < p.args.n_heads; h++)
                define_head(&p, &p.rows[r], h, p.expected + (size_t)r * p.out_width + (size_t)h * (size_t)shape.v_dim);
        problem_run(&p, kernels(), 8, pool, p.out);
        assert_outputs_equal(&p, "definition");
        problem_clear(&p);
    }
    pool_free(pool);
}

/* In double, with a sink and a soft cap in turn. */
static void attention_is_softmax_of_scores_times_values(void **state) {
    (void)state;
    enum { N = 700, D = 24, FIRST = 3 };
    Pool *pool = pool_new(1, NULL);
    static const double tolerance[] = {[KV_I16] = 2e-5, [KV_F32] = 1e-6, [KV_F16] = 1e-3, [KV_BF16] = 8e-3};
    float sink = 1.25f;
    assert_true(kernels_select(NULL, NULL));
    for (int round = 0; round < 16; round++) {
        Problem p = problem_new((KvShape){(KvFormat)(round % 4), 1, D, D}, 1, N, N - FIRST, 1);
        p.args = (AttendArgs){1, 0.3f, round & 4 ? 1.5f : 0, round & 8 ? &sink : NULL};
        for (int i = 0; i < N * D; i++) p.k[i] = random_even(1), p.v[i] = random_even(1);
        const float *q = p.q + (size_t)(N - 1) * D, *out = p.out + (size_t)(N - 1) * D;
        for (int i = 0; i < D; i++) p.q[(N - 1) * D + i] = random_even(2);
        problem_run(&p, kernels(), 1, pool, p.out);
        double total = round & 8 ? exp((double)sink) : 0, sum[D] = {0};
        for (int at = FIRST; at < N; at++) {
            double s = 0;
            for (int d = 0; d < D; d++) s += (double)q[d] * (double)p.k[at * D + d];
            s *= 0.3;
            if (round & 4) s = 1.5 * tanh(s / 1.5);
            total += exp(s);
            for (int d = 0; d < D; d++) sum[d] += exp(s) * (double)p.v[at * D + d];
        }
        for (int d = 0; d < D; d++) assert_true(fabs(sum[d] / total - (double)out[d]) < tolerance[round % 4]);
        problem_clear(&p);
    }
    pool_free(pool);
}

static void a_non_finite_key_is_refused(void **state) {
    (void)state;
    float k[16] = {1, 2, 3}, v[16] = {0};
    for (int f = KV_I16; f <= KV_BF16; f++) {
        Cache c;
        cache_fill(&c, (KvShape){(KvFormat)f, 1, 16, 16}, k, v, 1);
        float bad[16] = {0};
        bad[15] = NAN;
        assert_false(kv_write(&c.view, 1, bad, v));
        bad[15] = INFINITY;
        assert_false(kv_write(&c.view, 1, k, bad));
        bad[15] = 1e6f; /* past f16 only */
        assert_int_equal(kv_write(&c.view, 1, k, bad), f != KV_F16);
        cache_clear(&c, 1);
    }
}

int main(void) {
    tables_print();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_softmax_of_scores_times_values),
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(attention_is_what_the_definition_says),
        cmocka_unit_test(attention_gives_the_same_bytes_however_it_is_cut),
        cmocka_unit_test(a_non_finite_key_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
