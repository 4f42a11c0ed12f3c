/* RWKV's vocabulary in tokenizer.json's words. */
#ifndef LOCKSTEP_CONVERT_GGUF_RWKV_VOCAB_H
#define LOCKSTEP_CONVERT_GGUF_RWKV_VOCAB_H

#include "convert/gguf_model.h"

/* "model" of tokenizer.json. */
bool gguf_rwkv_model(const GgufModel *model, Buffer *out, Error *err);

#endif
