/* Values rounded to the small float formats, as models do that were trained to keep them so: what comes back is f32.
 * Blocks of values share a scale; n is a multiple of the block. */
#ifndef LOCKSTEP_MATH_SMALL_FLOATS_H
#define LOCKSTEP_MATH_SMALL_FLOATS_H

/* e4m3 with a power of two per block, the least that takes the block's largest magnitude (at least 1e-4) to at most
 * 448. */
void small_floats_e4m3(float *x, int n, int block);
/* e2m1 with a power of two per block, the least that takes the largest magnitude to at most 6. */
void small_floats_e2m1(float *x, int n, int block);
/* e2m1 with an e4m3 scale per block: the largest magnitude / 6, at least 2^-9, rounded. */
void small_floats_e2m1_scaled(float *x, int n, int block);

#endif
