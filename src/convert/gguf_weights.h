/* The tensors of an import: what each GGUF tensor becomes, and writing them. */
#ifndef LOCKSTEP_CONVERT_GGUF_WEIGHTS_H
#define LOCKSTEP_CONVERT_GGUF_WEIGHTS_H

#include "convert/gguf_model.h"

typedef struct WeightsPlan WeightsPlan;

/* Decides every tensor of the safetensors file; logs what is widened or filled in. */
WeightsPlan *weights_plan(const GgufModel *model, const ImportOptions *options, Error *err);
void weights_plan_free(WeightsPlan *plan);
/* The "quantization" block of config.json; empty when nothing is quantised. */
bool weights_plan_quantization(const WeightsPlan *plan, Buffer *out, Error *err);
/* Writes them, a row at a time. On failure the file is removed. */
bool weights_write(const WeightsPlan *plan, const char *path, Error *err);

/* The rows of a matrix up to the last that is not all zeros. */
int64_t gguf_rows_before_padding(const GgufTensor *t);

#endif
