/* What `lockstep quantize` writes: every tensor with its form, split over files as mlx-lm does. */
#ifndef LOCKSTEP_CONVERT_QUANTIZE_PLAN_H
#define LOCKSTEP_CONVERT_QUANTIZE_PLAN_H

#include "convert/quantize_recipe.h"
#include "math/encode.h"

/* One matrix or vector of the layout. */
typedef struct PlannedTensor {
    const LayoutTensor *source;
    bool is_float, quantized, own; /* own: config.json names it */
    QuantSpec spec;                /* when quantized, or own */
    ScaleType from, to;            /* floats: number format of the source, and after the cast */
    EncodeForm form;
    EncodeBytes row; /* bytes of a row: of the values themselves in `codes` where it is not quantized */
    int file, part;  /* which file, and the first of its tensors there: values, or codes, scales, biases */
} PlannedTensor;

typedef struct PlannedFile {
    char name[64];
    Tensor *tensors; /* owned */
    int n;
    size_t capacity;
    uint64_t bytes;
} PlannedFile;

typedef struct QuantizePlan {
    Layout layout;
    Recipe recipe;
    PlannedTensor *tensors; /* [layout.n] */
    int n;
    PlannedFile *files;
    int n_files;
    Arena names;
    uint64_t bytes, parameters; /* written in all; values before */
} QuantizePlan;

/* The recipe has been read into plan->recipe. */
bool quantize_plan(QuantizePlan *plan, const Checkpoint *checkpoint, Error *err);
void quantize_plan_clear(QuantizePlan *plan);
/* config.json and model.safetensors.index.json. */
bool quantize_config(const QuantizePlan *plan, Buffer *out, Error *err);
bool quantize_index(const QuantizePlan *plan, Buffer *out, Error *err);
/* A line that names this plan for this checkpoint: a run may go on only with what the same plan wrote. */
bool quantize_tag(const QuantizePlan *plan, Buffer *out, Error *err);

#endif
