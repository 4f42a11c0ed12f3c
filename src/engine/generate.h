/* One request run to its end, alone: what `run` and `generate` do. */
#ifndef LOCKSTEP_ENGINE_GENERATE_H
#define LOCKSTEP_ENGINE_GENERATE_H

#include "engine/sequence.h"

enum { PREFILL_ROWS = 512 }; /* rows of a prompt per step */

/* Called after every step with the text that is new, n possibly 0. False ends the request as cancelled. */
typedef bool GenerateSink(void *context, const char *text, size_t n);

typedef struct Generation {
    IdList ids;  /* the tokens of the answer, the end token included */
    Buffer text; /* without special tokens, end token and stop string */
    FinishReason finish;
    int n_prompt, n_cached;                /* n_cached of the prompt's tokens were not computed again */
    int decode_steps;                      /* steps of one token after the prompt */
    double prompt_seconds, decode_seconds; /* to the first token; of the other tokens */
    const float *last_logits;              /* [vocab] of the last step; borrowed from the model until its next step */
} Generation;

void generation_clear(Generation *g);

/* Fills *out, also when it is cancelled. False with nothing in *out when the request was refused or a row failed. */
bool generate(Model *model, const Tokenizer *tokenizer, PrefixCache *cache, const Request *request, GenerateSink *sink,
              void *context, Generation *out, Error *err);

#endif
