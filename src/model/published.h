/* The quantization_config of Hugging Face checkpoints (quant_method: awq, gptq, fp8, fbgemm_fp8, compressed-tensors,
 * mxfp4, bitnet): which modules are quantised, and how their tensors hold it. docs/formats.md lists the keys. */
#ifndef LOCKSTEP_MODEL_PUBLISHED_H
#define LOCKSTEP_MODEL_PUBLISHED_H

#include "model/module_list.h"

/* Which tensors a quantised module has in place of, or beside, NAME.weight. */
typedef enum PublishedStorage {
    STORED_FLOATS,  /* nothing is quantised */
    STORED_AWQ,     /* .qweight .qzeros .scales */
    STORED_GPTQ,    /* the same, and .g_idx */
    STORED_FP8,     /* .weight in E4M3, .weight_scale_inv or .weight_scale */
    STORED_TERNARY, /* .weight, four to a byte, .weight_scale */
    STORED_ONLINE,  /* .weight in floats, which become ternary when they run */
    STORED_BLOCKS,  /* NAME_blocks, NAME_scales: MXFP4 */
    STORED_PACKED,  /* .weight_packed .weight_scale .weight_zero_point .weight_shape .weight_g_idx */
    STORED_BYTES,   /* .weight in I8, .weight_scale .weight_zero_point */
    STORED_NVFP4,   /* .weight_packed, .weight_scale in E4M3, .weight_global_scale */
    STORED_MXFP4,   /* .weight_packed, .weight_scale in E8M0 */
    STORED_MXFP8,   /* .weight in E4M3, .weight_scale in E8M0, groups of 32 */
} PublishedStorage;

typedef struct PublishedWeights {
    PublishedStorage storage;
    int bits;
    int64_t group;              /* inputs that share a scale; 0: all of an output, or of the matrix */
    int block_rows, block_cols; /* of FP8 blocks; 0: a scale per output or for the matrix, as its tensor's shape says */
    bool asymmetric;            /* there are zero points */
} PublishedWeights;

/* Modules that are quantised alike; all others are floats. */
typedef struct PublishedRule {
    ModuleList targets; /* empty: every module */
    PublishedWeights weights;
} PublishedRule;

typedef struct Published {
    const char *method; /* as config.json spells it; NULL: nothing was published so */
    PublishedRule *rules;
    int n_rules;
    ModuleList skipped;
    bool zeros_less_one; /* GPTQ: zero points are stored minus one */
    bool sizes_vary;     /* GPTQ: bits and groups are those of the tensors (`dynamic`) */
    bool skips_head;     /* BitNet online: without a list, the head is not quantised */
    bool inverse;        /* BitNet: weights are divided by their scale */
    char note[256];      /* what inspect says: the form, and what of it is not applied */
} Published;

/* Keys of the block that --ignore-config passes over: "quantization_config.KEY". */
typedef struct IgnoredKeys {
    const char *const *keys;
    int n;
} IgnoredKeys;

/* block: an object with quant_method. Every key is used, known to be without effect on the result, or refused. Strings
 * are borrowed from the config. Nothing to clear on failure. */
bool published_read(const JsonValue *block, const IgnoredKeys *ignored, Published *out, Error *err);
void published_clear(Published *p);

/* How a module's weights are stored; NULL: as floats. False when matching its name failed. */
bool published_module(const Published *p, const char *module, const PublishedWeights **out, Error *err);

#endif
