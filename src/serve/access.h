/* Who may ask: whoever has a key, from the command line or from a file; where there are none, whoever does not come by
 * way of a strange page in somebody's browser. */
#ifndef LOCKSTEP_SERVE_ACCESS_H
#define LOCKSTEP_SERVE_ACCESS_H

#include "serve/http.h"
#include "serve/origin.h"

typedef struct Access Access;

/* keys [n], and key_file (NULL: none) with one key a line, which must be readable; "#" begins a comment. */
Access *access_new(const char *const *keys, int n, const char *key_file, Error *err);
void access_free(Access *a);
/* Reads the file again; on failure the keys stay as they were. */
bool access_read(Access *a, Error *err);
/* Whether the request may go on; else it has been answered. Where there are keys it must have one (Authorization:
 * Bearer, or x-api-key); the page and /health are for everyone. Where there are none, the rules hold. */
bool access_admits(Access *a, Exchange *x, const OriginRules *rules);

#endif
