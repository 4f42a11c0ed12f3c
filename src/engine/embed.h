/* Vectors of texts: what `lockstep embed` shows. A text's vector depends on the checkpoint, the numeric settings and
 * its own ids; who shares its steps changes no byte. Steps are lists of rows of many texts, so texts of different
 * length waste no work on padding. A cross-encoder's "texts" are pairs, and its "vectors" a score for each label. */
#ifndef LOCKSTEP_ENGINE_EMBED_H
#define LOCKSTEP_ENGINE_EMBED_H

#include "engine/embed_plan.h"
#include "model/model.h"
#include "text/tokenizer.h"

typedef struct Embedder Embedder;

/* tokenizer NULL: texts can not be made into ids. Model and tokenizer must outlive it. */
Embedder *embedder_new(const char *folder, Model *m, const Tokenizer *tokenizer, Error *err);
void embedder_free(Embedder *e);

/* The plan that embedder_new would make of the folder: for inspect. */
bool embedder_plan_read(const char *folder, Model *m, EmbedPlan *out, Error *err);

int embedder_size(const Embedder *e);       /* values of a vector */
int embedder_max_tokens(const Embedder *e); /* of a text, its prompt and special tokens included */
const EmbedPlan *embedder_plan(const Embedder *e);
bool embedder_scores_pairs(const Embedder *e);              /* a cross-encoder */
bool embedder_needs_vectors(const Embedder *e, Error *err); /* of a cross-encoder an error that says what it is for */

/* Appends the ids of prompt (NULL: none) and text, cut to what the model takes as sentence-transformers cuts: special
 * tokens stay. *n_prompt: how many ids at the beginning pooling leaves out. *n_whole: how many ids there were before a
 * cut. */
bool embedder_encode(const Embedder *e, const char *prompt, const char *text, size_t n, IdList *ids, int *n_prompt,
                     size_t *n_whole, Error *err);

/* Of a cross-encoder. Appends the ids of prompt (NULL: none) and text without special tokens: one side of a pair. */
bool embedder_encode_side(const Embedder *e, const char *prompt, const char *text, size_t n, IdList *ids, Error *err);
/* Appends the ids of a pair of those, and the type of each, cut to what the model takes as sentence-transformers'
 * CrossEncoder cuts. *n_cut: how many ids were left out. */
bool embedder_encode_pair(const Embedder *e, const IdList *first, const IdList *second, IdList *ids, IdList *types,
                          size_t *n_cut, Error *err);

typedef struct EmbedInput {
    const int32_t *ids;
    int n, n_prompt;      /* n_prompt < n */
    const int32_t *types; /* of the ids' tokens; NULL: all 0 */
} EmbedInput;

/* Called between steps: texts done so far. False stops. */
typedef bool EmbedProgress(void *context, int done, int n);

/* out [n][embedder_size]. False with the number of the text (from 0) where one is to blame: it has no ids, more than
 * the model takes, one outside the vocabulary, or gives a value that is not finite; nothing of `out` is then valid.
 * progress may be NULL. */
bool embedder_run(Embedder *e, const EmbedInput *inputs, int n, float *out, EmbedProgress *progress, void *context,
                  Error *err);

#endif
