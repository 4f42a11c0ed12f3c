/* Philox 4x32-10: ten rounds of two 32x32 multiplications; constants from Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3" (SC 2011), table 2. Tested against the vectors of the authors' Random123. */
#define _GNU_SOURCE
#include "base/rng.h"

#include <sys/random.h>
#include <time.h>

void rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

double rng_uniform(uint64_t seed, uint32_t choice, uint64_t position) {
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), choice, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, r[4];
    rng_philox(counter, key, r);
    uint64_t bits = ((uint64_t)r[0] << 32 | r[1]) >> 11;
    return (double)bits * 0x1p-53;
}

uint64_t rng_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) return seed;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec << 32 ^ (uint64_t)t.tv_nsec;
}
