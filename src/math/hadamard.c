/* Sums and differences of pairs at distances 1, 2, 4 ..., then one product with 1 / sqrt(block): an order of operations
 * that no instruction set changes. */
#include "math/hadamard.h"

#include <math.h>

static void turn_block(float *x, int block) {
    for (int step = 1; step < block; step *= 2)
        for (int at = 0; at < block; at += 2 * step)
            for (int i = at; i < at + step; i++) {
                float a = x[i], b = x[i + step];
                x[i] = a + b;
                x[i + step] = a - b;
            }
    float scale = (float)(1 / sqrt((double)block));
    for (int i = 0; i < block; i++) x[i] *= scale;
}

void hadamard_turn(float *x, int n, int block) {
    for (int at = 0; at + block <= n; at += block) turn_block(x + at, block);
}
