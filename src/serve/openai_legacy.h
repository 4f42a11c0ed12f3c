/* "logprobs" of /v1/completions: one list for each thing there is to say about tokens. */
#ifndef LOCKSTEP_SERVE_OPENAI_LEGACY_H
#define LOCKSTEP_SERVE_OPENAI_LEGACY_H

#include "engine/score.h"
#include "text/tokenizer.h"

typedef struct LegacyScores {
    Buffer tokens, logprobs, tops, offsets, ids, hashes; /* their items so far */
    int n;
} LegacyScores;

/* `score` is of token `id`, NULL for the first of a prompt, which nothing comes before. `offset`: of the token in the
 * choice's text, in characters. t NULL: tokens are called by their ids. */
void legacy_add(LegacyScores *l, const Tokenizer *t, int32_t id, const TokenScore *score, size_t offset);
/* Appends the object, null where nothing was added, and begins anew. `ids`: with the tokens' ids and the hashes of the
 * logits. */
void legacy_write(LegacyScores *l, bool ids, Buffer *out);
void legacy_clear(LegacyScores *l);

#endif
