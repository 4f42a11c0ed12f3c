/* NEON, baseline ARMv8.0: 16 lanes are four vectors. Quads of codes become 16-bit pairs as in AVX2, and smull / smlal
 * with a pairwise add takes the place of vpmaddwd. Whatever x86 does with a NaN or an overflow in minps, maxps and
 * cvtps2dq is done by compare and select here, so that the bytes agree. */
#if defined(__aarch64__)
#include "math/kernel_table.h"

#include <arm_neon.h>
#include <string.h>

typedef struct lf {
    float32x4_t v[4];
} lf;
typedef struct li {
    int32x4_t v[4];
} li;

enum {
    FLOAT_ROWS = 2,
    FLOAT_OUTS = 2,
    SCORE_QUERIES = 2,
    SCORE_TILES = 2,
    VALUE_QUERIES = 2,
    VALUE_LANES = 2,
    TALL_QUERIES = 0,
};

#define PARTS for (int j = 0; j < 4; j++)

static inline lf lf_set(float x) {
    lf r;
    PARTS r.v[j] = vdupq_n_f32(x);
    return r;
}
static inline lf lf_load(const float *p) {
    lf r;
    PARTS r.v[j] = vld1q_f32(p + 4 * j);
    return r;
}
static inline lf lf_load_bytes(const uint8_t *p) {
    lf r;
    PARTS r.v[j] = vreinterpretq_f32_u8(vld1q_u8(p + 16 * j));
    return r;
}
static inline lf lf_load_f16(const uint8_t *p) {
    lf r;
    PARTS r.v[j] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * j)));
    return r;
}
static inline void lf_store(float *p, lf x) {
    PARTS vst1q_f32(p + 4 * j, x.v[j]);
}
static inline void lf_store_f16(int16_t *p, lf x) {
    PARTS vst1_s16(p + 4 * j, vreinterpret_s16_f16(vcvt_f16_f32(x.v[j])));
}
static inline lf lf_add(lf x, lf y) {
    PARTS x.v[j] = vaddq_f32(x.v[j], y.v[j]);
    return x;
}
static inline lf lf_sub(lf x, lf y) {
    PARTS x.v[j] = vsubq_f32(x.v[j], y.v[j]);
    return x;
}
static inline lf lf_mul(lf x, lf y) {
    PARTS x.v[j] = vmulq_f32(x.v[j], y.v[j]);
    return x;
}
static inline lf lf_div(lf x, lf y) {
    PARTS x.v[j] = vdivq_f32(x.v[j], y.v[j]);
    return x;
}
static inline lf lf_sqrt(lf x) {
    PARTS x.v[j] = vsqrtq_f32(x.v[j]);
    return x;
}
static inline lf lf_fma(lf x, lf y, lf z) {
    PARTS z.v[j] = vfmaq_f32(z.v[j], x.v[j], y.v[j]);
    return z;
}
static inline lf lf_min(lf x, lf y) {
    PARTS y.v[j] = vbslq_f32(vcltq_f32(x.v[j], y.v[j]), x.v[j], y.v[j]);
    return y;
}
static inline lf lf_max(lf x, lf y) {
    PARTS y.v[j] = vbslq_f32(vcgtq_f32(x.v[j], y.v[j]), x.v[j], y.v[j]);
    return y;
}
static inline lf lf_select_less(lf x, lf y, lf yes, lf no) {
    PARTS no.v[j] = vbslq_f32(vcltq_f32(x.v[j], y.v[j]), yes.v[j], no.v[j]);
    return no;
}
static inline lf lf_rint(lf x) {
    PARTS x.v[j] = vrndnq_f32(x.v[j]);
    return x;
}
static inline lf lf_bits(li x) {
    lf r;
    PARTS r.v[j] = vreinterpretq_f32_s32(x.v[j]);
    return r;
}
static inline li li_bits(lf x) {
    li r;
    PARTS r.v[j] = vreinterpretq_s32_f32(x.v[j]);
    return r;
}
static inline lf lf_from_li(li x) {
    lf r;
    PARTS r.v[j] = vcvtq_f32_s32(x.v[j]);
    return r;
}
/* Past int32 or not a number: INT32_MIN, as cvtps2dq. */
static inline li li_from_lf(lf x) {
    li r;
    PARTS {
        uint32x4_t inside =
            vandq_u32(vcgeq_f32(x.v[j], vdupq_n_f32(-0x1p31f)), vcltq_f32(x.v[j], vdupq_n_f32(0x1p31f)));
        r.v[j] = vbslq_s32(inside, vcvtnq_s32_f32(x.v[j]), vdupq_n_s32(INT32_MIN));
    }
    return r;
}
static inline float lf_fold(lf x) {
    float32x4_t c = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    float32x2_t d = vadd_f32(vget_low_f32(c), vget_high_f32(c));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
static inline li li_set(int32_t x) {
    li r;
    PARTS r.v[j] = vdupq_n_s32(x);
    return r;
}
static inline li li_add(li x, li y) {
    PARTS x.v[j] = vaddq_s32(x.v[j], y.v[j]);
    return x;
}
static inline li li_sub(li x, li y) {
    PARTS x.v[j] = vsubq_s32(x.v[j], y.v[j]);
    return x;
}
static inline li li_and(li x, li y) {
    PARTS x.v[j] = vandq_s32(x.v[j], y.v[j]);
    return x;
}
static inline li li_max(li x, li y) {
    PARTS x.v[j] = vmaxq_s32(x.v[j], y.v[j]);
    return x;
}
static inline li li_shl(li x, int n) {
    PARTS x.v[j] = vshlq_s32(x.v[j], vdupq_n_s32(n));
    return x;
}
static inline li li_shr(li x, int n) {
    PARTS x.v[j] = vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x.v[j]), vdupq_n_s32(-n)));
    return x;
}
static inline li li_sar1(li x) {
    PARTS x.v[j] = vshrq_n_s32(x.v[j], 1);
    return x;
}
static inline li li_sar16(li x) {
    PARTS x.v[j] = vshrq_n_s32(x.v[j], 16);
    return x;
}
static inline li li_load_i16(const uint8_t *p) {
    li r;
    PARTS r.v[j] = vmovl_s16(vreinterpret_s16_u8(vld1_u8(p + 8 * j)));
    return r;
}
static inline li li_load_u16(const uint8_t *p) {
    li r;
    PARTS r.v[j] = vreinterpretq_s32_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * j))));
    return r;
}
static inline li li_load_u8(const uint8_t *p) {
    uint8x16_t b = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(b)), high = vmovl_u8(vget_high_u8(b));
    return (li){
        {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
         vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))}};
}
static inline void li_store_i16(int16_t *p, li x) { /* values within int16 */
    PARTS vst1_s16(p + 4 * j, vmovn_s32(x.v[j]));
}
static inline li li_select_equal(li x, li y, li yes, li no) {
    PARTS no.v[j] = vbslq_s32(vceqq_s32(x.v[j], y.v[j]), yes.v[j], no.v[j]);
    return no;
}
static inline int32_t li_fold_max(li x) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.v[0], x.v[1]), vmaxq_s32(x.v[2], x.v[3])));
}
static inline int32_t li_fold_add(li x) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.v[0], x.v[1]), vaddq_s32(x.v[2], x.v[3])));
}

#include "math/codes_pairs.h"
#include "math/kernels_body.h"

/* Four outputs: pairs of products, widened and added pairwise. */
static inline int32x4_t pair_dot(int32x4_t sum, int16x8_t w, int16x8_t x) {
    int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(x)), high = vmull_high_s16(w, x);
    return vaddq_s32(sum, vpaddq_s32(low, high));
}

static inline li group_dot(const uint8_t *quads, const uint8_t *codes, int n_quads, int bits) {
    const uint16x8_t low = vdupq_n_u16(255);
    li sum = li_set(0);
    for (int i = 0; i < n_quads; i++) {
        int32_t even, odd;
        codes_pairs(codes, i, bits, &even, &odd);
        int16x8_t x0 = vreinterpretq_s16_s32(vdupq_n_s32(even)), x1 = vreinterpretq_s16_s32(vdupq_n_s32(odd));
        PARTS {
            uint16x8_t w = vreinterpretq_u16_u8(vld1q_u8(quads + 64 * i + 16 * j));
            sum.v[j] = pair_dot(sum.v[j], vreinterpretq_s16_u16(vandq_u16(w, low)), x0);
            sum.v[j] = pair_dot(sum.v[j], vreinterpretq_s16_u16(vshrq_n_u16(w, 8)), x1);
        }
    }
    return sum;
}

/* ---- a block of 32 codes to 8 quads ---- */

typedef struct Line {
    uint8x16_t v[4];
} Line;

static inline Line line_load(const uint8_t *p) {
    Line r;
    PARTS r.v[j] = vld1q_u8(p + 16 * j);
    return r;
}
static inline Line line_bits(Line x, int right, int left, int mask) { /* byte shifts drop what the mask would */
    PARTS x.v[j] = vandq_u8(vshlq_u8(vshlq_u8(x.v[j], vdupq_n_s8((int8_t)-right)), vdupq_n_s8((int8_t)left)),
                            vdupq_n_u8((uint8_t)mask));
    return x;
}
static inline Line line_or(Line x, Line y) {
    PARTS x.v[j] = vorrq_u8(x.v[j], y.v[j]);
    return x;
}
static inline Line line_table(Line x, const uint8_t *table) {
    uint8x16_t t = vld1q_u8(table);
    PARTS x.v[j] = vqtbl1q_u8(t, x.v[j]);
    return x;
}
static inline void line_store(uint8_t *p, Line x) {
    PARTS vst1q_u8(p + 16 * j, x.v[j]);
}

#include "math/kernels_panel.h"

static bool supported(void) {
    return true;
}

const KernelTable kernels_neon = {.name = "neon", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};
#else
typedef int kernels_neon_is_for_arm; /* an empty translation unit is not C */
#endif
