/* API keys: from the command line and from a file, compared in constant time. */
#ifndef LOCKSTEP_SERVE_ACCESS_H
#define LOCKSTEP_SERVE_ACCESS_H

#include "serve/http.h"

typedef struct Access Access;

/* keys [n], and key_file (NULL: none) with one key a line, which must be readable; "#" begins a comment. */
Access *access_new(const char *const *keys, int n, const char *key_file, Error *err);
void access_free(Access *a);
/* Reads the file again; on failure the keys stay as they were. */
bool access_read(Access *a, Error *err);
/* Whether the request has a key (Authorization: Bearer, or x-api-key), where any are asked for; else it has been
 * answered. The page and /health are for everyone. */
bool access_admits(Access *a, Exchange *x);

#endif
