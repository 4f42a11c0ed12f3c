/* The exactness matrix on the real model, SmolLM2-135M, where it is present (build/models/smollm2-135m: ./dev test puts
 * it there), and the recorded hash of a run of 560 positions, which is what an arithmetic changed everywhere alike
 * would move. */
#include "engine/score.h"
#include "base/rng.h"
#include "eval/check.h"
#include "eval/trace.h"
#include "math/kernels.h"
#include "model/model.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { IDS = 18, LONG_IDS = 560 };                    /* 18 steps carry every width from 1 to 17 */
static const uint64_t recorded = 0xe3582cebdadd3cd7u; /* of the last row, default settings */

typedef struct Real {
    Checkpoint *checkpoint;
    Pool *pool;
    Model *model;
} Real;

static Real real;

static int setup(void **state) {
    const char *folder = getenv("LOCKSTEP_TEST_MODEL");
    ModelOptions o = {.numeric = {KV_I16, 16}};
    Error err = {""};
    (void)state;
    if (!folder) folder = "build/models/smollm2-135m";
    if (access(folder, R_OK) != 0) return 0;
    if (!(real.checkpoint = checkpoint_open(folder, &err)) || !(real.pool = pool_new(2, &err)) ||
        !(real.model = model_load(real.checkpoint, &o, real.pool, &err))) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    model_free(real.model);
    pool_free(real.pool);
    checkpoint_close(real.checkpoint);
    return 0;
}

static void need_model(void) {
    if (real.model) return;
    print_message("build/models/smollm2-135m is absent: ./dev test fetches it\n");
    skip();
}

static void no_byte_differs(void **state) {
    static int32_t ids[IDS];
    CheckOptions o = {.ids = ids, .n_ids = IDS};
    CheckReport report;
    Error err = {""};
    (void)state;
    need_model();
    for (int i = 0; i < IDS; i++) ids[i] = (int32_t)(rng_uniform(7, 0, (uint64_t)i) * model_vocab_size(real.model));
    if (!check_run(real.model, &o, &report, &err)) fail_msg("%s", err.text);
    if (!report.exact) fail_msg("%s", report.difference);
    print_message("%d runs, exact\n", report.runs);
}

static bool keep_last(void *context, int first, int n, const float *logits, Error *err) {
    size_t vocab = (size_t)model_vocab_size(real.model);
    (void)first, (void)err;
    *(uint64_t *)context = logits_hash(logits + (size_t)(n - 1) * vocab, vocab);
    return true;
}

/* Whole on the best instruction set, in odd chunks on the others; the scalar kernels would take two minutes, and are
 * compared above. */
static void the_bytes_past_an_attention_block_are_those_recorded(void **state) {
    static int32_t ids[LONG_IDS];
    static const int chunks[] = {101, 7};
    (void)state;
    need_model();
    for (int i = 0; i < LONG_IDS; i++)
        ids[i] = (int32_t)(rng_uniform(11, 0, (uint64_t)i) * model_vocab_size(real.model));
    for (const char *const *isa = kernels_available(); *isa; isa++) {
        TraceOptions o = {
            .ids = ids, .n_ids = LONG_IDS, .chunks = chunks, .n_chunks = isa == kernels_available() ? 0 : 2};
        uint64_t hash = 0;
        if (isa != kernels_available() && strcmp(*isa, "scalar") == 0) continue;
        Error err = {""};
        assert_true(kernels_select(*isa, NULL));
        if (!trace_run(real.model, &o, keep_last, &hash, &err)) fail_msg("%s", err.text);
        if (hash != recorded)
            fail_msg("%s: the last row hashes to 0x%016" PRIx64 ", recorded is 0x%016" PRIx64, *isa, hash, recorded);
    }
}

/* An argument names the test to run: mutants asks for the one that must fail. */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_byte_differs),
                                       cmocka_unit_test(the_bytes_past_an_attention_block_are_those_recorded)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
