/* bench on a golden: not how fast, but that what is asked is measured, and what can not be is refused. */
#include "eval/bench.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static Golden golden;

static int setup(void **state) {
    (void)state;
    golden_open(&golden, "tests/goldens/mlx/llama", KV_I16, 2);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    golden_close(&golden);
    return 0;
}

typedef struct Log {
    char text[1024];
    int calls, n;
} Log;

static bool write_log(void *context, int done, int n, const char *what) {
    Log *log = context;
    assert_int_equal(done, log->calls++);
    log->n = n;
    size_t at = strlen(log->text);
    snprintf(log->text + at, sizeof log->text - at, "%s;", what);
    return true;
}

static void measurements_alternate(void **state) {
    (void)state;
    Log log = {0};
    BenchOptions o = {
        .prompt = 6, .decode = 3, .batches = {1, 3}, .n_batches = 2, .reps = 2, .progress = write_log, .context = &log};
    BenchResult r;
    Error err = {""};
    if (!bench_run(golden.model, &o, &r, &err)) fail_msg("%s", err.text);
    assert_string_equal(log.text, "prefill of 6;decode of 3;plain read;1 together;3 together;"
                                  "prefill of 6;decode of 3;plain read;1 together;3 together;");
    assert_int_equal(log.n, 10);
    assert_true(r.prefill_tps > 0 && r.decode_tps > 0 && r.read_gbps > 0);
    assert_true(r.batch_tps[0] > 0 && r.batch_tps[1] > 0);
    /* all three steps are within the depth that decode_gbps looks at: the same time in both */
    double bytes = (double)model_step_bytes(golden.model);
    assert_true(r.decode_gbps > 0.999 * bytes * r.decode_tps / 1e9 &&
                r.decode_gbps < 1.001 * bytes * r.decode_tps / 1e9);
}

static void what_is_not_asked_is_not_measured(void **state) {
    (void)state;
    BenchOptions o = {.prompt = 4, .reps = 1};
    BenchResult r;
    Error err;
    assert_true(bench_run(golden.model, &o, &r, &err));
    assert_true(r.prefill_tps > 0 && r.decode_tps == 0 && r.read_gbps == 0);
}

static void assert_refused(BenchOptions o, const char *message) {
    BenchResult r;
    Error err = {""};
    assert_false(bench_run(golden.model, &o, &r, &err));
    assert_string_equal(err.text, message);
}

static void what_can_not_be_measured_is_refused(void **state) {
    (void)state;
    assert_refused((BenchOptions){.prompt = 257, .reps = 1}, "this bench needs 257 positions, the context holds 256");
    assert_refused((BenchOptions){.batches = {600}, .n_batches = 1, .reps = 1},
                   "a batch of 600: it must be from 1 to 512");
    assert_refused((BenchOptions){.prompt = 1}, "repetitions must be from 1 to 1000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measurements_alternate),
        cmocka_unit_test(what_is_not_asked_is_not_measured),
        cmocka_unit_test(what_can_not_be_measured_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
