/* The block formats of GGUF, taken apart: unsigned codes in natural order, a scale and a minimum per group. One row of
 * the table per type; the import and the reference decoder both read it.
 *
 * A value is scale * (code - offset) - min, in f32, or scale * levels[code]; where a code is looked up, what it stands
 * for is the code here. */
#ifndef LOCKSTEP_CONVERT_GGUF_BLOCKS_H
#define LOCKSTEP_CONVERT_GGUF_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct BlockFormat {
    uint32_t type;     /* ggml's number */
    const char *mode;  /* of config.json: "affine", "q4_k" */
    int values, bytes; /* of one block */
    int bits, group;
    int offset;
    int scale_at, min_at;  /* where the f16 scale and minimum (d, dmin, m) stand in the block; min_at -1: none */
    int sub_at, sub_bytes; /* where the packed sub-scales stand; sub_bytes: K-quants, which keep them as they are */
    float unit;            /* sub-scales and mins are so many of d; 0: one of d, and one of dmin */
    bool sub_signed;       /* sub-scales are I8, not U8 */
    void (*codes)(const uint8_t *block, uint8_t *out); /* `values` bytes */
    /* scale and min of group j as small integers */
    void (*sub_scale)(const uint8_t *packed, int j, int *scale, int *min);
    const int8_t *levels; /* microscaling: twice the value of each code, and the scale is a power of two, one byte */
    void (*floats)(const uint8_t *block, float *out); /* scales of too few values: floats and nothing else; mode NULL */
} BlockFormat;

/* One f32 scale and bias per group: codes that are not kept as they are, of scales that are. */
bool block_scales_are_wide(const BlockFormat *f);

/* NULL for float types and for types that are not read. */
const BlockFormat *block_format(uint32_t type);

float half_to_float(uint16_t h);
uint16_t half_from_float(float f); /* nearest even; overflow gives infinity */

/* Scale and min of group j of a block. */
void block_scale(const BlockFormat *f, const uint8_t *block, int j, float *scale, float *min);
/* Codes as a little-endian bit stream; n is a multiple of 8. Writes n * bits / 8 bytes. */
void pack_codes(const uint8_t *codes, int n, int bits, uint8_t *out);

/* The reference decoder: one row of n values (whole blocks) of a quantised or float type; false for other types. */
bool gguf_dequantize_row(uint32_t type, const uint8_t *row, int64_t n, float *out);

#endif
