/* Opens a region compiled for AVX2 with FMA and F16C, for gcc and for clang; isa_end.h closes it. */
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
