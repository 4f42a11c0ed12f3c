/* How a folder wants vectors made of its model's rows: the files of sentence-transformers (modules.json and what it
 * names, config_sentence_transformers.json, sentence_bert_config.json) as plain data. Without modules.json a decoder's
 * last row counts, an encoder's mean, and both are brought to length 1. The same data says how scores of pairs are made
 * of a sequence classifier's (cross_encoder.h). */
#ifndef LOCKSTEP_ENGINE_EMBED_PLAN_H
#define LOCKSTEP_ENGINE_EMBED_PLAN_H

#include "base/buffer.h"
#include "engine/matryoshka.h"
#include "file/safetensors.h"
#include "math/linear.h"
#include "math/ops.h"
#include "math/pooling.h"

typedef enum StageKind {
    STAGE_DENSE, /* act(linear(x)), plus x where it is residual */
    STAGE_LAYER_NORM,
    STAGE_UNIT,       /* to length 1 */
    STAGE_CLASSIFIER, /* the model's own head: a logit per label */
    STAGE_ACT,        /* act(x) */
} StageKind;

/* What happens to the pooled vector, one after the other. */
typedef struct EmbedStage {
    StageKind kind;
    int inputs, outputs;
    Safetensors *file; /* NULL: none */
    Linear *linear;
    Activation act;
    bool residual;
    float *weight, *bias; /* of a layer norm */
} EmbedStage;

typedef struct EmbedPlan {
    int n_labels;     /* of a cross-encoder, whose vector is the score for each label; else 0 */
    bool one_type;    /* of a cross-encoder: all tokens are of type 0, whatever the post-processor says */
    bool by_template; /* of a cross-encoder: its files put pairs through a chat template */
    bool has_modules; /* modules.json is there */
    PoolSpec pool;
    bool without_prompt; /* pooling leaves a prompt's rows out */
    EmbedStage *stages;  /* owned */
    int n_stages;
    int size;        /* of a vector */
    int max_tokens;  /* of a text; 0: nothing says */
    bool lower_case; /* texts are lowercased first */
    Matryoshka cuts;
    JsonDoc *settings; /* config_sentence_transformers.json; NULL: absent */
} EmbedPlan;

/* hidden: of the model's rows. On failure nothing is left in *out. */
bool embed_plan_read(const char *folder, int hidden, bool encoder, Pool *pool, EmbedPlan *out, Error *err);
void embed_plan_clear(EmbedPlan *p);

/* For readers of other files: one more stage, of as many values as the vector has (NULL: out of memory); the length of
 * a text, and whether it is lowercased; the object in a file of the folder (*out NULL: there is no such file); a class
 * of torch by the last part of its name. */
EmbedStage *embed_plan_add(EmbedPlan *p, StageKind kind, Error *err);
bool embed_plan_read_lengths(const char *folder, EmbedPlan *p, Error *err);
bool embed_plan_file(const char *folder, const char *name, JsonDoc **out, Error *err);
bool embed_plan_activation(const char *name, Activation *out);

/* The text that goes before each text under this name; NULL: the default's, which may be NULL as well. False when there
 * is no such name; the error lists those there are. */
bool embed_plan_prompt(const EmbedPlan *p, const char *name, const char **out, Error *err);

/* The lines of `inspect`. */
void embed_plan_describe(const EmbedPlan *p, bool encoder, Buffer *out);

#endif
