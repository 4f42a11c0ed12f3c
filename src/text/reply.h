/* A model's answer taken apart, as it comes: what it thinks, what it says, and which tools it calls. */
#ifndef LOCKSTEP_TEXT_REPLY_H
#define LOCKSTEP_TEXT_REPLY_H

#include "text/reasoning.h"
#include "text/toolcall.h"

typedef enum ReplyPart {
    REPLY_TEXT,
    REPLY_REASONING,
    REPLY_CALL,      /* a call begins: `text` is its name, `id` what the form has for one */
    REPLY_ARGUMENTS, /* a piece of the call's arguments; the pieces joined are the text of a JSON object */
    REPLY_CALL_END,
} ReplyPart;

typedef struct ReplyEvent {
    ReplyPart part;
    const char *text; /* valid during the call, not NUL-terminated */
    size_t length;
    int call; /* of the last three: 0, 1, ... in the order of the answer */
    const char *id;
    size_t id_length; /* 0: the form has no ids, whoever sends the call on makes one */
} ReplyEvent;

/* False (with the error set) ends the push or the finish. */
typedef bool ReplySink(void *context, const ReplyEvent *event, Error *err);

typedef struct ReplyOptions {
    const CallForm *calls;          /* NULL: calls stay text */
    const ReasoningForm *reasoning; /* NULL: reasoning stays text */
    const JsonValue *tools;         /* the request's; NULL: not known. Borrowed. */
    bool reasoning_is_open;         /* the prompt has opened the block: reasoning_is_open() */
    bool reasoning_is_closed;       /* it has closed one; of no interest to the parser */
} ReplyOptions;

typedef struct Reply Reply;

Reply *reply_new(const ReplyOptions *options, ReplySink *sink, void *context, Error *err);
void reply_free(Reply *r);

/* Takes more of the answer and passes on what is settled: of text, all but the longest tail that may still belong to a
 * mark. How the answer is cut into pushes changes nothing in what the events add up to.
 *
 * A call is passed on once it is complete and sound: what has been sent can not be taken back, and a call that turns
 * out not to parse is text, byte for byte. White space around calls and blocks of reasoning is not text. After a
 * failure only reply_free may follow. */
bool reply_push(Reply *r, const char *text, size_t n, Error *err);
bool reply_finish(Reply *r, Error *err); /* the end of the answer: everything is settled */
int reply_calls(const Reply *r);         /* how many there were so far */

/* Whether a special token's text is part of a mark of one of the forms (NULL: none), so that decoding must keep it. */
bool reply_needs(const CallForm *calls, const ReasoningForm *reasoning, const char *token, size_t n);

#endif
