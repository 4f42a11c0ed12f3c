/* The store: checkpoints by name under ~/.local/share/lockstep/models (XDG_DATA_HOME moves it). */
#ifndef LOCKSTEP_FILE_STORE_H
#define LOCKSTEP_FILE_STORE_H

#include "base/buffer.h"
#include "base/error.h"
#include <stdint.h>

/* The folder that MODEL means: the path itself if it exists, else the store's entry. Errors say what was looked for
 * and, for a .gguf file, give the import command. */
bool store_resolve(const char *model, Buffer *folder, Error *err);
bool store_root(Buffer *out, Error *err); /* made when absent */

typedef struct StoreEntry {
    char *name, *path;
    uint64_t bytes; /* of all its files */
} StoreEntry;
bool store_list(StoreEntry **entries, int *n, Error *err); /* sorted by name */
void store_list_free(StoreEntry *entries, int n);
bool store_remove(const char *name, Error *err); /* a store entry only, never a path outside */

#endif
