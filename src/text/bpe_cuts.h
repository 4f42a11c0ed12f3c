/* Places where a long piece of text may be cut without changing its ids. */
#ifndef LOCKSTEP_TEXT_BPE_CUTS_H
#define LOCKSTEP_TEXT_BPE_CUTS_H

#include "text/vocab.h"

enum { CUTS_MOST_BINDING = 16 };

typedef struct BpeCuts {
    bool usable;
    uint32_t binding[CUTS_MOST_BINDING]; /* characters that some token has before a blank's sign */
    int n_binding;
} BpeCuts;

/* For a model in which every character becomes at least one symbol. `unknown` is the id of the unknown token, or below
 * 0. */
void bpe_cuts_find(BpeCuts *cuts, const Vocab *vocab, int32_t unknown);
/* The first cut after the start of the text; n when there is none. The text is valid UTF-8. */
size_t bpe_cuts_next(const BpeCuts *cuts, const char *text, size_t n);

#endif
