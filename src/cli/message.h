/* An answer as a message of the chat API: text, reasoning and tool calls apart. */
#ifndef LOCKSTEP_CLI_MESSAGE_H
#define LOCKSTEP_CLI_MESSAGE_H

#include "cli/flags.h"
#include "text/reply.h"
#include "text/template.h"
#include "text/tokenizer.h"

/* All zero: nothing yet. */
typedef struct Message {
    Buffer text, reasoning;
    Buffer calls;     /* the items of "tool_calls" */
    Buffer arguments; /* of the call that is being read */
} Message;

ReplySink message_take; /* its context is a Message */
void message_clear(Message *m);
/* Appends {"role": "assistant", "content": ..., "reasoning_content": ..., "tool_calls": [...]}; the last two only where
 * there are any. Calls whose form has no ids get call_0, call_1, ... */
void message_write(const Message *m, Buffer *out);

/* Takes a whole answer apart. */
bool message_read(const ReplyOptions *how, const char *text, size_t n, Message *out, Error *err);

#endif
