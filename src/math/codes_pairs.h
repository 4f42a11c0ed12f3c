/* The layout of a row's fixed-point codes for instruction sets that multiply 16-bit pairs: within each quad (k0, k2,
 * k1, k3), so that the even and the odd bytes of a quad of weights meet their activations without a shuffle. 8-bit
 * codes keep their natural order. */
static inline void codes_place(QuantRows *q, int row, const int16_t *x, int k, int n) {
    uint8_t *codes = q->codes + (size_t)row * (size_t)q->padded * (size_t)q->bits / 8;
    if (q->bits == 8) {
        for (int i = 0; i < n; i++) codes[k + i] = (uint8_t)(int8_t)x[i];
        return;
    }
    for (int i = 0; i < n; i += 4) {
        int16_t quad[4] = {x[i], x[i + 2], x[i + 1], x[i + 3]};
        __builtin_memcpy(codes + 2 * (k + i), quad, sizeof quad);
    }
}

#include "math/rows_apart.h"

static inline int32_t pair_of(int16_t low, int16_t high) {
    return (int32_t)((uint32_t)(uint16_t)low | (uint32_t)(uint16_t)high << 16);
}

/* Quad i of a row's codes: (k0, k2) and (k1, k3) as 16-bit pairs. */
static inline void codes_pairs(const uint8_t *codes, int i, int bits, int32_t *even, int32_t *odd) {
    if (bits == 16) {
        __builtin_memcpy(even, codes + 8 * i, 4);
        __builtin_memcpy(odd, codes + 8 * i + 4, 4);
        return;
    }
    const uint8_t *c = codes + 4 * i;
    *even = pair_of((int8_t)c[0], (int8_t)c[2]);
    *odd = pair_of((int8_t)c[1], (int8_t)c[3]);
}
