/* Tools for chat templates that have no place for them: they are described in words, and calls and results in the
 * history are texts, in the form of Hermes. */
#ifndef LOCKSTEP_SERVE_TOOLLESS_H
#define LOCKSTEP_SERVE_TOOLLESS_H

#include "serve/api.h"

/* Messages for the template (not none), with all of it said. The tools, as the chat API has them, are described in the
 * system's message, or (in_system false) at the beginning of the first of the user, for templates that refuse a
 * system's. NULL when out of memory. */
JsonDoc *toolless_messages(const JsonValue *messages, const JsonValue *tools, bool in_system, ApiError *err);

#endif
