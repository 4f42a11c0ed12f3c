/* What a GGUF file says its model is: the metadata read and checked once, before anything is written. */
#ifndef LOCKSTEP_CONVERT_GGUF_MODEL_H
#define LOCKSTEP_CONVERT_GGUF_MODEL_H

#include "base/buffer.h"
#include "convert/import_gguf.h"
#include "file/gguf.h"

/* Whose size a dimension of a tensor has. */
typedef enum TensorSize { SIZE_NONE, SIZE_HIDDEN, SIZE_QUERY, SIZE_KEY, SIZE_FFN, SIZE_VOCAB, SIZE_COUNT } TensorSize;

/* Which heads' rows are interleaved in the file. */
typedef enum RowOrder { ROWS_AS_IS, ROWS_OF_QUERY, ROWS_OF_KEY } RowOrder;

typedef struct TensorRule {
    const char *from, *to; /* "blk.*.attn_q" without .weight or .bias, and the module's name; * is the layer */
    TensorSize out, in;    /* in: SIZE_NONE for a vector */
    RowOrder order;        /* undone when the architecture permutes */
    bool optional;
    int bias_group; /* not 0: biases of a group come together, a missing one is filled with zeros */
} TensorRule;

typedef struct Architecture {
    const char *name;       /* general.architecture, and the prefix of its keys */
    const char *model_type; /* of config.json */
    const char *class_name; /* "LlamaForCausalLM" */
    bool permuted;          /* rows of q and k stand in the order of interleaved rotation */
    const TensorRule *rules;
    int n_rules;
    const char *const *known_keys; /* without the prefix; any other key is refused. NULL-terminated */
} Architecture;

enum { BIASES_ATTENTION = 1, BIASES_MLP = 2, N_BIAS_GROUPS = 3 };

typedef enum RopeKind { ROPE_PLAIN, ROPE_LINEAR, ROPE_YARN, ROPE_LLAMA3 } RopeKind;

typedef struct GgufModel {
    const Gguf *file;
    const Architecture *arch;
    int64_t size[SIZE_COUNT];
    int64_t n_layers, n_heads, n_kv_heads, head_dim, context;
    double norm_eps, rope_theta;
    RopeKind rope;
    double rope_factor, rope_low, rope_high, beta_fast, beta_slow; /* 0: not said */
    int64_t rope_original;
    bool tied, biases[N_BIAS_GROUPS];
} GgufModel;

/* Fills model; refuses other architectures, experts, unknown keys and tensors, wrong shapes, missing tensors. */
bool gguf_model_read(GgufModel *model, const Gguf *file, Error *err);
/* config.json; `quantization` is the JSON of that block, or NULL. */
bool gguf_model_config(const GgufModel *model, const char *quantization, Buffer *out, Error *err);

/* The rule of a tensor, its layer (-1: none) and whether it is the bias; NULL for a tensor that has none. */
const TensorRule *gguf_rule(const Architecture *arch, const char *name, int64_t *layer, bool *bias);
/* A name of a rule with its layer put in, and a suffix. */
void gguf_rule_name(const char *pattern, int64_t layer, const char *suffix, char *out, size_t capacity);
/* The shortest decimal that names the same float32. */
void gguf_number_repr(double value, Buffer *out);

/* "llama.block_count" of the model's architecture. */
const GgufValue *gguf_model_find(const GgufModel *model, const char *key);

#endif
