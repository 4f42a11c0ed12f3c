/* A conversation and the engine under it: what `run` holds between two lines of the person. */
#ifndef LOCKSTEP_CLI_CHAT_H
#define LOCKSTEP_CLI_CHAT_H

#include "cli/message.h"
#include "cli/setup.h"

typedef struct ChatTurn {
    const char *role; /* "user", "assistant"; static */
    char *text;       /* owned */
    size_t length;
    char *reasoning; /* owned; what the model thought before it answered; NULL of a person's turn */
    size_t n_reasoning;
} ChatTurn;

typedef struct Chat {
    const Loaded *loaded;
    const Args *args;
    RequestFlags flags; /* every request's but for prompt and choice */
    char *system;       /* owned; NULL: none, what the template does then is its own affair */
    ChatTurn *turns;
    size_t n_turns, capacity;
    JsonDoc *more;      /* --kwargs */
    ReplyOptions how;   /* how an answer is taken apart; no tools, so no calls */
    IdList kept;        /* the special tokens that this needs */
    PrefixCache *cache; /* what the model has read so far */
    uint32_t choice;    /* how often the last question was asked again */
} Chat;

/* Sampling follows generation_config.json, then the flags. */
bool chat_init(Chat *c, const Loaded *loaded, const Args *args, Error *err);
void chat_clear(Chat *c);

bool chat_set_system(Chat *c, const char *text, Error *err); /* NULL or "": none */
void chat_forget(Chat *c);                                   /* all turns; the system prompt stays */

/* Called as a GenerateSink is, with what is reasoning told from what is the answer. */
typedef bool ChatSink(void *context, bool reasoning, const char *text, size_t n);

/* Asks, and keeps question and answer. On failure the conversation is as before. An answer that was stopped is kept, as
 * far as it came. */
bool chat_ask(Chat *c, const char *text, size_t n, ChatSink *sink, void *context, Generation *out, Error *err);
/* Drops the last answer and asks its question again, with another random choice. An error when there is none. */
bool chat_ask_again(Chat *c, ChatSink *sink, void *context, Generation *out, Error *err);

#endif
