/* What a request to /v1/responses says, in the forms of the chat API. */
#ifndef LOCKSTEP_SERVE_RESPONSES_INPUT_H
#define LOCKSTEP_SERVE_RESPONSES_INPUT_H

#include "serve/api.h"

typedef struct ResponsesInput {
    const char *instructions; /* NULL: none */
    const JsonValue *history; /* items of earlier responses, as they were kept; NULL: none */
    const JsonValue *input;   /* a text or a list of items */
} ResponsesInput;

/* The list of chat messages, and in `items` (empty before) the items of history and input with a comma between, those
 * of the input with ids. Items of kinds that a model which reads text can not use are refused by name. NULL when
 * refused. The document is the caller's. */
JsonDoc *responses_messages(const ResponsesInput *in, Buffer *items, ApiError *err);
/* A list of functions. Tools that OpenAI's servers would run are refused by name. */
JsonDoc *responses_tools(const JsonValue *tools, ApiError *err);

#endif
