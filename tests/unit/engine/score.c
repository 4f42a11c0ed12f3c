/* Scores of tokens, by hand: logits log(1), log(2), log(3), log(4) are probabilities 0.1 to 0.4. */
#include "engine/score.h"
#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void probabilities_are_those_of_the_raw_logits(void **state) {
    (void)state;
    const float logits[4] = {0, logf(2), logf(3), logf(4)};
    TokenScore score;
    score_token(logits, 4, 1, 3, true, &score);
    assert_int_equal(score.token.id, 1);
    assert_float_equal(score.token.logprob, logf(0.2F), 1e-6);
    assert_int_equal(score.n_top, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(score.top[i].id, 3 - i);
        assert_float_equal(score.top[i].logprob, logf(0.1F * (float)(4 - i)), 1e-6);
    }
    assert_true(score.token.logprob == score.top[2].logprob); /* the same token, the same bits */
    assert_true(score.hash == logits_hash(logits, 4) && score.hash != 0);
    score_token(logits, 4, 1, 0, false, &score);
    assert_int_equal(score.n_top, 0);
    assert_true(score.hash == 0);
}

static void equal_logits_stand_in_the_order_of_their_ids(void **state) {
    (void)state;
    const float logits[6] = {1, 5, 5, -3, 5, 1};
    TokenScore score;
    score_token(logits, 6, 3, SCORE_TOP, false, &score);
    const int32_t expected[6] = {1, 2, 4, 0, 5, 3};
    assert_int_equal(score.n_top, 6); /* a vocabulary smaller than the list */
    for (int i = 0; i < 6; i++) assert_int_equal(score.top[i].id, expected[i]);
    assert_true(score.token.logprob < 0 && isfinite(score.token.logprob));
}

/* FNV-1a of nothing is its start; of the four bytes of 1.0F: 00 00 80 3f. */
static void the_hash_is_fnv(void **state) {
    (void)state;
    const float one = 1;
    assert_true(logits_hash(&one, 0) == 0xcbf29ce484222325u);
    assert_true(logits_hash(&one, 1) == 0x4b72477f9c5c2f98u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_are_those_of_the_raw_logits),
        cmocka_unit_test(equal_logits_stand_in_the_order_of_their_ids),
        cmocka_unit_test(the_hash_is_fnv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
