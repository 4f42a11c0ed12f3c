/* A step is a list of rows. Prefill, decode, verification of drafts and many users are only different lists; nothing
 * may look at how many rows there are except to schedule work. */
#ifndef LOCKSTEP_MODEL_ROW_H
#define LOCKSTEP_MODEL_ROW_H

#include "state/state.h"

typedef struct Row {
    State *state;
    int position; /* rows of one state follow one another in ascending position, starting at state_length(state) */
    int32_t token;
    const float *embedding; /* NULL: the token's; else [hidden], used instead */
    bool wants_logits;
    int token_type; /* which text of a pair the token is of, for models that tell them apart; else 0 */
} Row;

/* What went wrong with one row, when something did: its state must not be used further. Batch-mates are not affected.
 */
typedef struct RowFault {
    bool failed;
    int layer;             /* -1: outside the layers */
    const char *operation; /* "q_proj", "attention", "logits", ...; static text */
} RowFault;

#endif
