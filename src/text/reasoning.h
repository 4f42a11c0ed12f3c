/* The blocks in which a model thinks before it answers: how each family marks them, and whether a prompt has opened one
 * already. */
#ifndef LOCKSTEP_TEXT_REASONING_H
#define LOCKSTEP_TEXT_REASONING_H

#include "text/grammar.h"
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
/* Likewise, whether it has closed one: templates write an empty block where no thoughts are wanted. */
bool reasoning_is_closed(const ReasoningForm *form, const char *prompt, size_t n);

/* The text of the form's first mark of a role; NULL when it has none, or there is no form. */
const char *reasoning_mark(const ReasoningForm *form, MarkRole role);

/* Makes of a grammar for the answer proper one that takes the form's headers before it, a few at most; without a form,
 * or headers, it stays as it is. Consumes the grammar, which must be nobody else's; NULL with the reason. */
Grammar *reasoning_frame(const ReasoningForm *form, Grammar *answer, Error *err);

#endif
