/* A part: one tensor of the checkpoint that is made of a GGUF tensor, or of some of its rows. */
#ifndef LOCKSTEP_CONVERT_GGUF_PART_H
#define LOCKSTEP_CONVERT_GGUF_PART_H

#include "convert/gguf_blocks.h"
#include "file/gguf.h"
#include "file/safetensors.h"

typedef enum PartKind {
    PART_RAW,       /* the row's bytes */
    PART_CODES,     /* codes, packed */
    PART_SCALE,     /* the block's f16 scale as it is */
    PART_BIAS,      /* the block's f16 minimum as it is, or -offset * scale in f16 */
    PART_SCALE_F32, /* per group, multiplied out */
    PART_BIAS_F32,
    PART_SUB,       /* packed sub-scales */
    PART_DMIN,      /* the block's f16 minimum */
    PART_WIDE,      /* dequantised, rounded to f16 */
    PART_FLOATS,    /* dequantised, in f32 */
    PART_LEVEL,     /* the block's scale byte as it is */
    PART_MINUS_ONE, /* floats less 1, in f32 */
    PART_LOG_OF_NEG,
    PART_ZEROS, /* a bias that the file leaves out: no source */
} PartKind;

typedef struct Part {
    PartKind kind;
    const GgufTensor *source; /* NULL: zeros */
    const GgufTensor *below;  /* of the same type and shape, whose rows follow those of source; NULL: none */
    const BlockFormat *format;
    int64_t heads; /* rows are interleaved within so many heads; 0: as they are */
    int64_t rows;
    /* The last heads * dim rows (or the columns) are value heads of a delta rule, in the order of their key heads in
     * the checkpoint, one of each key head in turn in the source; 0: they are not. */
    int64_t value_heads, value_dim, key_heads;
    bool columns;
    bool conv;         /* with a last dimension of 1 */
    int64_t stack;     /* the rows are so many matrices one after the other; 0: one matrix */
    int64_t turns;     /* rows of this and of another take so many turns in the source; 0: they are all its rows */
    bool second;       /* the other's come first */
    int64_t first, of; /* these are the source's rows from `first`, of so many; 0: all */
    size_t row_bytes;
} Part;

/* Of F32, F16 and BF16. */
DType gguf_float_dtype(uint32_t type);
/* How many bytes a row has in the source. */
uint64_t part_source_row_bytes(const Part *part);
/* Makes row r in `row` [2 * row_bytes, of which the second half is for work], or points into the source; NULL for a
 * scale that is not finite, or a value that its tensor can not have. */
const uint8_t *part_row(const Part *part, int64_t r, uint8_t *row);

#endif
