/* What a tokenizer is made of; for tokenizer.c and detok.c. */
#ifndef LOCKSTEP_TEXT_TOKENIZER_PARTS_H
#define LOCKSTEP_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/decode.h"
#include "text/normalize.h"
#include "text/postprocess.h"
#include "text/pretokenize.h"
#include "text/subword.h"

struct Tokenizer {
    Subword subword;
    Normalizer normalizer;
    Pretokenizer pretokenizer;
    Postprocessor postprocessor;
    Decoder decoder;
    AddedTokens added;
};

/* Other files than tokenizer.json. Each fills the parts of a zeroed *t but for the matchers of added tokens; the caller
 * frees it on failure. `config` is tokenizer_config.json or NULL. */
bool tokenizer_from_sentencepiece(Tokenizer *t, const char *bytes, size_t n, const JsonValue *config, Error *err);
bool tokenizer_from_tiktoken(Tokenizer *t, const char *text, size_t n, const JsonValue *config, Error *err);
bool tokenizer_from_tekken(Tokenizer *t, const JsonValue *root, Error *err);

#endif
