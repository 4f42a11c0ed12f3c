/* Messages of the chat API as templates take them. */
#ifndef LOCKSTEP_SERVE_MESSAGES_H
#define LOCKSTEP_SERVE_MESSAGES_H

#include "serve/api.h"
#include "text/template.h"

/* A new array of messages: parts of text joined, null contents of the assistant as empty texts, the developer's role as
 * the system's where the template does not know it. Refused, by the name of the field: no messages, unknown roles,
 * contents of other kinds. NULL when refused. The document is the caller's. */
JsonDoc *messages_for_template(const JsonValue *messages, const ChatTemplate *t, ApiError *err);

/* The text of the last message when it is the assistant's, which the answer is to go on from; else NULL. */
const char *messages_prefill(const JsonValue *messages, size_t *n);

#endif
