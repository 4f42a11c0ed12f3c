/* The definition of every weight format, one element at a time: what tile.c lays out and what tests compare kernels
 * with. Sources: MLX's quantisation docs (affine, mxfp4, mxfp8, nvfp4: OCP Microscaling Formats 1.0), and for K-quants
 * the block layouts of GGUF, taken apart by convert/import_gguf. */
#include "math/format.h"
#include "math/format_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct FormatRow {
    const char *name;
    int bits; /* 0: the source says, and the group too */
    int group;
    bool integer, k_quant, has_min;
    int offset;
} FormatRow;

static const FormatRow formats[] = {
    [WEIGHT_F32] = {"f32", 32, 0, false, false, false, 0},
    [WEIGHT_F16] = {"f16", 16, 0, false, false, false, 0},
    [WEIGHT_BF16] = {"bf16", 16, 0, false, false, false, 0},
    [WEIGHT_AFFINE] = {"affine", 0, 0, true, false, false, 0},
    [WEIGHT_MXFP4] = {"mxfp4", 4, 32, true, false, false, 0},
    [WEIGHT_NVFP4] = {"nvfp4", 4, 16, true, false, false, 0},
    [WEIGHT_MXFP8] = {"mxfp8", 8, 32, false, false, false, 0},
    [WEIGHT_Q2_K] = {"q2_k", 2, 16, true, true, true, 0},
    [WEIGHT_Q3_K] = {"q3_k", 3, 16, true, true, false, 4},
    [WEIGHT_Q4_K] = {"q4_k", 4, 32, true, true, true, 0},
    [WEIGHT_Q5_K] = {"q5_k", 5, 32, true, true, true, 0},
    [WEIGHT_Q6_K] = {"q6_k", 6, 16, true, true, false, 32},
    [WEIGHT_SIGNED] = {"int", 0, 0, true, false, false, 0},
    [WEIGHT_FP4] = {"fp4", 4, 16, true, false, false, 0},
    [WEIGHT_FP8] = {"fp8", 8, 128, false, false, false, 0},
};

const float format_fp4_halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void weight_format_name(const WeightSource *source, char *out, size_t capacity) {
    if (formats[source->format].bits == 0)
        snprintf(out, capacity, "%s %d-bit g%d", formats[source->format].name, source->bits, source->group);
    else
        snprintf(out, capacity, "%s", formats[source->format].name);
}

int format_bits(const WeightSource *s) {
    return formats[s->format].bits ? formats[s->format].bits : s->bits;
}

int format_group(const WeightSource *s) {
    return formats[s->format].bits ? formats[s->format].group : s->group;
}

int format_offset(const WeightSource *s) {
    return s->format == WEIGHT_SIGNED ? 1 << (s->bits - 1) : formats[s->format].offset;
}

bool format_is_integer(WeightFormat f) {
    return formats[f].integer;
}

bool format_is_k(WeightFormat f) {
    return formats[f].k_quant;
}

bool format_is_fp4(WeightFormat f) {
    return f == WEIGHT_MXFP4 || f == WEIGHT_NVFP4 || f == WEIGHT_FP4;
}

bool format_has_bias(WeightFormat f) {
    return f == WEIGHT_AFFINE || formats[f].has_min;
}

/* Of the formats whose source says bits and group. */
static bool check_sizes(const WeightSource *s, Error *err) {
    bool bits = s->bits >= 2 && s->bits <= 8 && s->bits != 7;
    bool group = s->group == 32 || s->group == 64 || s->group == 128;
    if (bits && group) return true;
    return error_set(
        err, "%s quantisation with %d bits and group %d: bits may be 2, 3, 4, 5, 6, 8 and the group 32, 64, 128",
        formats[s->format].name, s->bits, s->group);
}

bool weight_row_bytes(const WeightSource *s, WeightRowBytes *out, Error *err) {
    if (formats[s->format].bits == 0 && !check_sizes(s, err)) return false;
    int64_t cols = s->cols;
    int group = format_group(s), multiple = formats[s->format].k_quant ? 256 : group ? group : 1;
    if (s->format == WEIGHT_FP8) multiple = 1;
    if (cols <= 0 || cols > INT32_MAX || cols % multiple)
        return error_set(err, "%lld inputs do not divide into groups of %d", (long long)cols, multiple);
    uint64_t n = (uint64_t)cols, groups = group ? n / (unsigned)group : 0;
    WeightRowBytes r = {.codes = n * (unsigned)format_bits(s) / 8};
    switch (s->format) {
    case WEIGHT_AFFINE:
    case WEIGHT_SIGNED: r.scales = groups * (s->scale_type == SCALE_F32 ? 4 : 2); break;
    case WEIGHT_FP4:
    case WEIGHT_FP8: r.scales = group ? (n + (unsigned)group - 1) / (unsigned)group * 4 : 0; break;
    case WEIGHT_MXFP4:
    case WEIGHT_MXFP8:
    case WEIGHT_NVFP4:
    case WEIGHT_Q2_K:
    case WEIGHT_Q6_K: r.scales = groups; break;
    case WEIGHT_Q3_K:
    case WEIGHT_Q4_K:
    case WEIGHT_Q5_K: r.scales = n / 256 * 12; break;
    default: break;
    }
    if (formats[s->format].k_quant) r.d = n / 256 * 2;
    *out = r;
    return true;
}

float format_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023, bits;
    if (exponent == 31)
        bits = sign | 0x7F800000 | mantissa << 13;
    else if (exponent)
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

uint16_t format_to_f16(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    uint32_t sign = b >> 16 & 0x8000, magnitude = b & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
    if (magnitude < 0x38800000) { /* below 2^-14: counts of 2^-24 */
        memcpy(&f, &magnitude, 4);
        return (uint16_t)(sign | (uint32_t)rintf(f * 0x1p24f));
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xFFF + odd) >> 13));
}

float format_bf16(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

float format_e4m3(uint8_t b) {
    if ((b & 0x7F) == 0x7F) return NAN;
    int exponent = b >> 3 & 15, mantissa = b & 7;
    float value = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return b & 0x80 ? -value : value;
}

float format_e8m0(uint8_t b) {
    return b == 255 ? NAN : ldexpf(1.0f, (int)b - 127);
}

static uint16_t read_u16(const void *p, int64_t i) {
    uint16_t v;
    memcpy(&v, (const uint8_t *)p + i * 2, 2);
    return v;
}

static float read_scale(const void *p, ScaleType type, int64_t i) {
    float f;
    switch (type) {
    case SCALE_F16: return format_f16(read_u16(p, i));
    case SCALE_BF16: return format_bf16(read_u16(p, i));
    case SCALE_F32: break;
    }
    memcpy(&f, (const uint8_t *)p + i * 4, 4);
    return f;
}

void format_codes(const WeightSource *s, int64_t row, int64_t first, int n, uint8_t *out) {
    int bits = format_bits(s);
    uint64_t row_bytes = (uint64_t)s->cols * (unsigned)bits / 8;
    const uint8_t *p = (const uint8_t *)s->codes + (uint64_t)row * row_bytes;
    unsigned mask = (1u << bits) - 1;
    for (int i = 0; i < n; i++) {
        uint64_t bit = (uint64_t)(first + i) * (unsigned)bits;
        unsigned window = p[bit / 8];
        if ((int)(bit % 8) + bits > 8) window |= (unsigned)p[bit / 8 + 1] << 8; /* else the byte may be the last */
        out[i] = (uint8_t)(window >> (bit % 8) & mask);
    }
}

/* The 6-bit scale and min of sub-block j of a q4_k or q5_k super-block (12 bytes for 8 pairs). */
static void k_scale_min(const uint8_t *p, int j, uint8_t *scale, uint8_t *min) {
    if (j < 4) {
        *scale = p[j] & 63;
        *min = p[j + 4] & 63;
    } else {
        *scale = (uint8_t)((p[j + 4] & 15) | (p[j - 4] >> 6) << 4);
        *min = (uint8_t)(p[j + 4] >> 4 | (p[j] >> 6) << 4);
    }
}

/* The 6-bit scale of sub-block j of a q3_k super-block (12 bytes for 16 scales), stored + 32. */
static int8_t q3_k_scale(const uint8_t *p, int j) {
    int low = j < 8 ? p[j] & 15 : p[j - 8] >> 4;
    int high = p[8 + j % 4] >> (2 * (j / 4)) & 3;
    return (int8_t)((low | high << 4) - 32);
}

void format_k_group(const WeightSource *s, int64_t row, int64_t group, uint8_t *scale, uint8_t *min) {
    int per_super = 256 / format_group(s);
    int64_t supers = s->cols / 256, super = group / per_super;
    const uint8_t *scales = s->scales;
    int j = (int)(group % per_super);
    *min = 0;
    switch (s->format) {
    case WEIGHT_Q2_K:
        scales += row * (s->cols / 16) + group;
        *scale = *scales & 15;
        *min = *scales >> 4;
        return;
    case WEIGHT_Q6_K: *scale = scales[row * (s->cols / 16) + group]; return;
    case WEIGHT_Q3_K: *scale = (uint8_t)q3_k_scale(scales + (row * supers + super) * 12, j); return;
    default: k_scale_min(scales + (row * supers + super) * 12, j, scale, min);
    }
}

/* K-quants: both products are formed in f32 (docs/arithmetic.md). */
static void k_scale_bias(const WeightSource *s, int64_t row, int64_t group, float *scale, float *bias) {
    int per_super = 256 / format_group(s);
    int64_t super = row * (s->cols / 256) + group / per_super;
    uint8_t sc, min;
    format_k_group(s, row, group, &sc, &min);
    bool is_signed = s->format == WEIGHT_Q3_K || s->format == WEIGHT_Q6_K;
    float d = format_f16(read_u16(s->d, super));
    *scale = d * (is_signed ? (float)(int8_t)sc : (float)sc);
    *bias = formats[s->format].has_min ? -(format_f16(read_u16(s->dmin, super)) * (float)min) : 0.0f;
}

void format_scale_bias(const WeightSource *s, int64_t row, int64_t group, float *scale, float *bias) {
    int64_t i = row * ((s->cols + format_group(s) - 1) / format_group(s)) + group;
    *bias = 0;
    switch (s->format) {
    case WEIGHT_AFFINE:
        *scale = read_scale(s->scales, s->scale_type, i);
        *bias = read_scale(s->biases, s->scale_type, i);
        return;
    case WEIGHT_SIGNED: *scale = read_scale(s->scales, s->scale_type, i); return;
    case WEIGHT_FP4: *scale = read_scale(s->scales, SCALE_F32, i) * 0.5f; return;
    case WEIGHT_FP8: *scale = read_scale(s->scales, SCALE_F32, i); return;
    case WEIGHT_MXFP4: *scale = format_e8m0(((const uint8_t *)s->scales)[i]) * 0.5f; return;
    case WEIGHT_NVFP4: *scale = format_e4m3(((const uint8_t *)s->scales)[i]) * 0.5f; return;
    case WEIGHT_MXFP8: *scale = format_e8m0(((const uint8_t *)s->scales)[i]); return;
    default: k_scale_bias(s, row, group, scale, bias);
    }
}

static void float_row(const WeightSource *s, int64_t row, float *out) {
    const uint8_t *p = s->codes;
    for (int64_t i = 0; i < s->cols; i++) {
        int64_t at = row * s->cols + i;
        if (s->format == WEIGHT_F32)
            memcpy(&out[i], p + at * 4, 4);
        else if (s->format == WEIGHT_MXFP8 || s->format == WEIGHT_FP8) {
            float scale, bias;
            format_scale_bias(s, row, i / format_group(s), &scale, &bias);
            out[i] = format_e4m3(p[at]) * scale;
        } else
            out[i] = s->format == WEIGHT_F16 ? format_f16(read_u16(p, at)) : format_bf16(read_u16(p, at));
    }
}

void weight_row(const WeightSource *s, int64_t row, float *out) {
    if (!formats[s->format].integer) {
        float_row(s, row, out);
        return;
    }
    int group = format_group(s), offset = format_offset(s);
    bool fp4 = format_is_fp4(s->format), has_bias = format_has_bias(s->format);
    for (int64_t g = 0; g < s->cols / group; g++) {
        uint8_t codes[128];
        float scale, bias;
        format_codes(s, row, g * group, group, codes);
        format_scale_bias(s, row, g, &scale, &bias);
        for (int i = 0; i < group; i++) {
            float q = fp4 ? format_fp4_halves[codes[i]] : (float)((int)codes[i] - offset);
            int64_t k = g * group + i;
            out[s->order ? s->order[k] : k] = has_bias ? fmaf(q, scale, bias) : q * scale;
        }
    }
}
