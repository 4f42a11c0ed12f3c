/* The 16 lanes as two AVX2 vectors. What each operation means: kernels_scalar.c.
 *
 * No include guard on purpose: included inside a target region. */
#include <string.h>

typedef struct lf {
    __m256 a, b;
} lf;
typedef struct li {
    __m256i a, b;
} li;

/* Widening 16 keys or values takes as many operations as multiplying them with one query: many queries go over one
 * vector of them, few over two, since each sum alone waits for itself. */
enum {
    FLOAT_ROWS = 2,
    FLOAT_OUTS = 3,
    SCORE_QUERIES = 3,
    SCORE_TILES = 2,
    VALUE_QUERIES = 3,
    VALUE_LANES = 2,
    TALL_QUERIES = 6,
};

#define BOTH(op, x, y) \
    { op((x).a, (y).a), op((x).b, (y).b) }

static inline lf lf_set(float x) {
    return (lf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline lf lf_load(const float *p) {
    return (lf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline lf lf_load_bytes(const uint8_t *p) {
    return (lf){_mm256_loadu_ps((const void *)p), _mm256_loadu_ps((const void *)(p + 32))};
}
static inline lf lf_load_f16(const uint8_t *p) {
    return (lf){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 16)))};
}
static inline void lf_store(float *p, lf x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline void lf_store_f16(int16_t *p, lf x) {
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((void *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline lf lf_add(lf x, lf y) {
    return (lf)BOTH(_mm256_add_ps, x, y);
}
static inline lf lf_sub(lf x, lf y) {
    return (lf)BOTH(_mm256_sub_ps, x, y);
}
static inline lf lf_mul(lf x, lf y) {
    return (lf)BOTH(_mm256_mul_ps, x, y);
}
static inline lf lf_div(lf x, lf y) {
    return (lf)BOTH(_mm256_div_ps, x, y);
}
static inline lf lf_sqrt(lf x) {
    return (lf){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}
static inline lf lf_min(lf x, lf y) {
    return (lf)BOTH(_mm256_min_ps, x, y);
}
static inline lf lf_max(lf x, lf y) {
    return (lf)BOTH(_mm256_max_ps, x, y);
}
static inline lf lf_fma(lf x, lf y, lf z) {
    return (lf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline lf lf_select_less(lf x, lf y, lf yes, lf no) {
    return (lf){_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
static inline lf lf_rint(lf x) {
    return (lf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline lf lf_bits(li x) {
    return (lf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
static inline li li_bits(lf x) {
    return (li){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
static inline lf lf_from_li(li x) {
    return (lf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
static inline li li_from_lf(lf x) { /* MXCSR rounds to nearest even: base/pool.c sets it */
    return (li){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
static inline float lf_fold(lf x) {
    __m256 b = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
static inline li li_set(int32_t x) {
    return (li){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
static inline li li_add(li x, li y) {
    return (li)BOTH(_mm256_add_epi32, x, y);
}
static inline li li_sub(li x, li y) {
    return (li)BOTH(_mm256_sub_epi32, x, y);
}
static inline li li_and(li x, li y) {
    return (li)BOTH(_mm256_and_si256, x, y);
}
static inline li li_max(li x, li y) {
    return (li)BOTH(_mm256_max_epi32, x, y);
}
static inline li li_shl(li x, int n) {
    return (li){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
static inline li li_shr(li x, int n) {
    return (li){_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
static inline li li_sar1(li x) {
    return (li){_mm256_srai_epi32(x.a, 1), _mm256_srai_epi32(x.b, 1)};
}
static inline li li_sar16(li x) {
    return (li){_mm256_srai_epi32(x.a, 16), _mm256_srai_epi32(x.b, 16)};
}
static inline li li_load_i16(const uint8_t *p) {
    return (li){_mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)p)),
                _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(p + 16)))};
}
static inline li li_load_u16(const uint8_t *p) {
    return (li){_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)),
                _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p + 16)))};
}
static inline li li_load_u8(const uint8_t *p) {
    return (li){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)),
                _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + 8)))};
}
static inline li li_load_i8(const uint8_t *p) {
    return (li){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 8)))};
}
static inline void li_store_i16(int16_t *p, li x) { /* values within int16 */
    __m256i packed = _mm256_packs_epi32(x.a, x.b);
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(packed, 0xD8));
}
static inline li li_select_equal(li x, li y, li yes, li no) {
    return (li){_mm256_blendv_epi8(no.a, yes.a, _mm256_cmpeq_epi32(x.a, y.a)),
                _mm256_blendv_epi8(no.b, yes.b, _mm256_cmpeq_epi32(x.b, y.b))};
}
static inline int32_t li_fold_max(li x) {
    __m256i m = _mm256_max_epi32(x.a, x.b);
    __m128i n = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    n = _mm_max_epi32(n, _mm_shuffle_epi32(n, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(n, _mm_shuffle_epi32(n, 0xB1)));
}
static inline int32_t li_fold_add(li x) {
    __m256i m = _mm256_add_epi32(x.a, x.b);
    __m128i n = _mm_add_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    n = _mm_add_epi32(n, _mm_shuffle_epi32(n, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(n, _mm_shuffle_epi32(n, 0xB1)));
}
