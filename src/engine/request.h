/* A request as it goes down to the engine: immutable data, owned by whoever asks. Nothing below writes to it. */
#ifndef LOCKSTEP_ENGINE_REQUEST_H
#define LOCKSTEP_ENGINE_REQUEST_H

#include "text/grammar.h"
#include "text/stop.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct LogitBias {
    int32_t id;
    float value; /* added to the raw logit; -INFINITY forbids the id */
} LogitBias;

/* How the next token is chosen: docs/arithmetic.md, "Sampling". */
typedef struct Sampling {
    float temperature;        /* 0: greedy, the filters below are ignored */
    int top_k;                /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float repetition_penalty; /* 1: off; over prompt and answer */
    float presence_penalty;   /* 0: off; over the answer only */
    float frequency_penalty;  /* 0: off; over the answer only */
    const LogitBias *bias;
    int n_bias;
    const int32_t *suppressed; /* never chosen */
    int n_suppressed;
    uint64_t seed;
    uint32_t choice; /* which of several answers to one prompt */
} Sampling;

/* Greedy, nothing else: what every flag and request field departs from. */
#define SAMPLING_GREEDY ((Sampling){.top_p = 1, .repetition_penalty = 1})

typedef struct Request {
    const int32_t *prompt;
    int n_prompt;
    int max_tokens; /* -1: as many as the context has room for */
    Sampling sampling;
    const int32_t *end_ids; /* tokens that end the answer */
    int n_end_ids;
    int min_tokens;        /* they are not chosen before so many others, unless the grammar has nothing else */
    const StopText *stops; /* texts that end the answer and are not part of it */
    int n_stops;
    const int32_t *kept_ids; /* special tokens that the answer's text shows: the marks of tool calls and reasoning */
    int n_kept_ids;
    const Grammar *grammar; /* what the answer may look like; NULL: anything */
    const TokenTree *tree;  /* of the model's vocabulary, with a grammar; not copied: the model's owner keeps it */
    /* The mark that closes reasoning: the grammar begins after it and white space that follows. NULL: there is no
     * reasoning, and it begins at once. */
    const char *reasoning_close;
    /* The mark with which the answer may open its reasoning; an answer that begins otherwise has none. NULL: the prompt
     * has opened it. */
    const char *reasoning_open;
    /* Tokens that are forced after `budget` tokens of reasoning if it was not closed by then (its mark as ids). */
    const int32_t *forced;
    int n_forced, budget;
    bool scores_prompt; /* every token of the prompt is scored, so no cached prefix is used */
    bool scores;        /* the tokens of the answer are scored */
    int n_top;          /* with that many others beside each (SCORE_TOP at most) */
    bool hashes;        /* with scores: of the logits that each token was chosen or scored by */
} Request;

/* Whether a token ends the answer. */
bool request_ends(const Request *r, int32_t id);

/* A copy that owns everything it points to. NULL when out of memory. */
Request *request_copy(const Request *r);
void request_free(Request *r); /* of a copy */

typedef enum FinishReason { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_FAILED } FinishReason;

#endif
