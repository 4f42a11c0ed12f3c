/* A list of chat messages as it is written, from protocols that cut conversations up in other ways. */
#ifndef LOCKSTEP_SERVE_TURNS_H
#define LOCKSTEP_SERVE_TURNS_H

#include "serve/api.h"

/* The list so far, and the message that is still open. All zero at the beginning. */
typedef struct Turns {
    Buffer out;
    const char *role; /* NULL: no message is open */
    Buffer text, reasoning, calls;
    bool new_turn; /* text that follows is of another turn than what is there */
} Turns;

void turns_clear(Turns *t);
/* Goes on with the open message when it is of that role, and begins another otherwise. */
void turns_open(Turns *t, const char *role);
void turns_close(Turns *t);
/* More of the open message's text: after an empty line where it is of a new turn. */
void turns_text(Turns *t, const char *text, size_t n);
/* A call of a tool, of the open message. The arguments are a text, as clients of the chat API send them; templates get
 * an object where it is one. */
void turns_call(Turns *t, const JsonValue *id, const JsonValue *name, const char *arguments, size_t n);
/* The result of one, which is a message of its own. */
void turns_result(Turns *t, const JsonValue *id, const Buffer *text);
/* The whole list. NULL when out of memory. The document is the caller's. */
JsonDoc *turns_finish(Turns *t, ApiError *err);

#endif
