/* The vocabularies of encoders as parts of tokenizer.json: WordPiece ("bert" in GGUF) and SentencePiece unigram ("t5").
 */
#ifndef LOCKSTEP_CONVERT_GGUF_ENCODER_VOCAB_H
#define LOCKSTEP_CONVERT_GGUF_ENCODER_VOCAB_H

#include "convert/gguf_model.h"

/* The values of "normalizer" and "model". */
void gguf_wordpiece_normalizer(const GgufModel *model, Buffer *out);
bool gguf_wordpiece_model(const GgufModel *model, Buffer *out, Error *err);
bool gguf_unigram_normalizer(const GgufModel *model, Buffer *out, Error *err);
bool gguf_unigram_model(const GgufModel *model, Buffer *out, Error *err);

#endif
