/* Block layouts after ggml's description of them (ggml-common.h), decoded one block at a time into a byte per code.
 * Speed matters little here, a model passes once; that every type has the same two questions (codes, scales) keeps the
 * import free of cases. */
#include "convert/gguf_blocks.h"
#include "convert/gguf_grid_blocks.h"
#include "file/gguf.h"

#include <math.h>
#include <string.h>

static uint16_t read_half(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3FF, bits;
    float f;
    if (exponent == 31) {
        bits = sign | 0x7F800000 | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        f = (float)fraction * 0x1p-24f; /* exact */
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    memcpy(&f, &bits, 4);
    return f;
}

uint16_t half_from_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000) return sign | 0x7E00;
    if (bits >= 0x477FF000) return sign | 0x7C00; /* 65520 and more */
    if (bits < 0x38800000) {                      /* below 2^-14: subnormal, a whole number of 2^-24 */
        memcpy(&f, &bits, 4);
        f += 0.5f; /* the sum's last place is 2^-24, so this rounds to even there */
        memcpy(&bits, &f, 4);
        return (uint16_t)(sign | (bits - 0x3F000000));
    }
    bits += 0xFFF + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

/* ---- codes ---- */

/* 16 bytes of nibbles: low ones are values 0..15, high ones 16..31. */
static void nibbles(const uint8_t *q, uint8_t *out) {
    for (int i = 0; i < 16; i++) {
        out[i] = q[i] & 15;
        out[i + 16] = q[i] >> 4;
    }
}

static void add_fifth_bit(const uint8_t *high, uint8_t *out) {
    for (int i = 0; i < 32; i++) out[i] |= (uint8_t)((high[i / 8] >> i % 8 & 1) << 4);
}

static void codes_q4_0(const uint8_t *block, uint8_t *out) {
    nibbles(block + 2, out);
}

static void codes_q4_1(const uint8_t *block, uint8_t *out) {
    nibbles(block + 4, out);
}

static void codes_q5_0(const uint8_t *block, uint8_t *out) {
    nibbles(block + 6, out);
    add_fifth_bit(block + 2, out);
}

static void codes_q5_1(const uint8_t *block, uint8_t *out) {
    nibbles(block + 8, out);
    add_fifth_bit(block + 4, out);
}

static void codes_q8_0(const uint8_t *block, uint8_t *out) {
    for (int i = 0; i < 32; i++) out[i] = block[2 + i] ^ 0x80; /* + 128 */
}

static void codes_mxfp4(const uint8_t *block, uint8_t *out) {
    nibbles(block + 1, out);
}

/* 64 bytes of four 2-bit planes: value 128n + 32j + l is bits 2j of byte 32n + l. */
static void two_bits(const uint8_t *q, uint8_t *out) {
    for (int e = 0; e < 256; e++) out[e] = q[e / 128 * 32 + e % 32] >> 2 * (e / 32 % 4) & 3;
}

/* Two signs as the outer two of three values. */
static void codes_q1_0(const uint8_t *block, uint8_t *out) {
    for (int i = 0; i < 128; i++) out[i] = (uint8_t)((block[2 + i / 8] >> i % 8 & 1) * 2);
}

static void codes_q2_0(const uint8_t *block, uint8_t *out) {
    for (int i = 0; i < 64; i++) out[i] = block[2 + i / 4] >> i % 4 * 2 & 3;
}

static void codes_q2_k(const uint8_t *block, uint8_t *out) {
    two_bits(block + 16, out);
}

static void codes_q3_k(const uint8_t *block, uint8_t *out) {
    two_bits(block + 32, out);
    for (int e = 0; e < 256; e++) out[e] |= (uint8_t)((block[e % 32] >> e / 32 & 1) << 2);
}

/* 128 bytes of nibbles, 32 low and then 32 high ones at a time. */
static void nibbles_k(const uint8_t *q, uint8_t *out) {
    for (int e = 0; e < 256; e++) out[e] = q[e / 64 * 32 + e % 32] >> 4 * (e / 32 % 2) & 15;
}

static void codes_q4_k(const uint8_t *block, uint8_t *out) {
    nibbles_k(block + 16, out);
}

static void codes_q5_k(const uint8_t *block, uint8_t *out) {
    nibbles_k(block + 48, out);
    for (int e = 0; e < 256; e++) out[e] |= (uint8_t)((block[16 + e % 32] >> e / 32 & 1) << 4);
}

static void codes_q6_k(const uint8_t *block, uint8_t *out) {
    for (int e = 0; e < 256; e++) {
        int half = e / 128, quarter = e / 32 % 4;
        int low = block[half * 64 + e % 64] >> 4 * (quarter / 2) & 15;
        int high = block[128 + half * 32 + e % 32] >> 2 * quarter & 3;
        out[e] = (uint8_t)(low | high << 4);
    }
}

/* ---- sub-scales ---- */

static void sub_q2_k(const uint8_t *packed, int j, int *scale, int *min) {
    *scale = packed[j] & 15;
    *min = packed[j] >> 4;
}

/* Sixteen 6-bit scales in 12 bytes: low nibbles in bytes 0..7, pairs of high bits in bytes 8..11. */
static void sub_q3_k(const uint8_t *packed, int j, int *scale, int *min) {
    int low = packed[j % 8] >> 4 * (j / 8) & 15, high = packed[8 + j % 4] >> 2 * (j / 4) & 3;
    *scale = (low | high << 4) - 32;
    *min = 0;
}

/* Eight pairs of 6 bits in 12 bytes: pairs 0..3 in bytes 0..7, whose top bits complete the nibbles of pairs 4..7. */
static void sub_q4_k(const uint8_t *packed, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
        *min = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
}

static void sub_q6_k(const uint8_t *packed, int j, int *scale, int *min) {
    *scale = (int8_t)packed[j];
    *min = 0;
}

/* E2M1, doubled. */
static const int8_t fp4_levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* The fields that all have, in their order. */
#define ROW(type_, mode_, values_, bytes_, bits_, group_, offset_, scale_, min_, codes_)              \
    .type = type_, .mode = mode_, .values = values_, .bytes = bytes_, .bits = bits_, .group = group_, \
    .offset = offset_, .scale_at = scale_, .min_at = min_, .codes = codes_

static const BlockFormat formats[] = {
    {ROW(GGML_Q4_0, "affine", 32, 18, 4, 32, 8, 0, -1, codes_q4_0)},
    {ROW(GGML_Q4_1, "affine", 32, 20, 4, 32, 0, 0, 2, codes_q4_1)},
    {ROW(GGML_Q5_0, "affine", 32, 22, 5, 32, 16, 0, -1, codes_q5_0)},
    {ROW(GGML_Q5_1, "affine", 32, 24, 5, 32, 0, 0, 2, codes_q5_1)},
    {ROW(GGML_Q8_0, "affine", 32, 34, 8, 32, 128, 0, -1, codes_q8_0)},
    {ROW(GGML_MXFP4, "mxfp4", 32, 17, 4, 32, 0, 0, -1, codes_mxfp4), .levels = fp4_levels},
    {ROW(GGML_Q2_K, "q2_k", 256, 84, 2, 16, 0, 80, 82, codes_q2_k), .sub_at = 0, .sub_bytes = 16,
     .sub_scale = sub_q2_k},
    {ROW(GGML_Q3_K, "q3_k", 256, 110, 3, 16, 4, 108, -1, codes_q3_k), .sub_at = 96, .sub_bytes = 12,
     .sub_scale = sub_q3_k},
    {ROW(GGML_Q4_K, "q4_k", 256, 144, 4, 32, 0, 0, 2, codes_q4_k), .sub_at = 4, .sub_bytes = 12, .sub_scale = sub_q4_k},
    {ROW(GGML_Q5_K, "q5_k", 256, 176, 5, 32, 0, 0, 2, codes_q5_k), .sub_at = 4, .sub_bytes = 12, .sub_scale = sub_q4_k},
    {ROW(GGML_Q6_K, "q6_k", 256, 210, 6, 16, 32, 208, -1, codes_q6_k), .sub_at = 192, .sub_bytes = 16,
     .sub_scale = sub_q6_k, .sub_signed = true},
    {ROW(GGML_IQ4_XS, "affine", 256, 136, 8, 32, 128, 0, -1, gguf_codes_iq4_xs), .sub_at = 2, .unit = 1,
     .sub_scale = gguf_sub_iq4_xs},
    {ROW(GGML_IQ3_XXS, "affine", 256, 98, 6, 32, 32, 0, -1, gguf_codes_iq3_xxs), .sub_at = 66, .unit = 0.5f,
     .sub_scale = gguf_sub_iq3_xxs},
    {ROW(GGML_IQ3_S, "affine", 256, 110, 5, 32, 16, 0, -1, gguf_codes_iq3_s), .sub_at = 106, .unit = 1,
     .sub_scale = gguf_sub_iq3_s},
    {ROW(GGML_IQ2_XXS, "affine", 256, 66, 8, 32, 128, 0, -1, gguf_codes_iq2_xxs), .sub_at = 2, .unit = 0.125f,
     .sub_scale = gguf_sub_iq2_xxs},
    {ROW(GGML_IQ1_S, "affine", 256, 50, 2, 32, 1, 0, -1, gguf_codes_iq1_s), .sub_at = 34, .unit = 0.125f,
     .sub_scale = gguf_sub_iq1_s},
    {ROW(GGML_IQ4_NL, "affine", 32, 18, 8, 32, 128, 0, -1, gguf_codes_iq4_nl)},
    {ROW(GGML_Q1_0, "affine", 128, 18, 2, 128, 1, 0, -1, codes_q1_0)},
    {ROW(GGML_Q2_0, "affine", 64, 18, 2, 64, 1, 0, -1, codes_q2_0)},
    {ROW(GGML_TQ1_0, "affine", 256, 54, 2, 128, 1, 52, -1, gguf_codes_tq1_0)},
    {ROW(GGML_TQ2_0, "affine", 256, 66, 2, 128, 1, 64, -1, two_bits)},
    {.type = GGML_IQ2_XS, .values = 256, .bytes = 74, .floats = gguf_floats_iq2_xs},
    {.type = GGML_IQ2_S, .values = 256, .bytes = 82, .floats = gguf_floats_iq2_s},
    {.type = GGML_IQ1_M, .values = 256, .bytes = 56, .floats = gguf_floats_iq1_m},
};

#undef ROW

bool block_scales_are_wide(const BlockFormat *f) {
    return f->unit != 0;
}

const BlockFormat *block_format(uint32_t type) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == type) return &formats[i];
    return NULL;
}

void block_scale(const BlockFormat *f, const uint8_t *block, int j, float *scale, float *min) {
    if (f->levels) {
        *scale = ldexpf(1, block[f->scale_at] - 128); /* halved: the levels are doubled */
        *min = 0;
        return;
    }
    float d = half_to_float(read_half(block + f->scale_at));
    float m = f->min_at < 0 ? 0.0f : half_to_float(read_half(block + f->min_at));
    if (!f->sub_scale) { /* these add their minimum, K-quants subtract it */
        *scale = d;
        *min = f->min_at < 0 ? 0.0f : -m; /* x - 0 keeps the sign of a zero x, x + 0 does not */
        return;
    }
    int s, t;
    f->sub_scale(block + f->sub_at, j, &s, &t);
    float unit = f->unit != 0 ? f->unit : 1;
    *scale = d * ((float)s * unit);
    *min = (f->unit != 0 ? d : m) * ((float)t * unit);
}

void pack_codes(const uint8_t *codes, int n, int bits, uint8_t *out) {
    for (int i = 0; i < n; i += 8, out += bits) {
        uint64_t word = 0;
        for (int j = 0; j < 8; j++) word |= (uint64_t)codes[i + j] << bits * j;
        for (int j = 0; j < bits; j++) out[j] = (uint8_t)(word >> 8 * j);
    }
}

static void decode_block(const BlockFormat *f, const uint8_t *block, float *out) {
    uint8_t codes[256];
    if (f->floats) {
        f->floats(block, out);
        return;
    }
    f->codes(block, codes);
    for (int j = 0; j < f->values / f->group; j++) {
        float scale, min;
        block_scale(f, block, j, &scale, &min);
        for (int i = j * f->group; i < (j + 1) * f->group; i++)
            out[i] = scale * (float)(f->levels ? f->levels[codes[i]] : codes[i] - f->offset) - min;
    }
}

static bool decode_floats(uint32_t type, const uint8_t *row, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)read_half(row + 2 * i) << 16;
        if (type == GGML_F32)
            memcpy(out + i, row + 4 * i, 4);
        else if (type == GGML_F16)
            out[i] = half_to_float((uint16_t)(bits >> 16));
        else
            memcpy(out + i, &bits, 4);
    }
    return true;
}

bool gguf_dequantize_row(uint32_t type, const uint8_t *row, int64_t n, float *out) {
    if (type == GGML_F32 || type == GGML_F16 || type == GGML_BF16) return decode_floats(type, row, n, out);
    const BlockFormat *f = block_format(type);
    for (int64_t i = 0; f && i < n; i += f->values, row += f->bytes) decode_block(f, row, out + i);
    return f != NULL;
}
