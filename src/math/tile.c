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
    if (s->format == WEIGHT_MXFP4 || s->format == WEIGHT_NVFP4) return TILE_FP4;
    static const TileStorage by_bits[] = {
        [2] = TILE_2, [3] = TILE_3, [4] = TILE_4, [5] = TILE_5, [6] = TILE_6, [8] = TILE_8};
    return by_bits[format_bits(s)];
}

bool tile_format(const WeightSource *s, TileFormat *out, Error *err) {
    WeightRowBytes bytes;
    if (!weight_row_bytes(s, &bytes, err)) return false;
    TileFormat f = {.storage = storage_of(s), .has_bias = format_has_bias(s->format), .group = format_group(s)};
    f.signed_scales = s->format == WEIGHT_Q3_K || s->format == WEIGHT_Q6_K;
    f.offset = f.storage == TILE_FP4 ? 12 : format_offset(s);
    f.unit = format_is_k(s->format) ? 256 : f.group < TILE_BLOCK ? TILE_BLOCK : f.group;
    if (format_is_k(s->format))
        f.scale = TILE_SCALE_K;
    else if (s->format == WEIGHT_AFFINE && s->scale_type == SCALE_F32)
        f.scale = TILE_SCALE_F32;
    else
        f.scale = s->format == WEIGHT_AFFINE && s->scale_type == SCALE_F16 ? TILE_SCALE_F16 : TILE_SCALE_BF16;
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

/* Puts `bits` low bits of each of 32 codes into a plane; `per_byte` codes share a byte. */
static void pack_plane(const uint8_t codes[TILE_BLOCK], int shift, int bits, int lane, uint8_t *plane) {
    int per_byte = 8 / bits;
    unsigned mask = (1u << bits) - 1;
    for (int k = 0; k < TILE_BLOCK; k++) {
        int quad = k / 4, line = quad / per_byte, part = quad % per_byte;
        plane[line * 64 + lane * 4 + k % 4] |= (uint8_t)((codes[k] >> shift & mask) << (part * bits));
    }
}

static void pack_block(TileStorage storage, const uint8_t codes[TILE_BLOCK], int lane, uint8_t *block) {
    switch (storage) {
    case TILE_2: pack_plane(codes, 0, 2, lane, block); break;
    case TILE_3:
        pack_plane(codes, 0, 2, lane, block);
        pack_plane(codes, 2, 1, lane, block + 128);
        break;
    case TILE_FP4:
    case TILE_4: pack_plane(codes, 0, 4, lane, block); break;
    case TILE_5:
        pack_plane(codes, 0, 4, lane, block);
        pack_plane(codes, 4, 1, lane, block + 256);
        break;
    case TILE_6:
        pack_plane(codes, 0, 4, lane, block);
        pack_plane(codes, 4, 2, lane, block + 256);
        break;
    case TILE_8: pack_plane(codes, 0, 8, lane, block); break;
    }
}

/* The upper half of an f32 that holds a bf16 exactly. */
static uint16_t bf16_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

static void pack_scale_16(const WeightSource *s, const TileFormat *f, int64_t row, int64_t group, int lane,
                          uint8_t *at) {
    uint16_t scale, bias = 0;
    if (s->format == WEIGHT_AFFINE) {
        int64_t i = row * (s->cols / f->group) + group;
        memcpy(&scale, (const uint8_t *)s->scales + i * 2, 2);
        memcpy(&bias, (const uint8_t *)s->biases + i * 2, 2);
    } else { /* E8M0 and E4M3, halved, are bf16 exactly */
        float scale_f, bias_f;
        format_scale_bias(s, row, group, &scale_f, &bias_f);
        scale = bf16_bits(scale_f);
    }
    memcpy(at + lane * 2, &scale, 2);
    if (f->has_bias) memcpy(at + TILE_ROWS * 2 + lane * 2, &bias, 2);
}

static void pack_unit_scales(const WeightSource *s, const TileFormat *f, int64_t row, int64_t unit, int lane,
                             uint8_t *at) {
    int parts = f->has_bias ? 2 : 1, per_unit = f->unit / f->group;
    int64_t n_groups = s->cols / f->group;
    if (f->scale == TILE_SCALE_K) {
        int64_t super = row * (s->cols / 256) + unit;
        memcpy(at + lane * 2, (const uint8_t *)s->d + super * 2, 2);
        if (f->has_bias) memcpy(at + TILE_ROWS * 2 + lane * 2, (const uint8_t *)s->dmin + super * 2, 2);
        at += parts * TILE_ROWS * 2;
    }
    for (int g = 0; g < per_unit && unit * per_unit + g < n_groups; g++) {
        int64_t group = unit * per_unit + g;
        if (f->scale == TILE_SCALE_K) {
            uint8_t scale, min;
            format_k_group(s, row, group, &scale, &min);
            at[g * parts * TILE_ROWS + lane] = scale;
            if (f->has_bias) at[g * parts * TILE_ROWS + TILE_ROWS + lane] = min;
        } else if (f->scale == TILE_SCALE_F32) {
            float v[2];
            format_scale_bias(s, row, group, &v[0], &v[1]);
            for (int i = 0; i < parts; i++) memcpy(at + ((g * parts + i) * TILE_ROWS + lane) * 4, &v[i], 4);
        } else
            pack_scale_16(s, f, row, group, lane, at + g * parts * TILE_ROWS * 2);
    }
}

void tile_pack(const WeightSource *s, const TileFormat *f, int64_t first, uint8_t *tile) {
    int64_t units = (s->cols + f->unit - 1) / f->unit;
    memset(tile, 0, (size_t)units * (size_t)f->unit_bytes);
    for (int lane = 0; lane < TILE_ROWS && first + lane < s->rows; lane++) {
        for (int64_t u = 0; u < units; u++) {
            uint8_t *unit = tile + u * f->unit_bytes;
            for (int64_t k = u * f->unit; k < (u + 1) * f->unit && k < s->cols; k += TILE_BLOCK) {
                uint8_t codes[TILE_BLOCK] = {0};
                int n = s->cols - k < TILE_BLOCK ? (int)(s->cols - k) : TILE_BLOCK;
                format_codes(s, first + lane, k, n, codes);
                pack_block(f->storage, codes, lane, unit + (k - u * f->unit) / TILE_BLOCK * f->block_bytes);
            }
            pack_unit_scales(s, f, first + lane, u, lane, unit + f->unit_codes);
        }
    }
}

static void unpack_plane(const uint8_t *plane, int bits, int shift, uint8_t *quads) {
    int per_byte = 8 / bits;
    unsigned mask = (1u << bits) - 1;
    for (int quad = 0; quad < 8; quad++) {
        const uint8_t *line = plane + quad / per_byte * 64;
        for (int i = 0; i < 64; i++)
            quads[quad * 64 + i] |= (uint8_t)((line[i] >> (quad % per_byte * bits) & mask) << shift);
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

void tile_row(const TileFormat *f, const uint8_t *tile, int lane, int cols, float *out) {
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
                int k = block * TILE_BLOCK + i, g = k / f->group;
                float q = (float)(quads[i / 4 * 64 + lane * 4 + i % 4] - f->offset);
                float s = scale[g * TILE_ROWS + lane];
                out[u * f->unit + k] = f->has_bias ? fmaf(q, s, bias[g * TILE_ROWS + lane]) : q * s;
            }
        }
    }
}
