/* Chat templates: the Jinja text of a checkpoint rendered to a prompt, byte for byte as transformers does it. */
#ifndef LOCKSTEP_TEXT_TEMPLATE_H
#define LOCKSTEP_TEXT_TEMPLATE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

typedef struct ChatTemplate ChatTemplate;

/* Finds the template of a folder: chat_template.jinja, chat_template.json, or "chat_template" of tokenizer_config.json
 * (a string or a named list; "default", or "tool_use" when tools are given). The special tokens of
 * tokenizer_config.json (bos_token, ...) become variables. NULL with the reason when there is none or it does not
 * parse. */
ChatTemplate *template_load(const char *folder, Error *err);
/* Whether the folder's files are sound and have none: that is no fault, as it is with models that complete text. */
bool template_is_absent(const char *folder);
void template_free(ChatTemplate *t);

/* Renders with the members of `variables` (an object: messages, tools, documents, add_generation_prompt and any more)
 * as variables over the special tokens. Appends to out. Errors name line and expression. */
bool template_render(const ChatTemplate *t, const JsonValue *variables, Buffer *out, Error *err);
/* The same for messages as clients of the chat API send them: where the arguments of a tool call are a text with a
 * JSON object in it, the template gets the object, and the text if it fails on that; where a content is a list of text
 * parts, it gets them joined, and the list if it fails on that or leaves the text out. Other parts are refused. */
bool template_render_chat(const ChatTemplate *t, const JsonValue *variables, Buffer *out, Error *err);
/* The template's source, for detection of what it implies (tool format, thinking). */
const char *template_source(const ChatTemplate *t);
/* Whether it says anything of tools. */
bool template_knows_tools(const ChatTemplate *t);

#endif
