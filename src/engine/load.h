/* Opening what a MODEL argument names: checkpoint, threads, model, tokenizer, chat template and defaults, in the order
 * that starts soonest. */
#ifndef LOCKSTEP_ENGINE_LOAD_H
#define LOCKSTEP_ENGINE_LOAD_H

#include "engine/defaults.h"
#include "model/model.h"
#include "text/template.h"

typedef enum LoadNeed { LOAD_NOT, LOAD_IF_THERE, LOAD_NEEDED } LoadNeed;

typedef struct LoadOptions {
    const char *model; /* a folder, or a name in the store */
    int threads;       /* 0: the CPUs this process may use */
    const char *isa;   /* NULL: the best there is */
    ModelOptions options;
    LoadNeed tokenizer, chat_template;
} LoadOptions;

typedef struct Loaded {
    Buffer folder;
    Checkpoint *checkpoint;
    Pool *pool;
    Model *model;
    Tokenizer *tokenizer;        /* NULL where not asked for, or not there */
    ChatTemplate *chat_template; /* likewise */
    Defaults defaults;
    double seconds;
} Loaded;

/* False with nothing in *out to clear. */
bool loaded_open(const LoadOptions *o, Loaded *out, Error *err);
void loaded_close(Loaded *l);

#endif
