/* The files of sentence-transformers that a GGUF file's pooling and its layers after it mean. */
#ifndef LOCKSTEP_CONVERT_GGUF_SENTENCE_H
#define LOCKSTEP_CONVERT_GGUF_SENTENCE_H

#include "convert/gguf_model.h"
#include "convert/output_folder.h"

/* modules.json and what it names; nothing when the file does not say how its rows are pooled. */
bool gguf_sentence_write(const GgufModel *model, const OutputFolder *out, Error *err);

#endif
