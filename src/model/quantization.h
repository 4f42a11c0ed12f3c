/* The quantisation that config.json describes: MLX's `quantization` (also spelled `quantization_config`), and the
 * K-quant extension that `lockstep import` writes. One default and overrides by module name, under the names of the
 * file. */
#ifndef LOCKSTEP_MODEL_QUANTIZATION_H
#define LOCKSTEP_MODEL_QUANTIZATION_H

#include "base/json.h"
#include "math/format.h"
#include "model/published.h"

typedef struct Quantization {
    const JsonValue *object; /* MLX's block; NULL: there is none; borrowed from the config */
    Published published;     /* a block with quant_method, in place of MLX's */
} Quantization;

typedef struct QuantSpec {
    WeightFormat format;
    int bits, group;
    bool off; /* `false`: the module is left as floats */
} QuantSpec;

/* Checks the whole block: the default and every override, or what published.h reads. */
bool quantization_read(const JsonValue *config, const IgnoredKeys *ignored, Quantization *out, Error *err);
void quantization_clear(Quantization *q);
/* What MLX's block says of a module ("model.layers.0.mlp.up_proj"): its override, else the default. */
QuantSpec quantization_of(const Quantization *q, const char *module);
/* What an import widened a module of floats from, and why: its block's "widened", which is ours; NULL: nothing. */
const char *quantization_widened(const Quantization *q, const char *module);

#endif
