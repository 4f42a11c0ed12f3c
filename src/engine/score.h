/* What a token's choice looked like: its log-probability, and the most probable tokens at that place. All of the raw
 * logits, before penalties, bias and temperature. */
#ifndef LOCKSTEP_ENGINE_SCORE_H
#define LOCKSTEP_ENGINE_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCORE_TOP = 20 };

typedef struct ScoredToken {
    int32_t id;
    float logprob;
} ScoredToken;

typedef struct TokenScore {
    ScoredToken token;
    int n_top;
    ScoredToken top[SCORE_TOP]; /* log-probability descending, id ascending */
    uint64_t hash;              /* of the logits; 0 where none was asked for */
} TokenScore;

/* Of token id by logits [vocab], with the n_top (at most SCORE_TOP) most probable tokens. */
void score_token(const float *logits, int vocab, int32_t id, int n_top, bool hash, TokenScore *out);

typedef struct ScoreList {
    TokenScore *items;
    size_t n, capacity;
} ScoreList;
TokenScore *score_list_push(ScoreList *l); /* NULL when out of memory */
void score_list_clear(ScoreList *l);

/* FNV-1a over the bytes of n values: what --verbose prints, so that two users can compare logits in one word. */
uint64_t logits_hash(const float *values, size_t n);

#endif
