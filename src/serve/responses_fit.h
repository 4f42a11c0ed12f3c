/* "truncation": "auto" of /v1/responses. */
#ifndef LOCKSTEP_SERVE_RESPONSES_FIT_H
#define LOCKSTEP_SERVE_RESPONSES_FIT_H

#include "serve/converse.h"

/* Before converse_prepare: where the prompt of c's messages leaves no room for an answer, *messages (which they belong
 * to) becomes a shorter list, and c's. It begins with what the system says, and then with one of the user's messages:
 * the first from which the rest fits, or the last there is, and then the prompt is still too long. */
bool responses_fit(Converse *c, JsonDoc **messages, ApiError *err);

#endif
