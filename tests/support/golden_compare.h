/* A golden against its reference at --kv f32: the logits of both prompts and of the long prompt's continuation, within
 * the tolerance that golden.json states, on the rows that it calls usable. Where the reference's best logit leads by
 * more than twice the tolerance, ours must have the same best. */
#ifndef LOCKSTEP_TESTS_SUPPORT_GOLDEN_COMPARE_H
#define LOCKSTEP_TESTS_SUPPORT_GOLDEN_COMPARE_H

#include "support/golden.h"

typedef struct GoldenWorst {
    double max_abs, tolerance;
    int rows;
} GoldenWorst;

/* Ends the test with the reason when a row is not right. kernels_select has been called. */
void golden_compare(const char *folder, GoldenWorst *worst);

#endif
