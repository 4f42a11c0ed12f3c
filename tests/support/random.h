/* Random inputs for tests, the same in every run, with the values among them that arithmetic trips over. */
#ifndef LOCKSTEP_TESTS_SUPPORT_RANDOM_H
#define LOCKSTEP_TESTS_SUPPORT_RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint32_t random_u32(void);
int random_below(int n);
/* Within (-4, 4), now and then a zero of either sign, a denormal, a tiny or a large value. */
float random_float(void);
float random_even(float scale); /* within (-scale, scale), nothing special */
float *random_floats(size_t n); /* of random_float; mem_free */

#endif
