/* The feed-forward's parts that experts share with it. */
#ifndef LOCKSTEP_MODEL_FFN_MLP_H
#define LOCKSTEP_MODEL_FFN_MLP_H

#include "model/bind.h"
#include "model/step.h"

/* Asks for the weights of one feed-forward. */
bool mlp_bind(Binder *b, const MlpSpec *spec, int layer, MlpWeights *out);
/* x [n][hidden] -> out [n][hidden]. False: out of memory. */
bool mlp_run(Step *s, const MlpSpec *spec, const MlpWeights *w, int layer, const float *x, float *out);
/* What stands between the projections: up [rows][width] becomes the input of down, in place. gate: NULL without one; it
 * is scratch afterwards. */
void mlp_activate(const Step *s, const MlpSpec *spec, float *gate, float *up, int rows);
void mlp_describe(const MlpSpec *spec, Buffer *out);

#endif
