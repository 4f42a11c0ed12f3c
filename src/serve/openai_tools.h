/* Which tools an answer may call, and whether it must. */
#ifndef LOCKSTEP_SERVE_OPENAI_TOOLS_H
#define LOCKSTEP_SERVE_OPENAI_TOOLS_H

#include "serve/converse.h"

/* A list of tools with functions only, which can be called, or NULL. */
bool openai_check_tools(const JsonValue *tools, ApiError *err);

/* Sets the tools of `c` as its fields "tool_choice" and "parallel_tool_calls" have it, of `tools` (as the chat API has
 * them; NULL: none). The choice may also be in the form of the responses API. *allowed: the list, where the choice is
 * some of them; the caller frees it after `c`. */
bool openai_choose_tools(Converse *c, const JsonValue *tools, JsonDoc **allowed, ApiError *err);

#endif
