/* Measuring a model whose rotary tables change at 16 tokens: row p is what ids[0..p] alone give, on both sides, however
 * the trace is cut and whoever runs beside; scores and the exactness probe follow from that. */
#include "eval/bench.h"
#include "eval/check.h"
#include "eval/perplexity.h"
#include "eval/trace.h"
#include "math/ops.h"
#include "support/fresh.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 40, BOUNDARY = 16 };

static TinyModel tiny;
static int32_t ids[IDS];
static float fresh[IDS][TINY_VOCAB];

static int setup(void **state) {
    (void)state;
    fresh_longrope_open(&tiny, BOUNDARY, 0);
    fresh_ids(ids, IDS);
    for (int i = 0; i < IDS; i++) fresh_logits(tiny.model, ids, i + 1, fresh[i]);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tiny_close(&tiny);
    return 0;
}

typedef struct Got {
    char calls[256]; /* of the sink, "first+n " */
    char steps[512]; /* "side:first+n " */
} Got;

static bool compare_rows_with_fresh_ones(void *context, int first, int n, const float *logits, Error *err) {
    Got *g = context;
    size_t used = strlen(g->calls);
    (void)err;
    assert_memory_equal(logits, fresh[first], (size_t)n * sizeof fresh[0]);
    snprintf(g->calls + used, sizeof g->calls - used, "%d+%d ", first, n);
    return true;
}

static void note_step(void *context, int side, int row, int first, int n) {
    Got *g = context;
    size_t used = strlen(g->steps);
    (void)row;
    snprintf(g->steps + used, sizeof g->steps - used, "%d:%d+%d ", side, first, n);
}

static void trace(Got *g, TraceOptions o, int n_ids) {
    Error err = {""};
    *g = (Got){.calls = ""};
    o.ids = ids;
    o.n_ids = n_ids;
    o.before_step = note_step;
    o.hook_context = g;
    if (!trace_run(tiny.model, &o, compare_rows_with_fresh_ones, g, &err)) fail_msg("%s", err.text);
}

static void a_trace_runs_both_sides(void **state) {
    static const int chunks[] = {7, 4};
    Got g;
    (void)state;
    trace(&g, (TraceOptions){0}, IDS);
    assert_string_equal(g.steps, "0:0+16 1:0+16 1:16+24 ");
    assert_string_equal(g.calls, "0+16 16+24 ");
    trace(&g, (TraceOptions){.chunks = chunks, .n_chunks = 2}, 20);
    assert_string_equal(g.steps, "0:0+7 0:7+4 0:11+5 1:0+4 1:4+7 1:11+4 1:15+1 1:16+4 ");
    assert_string_equal(g.calls, "0+7 7+4 11+5 16+4 ");
    trace(&g, (TraceOptions){0}, BOUNDARY);
    assert_string_equal(g.steps, "0:0+16 ");
    trace(&g, (TraceOptions){0}, BOUNDARY + 1);
    assert_string_equal(g.steps, "0:0+16 1:0+16 1:16+1 ");
}

/* Seven others: lengths 5, 16, 27, ... of their own, so on both sides. */
static void unrelated_rows_of_both_sides_do_not_show(void **state) {
    static const int one[] = {1};
    Got g;
    (void)state;
    trace(&g, (TraceOptions){.chunks = one, .n_chunks = 1, .width = 8}, IDS);
    trace(&g, (TraceOptions){.chunks = one, .n_chunks = 1, .width = 8, .vary_width = true}, IDS);
    trace(&g, (TraceOptions){.chunks = one, .n_chunks = 1, .width = 8, .all_logits = true}, IDS);
    trace(&g, (TraceOptions){.width = 8, .all_logits = true}, IDS);
}

static void the_score_is_that_of_each_prefix(void **state) {
    Perplexity p;
    Error err = {""};
    double nll = 0;
    (void)state;
    for (int i = 0; i + 1 < IDS; i++) nll -= (double)ops_log_prob(fresh[i], TINY_VOCAB, ids[i + 1]);
    if (!perplexity_run(tiny.model, ids, IDS, NULL, NULL, &p, &err)) fail_msg("%s", err.text);
    assert_int_equal(p.n_scored, IDS - 1);
    assert_true(p.mean_nll == nll / (IDS - 1));
}

static void the_probe_crosses(void **state) {
    CheckOptions o = {.ids = ids, .n_ids = 20};
    CheckReport report;
    Error err = {""};
    (void)state;
    if (!check_run(tiny.model, &o, &report, &err)) fail_msg("%s", err.text);
    if (!report.exact) fail_msg("%s", report.difference);
}

static void a_bench_keeps_to_one_side(void **state) {
    BenchResult r;
    Error err = {""};
    (void)state;
    assert_true(bench_run(tiny.model, &(BenchOptions){.prompt = 16, .decode = 16, .reps = 1}, &r, &err));
    assert_true(bench_run(tiny.model, &(BenchOptions){.prompt = 80, .decode = 1, .reps = 1}, &r, &err));
    assert_true(bench_run(tiny.model, &(BenchOptions){.batches = {2}, .n_batches = 1, .reps = 2}, &r, &err));
    assert_false(bench_run(tiny.model, &(BenchOptions){.decode = 17, .reps = 1}, &r, &err));
    assert_string_equal(err.text,
                        "decoding from 1 to 17 tokens would cross 16, where this model's rotary tables change");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_runs_both_sides),          cmocka_unit_test(unrelated_rows_of_both_sides_do_not_show),
        cmocka_unit_test(the_score_is_that_of_each_prefix), cmocka_unit_test(the_probe_crosses),
        cmocka_unit_test(a_bench_keeps_to_one_side),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
