/* Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): a draw is a pure function of its key and
 * counter, so a sampled token depends on nothing but (seed, choice, position). */
#ifndef LOCKSTEP_BASE_RNG_H
#define LOCKSTEP_BASE_RNG_H

#include <stdint.h>

/* counter and key in, four words out. */
void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Uniform in [0, 1) with 53 bits, keyed by (seed, choice index within a prompt, absolute position). */
double rng_uniform(uint64_t seed, uint32_t choice, uint64_t position);

/* A seed from the system's entropy, for a request that names none. */
uint64_t rng_seed(void);

#endif
