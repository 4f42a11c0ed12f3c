/* Rotary scaling of a GGUF file: metadata and rope_freqs.weight to the rope_scaling of config.json. */
#ifndef LOCKSTEP_CONVERT_GGUF_ROPE_H
#define LOCKSTEP_CONVERT_GGUF_ROPE_H

#include "convert/gguf_model.h"

/* Reads the rope fields of a model whose head_dim and context are known; refuses what has no equal. */
bool gguf_rope_read(GgufModel *model, Error *err);
/* The "rope_scaling" value as JSON; nothing for plain rotation. */
void gguf_rope_write(const GgufModel *model, Buffer *out);

/* Its members alone, without braces. */
void gguf_rope_members(const GgufModel *model, Buffer *out);

#endif
