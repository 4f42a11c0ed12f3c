/* From messages to an answer on its way: what the chat-like protocols have in common once their own forms are
 * translated. */
#ifndef LOCKSTEP_SERVE_CONVERSE_H
#define LOCKSTEP_SERVE_CONVERSE_H

#include "serve/ask.h"
#include "serve/fields.h"
#include "serve/inputs.h"

/* Fill in the model, the fields, the messages (as clients of the chat API send them) and what tools there are; all zero
 * otherwise. Borrowed: everything that the fields and the tools point to. */
typedef struct Converse {
    ServedModel *model;
    Fields fields;
    const JsonValue *messages;
    const JsonValue *tools;      /* as the chat API has them; NULL: none, and calls are text then */
    bool fixed_thinking, thinks; /* whether the template is told to let the model think (enable_thinking) */
    const char *stops_name;      /* what clients call stop strings; NULL: "stop" */
    int64_t max_tokens;          /* -1: as many as there is room for */
    int n_choices;
    bool must_call, one_call; /* the answer must be tool calls, or one, */
    const char *must_name;    /* of this tool only; NULL: of any */
    int thinking_budget;      /* tokens after which reasoning is closed; 0: no limit */
    /* made by converse_prepare */
    bool opens; /* the prompt ends where an answer begins */
    JsonDoc *for_template, *more, *variables;
    IdList ids;
    LogitBias *bias;
    StopText *stops;
    Grammar *grammar;
    IdList closing; /* the mark that closes reasoning */
    IdList end_ids; /* where a middle is filled in: its own ends, and the model's */
    Request request;
    ReplyOptions how;
} Converse;

/* Of the request, what does not depend on the prompt: how tokens are chosen, and what ends the answer. */
bool converse_settings(Converse *c, ApiError *err);
/* The form that the fields ask for, where the prompt is not one of messages. */
bool converse_shape(Converse *c, ApiError *err);
/* Whether something is to stand after the answer. An empty suffix is one that many clients always send. */
bool converse_has_suffix(const Converse *c);
/* Encodes the prompts with the suffix, for a model that fills in the middle, and lets its marks end the answer. */
bool converse_infill(Converse *c, Inputs *prompts, ApiError *err);
/* Renders the messages: sets the variables of the template, and the ids. */
bool converse_prompt(Converse *c, ApiError *err);
/* Renders the prompt and makes the request. */
bool converse_prepare(Converse *c, ApiError *err);
bool converse_start(Converse *c, Server *s, Exchange *x, const AskWriter *writer, void *context, Ask **out,
                    ApiError *err);
void converse_clear(Converse *c);

/* The smallest of several limits; -1 where none is set. */
int64_t converse_limit(FieldInt a, FieldInt b);

#endif
