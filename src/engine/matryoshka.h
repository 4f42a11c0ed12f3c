/* Whether a model's vectors may be cut to their first values: those of a model trained for it, as its files say. */
#ifndef LOCKSTEP_ENGINE_MATRYOSHKA_H
#define LOCKSTEP_ENGINE_MATRYOSHKA_H

#include "base/error.h"
#include "base/json.h"

typedef struct Matryoshka {
    bool any; /* every size */
    int *sizes;
    int n_sizes;
} Matryoshka;

/* Reads config.json of the folder, and settings (config_sentence_transformers.json, or NULL): "is_matryoshka",
 * "matryoshka_dimensions", "matryoshka_dims", "truncate_dim". */
bool matryoshka_read(const char *folder, const JsonValue *settings, Matryoshka *out, Error *err);
void matryoshka_clear(Matryoshka *m);

/* Whether vectors of `size` values may be cut to `wanted`; the error lists the sizes there are. */
bool matryoshka_allows(const Matryoshka *m, int size, int wanted, Error *err);

#endif
