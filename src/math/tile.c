/* Laying integer weights out as tiles, once, at load. Everything is byte moves: no value changes on the way. */
#include "math/tile.h"
#include "math/format_read.h"

#include <math.h>
#include <string.h>

/* E2M1 in halves, + 12 so that it is unsigned: both zeros become 12. */
const uint8_t tile_fp4_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

static int scale_bytes(const TileFormat *f) {
    int groups = f->unit / f->group, per_group = TILE_ROWS * (f->has_bias ? 2 : 1);
    switch (f->scale) {
    case TILE_SCALE_F32: return groups * per_group * 4;
    case TILE_SCALE_K: return per_group * 2 + groups * per_group;
    default: return groups * per_group * 2;
    }
}

static TileStorage storage_of(const WeightSource *s) {
    if (format_is_fp4(s->format)) return TILE_FP4;
    static const TileStorage by_bits[] = {
        [2] = TILE_2, [3] = TILE_3, [4] = TILE_4, [5] = TILE_5, [6] = TILE_6, [8] = TILE_8};
    return by_bits[format_bits(s)];
}

static bool has_scale_type(const WeightSource *s) {
    return s->format == WEIGHT_AFFINE || s->format == WEIGHT_SIGNED;
}

static TileScale scale_of(const WeightSource *s) {
    if (format_is_k(s->format)) return TILE_SCALE_K;
    if (s->format == WEIGHT_FP4 || (has_scale_type(s) && s->scale_type == SCALE_F32)) return TILE_SCALE_F32;
    return has_scale_type(s) && s->scale_type == SCALE_F16 ? TILE_SCALE_F16 : TILE_SCALE_BF16;
}

bool tile_format(const WeightSource *s, TileFormat *out, Error *err) {
    WeightRowBytes bytes;
    if (!weight_row_bytes(s, &bytes, err)) return false;
    TileFormat f = {.storage = storage_of(s), .has_bias = format_has_bias(s->format), .group = format_group(s)};
    f.signed_scales = s->format == WEIGHT_Q3_K || s->format == WEIGHT_Q6_K;
    f.offset = f.storage == TILE_FP4 ? 12 : format_offset(s);
    f.unit = format_is_k(s->format) ? 256 : f.group < TILE_BLOCK ? TILE_BLOCK : f.group;
    f.scale = scale_of(s);
    f.block_bytes = TILE_BLOCK * TILE_ROWS * format_bits(s) / 8;
    f.unit_codes = f.block_bytes * (f.unit / TILE_BLOCK);
    f.unit_bytes = f.unit_codes + scale_bytes(&f);
    *out = f;
    return true;
}

size_t tile_bytes(const TileFormat *f, int cols) {
    size_t units = ((size_t)cols + (size_t)f->unit - 1) / (size_t)f->unit;
    return units * (size_t)f->unit_bytes;
}

/* ---- codes: a block's 32 codes of one row as 8 quads of bytes, one u32 each, then into planes ---- */

/* Eight codes of `bits` bits from `bits` bytes, one code a byte, the first in the lowest byte. */
static inline uint64_t spread_codes(const uint8_t *p, int bits) {
    uint64_t x = 0, out = 0;
    memcpy(&x, p, (size_t)bits);
    if (bits == 8) return x;
    if (bits == 4) {
        x = (x | x << 16) & 0x0000FFFF0000FFFF;
        x = (x | x << 8) & 0x00FF00FF00FF00FF;
        return (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
    }
    for (int i = 0; i < 8; i++) out |= (x >> (i * bits) & ((1u << bits) - 1)) << (8 * i);
    return out;
}

/* The 4-bit block without the detour: nibble i of a source word becomes nibble 2 i (i < 4) or 2 i - 7 of a lane, two
 * words at once. */
static inline void pack_block_4(const uint8_t *p, int lane, uint8_t *block) {
    for (int i = 0; i < 2; i++) {
        uint64_t x, low, high;
        memcpy(&x, p + 8 * i, 8);
        low = x & 0x0000FFFF0000FFFF;
        high = x >> 16 & 0x0000FFFF0000FFFF;
        low = (low | low << 8) & 0x00FF00FF00FF00FF;
        high = (high | high << 8) & 0x00FF00FF00FF00FF;
        low = (low | low << 4) & 0x0F0F0F0F0F0F0F0F;
        high = (high | high << 4) & 0x0F0F0F0F0F0F0F0F;
        x = low | high << 4;
        memcpy(block + 128 * i + lane * 4, &x, 4);
        x >>= 32;
        memcpy(block + 128 * i + 64 + lane * 4, &x, 4);
    }
}

static inline void spread_block(const uint8_t *p, int bits, int n, uint32_t quads[8]) {
    memset(quads, 0, 8 * sizeof *quads);
    for (int i = 0; i < n / 8; i++) {
        uint64_t x = spread_codes(p + i * bits, bits);
        quads[2 * i] = (uint32_t)x;
        quads[2 * i + 1] = (uint32_t)(x >> 32);
    }
}

/* Bits [shift, shift + bits) of every code into a plane. */
static inline void pack_plane(const uint32_t quads[8], int shift, int bits, int lane, uint8_t *plane) {
    int per_line = 8 / bits;
    uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    for (int line = 0; line < 8 / per_line; line++) {
        uint32_t word = 0;
        for (int i = 0; i < per_line; i++) word |= (quads[line * per_line + i] >> shift & mask) << (i * bits);
        memcpy(plane + line * 64 + lane * 4, &word, 4);
    }
}

static inline void pack_block(TileStorage storage, const uint32_t quads[8], int lane, uint8_t *block) {
    switch (storage) {
    case TILE_2: pack_plane(quads, 0, 2, lane, block); break;
    case TILE_3:
        pack_plane(quads, 0, 2, lane, block);
        pack_plane(quads, 2, 1, lane, block + 128);
        break;
    case TILE_FP4:
    case TILE_4: pack_plane(quads, 0, 4, lane, block); break;
    case TILE_5:
        pack_plane(quads, 0, 4, lane, block);
        pack_plane(quads, 4, 1, lane, block + 256);
        break;
    case TILE_6:
        pack_plane(quads, 0, 4, lane, block);
        pack_plane(quads, 4, 2, lane, block + 256);
        break;
    case TILE_8: pack_plane(quads, 0, 8, lane, block); break;
    }
}

/* All codes of up to 16 rows; the bits are a constant in each call below. */
static inline __attribute__((always_inline)) void
pack_codes(const WeightSource *s, const TileFormat *f, TileStorage storage, int bits, int64_t first, uint8_t *tile) {
    size_t row_bytes = (size_t)s->cols * (size_t)bits / 8;
    const uint8_t *rows = (const uint8_t *)s->codes + (size_t)first * row_bytes;
    int lanes = s->rows - first < TILE_ROWS ? (int)(s->rows - first) : TILE_ROWS;
    for (int64_t k = 0; k < s->cols; k += TILE_BLOCK) {
        uint8_t *block = tile + k / f->unit * f->unit_bytes + k % f->unit / TILE_BLOCK * f->block_bytes;
        int n = s->cols - k < TILE_BLOCK ? (int)(s->cols - k) : TILE_BLOCK;
        for (int lane = 0; lane < lanes; lane++) {
            const uint8_t *p = rows + (size_t)lane * row_bytes + (size_t)k * (size_t)bits / 8;
            if (bits == 4 && n == TILE_BLOCK) {
                pack_block_4(p, lane, block);
                continue;
            }
            uint32_t quads[8];
            spread_block(p, bits, n, quads);
            pack_block(storage, quads, lane, block);
        }
    }
}

static void pack_all_codes(const WeightSource *s, const TileFormat *f, int64_t first, uint8_t *tile) {
    switch (f->storage) {
    case TILE_2: pack_codes(s, f, TILE_2, 2, first, tile); break;
    case TILE_3: pack_codes(s, f, TILE_3, 3, first, tile); break;
    case TILE_4: pack_codes(s, f, TILE_4, 4, first, tile); break;
    case TILE_5: pack_codes(s, f, TILE_5, 5, first, tile); break;
    case TILE_6: pack_codes(s, f, TILE_6, 6, first, tile); break;
    case TILE_8: pack_codes(s, f, TILE_8, 8, first, tile); break;
    case TILE_FP4: pack_codes(s, f, TILE_FP4, 4, first, tile); break;
    }
}

/* The upper half of an f32 that holds a bf16 exactly. */
static uint16_t bf16_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

/* Scales of 16 bits, and biases where there are any: moved as they are. */
static void pack_scales_16(const WeightSource *s, const TileFormat *f, int64_t first, int lanes, uint8_t *tile) {
    int64_t n_groups = s->cols / f->group, per_unit = f->unit / f->group;
    const uint8_t *scales = (const uint8_t *)s->scales + first * n_groups * 2;
    const uint8_t *biases = f->has_bias ? (const uint8_t *)s->biases + first * n_groups * 2 : NULL;
    int64_t per_group = TILE_ROWS * (biases ? 4 : 2);
    for (int64_t g = 0; g < n_groups; g++) {
        uint8_t *at = tile + g / per_unit * f->unit_bytes + f->unit_codes + g % per_unit * per_group;
        for (int lane = 0; lane < lanes; lane++) {
            memcpy(at + lane * 2, scales + (lane * n_groups + g) * 2, 2);
            if (biases) memcpy(at + TILE_ROWS * 2 + lane * 2, biases + (lane * n_groups + g) * 2, 2);
        }
    }
}

/* A K-quant's d and dmin, where a super-block starts. */
static void pack_super(const WeightSource *s, const TileFormat *f, int64_t super, int lane, uint8_t *at) {
    memcpy(at + lane * 2, (const uint8_t *)s->d + super * 2, 2);
    if (f->has_bias) memcpy(at + TILE_ROWS * 2 + lane * 2, (const uint8_t *)s->dmin + super * 2, 2);
}

/* The scales of group g of one row, any format but those of pack_scales_16. */
static void pack_group_scales(const WeightSource *s, const TileFormat *f, int64_t row, int64_t g, int lane,
                              uint8_t *unit_scales) {
    int parts = f->has_bias ? 2 : 1, per_unit = f->unit / f->group, in_unit = (int)(g % per_unit);
    if (f->scale == TILE_SCALE_K) {
        uint8_t scale, min, *at = unit_scales + parts * TILE_ROWS * 2 + in_unit * parts * TILE_ROWS;
        if (in_unit == 0) pack_super(s, f, row * (s->cols / 256) + g / per_unit, lane, unit_scales);
        format_k_group(s, row, g, &scale, &min);
        at[lane] = scale;
        if (f->has_bias) at[TILE_ROWS + lane] = min;
        return;
    }
    float v[2];
    format_scale_bias(s, row, g, &v[0], &v[1]);
    if (f->scale == TILE_SCALE_F32) {
        for (int i = 0; i < parts; i++) memcpy(unit_scales + ((in_unit * parts + i) * TILE_ROWS + lane) * 4, &v[i], 4);
        return;
    }
    uint16_t scale = bf16_bits(v[0]); /* E8M0 and E4M3, halved, are bf16 exactly */
    memcpy(unit_scales + in_unit * TILE_ROWS * 2 + lane * 2, &scale, 2);
}

void tile_pack(const WeightSource *s, const TileFormat *f, int64_t first, uint8_t *tile) {
    int lanes = s->rows - first < TILE_ROWS ? (int)(s->rows - first) : TILE_ROWS;
    pack_all_codes(s, f, first, tile);
    if (has_scale_type(s) && s->scale_type != SCALE_F32) {
        pack_scales_16(s, f, first, lanes, tile);
        return;
    }
    int per_unit = f->unit / f->group;
    for (int lane = 0; lane < lanes; lane++)
        for (int64_t g = 0; g < s->cols / f->group; g++)
            pack_group_scales(s, f, first + lane, g, lane, tile + g / per_unit * f->unit_bytes + f->unit_codes);
}

/* Eight bytes at a time: the mask takes off what a shift brought over from the next byte. */
static void unpack_plane(const uint8_t *plane, int bits, int shift, uint8_t *quads) {
    int per_byte = 8 / bits;
    uint64_t mask = ((1u << bits) - 1) * 0x0101010101010101u;
    for (int quad = 0; quad < 8; quad++) {
        const uint8_t *line = plane + quad / per_byte * 64;
        for (int i = 0; i < 64; i += 8) {
            uint64_t packed, codes;
            memcpy(&packed, line + i, 8);
            memcpy(&codes, quads + quad * 64 + i, 8);
            codes |= (packed >> (quad % per_byte * bits) & mask) << shift;
            memcpy(quads + quad * 64 + i, &codes, 8);
        }
    }
}

void tile_block_codes(TileStorage storage, const uint8_t *block, uint8_t *quads) {
    memset(quads, 0, 512);
    switch (storage) {
    case TILE_2: unpack_plane(block, 2, 0, quads); break;
    case TILE_3:
        unpack_plane(block, 2, 0, quads);
        unpack_plane(block + 128, 1, 2, quads);
        break;
    case TILE_4: unpack_plane(block, 4, 0, quads); break;
    case TILE_5:
        unpack_plane(block, 4, 0, quads);
        unpack_plane(block + 256, 1, 4, quads);
        break;
    case TILE_6:
        unpack_plane(block, 4, 0, quads);
        unpack_plane(block + 256, 2, 4, quads);
        break;
    case TILE_8: memcpy(quads, block, 512); break;
    case TILE_FP4:
        unpack_plane(block, 4, 0, quads);
        for (int i = 0; i < 512; i++) quads[i] = tile_fp4_codes[quads[i]];
    }
}

static uint16_t u16_at(const uint8_t *p, int i) {
    uint16_t v;
    memcpy(&v, p + i * 2, 2);
    return v;
}

static void k_scales(const TileFormat *f, const uint8_t *at, int n_groups, float *scale, float *bias) {
    int parts = f->has_bias ? 2 : 1;
    const uint8_t *subs = at + parts * TILE_ROWS * 2;
    for (int g = 0; g < n_groups; g++) {
        const uint8_t *sub = subs + g * parts * TILE_ROWS;
        for (int o = 0; o < TILE_ROWS; o++) {
            float sc = f->signed_scales ? (float)(int8_t)sub[o] : (float)sub[o];
            scale[g * TILE_ROWS + o] = format_f16(u16_at(at, o)) * sc;
            if (f->has_bias)
                bias[g * TILE_ROWS + o] = -(format_f16(u16_at(at, TILE_ROWS + o)) * (float)sub[TILE_ROWS + o]);
        }
    }
}

void tile_unit_scales(const TileFormat *f, const uint8_t *unit, int n_groups, float *scale, float *bias) {
    const uint8_t *at = unit + f->unit_codes;
    if (f->scale == TILE_SCALE_K) {
        k_scales(f, at, n_groups, scale, bias);
        return;
    }
    int parts = f->has_bias ? 2 : 1;
    for (int g = 0; g < n_groups; g++) {
        for (int part = 0; part < parts; part++) {
            float *to = (part ? bias : scale) + g * TILE_ROWS;
            for (int o = 0; o < TILE_ROWS; o++) {
                int i = (g * parts + part) * TILE_ROWS + o;
                if (f->scale == TILE_SCALE_F32)
                    memcpy(&to[o], at + i * 4, 4);
                else
                    to[o] = f->scale == TILE_SCALE_F16 ? format_f16(u16_at(at, i)) : format_bf16(u16_at(at, i));
            }
        }
    }
}

void tile_row(const TileFormat *f, const uint8_t *tile, int lane, int cols, const int32_t *order, float *out) {
    int per_unit = f->unit / f->group;
    for (int u = 0; u * f->unit < cols; u++) {
        const uint8_t *unit = tile + (size_t)u * (size_t)f->unit_bytes;
        float scale[16 * TILE_ROWS], bias[16 * TILE_ROWS] = {0};
        int left = (cols - u * f->unit) / f->group, n = left < per_unit ? left : per_unit;
        tile_unit_scales(f, unit, n, scale, bias);
        for (int block = 0; block * TILE_BLOCK < n * f->group; block++) {
            uint8_t quads[512];
            tile_block_codes(f->storage, unit + block * f->block_bytes, quads);
            for (int i = 0; i < TILE_BLOCK && block * TILE_BLOCK + i < n * f->group; i++) {
                int k = block * TILE_BLOCK + i, g = k / f->group, at = u * f->unit + k;
                int code = quads[i / 4 * 64 + lane * 4 + i % 4];
                float q = (float)(code - f->offset);
                float s = scale[g * TILE_ROWS + lane];
                out[order ? order[at] : at] = f->has_bias ? fmaf(q, s, bias[g * TILE_ROWS + lane]) : q * s;
            }
        }
    }
}
