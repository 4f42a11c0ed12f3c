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

#endif
