/* The router of a mixture of experts: from one row's logits to the chosen experts and their weights. Every rule in use
 * is a combination of a few choices, so a rule is plain data. Ties go to the lower index (docs/arithmetic.md). */
#ifndef LOCKSTEP_MATH_ROUTER_H
#define LOCKSTEP_MATH_ROUTER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum RouterScore {
    ROUTER_SOFTMAX,        /* over all experts */
    ROUTER_SIGMOID,        /* each by itself */
    ROUTER_SOFTMAX_CHOSEN, /* the choice is by logit, the softmax over those chosen */
    ROUTER_SIGMOID_CHOSEN, /* the choice is by logit, which large sigmoids would not tell apart */
    ROUTER_SQRT_SOFTPLUS,  /* sqrt(ln(1 + exp(x))) */
    ROUTER_SPARSE_MIXER,   /* PhiMoE: two softmaxes, each over what is near enough to its best (arXiv:2310.00811) */
} RouterScore;

typedef struct RouterRule {
    RouterScore score;
    int n_experts, n_chosen;
    int n_groups, n_kept_groups; /* 0 or 1: no groups. Equal groups of neighbours, of which some are kept */
    bool group_by_best;          /* a group's score is its best expert's; else the sum of its best two */
    bool rejected_zero;          /* experts of groups not kept compete with a score of 0, not -infinity */
    float temperature;           /* by which logits are divided; 0: 1 */
    bool renormalise;            /* weights are divided by their sum */
    float renormalise_eps;       /* added to that sum */
    float renormalise_min;       /* that sum is at least this */
    float scale;                 /* of the weights at the end; 0: 1 */
    float sparse_eps;            /* of the sparse mixer */
} RouterRule;

/* Floats of scratch that router_choose needs. */
size_t router_scratch(const RouterRule *rule);
/* logits [n_experts]; correction: NULL or [n_experts], added to the scores for the choice alone. ids, weights
 * [n_chosen], in rank order. */
void router_choose(const RouterRule *rule, const float *logits, const float *correction, float *scratch, int *ids,
                   float *weights);
/* Weights of experts that are given: ids [n_chosen]. */
void router_weigh(const RouterRule *rule, const float *logits, float *scratch, const int *ids, float *weights);

#endif
