/* GGUF to a checkpoint folder: safetensors in MLX layout, config.json, tokenizer and generation files.
 *
 * Codes and scales are carried over exactly. A module P of shape [rows, K] becomes:
 * - F32, F16, BF16: P.weight as it is.
 * - Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: affine, group 32, 4, 5 or 8 bits. P.weight U32 [rows, K * bits / 32], P.scales and
 *   P.biases F16 [rows, K / 32] holding the source's d, and m or -offset * d. Where that product passes the range of
 * F16, both of the module are F32.
 * - Q2_K to Q6_K: super-blocks, an extension of the MLX layout (`"mode": "q4_k"` in the quantization block of
 *   config.json), the size of the GGUF. K is a multiple of 256; per super-block of 256 values:
 *     P.weight U32 [rows, K * bits / 32]  unsigned codes, packed as affine ones are (q3_k + 4, q6_k + 32)
 *     P.scales [rows, n]                  q2_k: U8, K / 16: scale in the low nibble, min in the high one, per 16 values
 *                                         q3_k: U8, K / 256 * 12: 16 6-bit scales, packed as in GGUF, + 32
 *                                         q4_k, q5_k: U8, K / 256 * 12: 8 pairs of 6-bit scale and min, as in GGUF
 *                                         q6_k: I8, K / 16: a scale per 16 values
 *     P.d F16 [rows, K / 256], and P.dmin likewise for q2_k, q4_k, q5_k
 *   w = (d * scale) * (code - offset) - (dmin * min), products in f32 (offset 4 for q3_k, 32 for q6_k, else 0).
 * - IQ4, IQ3, IQ2_XXS, IQ1_S: affine, group 32, their looked-up values as codes; scales and biases F32 (IQ4_NL: F16).
 *   TQ1_0, TQ2_0, Q1_0: affine, group 128; Q2_0: 64. IQ2_XS, IQ2_S, IQ1_M: F32.
 * With `mlx`, q4_k and q5_k become affine of group 32 with F32 scales and biases, and types with groups of 16, which
 * MLX does not have, F16 weights. */
#ifndef LOCKSTEP_CONVERT_IMPORT_GGUF_H
#define LOCKSTEP_CONVERT_IMPORT_GGUF_H

#include "base/error.h"

#include <stdint.h>

typedef struct ImportOptions {
    bool mlx;   /* only what mlx-lm loads */
    bool force; /* replace a folder that is there */
    void *context;
    /* Bytes of weights written and in all. False stops the import (an error, with nothing left behind). NULL: none. */
    bool (*progress)(void *context, uint64_t done, uint64_t total);
    /* A line the person should read: what was widened, assumed or filled in. NULL: none. */
    void (*log)(void *context, const char *line);
} ImportOptions;

/* Writes out_dir.part and renames it; on failure neither is there (an old out_dir is kept). options NULL: all off. */
bool import_gguf(const char *path, const char *out_dir, const ImportOptions *options, Error *err);

#endif
