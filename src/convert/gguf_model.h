/* What a GGUF file says its model is: the metadata read and checked once, before anything is written. */
#ifndef LOCKSTEP_CONVERT_GGUF_MODEL_H
#define LOCKSTEP_CONVERT_GGUF_MODEL_H

#include "convert/gguf_architecture.h"
#include "convert/import_gguf.h"
#include "file/gguf.h"

typedef enum RopeKind { ROPE_PLAIN, ROPE_LINEAR, ROPE_YARN, ROPE_LLAMA3, ROPE_LONG } RopeKind;

struct GgufModel {
    const Gguf *file;
    const Architecture *arch;
    int64_t size[SIZE_COUNT];
    int64_t n_layers, n_heads, n_kv_heads, head_dim, context; /* n_kv_heads: of the layers that have any */
    int64_t n_extra; /* layers after those, which predict further tokens and are left out */
    int64_t rotated; /* dims of a head */
    double norm_eps, rope_theta;
    RopeKind rope;
    double rope_factor, rope_low, rope_high, beta_fast, beta_slow; /* 0: not said */
    double attention_factor, mscale;                               /* likewise */
    int64_t rope_original;
    int64_t groups, value_heads, value_dim;         /* of a delta rule: key heads and the others */
    bool turned;                                    /* the value heads' order is undone */
    bool tiled;                                     /* it is left as it is, and config.json says so */
    const GgufTensor *short_factors, *long_factors; /* ROPE_LONG */
    bool tied, biases[N_BIAS_GROUPS];
};

/* Fills model; refuses other architectures, unknown keys and tensors, wrong shapes, missing tensors. */
bool gguf_model_read(GgufModel *model, const Gguf *file, Error *err);

/* Whether the value heads of a delta rule can be turned, whose counts are known: where the groups of the checkpoint do
 * not span them; in MLX's own forms no group is a super-block. */
void gguf_model_turn(GgufModel *model, bool mlx);

/* Where a tensor of the file goes. */
typedef struct TensorPlace {
    const TensorRule *rule;
    int64_t layer, expert; /* -1: none */
    bool bias;
} TensorPlace;

/* Whether a tensor belongs to the layers that are left out. */
bool gguf_is_extra(const GgufModel *model, const char *name);
/* False for a tensor that has no rule. */
bool gguf_place(const Architecture *arch, const char *name, TensorPlace *place);
/* A name of a rule with its layer and expert put in, and a suffix. */
void gguf_rule_name(const char *pattern, int64_t layer, int64_t expert, const char *suffix, char *out, size_t capacity);

/* "llama.block_count" of the model's architecture. */
const GgufValue *gguf_model_find(const GgufModel *model, const char *key);
/* A size, or one per layer that are all the same; absent: the fallback, or an error when that is 0. */
bool gguf_model_size(const GgufModel *model, const char *key, int64_t fallback, int64_t *out, Error *err);
/* A number; absent: the fallback. */
bool gguf_model_number(const GgufModel *model, const char *key, double fallback, double *out, Error *err);
/* The layer's item of a list or the value for all layers, a count or a bool; `absent` when there is none. */
double gguf_layer_value(const GgufModel *model, const char *key, int64_t layer, double absent);
/* The tensor "blk.LAYER.NAME"; NULL: the file has none. */
const GgufTensor *gguf_layer_tensor(const GgufModel *model, int64_t layer, const char *name);

#endif
