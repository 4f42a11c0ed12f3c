/* Routed experts, for feed-forwards that have them beside something else. */
#ifndef LOCKSTEP_MODEL_FFN_EXPERTS_H
#define LOCKSTEP_MODEL_FFN_EXPERTS_H

#include "model/bind.h"
#include "model/step.h"

/* Asks for router and experts, and for the shared expert if there is one. */
bool experts_bind(Binder *b, const LayerSpec *layer_spec, int layer, LayerWeights *out);
/* The weighted sum over each row's chosen experts: out [n][hidden]. router_x and x [n][hidden]: what the router and
 * what the experts read. False: out of memory. */
bool experts_routed(Step *s, int layer, const float *router_x, const float *x, float *out);

#endif
