/* What a checkpoint says about generating from it: the tokens that end an answer, those never to choose, and how to
 * sample. */
#ifndef LOCKSTEP_ENGINE_DEFAULTS_H
#define LOCKSTEP_ENGINE_DEFAULTS_H

#include "engine/request.h"
#include "file/checkpoint.h"
#include "text/tokenizer.h"

typedef struct Defaults {
    IdList end_ids, suppressed; /* suppressed: suppress_tokens, and what the family's vocabulary was padded with */
    /* As generation_config.json has it: greedy where do_sample is false or where nothing about sampling is said. The
     * suppressed ids are not set in it. */
    Sampling sampling;
} Defaults;

/* End tokens: eos_token_id of generation_config.json, else of config.json, and the eos_token of tokenizer_config.json
 * when a tokenizer is given. Ids outside the vocabulary are passed over. A value of the wrong type is an error. */
bool defaults_read(const Checkpoint *checkpoint, const Tokenizer *tokenizer, int vocab, Defaults *out, Error *err);
void defaults_clear(Defaults *d);

#endif
