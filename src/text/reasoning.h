/* The blocks in which a model thinks before it answers: how each family marks them, and whether a prompt has opened one
 * already. */
#ifndef LOCKSTEP_TEXT_REASONING_H
#define LOCKSTEP_TEXT_REASONING_H

#include "text/toolcall.h"

typedef struct ReasoningForm {
    const char *name;
    const Mark *marks;
} ReasoningForm;

/* The form that a template's text implies; NULL when it shows none. */
const ReasoningForm *reasoning_of_template(const char *source);
const ReasoningForm *reasoning_find(const char *name); /* NULL when there is none of that name */
const ReasoningForm *reasoning_at(int i);              /* NULL past the end */

/* Whether the rendered prompt ends inside an open block: with an opening mark, white space after it aside. Many
 * templates end so, and the model then writes the closing mark only. */
bool reasoning_is_open(const ReasoningForm *form, const char *prompt, size_t n);

#endif
