/* A sequence: one request on its way. It says which rows it wants in the next step, takes what the step gave, chooses
 * the next token, turns tokens into text, and knows when it is done. Who runs the steps, and what else is in them, is
 * not its business: one sequence alone and many in a server take the same path. */
#ifndef LOCKSTEP_ENGINE_SEQUENCE_H
#define LOCKSTEP_ENGINE_SEQUENCE_H

#include "engine/prefix.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "model/model.h"

typedef struct Sequence Sequence;

/* The request, the model, the tokenizer and the prefix must outlive it. `tokenizer` may be NULL: then there is no text,
 * and stop strings are refused. `prefix` is cut to what the prompt shares with it and grows as rows are run; it is
 * cleared when a row fails. Refused: an empty prompt, ids outside the vocabulary, a prompt longer than the context
 * (with both numbers), sampling settings out of range. */
Sequence *sequence_new(const Request *request, const Model *model, const Tokenizer *tokenizer, Prefix *prefix,
                       Error *err);
void sequence_free(Sequence *s);

/* The rows it wants next, at most `max_rows` (a chunk of the prompt, or one token); 0 when finished. Where the model's
 * rotary tables depend on length (model_side), a sequence that has grown past the boundary drops what was run, and all
 * of it goes out again, in chunks as a prompt would. */
int sequence_rows(Sequence *s, int max_rows, Row *rows);
/* After the step that ran exactly those n rows: their faults, and the logits of the last one when it wanted them, else
 * NULL. */
void sequence_accept(Sequence *s, Sampler *sampler, int n, const RowFault *faults, const float *logits);
/* Ends it where it stands, with the text that is there. */
void sequence_cancel(Sequence *s);

FinishReason sequence_finish(const Sequence *s);
const char *sequence_error(const Sequence *s); /* with FINISH_FAILED */
int sequence_cached(const Sequence *s);        /* tokens of the prompt that the prefix already held */
/* The tokens of the answer so far, the end token included. */
const int32_t *sequence_answer(const Sequence *s, int *n);
/* The text of the answer so far. What could still become a stop string or is half a character is not in it yet. */
const Buffer *sequence_text(const Sequence *s);

#endif
