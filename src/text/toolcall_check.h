/* What a tool must be so that its calls can be written and read in every form. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_CHECK_H
#define LOCKSTEP_TEXT_TOOLCALL_CHECK_H

#include "base/error.h"
#include "base/json.h"

/* Either may be NULL, for what is not there: a name is needed, parameters are not. False with a sentence about the
 * first that is wrong. */
bool tool_check(const JsonValue *name, const JsonValue *parameters, Error *err);

#endif
