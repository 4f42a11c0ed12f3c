/* The table of architectures that are imported: for each, which tensors it has and where they go, and which metadata
 * becomes which key of config.json. A row is data; what a table can not say is in two functions of the row. */
#ifndef LOCKSTEP_CONVERT_GGUF_ARCHITECTURE_H
#define LOCKSTEP_CONVERT_GGUF_ARCHITECTURE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

typedef struct GgufModel GgufModel;

/* Whose size a dimension of a tensor has. */
typedef enum TensorSize {
    SIZE_NONE,
    SIZE_ANY, /* not the same in all layers, or made of several: the loader compares it with config.json */
    SIZE_ONE,
    SIZE_HIDDEN,
    SIZE_QUERY,
    SIZE_KEY,
    SIZE_HEAD,
    SIZE_FFN,
    SIZE_VOCAB,
    SIZE_EXPERTS,
    SIZE_EXPERT_FFN,
    SIZE_SHARED_FFN,
    SIZE_COUNT
} TensorSize;

/* What stands in another order in the file: rows of a head interleaved, or the value heads of a delta rule, of which
 * the file has the first of each key head, then the second of each (at the end of the rows; one row a head; in a row).
 */
typedef enum RowOrder {
    ROWS_AS_IS,
    ROWS_OF_QUERY,
    ROWS_OF_KEY,
    ROWS_OF_VALUES,
    ROWS_OF_VALUE_HEADS,
    COLUMNS_OF_VALUES
} RowOrder;

enum {
    RULE_OPTIONAL = 1,
    RULE_WHOLE = 2,       /* both names are of tensors, nothing is added */
    RULE_STACKED = 4,     /* all experts in one tensor */
    RULE_MINUS_ONE = 8,   /* the file holds 1 + weight */
    RULE_LOG_OF_NEG = 16, /* the file holds -exp(x) */
    RULE_GATE_UP = 32,    /* experts, gate above up in each: becomes .gate_proj and .up_proj */
    RULE_ABOVE_UP = 64,   /* a gate below which the tensor of up is put; up's own rule goes nowhere */
    RULE_CONV = 128,      /* channels by kernel: [channels, kernel, 1], as MLX has it */
    RULE_B_A = 256,       /* b and a of each of `groups` heads in turns: becomes .in_proj_b and .in_proj_a */
    RULE_LATER = 512,     /* left out of the first layer, where it means nothing */
    RULE_MIXES = 1024,    /* six vectors in one, of RWKV: becomes .x_r, .x_w, .x_k, .x_v, .x_a and .x_g */
    RULE_QKV = 2048,      /* queries, keys and values one after the other: becomes .q_proj, .k_proj and .v_proj */
    RULE_APART = 4096,    /* a stack whose matrices become .0, .1 and so on */
    RULE_PADDED = 8192,   /* rows of zeros at the end are none of the checkpoint's */
    RULE_BY_HEAD = 16384  /* a vector as [heads, values of a head] */
};

typedef struct TensorRule {
    const char *from, *to; /* to NULL: part of another's; "blk.*.attn_q" without .weight or .bias, and the module's
                              name; * layer, # expert */
    TensorSize out, in;    /* in: SIZE_NONE for a vector */
    RowOrder order;        /* undone when the architecture or the model permutes */
    int flags;
    int bias_group; /* not 0: biases of a group come together, a missing one is filled with zeros */
} TensorRule;

typedef enum FieldKind { FIELD_KNOWN, FIELD_COUNT, FIELD_SIZE, FIELD_NUMBER, FIELD_BOOL } FieldKind;

/* A key without the architecture's prefix and its name in config.json. A KNOWN one is not written by itself. */
typedef struct ConfigField {
    const char *from, *to;
    FieldKind kind;
    bool required;
} ConfigField;

enum { BIASES_ATTENTION = 1, BIASES_MLP = 2, BIASES_OTHER = 3, N_BIAS_GROUPS = 4, MAX_RULE_LISTS = 8 };

typedef struct Architecture {
    const char *name;       /* general.architecture, and the prefix of its keys */
    const char *model_type; /* of config.json */
    const char *class_name; /* "LlamaForCausalLM" */
    const char *root;       /* before all names: "language_model."; NULL: nothing */
    /* Of several rows with one name the first that fits; NULL fits. */
    bool (*fits)(const GgufModel *model);
    const TensorRule *rules[MAX_RULE_LISTS];    /* lists, each ended by a rule without names */
    const ConfigField *fields;                  /* ended by one without a name; beside those that all have */
    const char *bias_keys[N_BIAS_GROUPS];       /* config.json's word for a group; NULL: the family always has it */
    const char *constants;                      /* more of config.json: "  \"hidden_act\": \"silu\",\n" */
    const char *eps_name;                       /* NULL: rms_norm_eps */
    const char *expert_width;                   /* NULL: experts are as wide as intermediate_size says */
    bool permuted;                              /* rows of q and k stand in the order of interleaved rotation */
    bool mixed;                                 /* layers differ: which tensors each needs is left to the loader */
    bool partial;                               /* some of a head may be rotated */
    bool encoder;                               /* attention looks both ways */
    double mscale;                              /* yarn_log_multiplier times this is mscale_all_dim; 0: it must be 0 */
    bool yarn_exact;                            /* yarn's range is not rounded to whole dims */
    bool nested_rope;                           /* all of it in "rope_parameters" */
    bool own_heads, own_rope;                   /* read and written by the functions below */
    bool (*read)(GgufModel *model, Error *err); /* after the common keys; NULL: nothing */
    bool (*write)(const GgufModel *model, Buffer *config, Error *err); /* more members, each "  ...,\n"; NULL */
} Architecture;

/* The rows, ended by NULL. */
extern const Architecture *const gguf_architectures[];

/* Lists of rules that architectures share. */
extern const TensorRule gguf_rules_model[], gguf_rules_norms[], gguf_rules_attention[], gguf_rules_qkv_biases[],
    gguf_rules_head_norms[], gguf_rules_whole_norms[], gguf_rules_mlp[], gguf_rules_experts[],
    gguf_rules_shared_expert[], gguf_rules_shared_experts[], gguf_rules_block_experts[], gguf_rules_norms_around[],
    gguf_rules_layer_inputs[];

/* Architectures, by file. */
extern const Architecture gguf_llama, gguf_mixtral, gguf_granite, gguf_granite_moe, gguf_smollm3, gguf_ministral3,
    gguf_mistral3, gguf_seed_oss, gguf_internlm2;
extern const Architecture gguf_qwen2, gguf_qwen2_vl, gguf_qwen3, gguf_qwen2_moe, gguf_qwen3_moe, gguf_qwen3_vl,
    gguf_qwen3_vl_moe;
extern const Architecture gguf_gemma, gguf_gemma2, gguf_gemma3, gguf_gemma_embedding;
extern const Architecture gguf_gemma3n;
extern const Architecture gguf_gemma4;
extern const Architecture gguf_phi2, gguf_phi3;
extern const Architecture gguf_deepseek, gguf_deepseek_v2, gguf_deepseek_v3;
extern const Architecture gguf_bailing_moe2;
extern const Architecture gguf_minicpm;
extern const Architecture gguf_lfm2, gguf_lfm2_moe;
extern const Architecture gguf_gpt_oss;
extern const Architecture gguf_qwen3_next, gguf_qwen3_next_newer, gguf_qwen3_5, gguf_qwen3_5_moe;
extern const Architecture gguf_glm, gguf_glm4, gguf_glm4_moe;
extern const Architecture gguf_exaone4;
extern const Architecture gguf_bert, gguf_nomic_bert, gguf_modern_bert;
extern const Architecture gguf_olmo2, gguf_olmo3, gguf_olmoe;
extern const Architecture gguf_starcoder2;
extern const Architecture gguf_command_r, gguf_cohere2;
extern const Architecture gguf_mamba, gguf_falcon_mamba, gguf_granite_hybrid, gguf_falcon_h1;
extern const Architecture gguf_mamba2, gguf_nemotron_h, gguf_nemotron_h_moe;
extern const Architecture gguf_jamba;
extern const Architecture gguf_rwkv7;
extern const Architecture gguf_bitnet;
extern const Architecture gguf_llama4;
extern const Architecture gguf_minimax_m2;
extern const Architecture gguf_ernie4_5, gguf_ernie4_5_moe;
extern const Architecture gguf_stablelm;

#endif
