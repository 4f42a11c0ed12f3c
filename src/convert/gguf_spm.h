/* The parts of tokenizer.json that a SentencePiece BPE vocabulary ("llama" in GGUF) needs. */
#ifndef LOCKSTEP_CONVERT_GGUF_SPM_H
#define LOCKSTEP_CONVERT_GGUF_SPM_H

#include "convert/gguf_model.h"

/* The "merges" member, which GGUF does not keep: the ways to make each piece of two others, best score first. */
bool gguf_spm_merges(const GgufModel *model, Buffer *out, Error *err);

#endif
