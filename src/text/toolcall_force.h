/* Answers that must be tool calls, or may be, as grammars in the form that the model knows. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_FORCE_H
#define LOCKSTEP_TEXT_TOOLCALL_FORCE_H

#include "text/grammar.h"
#include "text/toolcall.h"

/* Calls of the tools (as the chat API has them, each sound by tool_check), of the one named `name` only unless NULL;
 * one call, or one and more. Where the arguments of `form` are not JSON, or there is no form, it is Hermes'; *reads is
 * the form that reads the answer. NULL with the reason: there is no such tool, or the parameters of one that is
 * `strict` can not be kept to; of others the arguments are any object then. */
Grammar *call_grammar(const CallForm *form, const JsonValue *tools, const char *name, bool several,
                      const CallForm **reads, Error *err);

/* Makes of the grammar of an answer one that takes calls in its place, in the model's own form, for a model that may
 * choose between the two. Consumes the grammar, which must be nobody else's; NULL with the reason. */
Grammar *call_grammar_beside(Grammar *answer, const CallForm *form, const JsonValue *tools, bool several, Error *err);

#endif
