/* An answer on its way to a client: the job behind an exchange, whose events are taken apart and handed to the writer
 * of a protocol. All of it happens on the loop. */
#ifndef LOCKSTEP_SERVE_ASK_H
#define LOCKSTEP_SERVE_ASK_H

#include "serve/server.h"

typedef struct Ask Ask;

/* What a protocol does with an answer, in this order for each choice (of several prompts: numbered prompt by prompt):
 * token and part any number of times, then end. When all choices have ended, done; if the engine fails, fail; if the
 * client leaves, left. After one of these three the ask is gone, and so is the exchange, which done and fail have to
 * answer. Any may be NULL but these. */
typedef struct AskWriter {
    void (*token)(void *context, int choice, const JobEvent *event);          /* before the parts that it completes */
    void (*part)(void *context, int choice, const ReplyEvent *event);         /* of a raw answer: REPLY_TEXT only */
    void (*end)(void *context, int choice, FinishReason finish, int n_calls); /* FINISH_STOP or FINISH_LENGTH */
    void (*idle)(void *context); /* a stream has been silent for ten seconds */
    void (*done)(void *context);
    void (*fail)(void *context, const char *why);
    void (*left)(void *context);
} AskWriter;

typedef struct AskOptions {
    Server *server;
    ServedModel *model;
    Exchange *exchange;
    const Request *requests; /* [n_requests], copied: several prompts, each with n_choices answers */
    int n_requests, n_choices;
    const ReplyOptions *how; /* NULL: the text as it is. Its tools must outlive the ask. */
    const AskWriter *writer;
    void *context;
} AskOptions;

/* Submits it. False when it is refused: 400 for a request that can not run, 503 when too many wait. */
bool ask_start(const AskOptions *options, Ask **out, ApiError *err);
JobUsage ask_usage(const Ask *a); /* of all prompts, without what was cut; the times are the longest */
int ask_thoughts(const Ask *a);   /* of the tokens of all answers those that are reasoning */
/* Which of its request's stop strings ended a choice, -1: none. Valid from its end on. */
int ask_stop(const Ask *a, int choice);
/* A choice is long enough: nothing more of it is passed on or counted, and it ends as if the model had ended it here.
 */
void ask_cut(Ask *a, int choice);
/* Of the tokens of a prompt after its first, where its request scores them; valid from its first event on. */
const TokenScore *ask_prompt_scores(const Ask *a, int request, size_t *n);

#endif
