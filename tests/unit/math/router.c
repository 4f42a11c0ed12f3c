/* Routers on numbers worked by hand. */
#include "math/router.h"
#include "math/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX = 8 };

typedef struct Choice {
    int ids[MAX];
    float weights[MAX];
} Choice;

static Choice choose(const RouterRule *rule, const float *logits, const float *correction) {
    float scratch[2 * MAX];
    Choice c = {{0}, {0}};
    assert_true(router_scratch(rule) <= 2 * MAX);
    router_choose(rule, logits, correction, scratch, c.ids, c.weights);
    return c;
}

static void expect(const Choice *c, int n, const int *ids, const double *weights, double tolerance) {
    for (int i = 0; i < n; i++) {
        assert_int_equal(c->ids[i], ids[i]);
        if (fabs((double)c->weights[i] - weights[i]) > tolerance)
            fail_msg("weight %d is %.7f, expected %.7f", i, (double)c->weights[i], weights[i]);
    }
}

static void softmax_over_all_or_over_those_chosen(void **state) {
    const float logits[4] = {0, 1, 2, 1}; /* exp: 1, e, e^2, e; sum 13.8256 */
    RouterRule rule = {.score = ROUTER_SOFTMAX, .n_experts = 4, .n_chosen = 2};
    (void)state;
    Choice c = choose(&rule, logits, NULL);
    expect(&c, 2, (int[]){2, 1}, (double[]){0.534447, 0.196612}, 1e-6); /* the tie goes to expert 1 */
    rule.renormalise = true;
    c = choose(&rule, logits, NULL);
    expect(&c, 2, (int[]){2, 1}, (double[]){0.731059, 0.268941}, 1e-6);
    rule = (RouterRule){.score = ROUTER_SOFTMAX_CHOSEN, .n_experts = 4, .n_chosen = 2, .scale = 2};
    c = choose(&rule, logits, NULL);
    expect(&c, 2, (int[]){2, 1}, (double[]){1.462117, 0.537883}, 1e-6);
}

static void a_correction_counts_for_the_choice_alone(void **state) {
    const float logits[4] = {0, 0, logf(3), -logf(3)}; /* sigmoids 0.5, 0.5, 0.75, 0.25 */
    const float correction[4] = {0, 0, -1, 1};
    RouterRule rule = {.score = ROUTER_SIGMOID, .n_experts = 4, .n_chosen = 2, .renormalise = true};
    (void)state;
    Choice c = choose(&rule, logits, correction); /* biased: 0.5, 0.5, -0.25, 1.25 */
    expect(&c, 2, (int[]){3, 0}, (double[]){0.25 / 0.75, 0.5 / 0.75}, 1e-6);
}

static void groups_are_kept_by_their_best_two_or_their_best(void **state) {
    const float logits[6] = {3, -3, -3, 1, 1, -3}; /* groups of 2: sigmoids .953 .047 | .047 .731 | .731 .047 */
    RouterRule rule = {.score = ROUTER_SIGMOID, .n_experts = 6, .n_chosen = 2, .n_groups = 3, .n_kept_groups = 1};
    (void)state;
    Choice c = choose(&rule, logits, NULL);
    assert_int_equal(c.ids[0], 0);
    assert_int_equal(c.ids[1], 1); /* its weak neighbour rather than experts of other groups */
    rule.group_by_best = true;
    rule.n_kept_groups = 2;
    c = choose(&rule, logits, NULL);
    expect(&c, 2, (int[]){0, 3}, (double[]){0.952574, 0.731059}, 1e-6);
}

/* Where a kept expert's biased score is negative, a rejected one at 0 would win over it; at -infinity it does not. */
static void rejected_groups_are_at_zero_or_at_minus_infinity(void **state) {
    const float logits[4] = {0, 0, 0, 0}, correction[4] = {0.5f, -0.8f, -0.6f, -0.6f};
    RouterRule rule = {.score = ROUTER_SIGMOID, .n_experts = 4, .n_chosen = 2, .n_groups = 2, .n_kept_groups = 1};
    (void)state;
    Choice c = choose(&rule, logits, correction); /* biased 1, -0.3 | -0.1, -0.1 */
    assert_int_equal(c.ids[0], 0);
    assert_int_equal(c.ids[1], 1);
    rule.rejected_zero = true;
    c = choose(&rule, logits, correction);
    assert_int_equal(c.ids[1], 2);
}

/* The example of PhiMoE's reference: eps 0.01. */
static void the_sparse_mixer_looks_at_what_is_near_the_best(void **state) {
    const float first[4] = {3, 1, 0, -1}, second[4] = {3, 2.99f, 0, -1};
    RouterRule rule = {.score = ROUTER_SPARSE_MIXER, .n_experts = 4, .n_chosen = 2, .sparse_eps = 0.01f};
    (void)state;
    Choice c = choose(&rule, first, NULL);
    expect(&c, 2, (int[]){0, 1}, (double[]){1, 1}, 1e-4);
    c = choose(&rule, second, NULL);
    expect(&c, 2, (int[]){0, 1}, (double[]){0.5025, 1}, 1e-4);
}

static void softplus_scores_have_square_roots(void **state) {
    const float logits[2] = {0, 2}; /* ln 2 = 0.693147, ln(1 + e^2) = 2.126928 */
    RouterRule rule = {.score = ROUTER_SQRT_SOFTPLUS, .n_experts = 2, .n_chosen = 2};
    (void)state;
    Choice c = choose(&rule, logits, NULL);
    expect(&c, 2, (int[]){1, 0}, (double[]){1.458399, 0.832555}, 1e-6);
}

/* Both sigmoids are 1 in float32: the choice is by logit all the same. */
static void sigmoids_may_follow_the_choice(void **state) {
    const float logits[3] = {20, 0, 30};
    RouterRule rule = {.score = ROUTER_SIGMOID_CHOSEN, .n_experts = 3, .n_chosen = 1};
    (void)state;
    Choice c = choose(&rule, logits, NULL);
    expect(&c, 1, (int[]){2}, (double[]){1}, 1e-6);
    rule.score = ROUTER_SIGMOID;
    c = choose(&rule, logits, NULL);
    expect(&c, 1, (int[]){0}, (double[]){1}, 1e-6);
    rule = (RouterRule){.score = ROUTER_SIGMOID_CHOSEN, .n_experts = 3, .n_chosen = 3};
    c = choose(&rule, logits, NULL);
    expect(&c, 3, (int[]){2, 0, 1}, (double[]){1, 1, 0.5}, 1e-6);
}

/* The correction may choose experts whose scores sum to almost nothing: ERNIE divides by no less than a minimum. */
static void a_sum_may_have_a_minimum(void **state) {
    const float logits[2] = {0, 30}, correction[2] = {2, 0}; /* softmax 9.4e-14, 1 */
    RouterRule rule = {.score = ROUTER_SOFTMAX, .n_experts = 2, .n_chosen = 1, .renormalise = true};
    (void)state;
    Choice c = choose(&rule, logits, correction);
    expect(&c, 1, (int[]){0}, (double[]){1}, 1e-6);
    rule.renormalise_min = 1e-12f;
    c = choose(&rule, logits, correction);
    expect(&c, 1, (int[]){0}, (double[]){0.0935762}, 1e-5);
}

/* Experts that are given are weighed as chosen ones are; a temperature divides the logits first. */
static void given_experts_are_only_weighed(void **state) {
    const float logits[3] = {0, 2, -2};
    const int ids[2] = {2, 0};
    float scratch[2 * MAX], weights[2];
    RouterRule rule = {.score = ROUTER_SIGMOID, .n_experts = 3, .n_chosen = 2, .temperature = 2, .renormalise = true};
    (void)state;
    router_weigh(&rule, logits, scratch, ids, weights); /* sigmoid(-1) = 0.268941 and sigmoid(0) = 0.5 */
    Choice c = {{2, 0}, {weights[0], weights[1]}};
    expect(&c, 2, ids, (double[]){0.349755, 0.650245}, 1e-6);
    rule.score = ROUTER_SOFTMAX_CHOSEN;
    c = choose(&rule, logits, NULL); /* of 1 and 0 */
    expect(&c, 2, (int[]){1, 0}, (double[]){0.731059, 0.268941}, 1e-6);
}

/* Nothing here may loop or read outside, whatever the logits are. */
static void any_logits_give_distinct_experts(void **state) {
    const float logits[4] = {NAN, -INFINITY, NAN, INFINITY};
    static const RouterScore scores[] = {ROUTER_SOFTMAX, ROUTER_SIGMOID, ROUTER_SOFTMAX_CHOSEN, ROUTER_SIGMOID_CHOSEN,
                                         ROUTER_SPARSE_MIXER};
    (void)state;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        RouterRule rule = {.score = scores[i], .n_experts = 4, .n_chosen = 4};
        Choice c = choose(&rule, logits, NULL);
        int seen = 0;
        for (int r = 0; r < 4; r++) seen |= 1 << c.ids[r];
        assert_int_equal(seen, 15);
    }
}

static int setup(void **state) {
    (void)state;
    return kernels_select(NULL, NULL) ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_over_all_or_over_those_chosen),
        cmocka_unit_test(a_correction_counts_for_the_choice_alone),
        cmocka_unit_test(groups_are_kept_by_their_best_two_or_their_best),
        cmocka_unit_test(rejected_groups_are_at_zero_or_at_minus_infinity),
        cmocka_unit_test(the_sparse_mixer_looks_at_what_is_near_the_best),
        cmocka_unit_test(softplus_scores_have_square_roots),
        cmocka_unit_test(sigmoids_may_follow_the_choice),
        cmocka_unit_test(a_sum_may_have_a_minimum),
        cmocka_unit_test(given_experts_are_only_weighed),
        cmocka_unit_test(any_logits_give_distinct_experts),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
