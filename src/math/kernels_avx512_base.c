/* AVX-512 without VNNI (Skylake-X): a quad's dot product from two vpmaddwd over its even and odd bytes. Goes by the
 * name avx512 too, where the machine has nothing better; tests reach it on any AVX-512 machine. */
#if defined(__x86_64__)
#include "math/kernel_table.h"

#include "math/isa_begin_avx512.h"

static inline __m512i dot_quads(__m512i sum, __m512i w, __m512i x) {
    __m512i even =
        _mm512_madd_epi16(_mm512_and_si512(w, _mm512_set1_epi16(255)), _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
    __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(w, 8), _mm512_srai_epi16(x, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
#include "math/kernels_avx512_body.h"

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
