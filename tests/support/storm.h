/* Many requests to one model, each answered alone and then all of them in company: the same tokens, scores and logits.
 */
#ifndef LOCKSTEP_TESTS_SUPPORT_STORM_H
#define LOCKSTEP_TESTS_SUPPORT_STORM_H

#include "engine/engine.h"

enum { STORM_REQUESTS = 50, STORM_CHOICES = 3 };

/* A choice's events joined. */
typedef struct StormAnswer {
    IdList ids;
    ScoreList scores;
    FinishReason finish;
} StormAnswer;

typedef struct StormRequest {
    Request request;
    int n_choices;
    int cancel_after; /* events; 0: never */
    StormAnswer answers[STORM_CHOICES];
} StormRequest;

typedef struct Storm {
    StormRequest requests[STORM_REQUESTS];
    int32_t *ids; /* of all prompts */
} Storm;

/* Requests of different lengths, some with beginnings in common, some sampled, some with several choices, some to be
 * cancelled; prompts and answers hold at most `longest` tokens. */
void storm_init(Storm *s, int vocab, int longest);
void storm_clear(Storm *s);

/* Takes what a job has for now into answers [n_choices]; how many of its choices have ended since. */
int storm_take(Job *job, StormAnswer *answers);
/* Whether what came in company is what came alone, or as much of it as came before it was cancelled. Clears `got`. */
void storm_compare(const StormRequest *r, StormAnswer *got);
void storm_answers_clear(StormAnswer *answers, int n);

#endif
