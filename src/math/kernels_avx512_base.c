/* AVX-512 without VNNI (Skylake-X): linears as in NEON, with vpmaddwd over one vector of 16 outputs. It goes by the
 * name avx512 too, where the machine has nothing better; tests reach it on any AVX-512 machine. */
#if defined(__x86_64__)
#include "math/kernel_table.h"

#include "math/isa_begin_avx512.h"

#include "math/lanes_avx512.h"

#include "math/codes_pairs.h"
#include "math/kernels_body.h"

static inline li group_dot(const uint8_t *quads, const uint8_t *codes, int n_quads, int bits) {
    li sum = li_set(0);
    for (int i = 0; i < n_quads; i++) {
        int32_t even, odd;
        codes_pairs(codes, i, bits, &even, &odd);
        __m512i w = _mm512_loadu_si512((const void *)(quads + 64 * i));
        sum = li_add(sum, _mm512_madd_epi16(_mm512_and_si512(w, _mm512_set1_epi16(255)), li_set(even)));
        sum = li_add(sum, _mm512_madd_epi16(_mm512_srli_epi16(w, 8), li_set(odd)));
    }
    return sum;
}

typedef __m512i Line;

static inline Line line_load(const uint8_t *p) {
    return _mm512_loadu_si512((const void *)p);
}
static inline Line line_bits(Line x, int right, int left, int mask) { /* shifted, then masked per byte */
    return _mm512_and_si512(_mm512_slli_epi16(_mm512_srli_epi16(x, (unsigned)right), (unsigned)left),
                            _mm512_set1_epi8((char)mask));
}
static inline Line line_or(Line x, Line y) {
    return _mm512_or_si512(x, y);
}
static inline Line line_table(Line x, const uint8_t *table) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), x);
}
static inline void line_store(uint8_t *p, Line x) {
    _mm512_storeu_si512((void *)p, x);
}

#include "math/kernels_panel.h"

static bool supported(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const KernelTable kernels_avx512_base = {
    .name = "avx512", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};

#include "math/isa_end.h"
#else
typedef int kernels_avx512_base_is_for_x86; /* an empty translation unit is not C */
#endif
