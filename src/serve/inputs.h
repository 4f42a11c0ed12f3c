/* What is to be read: texts, or ids of tokens, one or many. The "prompt" of completions and the "input" of embeddings
 * come in the same four forms. */
#ifndef LOCKSTEP_SERVE_INPUTS_H
#define LOCKSTEP_SERVE_INPUTS_H

#include "serve/models.h"
#include "serve/api.h"

typedef struct Input {
    const char *text; /* the document's; NULL: ids were given */
    size_t n_text;
    IdList ids;               /* those given; or, once encoded, the text's, with the special tokens around it */
    size_t n_before, n_after; /* of a text: special tokens around it */
} Input;

typedef struct Inputs {
    Input *items;
    int n;
} Inputs;

/* A string, a list of strings, a list of ids, or a list of such lists: at most `most` of them. `name` is the field's.
 * Ids outside the vocabulary of `vocab` are refused. */
bool inputs_read(const JsonValue *v, const char *name, int most, int vocab, Inputs *out, ApiError *err);
/* Texts to ids, with special tokens where `special`. */
bool inputs_encode(Inputs *in, const ServedModel *m, bool special, ApiError *err);
void inputs_clear(Inputs *in);

/* The ids of a list, appended. */
bool inputs_read_ids(const JsonValue *list, const char *name, int vocab, IdList *out, ApiError *err);

#endif
