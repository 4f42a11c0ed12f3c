/* Random inputs for tests: a counter through the engine's own generator. */
#include "support/random.h"
#include "base/memory.h"
#include "base/rng.h"

uint32_t random_u32(void) {
    static uint32_t count = 7;
    uint32_t counter[4] = {count++, 0, 0, 0}, key[2] = {1, 2}, out[4];
    rng_philox(counter, key, out);
    return out[0];
}

int random_below(int n) {
    return (int)(random_u32() % (uint32_t)n);
}

float random_even(float scale) {
    return (float)(int32_t)random_u32() * 0x1p-31f * scale;
}

float random_float(void) {
    switch (random_below(40)) {
    case 0: return 0.0f;
    case 1: return -0.0f;
    case 2: return 1e-40f;
    case 3: return -3e-31f;
    case 4: return 1e6f;
    default: return random_even(4.0f);
    }
}

float *random_floats(size_t n) {
    float *x = mem_aligned(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = random_float();
    return x;
}
