/* Server-sent events: what a stream is made of. */
#ifndef LOCKSTEP_SERVE_SSE_H
#define LOCKSTEP_SERVE_SSE_H

#include "serve/http.h"

void sse_begin(Exchange *x);
/* One event: "event: name" where there is one (NULL: none), and its data, which must be one line. */
void sse_send(Exchange *x, const char *event, const Buffer *data);
void sse_send_text(Exchange *x, const char *data);
void sse_comment(Exchange *x, const char *text); /* keeps the connection awake */

#endif
