/* Filling in the middle: the prompt for a model that was trained to write what stands between two texts. */
#ifndef LOCKSTEP_TEXT_FIM_H
#define LOCKSTEP_TEXT_FIM_H

#include "text/tokenizer.h"

typedef struct FimForm FimForm;

/* By the names of the tokenizer's tokens; NULL: it has none for this. */
const FimForm *fim_form_of(const Tokenizer *t);

/* Appends the prompt's ids, the special tokens before a text included. */
bool fim_encode(const FimForm *f, const Tokenizer *t, const char *prefix, size_t n_prefix, const char *suffix,
                size_t n_suffix, IdList *out, Error *err);

/* Appends the tokens that end such an answer, beside those that end any. False when out of memory. */
bool fim_end_ids(const FimForm *f, const Tokenizer *t, IdList *out);

#endif
