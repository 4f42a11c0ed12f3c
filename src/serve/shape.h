/* The form that an answer must have: from response_format and its like, or because tools must be called. */
#ifndef LOCKSTEP_SERVE_SHAPE_H
#define LOCKSTEP_SERVE_SHAPE_H

#include "serve/fields.h"

/* What the fields ask for: *out NULL when nothing is. The grammar is the caller's. `text.format` of the responses API,
 * `output_config.format` of Anthropic's and Ollama's format count as well. */
bool shape_grammar(const Fields *f, Grammar **out, ApiError *err);

#endif
