/* Vectors on their way to a client: texts go to the engine's thread a few at a time, so that answers of others go on
 * between. */
#ifndef LOCKSTEP_SERVE_VECTORS_H
#define LOCKSTEP_SERVE_VECTORS_H

#include "serve/inputs.h"
#include "serve/server.h"

/* What is to be made into vectors, for a model that makes them. */
typedef struct VectorTexts {
    IdList ids; /* of all texts, one after the other */
    EmbedInput *inputs;
    int n, most;
} VectorTexts;

/* Room for n texts of that model. False when it makes no vectors: it cannot, or is a cross-encoder. */
bool vector_texts_new(VectorTexts *t, const ServedModel *m, int n, ApiError *err);
/* One more, with its prompt (NULL: none). Refused, by the name of the field, when it is empty or has more tokens than
 * the model takes. */
bool vector_texts_add(VectorTexts *t, const ServedModel *m, const char *prompt, const Input *text, const char *name,
                      ApiError *err);
/* A text that is too long for the model, by the name of its field. */
bool vectors_refuse_length(ApiError *err, const char *name, size_t n, size_t most);
/* All of them, once the last is there. */
const EmbedInput *vector_texts_inputs(VectorTexts *t);
void vector_texts_clear(VectorTexts *t);

typedef struct VectorsOptions {
    Server *server;
    ServedModel *model;
    Exchange *exchange;
    const EmbedInput *inputs; /* stay the caller's, until one of these, after which nothing is used any more: */
    int n;
    void (*done)(void *context, const float *vectors); /* [n][embedder_size]; it answers the exchange */
    void (*fail)(void *context, const char *why);      /* it answers the exchange */
    void (*left)(void *context); /* the client has left; frees memory and no more, as it may be on another thread */
    void *context;
} VectorsOptions;

/* False when out of memory; then none of the three is called. */
bool vectors_start(const VectorsOptions *options, ApiError *err);

#endif
