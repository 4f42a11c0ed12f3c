/* check: an exact model is called exact, everything is put back, and a run that differs is told. The difference is a
 * weight of the mapped checkpoint that the progress callback changes after the reference. Where a difference inside a
 * run begins is tested with kernels that are really wrong: tests/exactness/mutants. */
#define _GNU_SOURCE
#include "eval/check.h"
#include "math/kernels.h"
#include "support/tiny_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static TinyModel tiny;

static int setup(void **state) {
    TinyLlama t = {.head = TINY_HEAD_OWN,
                   .config = ", \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"sliding_window\": 5"};
    (void)state;
    tiny_make(&tiny, &t, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tiny_close(&tiny);
    return 0;
}

typedef struct Progress {
    int calls, n_runs;
    char first[128], last[128];
    uint8_t *sabotaged; /* a byte of the mapped weights */
    int at;             /* changed before this run */
} Progress;

static void note_progress(void *context, int run, int n_runs, const char *what) {
    Progress *p = context;
    assert_int_equal(run, p->calls++);
    snprintf(run ? p->last : p->first, sizeof p->first, "%s", what);
    p->n_runs = n_runs;
    if (p->sabotaged && run == p->at) *p->sabotaged ^= 0x40;
}

static void an_exact_model_is_exact_and_all_is_put_back(void **state) {
    Progress progress = {.calls = 0};
    CheckOptions o = {.progress = note_progress, .context = &progress};
    CheckReport report;
    Pool *pool = model_pool(tiny.model);
    Error err = {""};
    (void)state;
    assert_true(kernels_select("scalar", NULL));
    if (!check_run(tiny.model, &o, &report, &err)) fail_msg("%s", err.text);
    if (!report.exact) fail_msg("%s", report.difference);
    assert_int_equal(progress.calls, progress.n_runs);
    assert_int_equal(progress.calls, report.runs + 4); /* one reference for each cache format */
    assert_string_equal(progress.first, "scalar, 1 thread, kv f32, token by token");
    assert_ptr_equal(model_pool(tiny.model), pool);
    assert_string_equal(kernels_name(), "scalar");
}

/* Float weights stay mapped, so a byte changed there changes the model between the reference and the next run. */
static void a_run_that_differs_is_told(void **state) {
    const Tensor *t = checkpoint_find(tiny.checkpoint, "model.layers.1.self_attn.v_proj.weight");
    uint8_t *byte = (uint8_t *)(uintptr_t)t->data + 3;
    uintptr_t page = (uintptr_t)byte & ~(uintptr_t)(getpagesize() - 1);
    Progress progress = {.sabotaged = byte, .at = 1};
    CheckOptions o = {.progress = note_progress, .context = &progress};
    CheckReport report;
    Error err = {""};
    (void)state;
    assert_int_equal(mprotect((void *)page, 2 * (size_t)getpagesize(), PROT_READ | PROT_WRITE), 0);
    if (!check_run(tiny.model, &o, &report, &err)) fail_msg("%s", err.text);
    *byte ^= 0x40;
    assert_false(report.exact);
    assert_int_equal(report.runs, 1);
    assert_non_null(strstr(report.difference, "2 threads, kv f32, whole prompt: the logits of position 0 differ"));
    assert_non_null(strstr(report.difference, "the same run with every operation watched does not differ"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_model_is_exact_and_all_is_put_back),
        cmocka_unit_test(a_run_that_differs_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
