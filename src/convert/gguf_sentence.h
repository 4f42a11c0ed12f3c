/* The files of sentence-transformers that a GGUF file's pooling means. */
#ifndef LOCKSTEP_CONVERT_GGUF_SENTENCE_H
#define LOCKSTEP_CONVERT_GGUF_SENTENCE_H

#include "convert/gguf_model.h"

/* modules.json and 1_Pooling/config.json; nothing when the file does not say how its rows are pooled. */
bool gguf_sentence_modules(const GgufModel *model, Buffer *out, Error *err);
bool gguf_sentence_pooling(const GgufModel *model, Buffer *out, Error *err);

#endif
