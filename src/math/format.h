/* Weight formats: what a checkpoint's tensor holds, before it becomes a Linear. One row per format in format.c; a
 * format maps onto one of a few tile storages (tile.h) or stays a row-major float matrix, and only those meet
 * instruction sets. */
#ifndef LOCKSTEP_MATH_FORMAT_H
#define LOCKSTEP_MATH_FORMAT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef enum WeightFormat {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_AFFINE, /* MLX: w = q * scale + bias; bits 2, 3, 4, 5, 6, 8; group 32, 64, 128 */
    WEIGHT_MXFP4,  /* E2M1 codes, group 32, E8M0 scales */
    WEIGHT_NVFP4,  /* E2M1 codes, group 16, E4M3 scales */
    WEIGHT_MXFP8,  /* E4M3 codes, group 32, E8M0 scales: a float weight */
    WEIGHT_Q2_K,   /* K-quants: see convert/import_gguf.h for the layout on disk */
    WEIGHT_Q3_K,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    /* What published checkpoints are laid out as (packed.h): */
    WEIGHT_SIGNED, /* w = (q - 2^(bits - 1)) * scale; bits and group as affine */
    WEIGHT_FP4,    /* E2M1 codes, group 16, f32 scales */
    WEIGHT_FP8,    /* E4M3 codes, an f32 scale per 128 inputs, the last of them perhaps fewer: a float weight */
} WeightFormat;

typedef enum ScaleType { SCALE_F32, SCALE_F16, SCALE_BF16 } ScaleType;

/* A weight matrix as it lies in the checkpoint, row-major, [rows, cols] = [outputs, inputs]. Pointers may be unaligned
 * and are only borrowed. */
typedef struct WeightSource {
    WeightFormat format;
    int bits, group; /* integer formats */
    int64_t rows, cols;
    const void *codes;  /* floats, or packed codes: an MLX little-endian bit stream along cols */
    const void *scales; /* affine, signed: scale_type; MX and NV: u8; K-quants: sub-scales; FP4, FP8: f32 */
    const void *biases; /* affine: scale_type */
    ScaleType scale_type;
    const void *d, *dmin; /* K-quants: f16 [rows, cols / 256] */
    const int32_t *order; /* integer formats: [cols], column k is of input order[k]; NULL: they are in order */
    const void *signs;    /* integer formats: [cols] f32, unaligned, 1 or -1: inputs are multiplied by them and then */
    int turned;           /* turned block by block (hadamard.h) in blocks of this size; 0: neither */
} WeightSource;

/* "affine 4-bit g64", "f16", "q4_k" into out. */
void weight_format_name(const WeightSource *source, char *out, size_t capacity);

/* Bytes per row of codes, of scales (and of biases), of d (and of dmin): what a binder checks shapes with. */
typedef struct WeightRowBytes {
    uint64_t codes, scales, d;
} WeightRowBytes;
/* False when bits, group and cols do not fit together, with the reason. */
bool weight_row_bytes(const WeightSource *source, WeightRowBytes *out, Error *err);

/* The definition of every format: row `row` of the matrix as floats, out [cols]. Integer formats: fma((float)q, scale,
 * bias), bias 0 where the format has none (then the product is rounded once). */
void weight_row(const WeightSource *source, int64_t row, float *out);

#endif
