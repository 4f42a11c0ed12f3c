/* What holds a sequence to its request's grammar, and to its least length: which tokens may come next. With reasoning
 * before the answer, which the prompt has opened or the answer may open, the grammar waits for its end, which a budget
 * can force. */
#ifndef LOCKSTEP_ENGINE_CONSTRAINT_H
#define LOCKSTEP_ENGINE_CONSTRAINT_H

#include "engine/request.h"

typedef struct Constraint Constraint;

/* Whether a request needs one: for a grammar, for a mark that closes reasoning, or for a least number of tokens. */
bool constraint_is_needed(const Request *r);
/* The request must outlive it, and the tokenizer, which only a grammar and a mark need. NULL when out of memory. */
Constraint *constraint_new(const Request *r, int vocab, const Tokenizer *t, Error *err);
void constraint_free(Constraint *c);

/* A bit for each token that may come next, NULL: all. Valid until the next call. False when none may come, or out of
 * memory: the error says which. */
bool constraint_allowed(Constraint *c, const uint32_t **allowed, Error *err);
/* The token that was chosen among them. */
bool constraint_accept(Constraint *c, int32_t id, Error *err);
/* Nothing but an end can follow: with no end token in the vocabulary the answer is over. */
bool constraint_is_complete(const Constraint *c);

#endif
