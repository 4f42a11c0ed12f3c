/* A state together with the ids it was made from: what a later prompt with the same beginning need not compute again.
 * Reusing it changes no byte of an answer, since a row depends on nothing but its prefix. */
#ifndef LOCKSTEP_ENGINE_PREFIX_H
#define LOCKSTEP_ENGINE_PREFIX_H

#include "state/state.h"
#include "text/tokenizer.h"

typedef struct Prefix {
    State *state; /* NULL while nothing was run */
    IdList ids;   /* [state_length(state)] */
} Prefix;

void prefix_init(Prefix *p);  /* all zero: `Prefix p = {0}` does the same */
void prefix_clear(Prefix *p); /* forgets everything and frees */

/* Keeps what `ids` begins with, at most n - 1 of them, because the last token must be run to give logits; makes an
 * empty state on `side` where there is none, where the one there is on the other side of its model's rotary tables, or
 * where a window has dropped what would be needed. */
bool prefix_fit(Prefix *p, const StateShape *shape, int side, const int32_t *ids, int n, Error *err);
/* Forgets what was run, and keeps the memory for running it again on `side`. */
void prefix_restart(Prefix *p, int side);

#endif
