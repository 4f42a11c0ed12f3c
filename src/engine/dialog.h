/* A conversation on its way to a model and back: template variables, ids, and the forms in which answers are read. */
#ifndef LOCKSTEP_ENGINE_DIALOG_H
#define LOCKSTEP_ENGINE_DIALOG_H

#include "engine/load.h"
#include "text/reply.h"

/* How answers are to be read: what the names say (NULL or "auto": what the template implies; "none": not at all).
 * The tools, and what the prompt did, are left to the caller. */
bool dialog_forms(const char *calls, const char *reasoning, const ChatTemplate *t, ReplyOptions *out, Error *err);

/* The special tokens that the forms need to see. */
bool dialog_kept_ids(const Tokenizer *t, const ReplyOptions *forms, IdList *out, Error *err);

/* Variables of a chat template as transformers' apply_chat_template passes them: messages, tools and documents (null
 * where there are none), add_generation_prompt, and the members of `more` (an object or NULL) over them. The document
 * is the caller's. */
typedef struct TemplateInput {
    const JsonValue *messages, *tools, *more; /* NULL: none */
    bool generation_prompt;
} TemplateInput;
JsonDoc *dialog_variables(const TemplateInput *in, Error *err);

/* Renders, and tokenizes without added special tokens. Of `reply` (NULL: of no interest) sets whether the prompt opened
 * or closed a block of its reasoning. */
bool dialog_ids(const Loaded *loaded, const JsonValue *variables, ReplyOptions *reply, IdList *out, Error *err);

#endif
