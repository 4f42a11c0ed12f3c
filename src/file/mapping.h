/* A file's bytes, mapped read-only. A file that shrinks while mapped kills the process with SIGBUS on first touch:
 * every reader here checks sizes against the mapped length once, at open. */
#ifndef LOCKSTEP_FILE_MAPPING_H
#define LOCKSTEP_FILE_MAPPING_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct Mapping {
    const uint8_t *data;
    size_t size;
} Mapping;

bool mapping_open(Mapping *m, const char *path, Error *err); /* errors start with the path */
void mapping_close(Mapping *m);
/* Drops the resident pages wholly inside [data, data + bytes): they come back from the file when touched. */
void mapping_release(const void *data, size_t bytes);
/* Asks the system to read [data, data + bytes) ahead. */
void mapping_want(const void *data, size_t bytes);

#endif
