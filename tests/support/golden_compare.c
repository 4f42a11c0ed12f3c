/* Comparing a golden's model with its logits. */
#include "support/golden_compare.h"
#include "eval/compare.h"
#include "eval/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_IDS = 512 };

static bool keep(void *context, int first, int n, const float *logits, Error *err) {
    float **out = context;
    size_t vocab = (size_t)(*out)[0];
    (void)err;
    memcpy(*out + 1 + (size_t)first * vocab, logits, (size_t)n * vocab * sizeof *logits);
    return true;
}

/* Rows [from, from + rows of the tensor) of a trace of ids, against tensor `name`. */
static void check_tensor(const Golden *g, const char *name, const int32_t *ids, int n_ids, int from,
                         GoldenWorst *worst) {
    const Tensor *t = golden_tensor(g, name);
    int vocab = model_vocab_size(g->model), context = model_context(g->model);
    size_t row_bytes = (size_t)vocab * sizeof(float);
    Error err = {""};
    assert_int_equal(t->shape[1], vocab);
    assert_int_equal(t->shape[0] + from, n_ids);
    TraceOptions o = {.ids = ids, .n_ids = n_ids < context ? n_ids : context};
    float *traced = malloc(sizeof(float) + (size_t)n_ids * row_bytes), *reference = malloc(row_bytes);
    traced[0] = (float)vocab;
    if (!trace_run(g->model, &o, keep, &traced, &err)) fail_msg("%s: %s", g->folder, err.text);
    for (int row = 0; row + from < o.n_ids && row < t->shape[0]; row++) {
        if (!golden_usable(g, name, row)) continue;
        CompareOptions limits = {2 * golden_tolerance(g), golden_tolerance(g)};
        CompareResult r = {.name = ""};
        memcpy(reference, t->data + (size_t)row * row_bytes, row_bytes);
        compare_rows(reference, traced + 1 + (size_t)(row + from) * (size_t)vocab, 1, vocab, &limits, &r);
        if (!r.within) fail_msg("%s: %s row %d is off by %g, allowed %g", g->folder, name, row, r.max_abs, limits.tol);
        if (r.decided_wrong) fail_msg("%s: %s row %d has another best id", g->folder, name, row);
        if (r.max_abs > worst->max_abs) worst->max_abs = r.max_abs;
        worst->rows++;
    }
    free(traced);
    free(reference);
}

void golden_compare(const char *folder, GoldenWorst *worst) {
    Golden g;
    int32_t ids[MAX_IDS];
    *worst = (GoldenWorst){0};
    golden_open(&g, folder, KV_F32, 2);
    worst->tolerance = golden_tolerance(&g);
    int n_short = golden_ids(&g, "prompts", "short", ids, 0, MAX_IDS);
    check_tensor(&g, "short", ids, n_short, 0, worst);
    int n_long = golden_ids(&g, "prompts", "long", ids, 0, MAX_IDS);
    check_tensor(&g, "long", ids, n_long, 0, worst);
    int n_all = golden_ids(&g, "continuation", "long", ids, n_long, MAX_IDS);
    check_tensor(&g, "long_cont", ids, n_all, n_long, worst);
    golden_close(&g);
}
