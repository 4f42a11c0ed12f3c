/* AVX-512 with VNNI: vpdpbusd is the dot product of quads. The kernels are in kernels_avx512_body.h. */
#if defined(__x86_64__)
#include "math/kernel_table.h"

#include "math/isa_begin_avx512vnni.h"

#define dot_quads _mm512_dpbusd_epi32
#include "math/kernels_avx512_body.h"

static bool supported(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

const KernelTable kernels_avx512 = {.name = "avx512", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};

#include "math/isa_end.h"
#else
typedef int kernels_avx512_is_for_x86; /* an empty translation unit is not C */
#endif
