/* The models that a server answers for, by name. */
#ifndef LOCKSTEP_SERVE_MODELS_H
#define LOCKSTEP_SERVE_MODELS_H

#include "engine/dialog.h"
#include "engine/embed.h"
#include "engine/engine.h"

#include <stdatomic.h>

typedef enum ModelState { MODEL_COLD, MODEL_LOADING, MODEL_READY, MODEL_CLOSING } ModelState;

/* Of a model that is not ready only name, path, state, created, has_head, ranks and chats are valid. */
typedef struct ServedModel {
    char *name, *path; /* what clients call it: the last part of its path; the path as it was given */
    ModelState state;
    atomic_int uses; /* answers on their way that need it */
    double last_used;
    Loaded loaded;
    EngineModel *lane;
    ReplyOptions forms; /* the tools, and what the prompt did, are a request's */
    Embedder *embedder; /* used on the engine's thread only, its plan excepted; NULL: */
    Error no_embedder;  /* why there is none */
    IdList kept;        /* special tokens that answers show, because the forms need to see them */
    TokenTree *tree;    /* NULL: not asked for yet */
    int64_t created;    /* when its config.json was written, seconds since 1970 */
    bool has_head;      /* else it gives vectors only, or: */
    bool ranks;         /* scores of pairs of texts (a sequence classifier) */
    bool chats;         /* it has a head and a chat template, and is not made for vectors (sentence-transformers) */
    Error failure;      /* of the last try to load it */
} ServedModel;

/* What it is for, as both /v1/models and /api/show name it: completion, rerank or embedding. */
static inline const char *served_task(const ServedModel *m) {
    return m->has_head ? "completion" : m->ranks ? "rerank" : "embedding";
}

typedef struct Models Models;

typedef struct ModelsOptions {
    Engine *engine; /* must outlive them */
    const char *const *paths;
    int n;
    const LoadOptions *load; /* its model is set for each in turn; must outlive them */
    int keep_seconds;        /* an unused model is unloaded after them; 0: when memory asks only */
    /* Called from another thread when a model's state may have changed: models_take then tells. */
    void (*changed)(void *context);
    void *context;
} ModelsOptions;

/* Loads the first; the others when they are asked for. */
Models *models_new(const ModelsOptions *options, Error *err);
void models_free(Models *m);

/* By name, by the path it was given as, or (NULL or empty, or when there is one only) the first. NULL: there is none.
 */
ServedModel *models_find(Models *m, const char *name);
int models_count(const Models *m);
ServedModel *models_at(Models *m, int i);

/* Begins to load a cold one, and to unload unused ones where memory is short. */
void models_load(Models *m, ServedModel *model);
/* The next one whose loading or unloading has come to an end, and is noted now; NULL: no more. */
ServedModel *models_take(Models *m);
/* Begins to unload those that nobody has used for a while. */
void models_sweep(Models *m);

/* While somebody holds it, it stays loaded. From any thread. */
void model_hold(ServedModel *m);
void model_release(ServedModel *m);

/* The vocabulary's tree, for grammars; made at the first call. NULL when out of memory, or without a tokenizer. */
const TokenTree *model_token_tree(ServedModel *m, Error *err);

#endif
