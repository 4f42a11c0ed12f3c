/* Binding: every weight that a blueprint names is found in the checkpoint once, its shape checked, and only when all of
 * them are right is memory taken. The step never looks a name up. */
#ifndef LOCKSTEP_MODEL_BIND_H
#define LOCKSTEP_MODEL_BIND_H

#include "file/checkpoint.h"
#include "math/linear.h"
#include "model/blueprint.h"

/* The weights of a layer, beside its LayerSpec. The Linears and vectors belong to the Weights that made them. */
typedef struct LayerWeights {
    const float *mixer_norm, *ffn_norm; /* [hidden] */
    const Linear *q, *k, *v, *o;        /* mixer_attention */
    const Linear *gate, *up, *down;     /* ffn_gated_mlp */
} LayerWeights;

typedef struct Weights {
    LayerWeights *layers;
    const Linear *embedding, *head; /* the same one when tied */
    const float *final_norm;
    Linear **linears; /* all that are owned, in the order of binding */
    float **vectors;
    int n_linears, n_vectors;
    char **formats; /* of each linear, for inspect: "affine 4-bit g64" */
    char **skipped; /* names of tensors that the family does not use; owned */
    int n_skipped;
} Weights;

typedef struct Binder Binder;

/* Asks for module `spec` of layer `layer` (-1: outside the layers) as a [rows, cols] matrix, with its bias if it has
 * one. *out is set when memory is taken. Errors name the tensor, the expected and the found shape. */
bool bind_linear(Binder *b, LinearSpec spec, int layer, int64_t rows, int64_t cols, const Linear **out);
/* Asks for a float tensor of n values; copied to f32. */
bool bind_vector(Binder *b, const char *name, int layer, int64_t n, const float **out);
/* A spec that cannot be: "model.layers.3...: reason". Returns false. */
bool bind_fail(Binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int bind_hidden(const Binder *b);

bool weights_bind(const Checkpoint *checkpoint, const Blueprint *blueprint, const Family *family, Pool *pool,
                  Weights *out, Error *err);
void weights_clear(Weights *w);

#endif
