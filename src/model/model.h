/* A model: a blueprint with its weights bound, and the one forward path. */
#ifndef LOCKSTEP_MODEL_MODEL_H
#define LOCKSTEP_MODEL_MODEL_H

#include "base/buffer.h"
#include "file/checkpoint.h"
#include "model/classifier.h"
#include "model/row.h"

/* The numeric settings: exactly what may change a byte of an answer. */
typedef struct NumericSettings {
    KvFormat kv;         /* KV_I16 */
    int activation_bits; /* 16 */
} NumericSettings;

typedef struct ModelOptions {
    NumericSettings numeric;
    const char *const *ignore_config; /* keys of config.json to pass over (--ignore-config) */
    int n_ignore_config;
    int context; /* --ctx; 0: the config's maximum */
} ModelOptions;

typedef struct Model Model;

/* What the steps of a model have done so far. An expert that any rows of a step chose counts once for that layer and
 * step, and its tiles (of 16 outputs) are unpacked once, however many rows go through it. */
typedef struct ModelCounts {
    uint64_t experts, expert_tiles;
} ModelCounts;

/* Reads the config, checks every key, tensor name and shape, then lays out the weights. The checkpoint must outlive the
 * model (float weights stay mapped). The pool is used for loading and for every step; it must outlive the model. */
Model *model_load(const Checkpoint *checkpoint, const ModelOptions *options, Pool *pool, Error *err);
void model_free(Model *m);

int model_vocab_size(const Model *m);
int model_context(const Model *m);     /* positions a sequence may have: --ctx or the config's maximum */
int model_max_context(const Model *m); /* what the config allows */
/* Rotary tables that depend on length (longrope) are chosen by the length of the prefix that is scored, for all its
 * positions. So a state has a side, state_side(): 0 short, 1 long, and one that crosses is restarted and run again. */
int model_side(const Model *m, int n_tokens); /* the side of a prefix of n_tokens */
int model_boundary(const Model *m);           /* the longest prefix on side 0; INT_MAX when there is one side only */
const StateShape *model_state_shape(const Model *m);
const NumericSettings *model_numeric(const Model *m);
/* Bytes of the weights that one decode step reads: scales included, KV not, and of experts those that are chosen. */
size_t model_step_bytes(const Model *m);
ModelCounts model_counts(const Model *m);
const char *model_family(const Model *m);

/* Runs one step. Appends keys and values of all rows to their states (which are grown as needed) and sets their
 * lengths. logits: [number of rows that want them][vocab], in row order; borrowed until the next step; NULL when none
 * wants any. faults: [n_rows], written. False (with err) only when nothing ran: out of memory, a token id out of range,
 * a position past the context, a state on the wrong side. A row that wants logits needs its state on the side of its
 * own prefix; one that does not serves a later row, and may be on that row's side. */
bool model_step(Model *m, const Row *rows, int n_rows, const float **logits, RowFault *faults, Error *err);

/* The same for what the final norm gives of the rows that want logits: vectors [number of them][model_hidden_size] in
 * place of logits. Of an encoder, whose rows see all of their sequence, a step has whole sequences, each with a state
 * of its own, which stays empty. An encoder, and a decoder saved without its head, have nothing else: model_has_head.
 */
bool model_step_vectors(Model *m, const Row *rows, int n_rows, const float **vectors, RowFault *faults, Error *err);
/* The fault of a row at `position` as an error: "position 3: a value that is not finite in layer 2, q_proj". Returns
 * false. */
bool model_fault_error(const RowFault *fault, int position, Error *err);
bool model_has_head(const Model *m);
/* What the model of a checkpoint would be for, by its config: no weight is read. False when the config is not one that
 * would load. */
typedef struct ModelPurpose {
    bool has_head;
    int n_labels; /* of a sequence classifier, which has no head; else 0 */
} ModelPurpose;
bool model_purpose(const Checkpoint *checkpoint, const ModelOptions *options, ModelPurpose *out, Error *err);
bool model_needs_head(const Model *m, Error *err); /* without one an error that says what it is for */
bool model_is_encoder(const Model *m);
int model_hidden_size(const Model *m);
int model_token_types(const Model *m); /* how many types a row's token may have; 1 where they make no difference */

/* A sequence classifier: labels (0: it is none), the rows of model_step_vectors that stand for a sequence, and the
 * padding token that is no last one (-1: none). */
int model_labels(const Model *m);
ClassifierPool model_classifier_pool(const Model *m);
int32_t model_classifier_padding(const Model *m);
/* Its logits [n][labels] of n pooled vectors [n][hidden]. False when out of memory, or when a value is not finite. */
bool model_classify(Model *m, const float *vectors, int n, float *logits, Error *err);

/* Runs later steps on another pool, which must outlive its use here: for `check`. */
void model_set_pool(Model *m, Pool *pool);
Pool *model_pool(const Model *m);

/* A hook that sees intermediate values, for `check`: called after each operation with the values of all rows (in the
 * last layer and the head, of those that want logits). NULL turns it off. */
typedef void ModelTap(void *context, int layer, const char *kind, const char *operation, const float *values, int rows,
                      int cols);
void model_set_tap(Model *m, ModelTap *tap, void *context);

/* What `inspect` prints: family, blueprint, formats, ignored keys, skipped tensors, memory at a context length. */
void model_describe(const Model *m, int context, Buffer *out);

#endif
