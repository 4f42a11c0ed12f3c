/* Published quantised forms: a weight matrix as AutoAWQ, GPTQ, compressed-tensors, FP8 and BitNet checkpoints hold it,
 * laid out once, at load, as a WeightSource. w = (code - zero) * scale, rounded once to f32, is what each of them
 * means; docs/formats.md says which goes where. */
#ifndef LOCKSTEP_MATH_PACKED_H
#define LOCKSTEP_MATH_PACKED_H

#include "base/pool.h"
#include "math/format_rows.h"

typedef enum PackedCodes {
    PACKED_ROWS,    /* u32 [rows, words]: a little-endian bit stream along each row */
    PACKED_COLUMNS, /* u32 [words, rows]: such a stream along the inputs of each output (GPTQ) */
    PACKED_AWQ,     /* u32 [cols, rows / 8]: nibbles of eight outputs, in the order 0 2 4 6 1 3 5 7 */
    PACKED_BYTES,   /* i8 [rows, cols] */
    PACKED_TERNARY, /* u8 [rows / 4, cols]: two bits, value + 1, of rows r, r + rows / 4, ... */
    PACKED_FP4,     /* u8 [rows, cols / 2]: E2M1, the low nibble first */
    PACKED_FP8,     /* E4M3 [rows, cols] */
} PackedCodes;

/* Zero points: one for every scale. Where there are none, codes are taken as signed: the zero is 2^(bits - 1). */
typedef enum PackedZeros {
    ZEROS_NONE,
    ZEROS_COLUMNS,          /* u32 [groups, words]: a bit stream along the outputs (gptq_v2) */
    ZEROS_COLUMNS_LESS_ONE, /* the same of zero - 1 (GPTQ as AutoGPTQ saves it) */
    ZEROS_AWQ,              /* u32 [groups, rows / 8] */
    ZEROS_ROWS,             /* u32 [words, groups]: a bit stream along the outputs, zero + 2^(bits - 1) */
    ZEROS_BYTES,            /* i8, where scales lie */
} PackedZeros;

typedef enum PackedScale { PACKED_F32, PACKED_F16, PACKED_BF16, PACKED_E4M3, PACKED_E8M0 } PackedScale;

/* Pointers may be unaligned and are only borrowed. */
typedef struct PackedSource {
    PackedCodes form;
    int bits; /* of a code: 2 to 8 but 7, 4 with PACKED_AWQ and FP4, 8 with PACKED_BYTES and FP8, 2 when ternary */
    int64_t rows, cols;
    int64_t words; /* of a row, PACKED_ROWS; else 0 */
    int64_t group; /* inputs that share a scale; `cols` where a row has one. The last group may be smaller */
    const void *codes, *scales, *zeros;
    PackedZeros zero_form;
    PackedScale scale_type;
    /* The scale of row r and group g is number r / rows_per_scale * row_stride + g * group_stride. */
    int64_t rows_per_scale, row_stride, group_stride;
    bool inverse;         /* the weight is the code divided by the scale */
    float divisor;        /* what all scales are divided by; 0: 1 */
    const void *group_of; /* i32 [cols]: the group of each input, in any order; NULL: input / group */
} PackedSource;

enum { PACKED_NOTE = 96 };

/* Rows of the source, as tiles take them where that loses nothing, else as FP8 or f32. `out` may point into the source,
 * and into *copy, which is the caller's (mem_free) and must outlive `out`; NULL when there is none. note: why integers
 * became floats, or empty. Errors: a group_of that is out of range, memory. */
bool packed_pick(const PackedSource *from, const RowPick *pick, Pool *pool, WeightSource *out, void **copy,
                 char note[PACKED_NOTE], Error *err);

/* Floats as BitNet's layers make them ternary when they run: -1, 0 or 1 nearest to w / mean, times the mean magnitude
 * of the whole matrix. `out` points into *made, which is the caller's (mem_free). Rows and cols as those of `floats`.
 */
bool packed_ternarise(const WeightSource *floats, PackedSource *out, void **made, Error *err);

#endif
