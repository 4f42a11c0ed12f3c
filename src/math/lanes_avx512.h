/* The 16 lanes as one AVX-512 vector, for the two tables that use it. What each operation means: kernels_scalar.c.
 *
 * No include guard on purpose: included inside a target region. */
#include <string.h>

typedef __m512 lf;
typedef __m512i li;

#define LANES_FOLD_ROWS /* lf_fold_rows is there */
enum {
    FLOAT_ROWS = 4,
    FLOAT_OUTS = 4,
    SCORE_QUERIES = 4,
    SCORE_TILES = 4,
    VALUE_QUERIES = 4,
    VALUE_LANES = 4,
    TALL_QUERIES = 0,
};

#define lf_set _mm512_set1_ps
#define lf_load _mm512_loadu_ps
#define lf_store _mm512_storeu_ps
#define lf_add _mm512_add_ps
#define lf_sub _mm512_sub_ps
#define lf_mul _mm512_mul_ps
#define lf_div _mm512_div_ps
#define lf_sqrt _mm512_sqrt_ps
#define lf_fma _mm512_fmadd_ps
#define lf_min _mm512_min_ps
#define lf_max _mm512_max_ps
#define lf_bits _mm512_castsi512_ps
#define lf_from_li _mm512_cvtepi32_ps
#define li_bits _mm512_castps_si512
#define li_set _mm512_set1_epi32
#define li_add _mm512_add_epi32
#define li_sub _mm512_sub_epi32
#define li_and _mm512_and_si512
#define li_max _mm512_max_epi32
#define li_fold_max _mm512_reduce_max_epi32
#define li_fold_add _mm512_reduce_add_epi32
#define li_from_lf(a) _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define lf_rint(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define li_shl(a, n) _mm512_slli_epi32(a, n)
#define li_shr(a, n) _mm512_srli_epi32(a, n)
#define li_sar1(a) _mm512_srai_epi32(a, 1)
#define li_sar16(a) _mm512_srai_epi32(a, 16)

static inline lf lf_load_bytes(const uint8_t *p) {
    return _mm512_loadu_ps((const void *)p);
}
static inline lf lf_load_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
static inline void lf_store_f16(int16_t *p, lf a) {
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline li li_load_i16(const uint8_t *p) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)p));
}
static inline li li_load_u16(const uint8_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
}
static inline li li_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}
static inline li li_load_i8(const uint8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p));
}
static inline void li_store_i16(int16_t *p, li a) {
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(a));
}
static inline li li_select_equal(li a, li b, li yes, li no) {
    return _mm512_mask_blend_epi32(_mm512_cmpeq_epi32_mask(a, b), no, yes);
}
static inline lf lf_select_less(lf a, lf b, lf yes, lf no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
static inline float lf_fold(lf a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
/* The folds of 4 rows by 4 outputs, each in the very steps of lf_fold: a pair of vectors becomes one that has half of
 * the lanes of each, until one vector has all sums. Row r's go to y + r * stride. */
static inline void lf_fold_rows(lf acc[4][4], const float *bias, float *y, size_t stride) {
    lf e[4];
    UNROLL for (int o = 0; o < 4; o++) {
        lf low = _mm512_shuffle_f32x4(acc[0][o], acc[1][o], 0x44),
           high = _mm512_shuffle_f32x4(acc[0][o], acc[1][o], 0xEE);
        lf a = lf_add(low, high);
        low = _mm512_shuffle_f32x4(acc[2][o], acc[3][o], 0x44), high = _mm512_shuffle_f32x4(acc[2][o], acc[3][o], 0xEE);
        lf b = lf_add(low, high);
        e[o] = lf_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    }
    lf g = lf_add(_mm512_shuffle_ps(e[0], e[1], 0x44), _mm512_shuffle_ps(e[0], e[1], 0xEE));
    lf h = lf_add(_mm512_shuffle_ps(e[2], e[3], 0x44), _mm512_shuffle_ps(e[2], e[3], 0xEE));
    lf sums = lf_add(_mm512_shuffle_ps(g, h, 0x88), _mm512_shuffle_ps(g, h, 0xDD));
    if (bias) sums = lf_add(sums, _mm512_broadcast_f32x4(_mm_loadu_ps(bias)));
    _mm_storeu_ps(y, _mm512_castps512_ps128(sums));
    _mm_storeu_ps(y + stride, _mm512_extractf32x4_ps(sums, 1));
    _mm_storeu_ps(y + 2 * stride, _mm512_extractf32x4_ps(sums, 2));
    _mm_storeu_ps(y + 3 * stride, _mm512_extractf32x4_ps(sums, 3));
}
