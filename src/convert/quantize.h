/* A float checkpoint becomes a quantised one in MLX layout, tensor for tensor what mlx_lm.convert writes. */
#ifndef LOCKSTEP_CONVERT_QUANTIZE_H
#define LOCKSTEP_CONVERT_QUANTIZE_H

#include "base/error.h"
#include "base/pool.h"

#include <stdint.h>

typedef struct QuantizeOptions {
    const char *mode;   /* "affine", "mxfp4", "mxfp8", "nvfp4"; NULL: affine */
    int bits, group;    /* 0: the mode's own */
    const char *recipe; /* see quantize_recipe.h; NULL: none */
    Pool *pool;
    void *context;
    /* Bytes written and in all. False stops (an error; what was written is kept for the next run). NULL: none. */
    bool (*progress)(void *context, uint64_t done, uint64_t total);
    /* A line the person should read. NULL: none. */
    void (*log)(void *context, const char *line);
} QuantizeOptions;

/* Writes out_dir.part and renames it. When it stops on the way, out_dir.part stays, and the same call goes on from the
 * tensors that it holds. Refuses an out_dir that is there. */
bool quantize_folder(const char *folder, const char *out_dir, const QuantizeOptions *options, Error *err);

#endif
