/* The sampler, on vocabularies small enough to work out by hand. Softmax probabilities are given through logits that
 * are logarithms of them, so that the filters' arithmetic can be seen; u comes from the generator itself. */
#include "engine/sampler.h"
#include "base/memory.h"
#include "base/rng.h"
#include "math/ops.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

enum { VOCAB = 5 };

/* ln of 0.4 0.3 0.15 0.1 0.05, out of order: id 3 is the most probable, then 0, 4, 1, 2. */
static const float LOGITS[VOCAB] = {-1.2039728f, -2.3025851f, -2.9957323f, -0.9162907f, -1.8971200f};

static int32_t choose(const Sampling *p, const float *logits, int vocab, SamplePrefix prefix) {
    Error err;
    int32_t id = -1;
    Sampler *s = sampler_new(vocab, &err);
    assert_non_null(s);
    assert_true(sampling_check(p, vocab, &err));
    assert_true(sampler_choose(s, p, logits, NULL, prefix, &id, &err));
    sampler_free(s);
    return id;
}

/* Which ids appear over many positions, as bits. */
static unsigned reachable(const Sampling *p) {
    unsigned seen = 0;
    for (int position = 0; position < 2000; position++) {
        Error err;
        Sampler *s = sampler_new(VOCAB, &err);
        int32_t id;
        SamplePrefix prefix = {NULL, position, position};
        assert_true(sampler_choose(s, p, LOGITS, NULL, prefix, &id, &err));
        sampler_free(s);
        seen |= 1u << id;
    }
    return seen;
}

static void greedy_takes_the_lowest_of_equal_maxima(void **state) {
    (void)state;
    float logits[20] = {0};
    Sampling p = SAMPLING_GREEDY;
    assert_int_equal(choose(&p, logits, 20, (SamplePrefix){0}), 0);
    logits[17] = logits[6] = logits[9] = 3;
    assert_int_equal(choose(&p, logits, 20, (SamplePrefix){0}), 6);
    logits[19] = 4;
    assert_int_equal(choose(&p, logits, 20, (SamplePrefix){0}), 19);
    for (int i = 0; i < 20; i++) logits[i] = i % 2 ? 0.0f : -0.0f; /* equal as numbers, not as bits */
    assert_int_equal(choose(&p, logits, 20, (SamplePrefix){0}), 0);
}

static void greedy_ignores_the_filters(void **state) {
    (void)state;
    Sampling p = SAMPLING_GREEDY;
    p.top_k = 1;
    p.top_p = 0.01f;
    p.min_p = 1;
    assert_int_equal(choose(&p, LOGITS, VOCAB, (SamplePrefix){0}), 3);
}

static void suppressed_and_biased_ids(void **state) {
    (void)state;
    int32_t suppressed[] = {3};
    LogitBias bias[] = {{2, 5.0f}, {0, -INFINITY}};
    Sampling p = SAMPLING_GREEDY;
    p.suppressed = suppressed;
    p.n_suppressed = 1;
    assert_int_equal(choose(&p, LOGITS, VOCAB, (SamplePrefix){0}), 0);
    p.bias = bias + 1;
    p.n_bias = 1;
    assert_int_equal(choose(&p, LOGITS, VOCAB, (SamplePrefix){0}), 4);
    p.bias = bias;
    p.n_bias = 2;
    assert_int_equal(choose(&p, LOGITS, VOCAB, (SamplePrefix){0}), 2);
    p.temperature = 1;
    assert_int_equal(reachable(&p) & (1u << 3 | 1u << 0), 0);
}

static void everything_suppressed_is_an_error(void **state) {
    (void)state;
    int32_t all[] = {0, 1, 2, 3, 4}, id = 77;
    Sampling p = SAMPLING_GREEDY;
    p.suppressed = all;
    p.n_suppressed = VOCAB;
    Error err;
    Sampler *s = sampler_new(VOCAB, &err);
    assert_false(sampler_choose(s, &p, LOGITS, NULL, (SamplePrefix){0}, &id, &err));
    assert_string_equal(err.text, "every token is suppressed: nothing can be chosen");
    assert_int_equal(id, 77);
    sampler_free(s);
}

/* Logits 2 and -2 with penalty 2: 1 and -4. */
static void repetition_counts_prompt_and_answer(void **state) {
    (void)state;
    const float logits[4] = {2.0f, 1.5f, -2.0f, -3.0f};
    const int32_t ids[] = {0, 0};
    Sampling p = SAMPLING_GREEDY;
    p.repetition_penalty = 2;
    assert_int_equal(choose(&p, logits, 4, (SamplePrefix){ids, 2, 2}), 1); /* in the prompt */
    assert_int_equal(choose(&p, logits, 4, (SamplePrefix){ids, 0, 2}), 1); /* in the answer */
    const float negative[2] = {-2.0f, -3.0f};
    assert_int_equal(choose(&p, negative, 2, (SamplePrefix){ids, 2, 2}), 1); /* -4 < -3 */
    p.repetition_penalty = 1.25f; /* 1.6 > 1.5: applied once, not per occurrence */
    assert_int_equal(choose(&p, logits, 4, (SamplePrefix){ids, 1, 2}), 0);
}

static void presence_and_frequency_count_the_answer_only(void **state) {
    (void)state;
    const float logits[3] = {2.0f, 1.5f, 0.0f};
    const int32_t ids[] = {0, 0, 0};
    Sampling p = SAMPLING_GREEDY;
    p.presence_penalty = 0.6f;
    assert_int_equal(choose(&p, logits, 3, (SamplePrefix){ids, 3, 3}), 0); /* prompt */
    assert_int_equal(choose(&p, logits, 3, (SamplePrefix){ids, 2, 3}), 1); /* one in the answer: 1.4 */
    p.presence_penalty = 0.4f;
    assert_int_equal(choose(&p, logits, 3, (SamplePrefix){ids, 0, 3}), 0); /* 1.6, however often */
    p.presence_penalty = 0;
    p.frequency_penalty = 0.2f;
    assert_int_equal(choose(&p, logits, 3, (SamplePrefix){ids, 1, 3}), 0); /* 2 * 0.2: 1.6 */
    assert_int_equal(choose(&p, logits, 3, (SamplePrefix){ids, 0, 3}), 1); /* 3 * 0.2: 1.4 */
}

static void marks_are_cleared_between_calls(void **state) {
    (void)state;
    const float logits[3] = {2.0f, 1.5f, 0.0f};
    const int32_t ids[] = {0, 0};
    Sampling p = SAMPLING_GREEDY;
    p.presence_penalty = 1;
    Error err;
    int32_t id;
    Sampler *s = sampler_new(3, &err);
    assert_true(sampler_choose(s, &p, logits, NULL, (SamplePrefix){ids, 0, 2}, &id, &err));
    assert_int_equal(id, 1);
    assert_true(sampler_choose(s, &p, logits, NULL, (SamplePrefix){ids, 0, 0}, &id, &err));
    assert_int_equal(id, 0);
    sampler_free(s);
}

static void filters_keep_prefixes_of_the_order(void **state) {
    (void)state;
    Sampling p = SAMPLING_GREEDY;
    p.temperature = 1;
    assert_int_equal(reachable(&p), 0x1F);
    p.top_k = 2;
    assert_int_equal(reachable(&p), 1u << 3 | 1u << 0);
    p.top_k = 0;
    p.top_p = 0.75f; /* 0.4 + 0.3 < 0.75 <= 0.85 */
    assert_int_equal(reachable(&p), 1u << 3 | 1u << 0 | 1u << 4);
    p.top_p = 0.39f; /* the first always stays */
    assert_int_equal(reachable(&p), 1u << 3);
    p.top_p = 1;
    p.min_p = 0.3f; /* at least 0.12 */
    assert_int_equal(reachable(&p), 1u << 3 | 1u << 0 | 1u << 4);
    p.top_k = 2;
    assert_int_equal(reachable(&p), 1u << 3 | 1u << 0);
}

static void top_k_among_equals_keeps_the_lowest_ids(void **state) {
    (void)state;
    const float logits[6] = {1, 2, 1, 1, 2, 1};
    Sampling p = SAMPLING_GREEDY;
    p.temperature = 1;
    p.top_k = 3;
    unsigned seen = 0;
    for (int i = 0; i < 500; i++) seen |= 1u << choose(&p, logits, 6, (SamplePrefix){NULL, i, i});
    assert_int_equal(seen, 1u << 1 | 1u << 4 | 1u << 0);
}

/* The definition, written down plainly: order, filters on the probabilities of the softmax, one renormalisation, the
 * first running sum above u. */
static int32_t plain_choice(const Sampling *p, const float *logits, int n, int position) {
    float scaled[64], probs[64];
    int order[64] = {0}, kept = 0;
    float max = logits[0];
    for (int i = 1; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n; i++) scaled[i] = (logits[i] - max) / p->temperature;
    ops_softmax(scaled, probs, n);
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && probs[order[at - 1]] < probs[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    double total = 0, running = 0, u = rng_uniform(p->seed, p->choice, (uint64_t)position);
    for (; kept < n; kept++) {
        if (p->top_k > 0 && kept == p->top_k) break;
        if (p->top_p < 1 && kept > 0 && total >= p->top_p) break;
        if (probs[order[kept]] < p->min_p * probs[order[0]]) break;
        total += probs[order[kept]];
    }
    if (p->top_k == 0 && p->top_p == 1 && p->min_p == 0) total = 1;
    for (int i = 0; i < kept; i++)
        if ((running += probs[order[i]] / total) > u) return order[i];
    return order[kept - 1];
}

static void equals_the_definition_written_plainly(void **state) {
    (void)state;
    const uint64_t seed = 20240607;
    for (int round = 0; round < 3000; round++) {
        float logits[64] = {0};
        int n = 2 + (int)(rng_uniform(seed, 0, (uint64_t)round) * 62);
        for (int i = 0; i < n; i++) /* some equal, some far apart: over several bands */
            logits[i] = (float)(int)(rng_uniform(seed, 1, (uint64_t)(round * 64 + i)) * 40) - (i % 7 == 0 ? 30.0f : 0);
        Sampling p = SAMPLING_GREEDY;
        p.temperature = 0.1f + (float)rng_uniform(seed, 2, (uint64_t)round) * 20;
        p.top_k = round % 2 ? 1 + round % 11 : 0;
        p.top_p = round % 3 ? 1.0f : (float)rng_uniform(seed, 3, (uint64_t)round);
        p.min_p = round % 5 ? 0.0f : 0.05f;
        p.seed = seed + (uint64_t)round;
        p.choice = (uint32_t)(round % 4);
        if (choose(&p, logits, n, (SamplePrefix){NULL, round, round}) != plain_choice(&p, logits, n, round))
            fail_msg("round %d of seed %llu differs", round, (unsigned long long)seed);
    }
}

static void choice_depends_on_seed_choice_and_position_only(void **state) {
    (void)state;
    Sampling p = SAMPLING_GREEDY;
    p.temperature = 1;
    p.seed = 11;
    int differ_seed = 0, differ_choice = 0, differ_position = 0;
    const int32_t ids[64] = {0};
    for (int i = 0; i < 50; i++) {
        int32_t id = choose(&p, LOGITS, VOCAB, (SamplePrefix){ids, i, i});
        assert_int_equal(id, choose(&p, LOGITS, VOCAB, (SamplePrefix){ids, 0, i})); /* prompt or answer: the same */
        Sampling other = p;
        other.seed = 12;
        differ_seed += id != choose(&other, LOGITS, VOCAB, (SamplePrefix){ids, i, i});
        other = p;
        other.choice = 1;
        differ_choice += id != choose(&other, LOGITS, VOCAB, (SamplePrefix){ids, i, i});
        differ_position += id != choose(&p, LOGITS, VOCAB, (SamplePrefix){ids, i, i + 1});
    }
    assert_in_range(differ_seed, 15, 50);
    assert_in_range(differ_choice, 15, 50);
    assert_in_range(differ_position, 15, 50);
}

static void frequencies_follow_the_probabilities(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    static const double expected[VOCAB] = {0.3, 0.1, 0.05, 0.4, 0.15};
    int counts[VOCAB] = {0};
    Sampling p = SAMPLING_GREEDY;
    Error err;
    Sampler *s = sampler_new(VOCAB, &err);
    p.temperature = 1;
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        assert_true(sampler_choose(s, &p, LOGITS, NULL, (SamplePrefix){NULL, i, i}, &id, &err));
        counts[id]++;
    }
    sampler_free(s);
    for (int i = 0; i < VOCAB; i++) /* five standard deviations */
        assert_true(fabs(counts[i] - expected[i] * DRAWS) < 5 * sqrt(DRAWS * expected[i] * (1 - expected[i])));
}

static void a_tiny_temperature_does_not_overflow(void **state) {
    (void)state;
    Sampling p = SAMPLING_GREEDY;
    p.temperature = 1e-38f;
    for (int i = 0; i < 100; i++) assert_int_equal(choose(&p, LOGITS, VOCAB, (SamplePrefix){NULL, i, i}), 3);
}

static void settings_out_of_range_are_named(void **state) {
    (void)state;
    Error err;
    Sampling p = SAMPLING_GREEDY;
    p.top_p = 1.5f;
    assert_false(sampling_check(&p, VOCAB, &err));
    assert_string_equal(err.text, "top-p is 1.5: it must be from 0 to 1");
    p = SAMPLING_GREEDY;
    p.temperature = NAN;
    assert_false(sampling_check(&p, VOCAB, &err));
    p.temperature = -1;
    assert_false(sampling_check(&p, VOCAB, &err));
    assert_string_equal(err.text, "temperature is -1: it must be a number of at least 0");
    p = SAMPLING_GREEDY;
    LogitBias bias = {5, 1};
    p.bias = &bias;
    p.n_bias = 1;
    assert_false(sampling_check(&p, VOCAB, &err));
    assert_string_equal(err.text, "logit bias: id 5 is outside the vocabulary (0 to 4)");
    bias = (LogitBias){4, INFINITY};
    assert_false(sampling_check(&p, VOCAB, &err));
}

static void out_of_memory_is_an_error(void **state) {
    (void)state;
    Error err;
    for (uint64_t nth = 1; nth <= 7; nth++) {
        mem_fail_after(nth);
        assert_null(sampler_new(VOCAB, &err));
    }
    mem_fail_after(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_of_equal_maxima),
        cmocka_unit_test(greedy_ignores_the_filters),
        cmocka_unit_test(suppressed_and_biased_ids),
        cmocka_unit_test(everything_suppressed_is_an_error),
        cmocka_unit_test(repetition_counts_prompt_and_answer),
        cmocka_unit_test(presence_and_frequency_count_the_answer_only),
        cmocka_unit_test(marks_are_cleared_between_calls),
        cmocka_unit_test(filters_keep_prefixes_of_the_order),
        cmocka_unit_test(top_k_among_equals_keeps_the_lowest_ids),
        cmocka_unit_test(equals_the_definition_written_plainly),
        cmocka_unit_test(choice_depends_on_seed_choice_and_position_only),
        cmocka_unit_test(frequencies_follow_the_probabilities),
        cmocka_unit_test(a_tiny_temperature_does_not_overflow),
        cmocka_unit_test(settings_out_of_range_are_named),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
