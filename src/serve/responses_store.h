/* Responses that were given, kept in memory so that later requests can go on from them. */
#ifndef LOCKSTEP_SERVE_RESPONSES_STORE_H
#define LOCKSTEP_SERVE_RESPONSES_STORE_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct ResponseStore ResponseStore;

/* Texts of JSON. */
typedef struct KeptResponse {
    char *id;
    Buffer response; /* the object */
    Buffer input;    /* all items that it was made from, with commas between */
    Buffer output;   /* its own items, likewise */
} KeptResponse;

/* At most so many, of so many bytes together; the longest unused go first. */
ResponseStore *response_store_new(int most, size_t most_bytes, Error *err);
void response_store_free(ResponseStore *s);

/* Takes the buffers over, also where there is no memory, or no room even alone, and nothing is kept. */
void response_store_keep(ResponseStore *s, const char *id, Buffer *response, Buffer *input, Buffer *output);
/* Borrowed until the next call; counts as a use. NULL: it is not there, or not any more. */
const KeptResponse *response_store_find(ResponseStore *s, const char *id);
bool response_store_delete(ResponseStore *s, const char *id); /* false: it was not there */

#endif
