/* Anthropic's forms translated to those of the chat API, which is what templates know. */
#ifndef LOCKSTEP_SERVE_ANTHROPIC_H
#define LOCKSTEP_SERVE_ANTHROPIC_H

#include "serve/api.h"

/* A list of chat messages: `system` (NULL: none) first, results of tools as messages of their own, turns of one role
 * joined. Blocks of other kinds than text, calls, results and thoughts are refused by name. NULL when refused. The
 * document is the caller's. */
JsonDoc *anthropic_messages(const JsonValue *system, const JsonValue *messages, ApiError *err);
/* A list of functions. Tools that a server would run itself are refused by name. */
JsonDoc *anthropic_tools(const JsonValue *tools, ApiError *err);

#endif
