/* Floats into the weight formats of MLX: codes, scales and biases equal bit for bit to what mlx.core.quantize (0.32)
 * writes on a CPU for an array of the same values and number format. `lockstep quantize` writes them; format.h reads
 * them. */
#ifndef LOCKSTEP_MATH_ENCODE_H
#define LOCKSTEP_MATH_ENCODE_H

#include "math/format.h"

/* A matrix to be encoded, and how. */
typedef struct EncodeForm {
    WeightFormat format; /* WEIGHT_AFFINE, WEIGHT_MXFP4, WEIGHT_NVFP4, WEIGHT_MXFP8 */
    int bits, group;     /* affine */
    int64_t cols;
    ScaleType type; /* the number format of the values: scales and biases of affine have it, and arithmetic that MLX
                       does in it is rounded to it */
} EncodeForm;

/* Bytes of a row of codes, of scales (and of biases: affine has as many, the others none), and of scratch. False where
 * bits, group and cols do not fit together, with the reason. */
typedef struct EncodeBytes {
    uint64_t codes, scales, biases;
    size_t scratch;
} EncodeBytes;
bool encode_row_bytes(const EncodeForm *form, EncodeBytes *out, Error *err);

/* One row: x [cols], every value representable in the form's number format. The outputs may be unaligned; biases is not
 * written where the format has none. scratch is aligned for floats. A value that is no number gets the code 0. */
void encode_row(const EncodeForm *form, const float *x, uint8_t *codes, uint8_t *scales, uint8_t *biases,
                void *scratch);

/* n values of F32, F16 or BF16 as floats, and back (nearest even, past the range infinite). Bytes may be unaligned. */
void floats_read(ScaleType type, const uint8_t *bytes, int64_t n, float *out);
void floats_write(ScaleType type, const float *x, int64_t n, uint8_t *bytes);
/* Rounded to the format, as floats. */
void floats_round(ScaleType type, float *x, int64_t n);
size_t scale_type_bytes(ScaleType type);

#endif
