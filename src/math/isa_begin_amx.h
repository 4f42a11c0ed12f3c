/* Opens a region compiled for AMX with its integers, and AVX-512 with VNNI, for gcc and for clang; isa_end.h closes it.
 */
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(                                                                                 \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8")
#endif
