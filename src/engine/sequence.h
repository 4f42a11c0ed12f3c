/* A sequence: one request on its way. It says which rows it wants in the next step, takes what the step gave, chooses
 * the next token, turns tokens into text, and knows when it is done. Who runs the steps, and what else is in them, is
 * not its business: one sequence alone and many in a server take the same path. */
#ifndef LOCKSTEP_ENGINE_SEQUENCE_H
#define LOCKSTEP_ENGINE_SEQUENCE_H

#include "engine/prefix.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/score.h"
#include "model/model.h"

typedef struct Sequence Sequence;

/* What sequence_new refuses: an empty prompt, ids outside the vocabulary, a prompt longer than the context (with both
 * numbers), sampling settings out of range, stop strings without a tokenizer (NULL: there is none). */
bool request_check(const Request *r, const Model *model, const Tokenizer *tokenizer, Error *err);

/* The request, the model, the tokenizer and the cache must outlive it. `tokenizer` may be NULL: then there is no text.
 */
Sequence *sequence_new(const Request *request, const Model *model, const Tokenizer *tokenizer, PrefixCache *cache,
                       Error *err);
void sequence_free(Sequence *s);

/* Gives it memory to read into, with what the cache has of its ids: before its first rows, and after sequence_drop.
 * False when out of memory. When it ends, the cache gets what was read. */
bool sequence_start(Sequence *s, Error *err);
bool sequence_started(const Sequence *s);
void sequence_drop(Sequence *s); /* frees what was read; it can be started again, and reads again what is not cached */

/* The rows it wants next, at most `max_rows` (a chunk of the prompt, or one token); 0 when finished. Where the model's
 * rotary tables depend on length (model_side), a sequence that has grown past the boundary drops what was run, and all
 * of it goes out again, in chunks as a prompt would. */
int sequence_rows(Sequence *s, int max_rows, Row *rows);
int sequence_read(const Sequence *s); /* tokens whose rows were run */
int sequence_left(const Sequence *s); /* tokens whose rows are still to run: 1 when it decodes */
/* Prompt and answer so far. */
const int32_t *sequence_ids(const Sequence *s, int *n);
/* Leaves a snapshot in the cache once n tokens were read, for others whose prompts begin alike. False when it can not:
 * they were read already, or too many wait. */
bool sequence_snapshot_at(Sequence *s, int n);
void sequence_snapshot(Sequence *s);                 /* now */
size_t sequence_need(const Sequence *s, int n_rows); /* bytes that its next n rows take */
void sequence_fail(Sequence *s, const Error *why);   /* a step with its rows could not run */
/* After the step that ran exactly those n rows: their faults, and the logits [..][vocab] of those that wanted them. How
 * many those were. */
int sequence_accept(Sequence *s, Sampler *sampler, int n, const RowFault *faults, const float *logits);
/* Ends it where it stands, with the text that is there. */
void sequence_cancel(Sequence *s);

FinishReason sequence_finish(const Sequence *s);
const char *sequence_error(const Sequence *s); /* with FINISH_FAILED */
int sequence_stop(const Sequence *s);          /* which of the request's stop strings ended it, -1: none */
int sequence_cached(const Sequence *s);        /* tokens of the prompt that the cache already held */
/* The tokens of the answer so far, the end token included. */
const int32_t *sequence_answer(const Sequence *s, int *n);
/* The text of the answer so far. What could still become a stop string or is half a character is not in it yet. */
const Buffer *sequence_text(const Sequence *s);

/* As the request asks: one for each token of the answer; for each token of the prompt after the first. */
const ScoreList *sequence_scores(const Sequence *s);
ScoreList *sequence_prompt_scores(Sequence *s);

#endif
