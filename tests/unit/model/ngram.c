/* Embeddings of n-grams look back: as far as the longest n-gram and no further, over chunks and cuts alike, at token 0
 * where nothing was, and where a row was given as an embedding. The golden's longest n-gram has four tokens. */
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { HIDDEN = 36, MAX_ROWS = 8 };

static Golden golden;

static int setup(void **state) {
    (void)state;
    golden_open(&golden, "tests/goldens/mlx/longcat_flash_ngram-odd", KV_F32, 1);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    golden_close(&golden);
    return 0;
}

static void keep_embedding(void *context, int layer, const char *kind, const char *operation, const float *values,
                           int rows, int cols) {
    float *out = context;
    (void)kind;
    if (layer != -1 || strcmp(operation, "embedding") != 0) return;
    assert_int_equal(cols, HIDDEN);
    memcpy(out, values, (size_t)rows * HIDDEN * sizeof *out);
}

/* Runs tokens from the state's length on; token -1 stands for a row given as an embedding of zeros. */
static void run(State *s, const int32_t *tokens, int n, float out[][HIDDEN]) {
    static const float zeros[HIDDEN];
    Row rows[MAX_ROWS];
    RowFault faults[MAX_ROWS];
    const float *logits;
    Error err = {""};
    for (int i = 0; i < n; i++)
        rows[i] = (Row){.state = s,
                        .position = state_length(s) + i,
                        .token = tokens[i],
                        .embedding = tokens[i] < 0 ? zeros : NULL,
                        .wants_logits = true};
    model_set_tap(golden.model, keep_embedding, out);
    if (!model_step(golden.model, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
    model_set_tap(golden.model, NULL, NULL);
}

static void embed(const int32_t *tokens, int n, float out[][HIDDEN]) {
    State *s = state_new(model_state_shape(golden.model), NULL);
    assert_non_null(s);
    run(s, tokens, n, out);
    state_free(s);
}

static bool same(const float *x, const float *y) {
    return memcmp(x, y, HIDDEN * sizeof *x) == 0;
}

static void four_tokens_count_and_no_fifth(void **state) {
    static const int32_t a[] = {9, 7, 5, 3, 1}, b[] = {8, 7, 5, 3, 1}, c[] = {9, 8, 5, 3, 1};
    float x[5][HIDDEN], y[5][HIDDEN], z[5][HIDDEN];
    (void)state;
    embed(a, 5, x);
    embed(b, 5, y);
    embed(c, 5, z);
    assert_false(same(x[3], y[3]));
    assert_true(same(x[4], y[4]));
    assert_false(same(x[4], z[4]));
}

static void before_the_first_is_token_0(void **state) {
    static const int32_t a[] = {7, 5}, b[] = {0, 0, 0, 7, 5};
    float x[2][HIDDEN], y[5][HIDDEN];
    (void)state;
    embed(a, 2, x);
    embed(b, 5, y);
    assert_true(same(x[0], y[3]) && same(x[1], y[4]));
}

static void chunks_and_cuts_change_nothing(void **state) {
    static const int32_t a[] = {9, 7, 5, 3, 1}, wrong[] = {2, 4};
    float x[5][HIDDEN], y[5][HIDDEN];
    State *s = state_new(model_state_shape(golden.model), NULL);
    (void)state;
    assert_non_null(s);
    embed(a, 5, x);
    run(s, a, 2, y);
    run(s, wrong, 2, y + 2);
    assert_false(same(x[3], y[3]));
    assert_true(state_cut(s, 2));
    run(s, a + 2, 1, y + 2);
    run(s, a + 3, 2, y + 3);
    assert_memory_equal(x, y, sizeof x);
    state_free(s);
}

static void a_row_given_as_an_embedding_stays_as_it_is(void **state) {
    static const int32_t a[] = {9, -1, 5, 3}, b[] = {9, 0, 5, 3};
    static const float zeros[HIDDEN];
    float x[4][HIDDEN], y[4][HIDDEN];
    (void)state;
    embed(a, 4, x);
    embed(b, 4, y);
    assert_true(same(x[1], zeros));
    assert_true(same(x[0], y[0]) && same(x[2], y[2]) && same(x[3], y[3]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_tokens_count_and_no_fifth),
        cmocka_unit_test(before_the_first_is_token_0),
        cmocka_unit_test(chunks_and_cuts_change_nothing),
        cmocka_unit_test(a_row_given_as_an_embedding_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
