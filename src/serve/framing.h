/* Where a request begins and ends, as evhttp sees it: requests that it should not have taken, and answers to those that
 * it could not read. */
#ifndef LOCKSTEP_SERVE_FRAMING_H
#define LOCKSTEP_SERVE_FRAMING_H

#include "base/buffer.h"

#include <event2/http.h>

typedef struct FramingFault {
    int status; /* 0: none */
    char message[400];
} FramingFault;

/* What is wrong with a request that evhttp has taken; *ends: its connection must not be used again. */
FramingFault framing_check(const struct evhttp_request *request, bool *ends);

/* A request that evhttp has answered with an error by itself. */
typedef struct UnreadRequest {
    int status;       /* as evhttp answers it */
    const char *line; /* the request's beginning, with at least its first line where that fits */
    size_t received;  /* bytes of it */
    size_t max_body, max_headers;
} UnreadRequest;

/* Why it was refused, with the status that fits. */
FramingFault framing_explain(const UnreadRequest *r);
const char *framing_phrase(int status);
/* The path of such a request, "" where there is none, into out [size]. */
void framing_path(char *out, size_t size, const char *line);

#endif
