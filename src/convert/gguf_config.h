/* config.json of an import. */
#ifndef LOCKSTEP_CONVERT_GGUF_CONFIG_H
#define LOCKSTEP_CONVERT_GGUF_CONFIG_H

#include "convert/gguf_model.h"

/* The whole file; `quantization` is the JSON of that block, or NULL. */
bool gguf_config(const GgufModel *model, const char *quantization, Buffer *out, Error *err);

/* "  "name": value,\n" with the shortest decimal that names the same float32. */
void gguf_config_number(Buffer *out, const char *name, double value);
void gguf_config_count(Buffer *out, const char *name, int64_t value);
/* The decimal alone. */
void gguf_number_repr(double value, Buffer *out);
/* Its value. */
double gguf_shortest(double value);
/* "vocab_size_per_layer_input", where layers have inputs of their own. */
void gguf_config_layer_vocabulary(const GgufModel *model, Buffer *out);
/* The width of one of a mixer's heads, by the name that the family has for it. */
bool gguf_config_ssm_head(const GgufModel *model, const char *name, Buffer *out, Error *err);
/* "layer_types": `yes` where gguf_layer_value(key) is not 0, else `no`; where the key is absent, `no` for every
 * `period`-th layer (0: for none). */
void gguf_config_layer_types(const GgufModel *model, const char *key, int period, const char *yes, const char *no,
                             Buffer *out);

#endif
