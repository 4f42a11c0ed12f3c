/* A float checkpoint seen in the layout of MLX: each tensor there as a view of one or several tensors of the source.
 * Nothing is read but headers. */
#ifndef LOCKSTEP_CONVERT_MLX_LAYOUT_H
#define LOCKSTEP_CONVERT_MLX_LAYOUT_H

#include "base/arena.h"
#include "convert/mlx_family.h"
#include "file/checkpoint.h"

/* One tensor. Its matrix has n_sources * rows rows of cols values: all but the last axis are rows. Within a source,
 * element (row, col) is at offset + row / block_rows * block_stride + row % block_rows * row_stride + col * col_stride.
 */
typedef struct LayoutTensor {
    const char *name;
    DType dtype;
    int n_dims;
    int64_t shape[TENSOR_MAX_DIMS];
    const Tensor **sources; /* owned */
    int n_sources;
    size_t capacity;
    bool stacked, joined; /* of several sources, which are numbered; joined: without an axis for them */
    int64_t rows, cols;
    int64_t offset, block_rows, block_stride, row_stride, col_stride;
    bool add_one, unit_rows;
    /* Rows of the first section times scale[0], and so on; in the source's number format. */
    struct {
        int64_t end;
        float scale, and_scale; /* and_scale: what is multiplied with scale first; 1: nothing */
    } sections[5];
    int n_sections;
} LayoutTensor;

typedef struct Layout {
    const Checkpoint *checkpoint;
    const MlxFamily *family; /* NULL: mlx-lm does not have this model_type; names stay as they are */
    bool tied;
    Arena names;
    LayoutTensor *tensors;
    int n;
    size_t capacity;
} Layout;

/* Refuses forms that are not translated, experts that are missing or unequal, and views past their source. */
bool layout_make(Layout *l, const Checkpoint *checkpoint, Error *err);
void layout_clear(Layout *l);

int64_t layout_rows(const LayoutTensor *t); /* of all sources */
/* The bytes of a row, in the source where they lie together, else gathered in scratch [cols values]. */
const uint8_t *layout_row(const LayoutTensor *t, int64_t row, uint8_t *scratch);
/* What the rows [first, first + n) of one source span; for reading ahead and releasing. */
void layout_release(const LayoutTensor *t);

#endif
