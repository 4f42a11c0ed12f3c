/* Weight matrices of every format with random codes and modest scales, for tests of linears. */
#ifndef LOCKSTEP_TESTS_SUPPORT_MATRIX_H
#define LOCKSTEP_TESTS_SUPPORT_MATRIX_H

#include "math/format.h"

typedef struct Matrix {
    WeightSource source;
    uint8_t *codes, *scales, *biases, *d, *dmin;
} Matrix;

/* bits, group and scale type of the formats that have them. */
typedef struct MatrixCase {
    WeightFormat format;
    int bits, group;
    ScaleType type;
} MatrixCase;

extern const MatrixCase matrix_cases[];
extern const int n_matrix_cases;

Matrix random_matrix(const MatrixCase *c, int rows, int cols);
int random_cols(const MatrixCase *c); /* a few groups */
void matrix_clear(Matrix *m);

#endif
