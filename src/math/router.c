/* Choosing experts, one row at a time. Logits that are not finite give some choice: the row has failed already, or
 * fails where its outputs are looked at. */
#include "math/router.h"
#include "math/kernel_table.h"
#include "math/ops.h"

#include <math.h>
#include <string.h>

size_t router_scratch(const RouterRule *rule) {
    return 2 * (size_t)rule->n_experts;
}

/* The index of the largest value, the lowest among equals. */
static int best_of(const float *x, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static bool is_taken(const int *ids, int n, int id) {
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* The best of those not chosen yet, which are -infinity in x: also when nothing else is left. */
static int best_left(const float *x, int n, const int *ids, int n_ids) {
    int best = best_of(x, n);
    if (is_taken(ids, n_ids, best))
        for (best = 0; is_taken(ids, n_ids, best);) best++;
    return best;
}

/* ---- groups ---- */

static float group_score(const RouterRule *rule, const float *x, int n) {
    int first = best_of(x, n);
    float second = -INFINITY;
    if (rule->group_by_best) return x[first];
    for (int i = 0; i < n; i++)
        if (i != first && x[i] > second) second = x[i];
    return n > 1 ? x[first] + second : x[first];
}

/* Whether group `g` is among the best: fewer than n_kept_groups come before it. */
static bool group_kept(const RouterRule *rule, const float *choice, int g, int size) {
    float own = group_score(rule, choice + g * size, size);
    int before = 0;
    for (int other = 0; other < rule->n_groups; other++) {
        float score = group_score(rule, choice + other * size, size);
        before += score > own || (score == own && other < g);
    }
    return before < rule->n_kept_groups;
}

enum { MAX_GROUPS = 256 };

/* Groups are judged on untouched scores before any is rejected. */
static void reject_groups(const RouterRule *rule, float *choice) {
    bool kept[MAX_GROUPS];
    int size = rule->n_experts / (rule->n_groups > 0 ? rule->n_groups : 1);
    if (rule->n_groups < 2 || rule->n_groups > MAX_GROUPS) return;
    for (int g = 0; g < rule->n_groups; g++) kept[g] = group_kept(rule, choice, g, size);
    for (int i = 0; i < rule->n_groups * size; i++)
        if (!kept[i / size]) choice[i] = rule->rejected_zero ? 0 : -INFINITY;
}

/* ---- weights ---- */

static void activate(Activation act, const float *x, float *y, int n) {
    ElementJob job = {.kind = ELEMENT_ACT, .act = act, .x = x, .y = y, .n = n};
    kernels()->elements(&job);
}

static void finish_weights(const RouterRule *rule, float *weights) {
    int k = rule->n_chosen;
    float sum = 0;
    if (rule->score == ROUTER_SOFTMAX_CHOSEN) ops_softmax(weights, weights, k);
    if (rule->score == ROUTER_SIGMOID_CHOSEN) activate(ACT_SIGMOID, weights, weights, k);
    for (int i = 0; i < k; i++) sum += weights[i];
    if (sum < rule->renormalise_min) sum = rule->renormalise_min;
    for (int i = 0; i < k && rule->renormalise; i++) weights[i] /= sum + rule->renormalise_eps;
    for (int i = 0; i < k && rule->scale != 0; i++) weights[i] *= rule->scale;
}

static void score_all(const RouterRule *rule, const float *logits, float *scores) {
    int n = rule->n_experts;
    for (int i = 0; i < n && rule->temperature != 0; i++) scores[i] = logits[i] / rule->temperature;
    if (rule->temperature != 0) logits = scores;
    switch (rule->score) {
    case ROUTER_SOFTMAX: ops_softmax(logits, scores, n); break;
    case ROUTER_SIGMOID: activate(ACT_SIGMOID, logits, scores, n); break;
    case ROUTER_SQRT_SOFTPLUS:
        activate(ACT_SOFTPLUS, logits, scores, n);
        for (int i = 0; i < n; i++) scores[i] = sqrtf(scores[i]);
        break;
    default: memmove(scores, logits, (size_t)n * sizeof *scores);
    }
}

/* PhiMoE: for each rank a softmax over those experts that are near enough to the best one left, measured relative to
 * the larger magnitude; its weight is the best one's share. left [n]: logits, chosen ones -infinity. */
static void choose_sparse(const RouterRule *rule, const float *logits, float *scratch, int *ids, float *weights) {
    int n = rule->n_experts;
    float *left = scratch, *near = scratch + n;
    memcpy(left, logits, (size_t)n * sizeof *left);
    for (int rank = 0; rank < rule->n_chosen; rank++) {
        int best = best_left(left, n, ids, rank);
        float top = left[best];
        for (int i = 0; i < n; i++) {
            float factor = fabsf(logits[i]) > top ? fabsf(logits[i]) : top;
            near[i] = (top - logits[i]) / factor > 2 * rule->sparse_eps ? -INFINITY : left[i];
        }
        ops_softmax(near, near, n);
        ids[rank] = best;
        weights[rank] = near[best];
        left[best] = -INFINITY;
    }
}

void router_choose(const RouterRule *rule, const float *logits, const float *correction, float *scratch, int *ids,
                   float *weights) {
    float *scores = scratch, *choice = scratch + rule->n_experts;
    if (rule->score == ROUTER_SPARSE_MIXER) {
        choose_sparse(rule, logits, scratch, ids, weights);
        return;
    }
    score_all(rule, logits, scores);
    for (int i = 0; i < rule->n_experts; i++) choice[i] = scores[i] + (correction ? correction[i] : 0);
    reject_groups(rule, choice);
    for (int rank = 0; rank < rule->n_chosen; rank++) {
        int best = best_left(choice, rule->n_experts, ids, rank);
        ids[rank] = best;
        weights[rank] = scores[best];
        choice[best] = -INFINITY;
    }
    finish_weights(rule, weights);
}

void router_weigh(const RouterRule *rule, const float *logits, float *scratch, const int *ids, float *weights) {
    score_all(rule, logits, scratch);
    for (int rank = 0; rank < rule->n_chosen; rank++) weights[rank] = scratch[ids[rank]];
    finish_weights(rule, weights);
}
