/* The models that a server answers for, by name. */
#ifndef LOCKSTEP_SERVE_MODELS_H
#define LOCKSTEP_SERVE_MODELS_H

#include "engine/dialog.h"
#include "engine/embed.h"
#include "engine/engine.h"

typedef struct ServedModel {
    char *name; /* what clients call it: the last part of its path */
    Loaded loaded;
    EngineModel *lane;
    ReplyOptions forms; /* tools and reasoning_is_open are a request's */
    Embedder *embedder; /* used on the engine's thread only, its plan excepted; NULL: */
    Error no_embedder;  /* why there is none */
    IdList kept;        /* special tokens that answers show, because the forms need to see them */
    TokenTree *tree;    /* NULL: not asked for yet */
    int64_t created;    /* seconds since 1970 */
} ServedModel;

typedef struct Models Models;

/* Loads every path of `load.model` in turn; the engine must outlive it. */
Models *models_new(Engine *engine, const char *const *paths, int n, const LoadOptions *load, Error *err);
void models_free(Models *m);

/* By name, by the path it was given as, or (NULL or empty, or when there is one only) the first. NULL: there is none.
 */
ServedModel *models_find(Models *m, const char *name);
int models_count(const Models *m);
ServedModel *models_at(Models *m, int i);

/* The vocabulary's tree, for grammars; made at the first call. NULL when out of memory, or without a tokenizer. */
const TokenTree *model_token_tree(ServedModel *m, Error *err);

#endif
