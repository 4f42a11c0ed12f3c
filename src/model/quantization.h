/* The quantisation that config.json describes: MLX's `quantization` (also spelled `quantization_config`), and the
 * K-quant extension that `lockstep import` writes. One default and overrides by module name, under the names of the
 * file. */
#ifndef LOCKSTEP_MODEL_QUANTIZATION_H
#define LOCKSTEP_MODEL_QUANTIZATION_H

#include "base/json.h"
#include "math/format.h"

typedef struct Quantization {
    const JsonValue *object; /* NULL: the checkpoint says nothing; borrowed from the config */
} Quantization;

typedef struct QuantSpec {
    WeightFormat format;
    int bits, group;
    bool off; /* `false`: the module is left as floats */
} QuantSpec;

/* Checks the whole block: the default and every override. A block with quant_method (AWQ, GPTQ, FP8) is refused by
 * name. */
bool quantization_read(const JsonValue *config, Quantization *out, Error *err);
/* What holds for a module ("model.layers.0.mlp.up_proj"): its override, else the default. */
QuantSpec quantization_of(const Quantization *q, const char *module);

#endif
