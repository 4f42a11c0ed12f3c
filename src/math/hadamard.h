/* The normalised Walsh-Hadamard transform, block by block: its own inverse. */
#ifndef LOCKSTEP_MATH_HADAMARD_H
#define LOCKSTEP_MATH_HADAMARD_H

/* x [n] in place; block: a power of two that divides n. */
void hadamard_turn(float *x, int n, int block);

#endif
