/* compare: how far two sets of logits are apart. The first is the reference. */
#ifndef LOCKSTEP_EVAL_COMPARE_H
#define LOCKSTEP_EVAL_COMPARE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

typedef struct CompareOptions {
    double decided; /* a position is decided when the reference's top-2 gap is at least this; 2.0 */
    double tol;     /* the largest difference that passes; 1e-3 */
} CompareOptions;

typedef struct CompareResult {
    char name[32]; /* of the tensor in the reference: "logits", "short", "long", "long_cont" */
    int rows, vocab;
    int non_finite; /* values of the candidate that are not finite; differences then leave them out */
    double max_abs, mean_abs;
    int worst_row;     /* where max_abs is */
    int first_over;    /* the first row over tol; -1: none */
    int top1_same;     /* rows with the same argmax, the lowest index winning among equals */
    int decided_rows;  /* rows decided in the reference */
    int decided_wrong; /* of these, with another argmax */
    bool identical;    /* the same bytes */
    bool within;       /* max_abs <= tol and all finite */
} CompareResult;

/* Compares [rows][vocab] with [rows][vocab]. */
void compare_rows(const float *reference, const float *candidate, int rows, int vocab, const CompareOptions *o,
                  CompareResult *out);

enum { COMPARE_MAX = 4 };
/* Compares the tensors that both files have among logits, short, long, long_cont (f32, f16 or bf16). A lone `logits` of
 * one file is matched with the `short` or `long` of the same shape in the other. At least one result, or an error: no
 * tensor in common, or different shapes. */
bool compare_files(const char *reference, const char *candidate, const CompareOptions *o,
                   CompareResult out[COMPARE_MAX], int *n, Error *err);

/* One line per result, as shown to the user. */
void compare_describe(const CompareResult *results, int n, Buffer *out);

#endif
