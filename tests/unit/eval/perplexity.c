/* Perplexity against the golden's own logits: the sum is done again here in double, from the reference's numbers. */
#include "eval/perplexity.h"
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { MANY = 64 };

static Golden golden;
static int32_t ids[MANY];
static int n_ids;

static int setup(void **state) {
    (void)state;
    golden_open(&golden, "tests/goldens/mlx/llama", KV_F32, 2);
    n_ids = golden_ids(&golden, "prompts", "long", ids, 0, MANY);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    golden_close(&golden);
    return 0;
}

static double reference_nll(int row, int32_t next) {
    const Tensor *t = golden_tensor(&golden, "long");
    int vocab = (int)t->shape[1];
    double sum = 0, chosen = 0;
    for (int i = 0; i < vocab; i++) {
        float value;
        memcpy(&value, t->data + 4 * ((size_t)row * (size_t)vocab + (size_t)i), 4);
        sum += exp((double)value);
        if (i == next) chosen = value;
    }
    return log(sum) - chosen;
}

static void mean_nll_equals_the_references(void **state) {
    (void)state;
    Perplexity p;
    Error err;
    double expected = 0;
    for (int i = 0; i + 1 < n_ids; i++) expected += reference_nll(i, ids[i + 1]) / (n_ids - 1);
    assert_true(perplexity_run(golden.model, ids, n_ids, NULL, NULL, &p, &err));
    assert_int_equal(p.n_ids, 40);
    assert_int_equal(p.n_scored, 39);
    assert_int_equal(p.windows, 1);
    assert_true(fabs(p.mean_nll - expected) < 1e-4);
    assert_true(fabs(p.ppl - exp(p.mean_nll)) < 1e-9);
}

static bool count_and_stop(void *context, int64_t done, int64_t all) {
    assert_int_equal(all, n_ids);
    *(int64_t *)context = done;
    return false;
}

static void it_can_be_stopped(void **state) {
    (void)state;
    Perplexity p;
    Error err;
    int64_t done = 0;
    assert_false(perplexity_run(golden.model, ids, n_ids, count_and_stop, &done, &p, &err));
    assert_string_equal(err.text, "stopped");
    assert_int_equal(done, n_ids);
}

static void what_can_not_be_scored_is_refused(void **state) {
    (void)state;
    Perplexity p;
    Error err;
    const int32_t outside[] = {1, 128};
    assert_false(perplexity_run(golden.model, ids, 1, NULL, NULL, &p, &err));
    assert_string_equal(err.text, "the text has 1 tokens: at least 2 are needed to score one");
    assert_false(perplexity_run(golden.model, outside, 2, NULL, NULL, &p, &err));
    assert_string_equal(err.text, "id 128 is outside the vocabulary (0 to 127)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_nll_equals_the_references),
        cmocka_unit_test(it_can_be_stopped),
        cmocka_unit_test(what_can_not_be_scored_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
