/* What ENCODE_SPECIAL puts around a text: a beginning, an end. */
#ifndef LOCKSTEP_TEXT_AFFIXES_H
#define LOCKSTEP_TEXT_AFFIXES_H

#include "text/tokenizer.h"

/* Appends these special tokens to *out, which was empty; the first *n_before of them stand before the text. */
bool affixes_find(const Tokenizer *t, IdList *out, size_t *n_before, Error *err);

#endif
