/* Looked-up values are integers of at most 8 bits, so that a group of 32 with one scale is affine like any other. What
 * the levels are, and where signs, high bits and scales stand in a block, is the format's; ggml-common.h and the Python
 * package `gguf` describe it. */
#include "convert/gguf_grid_blocks.h"
#include "convert/gguf_blocks.h"
#include "convert/gguf_grids.h"

static uint32_t read_le(const uint8_t *p, int n) {
    uint32_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* ---- IQ4: a level of sixteen ---- */

static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* 16 bytes of nibbles: low ones are values 0..15, high ones 16..31. */
static void look_up_nibbles(const uint8_t *q, uint8_t *out) {
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)(iq4_levels[q[i] & 15] + 128);
        out[i + 16] = (uint8_t)(iq4_levels[q[i] >> 4] + 128);
    }
}

void gguf_codes_iq4_nl(const uint8_t *block, uint8_t *out) {
    look_up_nibbles(block + 2, out);
}

void gguf_codes_iq4_xs(const uint8_t *block, uint8_t *out) {
    for (int j = 0; j < 8; j++) look_up_nibbles(block + 8 + 16 * j, out + 32 * j);
}

/* Two high bits each in the first two bytes, then low nibbles. */
void gguf_sub_iq4_xs(const uint8_t *packed, int j, int *scale, int *min) {
    int low = packed[2 + j / 2] >> 4 * (j % 2) & 15, high = (int)(read_le(packed, 2) >> 2 * j & 3);
    *scale = (low | high << 4) - 32;
    *min = 0;
}

/* ---- signs ---- */

/* Seven signs; the eighth makes their number even. */
static unsigned even_signs(unsigned seven) {
    unsigned ones = seven ^ seven >> 4;
    ones ^= ones >> 2;
    return seven | ((ones ^ ones >> 1) & 1) << 7;
}

/* The 28 sign bits and the scale of 32 values are one word. */
static unsigned signs_of_word(uint32_t word, int eighth) {
    return even_signs(word >> 7 * eighth & 127);
}

static int scale_of_word(uint32_t word) {
    return (int)(2 * (word >> 28) + 1);
}

/* ---- IQ3: four values per entry ---- */

static void put_four(unsigned entry, const uint8_t *levels, unsigned signs, int offset, uint8_t *out) {
    for (int i = 0; i < 4; i++) {
        int v = levels[entry >> 3 * i & 7];
        out[i] = (uint8_t)(signs >> i & 1 ? offset - v : offset + v);
    }
}

/* Half of 4, 12, ... 52, 62. */
static const uint8_t iq3_xxs_levels[8] = {2, 6, 10, 14, 18, 22, 26, 31};
static const uint8_t iq3_s_levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

void gguf_codes_iq3_xxs(const uint8_t *block, uint8_t *out) {
    for (int i = 0; i < 64; i++) {
        uint32_t word = read_le(block + 66 + i / 8 * 4, 4);
        unsigned signs = signs_of_word(word, i % 8 / 2) >> i % 2 * 4;
        put_four(gguf_grid_iq3_xxs[block[2 + i]], iq3_xxs_levels, signs, 32, out + 4 * i);
    }
}

void gguf_sub_iq3_xxs(const uint8_t *packed, int j, int *scale, int *min) {
    *scale = scale_of_word(read_le(packed + 4 * j, 4));
    *min = 0;
}

void gguf_codes_iq3_s(const uint8_t *block, uint8_t *out) {
    const uint8_t *high = block + 66, *signs = block + 74;
    for (int i = 0; i < 64; i++) {
        int entry = block[2 + i] | (high[i / 8] >> i % 8 & 1) << 8;
        put_four(gguf_grid_iq3_s[entry], iq3_s_levels, (unsigned)signs[i / 2] >> i % 2 * 4, 16, out + 4 * i);
    }
}

void gguf_sub_iq3_s(const uint8_t *packed, int j, int *scale, int *min) {
    *scale = 2 * (packed[j / 2] >> 4 * (j % 2) & 15) + 1;
    *min = 0;
}

/* ---- IQ2: eight values per entry ---- */

static const uint8_t iq2_levels[4] = {8, 25, 43, 0};

void gguf_codes_iq2_xxs(const uint8_t *block, uint8_t *out) {
    for (int i = 0; i < 32; i++) {
        const uint8_t *group = block + 2 + i / 4 * 8;
        unsigned entry = gguf_grid_iq2_xxs[group[i % 4]], signs = signs_of_word(read_le(group + 4, 4), i % 4);
        for (int k = 0; k < 8; k++) {
            int v = iq2_levels[entry >> 2 * k & 3];
            out[8 * i + k] = (uint8_t)(signs >> k & 1 ? 128 - v : 128 + v);
        }
    }
}

void gguf_sub_iq2_xxs(const uint8_t *packed, int j, int *scale, int *min) {
    *scale = scale_of_word(read_le(packed + 8 * j + 4, 4));
    *min = 0;
}

static void put_eight(unsigned entry, unsigned signs, float scale, float *out) {
    for (int k = 0; k < 8; k++) {
        float v = scale * (float)iq2_levels[entry >> 2 * k & 3];
        out[k] = signs >> k & 1 ? -v : v;
    }
}

/* An eighth of the block's scale times an odd number, of entry i's 16 values. */
static float eighths(const uint8_t *block, const uint8_t *scales, int i) {
    int odd = 2 * (scales[i / 4] >> i / 2 % 2 * 4 & 15) + 1;
    return half_to_float((uint16_t)read_le(block, 2)) * ((float)odd * 0.125f);
}

void gguf_floats_iq2_xs(const uint8_t *block, float *out) {
    for (int i = 0; i < 32; i++) {
        unsigned word = read_le(block + 2 + 2 * i, 2);
        put_eight(gguf_grid_iq2_xs[word & 511], even_signs(word >> 9), eighths(block, block + 66, i), out + 8 * i);
    }
}

void gguf_floats_iq2_s(const uint8_t *block, float *out) {
    const uint8_t *signs = block + 34, *high = block + 66;
    for (int i = 0; i < 32; i++) {
        int entry = block[2 + i] | (high[i / 4] >> i % 4 * 2 & 3) << 8;
        put_eight(gguf_grid_iq2_s[entry], signs[i], eighths(block, block + 74, i), out + 8 * i);
    }
}

/* ---- IQ1: eight values of -1, 0 and 1 per entry, all of them an eighth up or down ---- */

void gguf_codes_iq1_s(const uint8_t *block, uint8_t *out) {
    for (int i = 0; i < 32; i++) {
        unsigned high = read_le(block + 34 + i / 4 * 2, 2) >> i % 4 * 3 & 7;
        for (int k = 0; k < 8; k++) out[8 * i + k] = gguf_grid_iq1[block[2 + i] | high << 8] >> 2 * k & 3;
    }
}

void gguf_sub_iq1_s(const uint8_t *packed, int j, int *scale, int *min) {
    uint32_t word = read_le(packed + 2 * j, 2);
    int odd = (int)(2 * (word >> 12 & 7) + 1);
    *scale = 8 * odd;
    *min = word >> 15 ? odd : -odd;
}

/* The block's own scale is the top nibbles of the four words of scales. */
static float iq1_m_scale(const uint8_t *scales) {
    uint32_t h = 0;
    for (int i = 0; i < 4; i++) h |= (uint32_t)(scales[2 * i + 1] >> 4) << 4 * i;
    return half_to_float((uint16_t)h);
}

void gguf_floats_iq1_m(const uint8_t *block, float *out) {
    const uint8_t *high = block + 32, *scales = block + 48;
    float d = iq1_m_scale(scales);
    for (int i = 0; i < 32; i++) {
        unsigned nibble = high[i / 2] >> i % 2 * 4 & 15, word = read_le(scales + i / 8 * 2, 2);
        float scale = d * (float)(2 * (word >> i / 2 % 4 * 3 & 7) + 1), up = nibble & 8 ? -0.125f : 0.125f;
        unsigned entry = gguf_grid_iq1[block[i] | (nibble & 7) << 8];
        for (int k = 0; k < 8; k++) out[8 * i + k] = scale * ((float)(int)(entry >> 2 * k & 3) - 1 + up);
    }
}

/* ---- TQ1: five digits of base 3 in a byte, the first in its highest part ---- */

static void put_digits(const uint8_t *q, int n, int digits, uint8_t *out) {
    for (int digit = 0, power = 1; digit < digits; digit++, power *= 3)
        for (int i = 0; i < n; i++) *out++ = (uint8_t)((uint8_t)(q[i] * power) * 3 >> 8);
}

void gguf_codes_tq1_0(const uint8_t *block, uint8_t *out) {
    put_digits(block, 32, 5, out);
    put_digits(block + 32, 16, 5, out + 160);
    put_digits(block + 48, 4, 4, out + 240);
}
