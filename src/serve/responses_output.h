/* The output of a response as it comes: a row of items, and the events that tell a stream's reader of them. */
#ifndef LOCKSTEP_SERVE_RESPONSES_OUTPUT_H
#define LOCKSTEP_SERVE_RESPONSES_OUTPUT_H

#include "serve/openai.h"

typedef enum OutputKind { OUTPUT_NONE, OUTPUT_REASONING, OUTPUT_MESSAGE, OUTPUT_CALL } OutputKind;

typedef struct ResponseOutput {
    Exchange *stream; /* NULL: nothing is streamed */
    int sequence;     /* number of the next event */
    int first;        /* events with lower numbers are not sent */
    OutputKind open;  /* the item that is being written */
    int n_items;      /* begun so far */
    char item_id[40], call_id[OPENAI_CALL_ID];
    Buffer name, text;    /* of the open item */
    Buffer scores, fresh; /* items of its logprobs; of these, those that no event has had yet */
    size_t last_score;    /* where the last one begins in `fresh` */
    Buffer items;         /* those that are closed, with commas between */
    Buffer event;         /* scratch */
} ResponseOutput;

void response_clear(ResponseOutput *o);

/* A piece of the answer. */
void response_part(ResponseOutput *o, const ReplyEvent *e);
/* The score of a token, before the parts that it completes. */
void response_score(ResponseOutput *o, const Tokenizer *t, const TokenScore *score);
/* The open item is complete, or was cut off. */
void response_close(ResponseOutput *o, bool cut);
/* Whoever reads the output expects a message: an empty one when there is no item. */
void response_finish(ResponseOutput *o, bool cut);

/* A closed item as it was written, again with all of its events; what it says comes in one piece. */
void response_replay(ResponseOutput *o, const JsonValue *item);

/* Begins an event of that type in o->event; more members may be appended, then it is sent. */
void response_event_begin(ResponseOutput *o, const char *type);
void response_event_send(ResponseOutput *o, const char *type);

#endif
