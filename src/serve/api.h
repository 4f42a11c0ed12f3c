/* What the protocols share: who they are, and how a request is refused. */
#ifndef LOCKSTEP_SERVE_API_H
#define LOCKSTEP_SERVE_API_H

#include "serve/http.h"

/* The shapes that requests come in; bits, so that a field says which have it. */
typedef enum Api {
    API_CHAT = 1,        /* OpenAI /v1/chat/completions */
    API_COMPLETIONS = 2, /* OpenAI /v1/completions */
    API_RESPONSES = 4,   /* OpenAI /v1/responses */
    API_MESSAGES = 8,    /* Anthropic /v1/messages */
    API_OLLAMA = 16,     /* Ollama's options */
    API_EMBEDDINGS = 32, /* OpenAI /v1/embeddings */
    API_RERANK = 64,     /* Jina's and Cohere's /v1/rerank */
    API_TOKENS = 128,    /* /tokenize, /detokenize, /apply-template */
} Api;

enum { API_LATER = 1 };

/* By the path, the protocol of a request that has not come to its handler. */
Api api_of_path(const char *path);

/* Why a request is refused. */
typedef struct ApiError {
    int status;                                /* 400, 401, 404, 503, ...; API_LATER: not refused, see server_model */
    void (*later)(Exchange *x, void *context); /* with API_LATER: what puts the exchange aside */
    void *context;
    const char *code;             /* "context_length_exceeded", ... or NULL; static */
    char param[128];              /* the field at fault, or empty */
    size_t n_tokens, most_tokens; /* of a text that is too long, 0 otherwise: each protocol has its words for it */
    Error message;
} ApiError;

/* Both return false, so that a caller can write `return api_refuse(...)`. */
bool api_refuse(ApiError *e, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool api_refuse_error(ApiError *e, int status, const char *param, const Error *why);
/* `what` has more tokens than the context holds: code context_length_exceeded, in the words by which clients of each
 * protocol know that the conversation is to be shortened. `advice`: what to do. */
bool api_refuse_length(ApiError *e, const char *param, const char *what, size_t n, size_t most, const char *advice);

/* Answers with the error in the shape of that protocol, or puts the exchange aside; it is gone either way. */
void api_fail(Exchange *x, Api api, const ApiError *e);
/* Appends the error's object as that protocol has it, for the middle of a stream. */
void api_write_error(Buffer *out, Api api, const char *request_id, const ApiError *e);

/* Reads what was written here; NULL with a 500 when out of memory. The document is the caller's. */
JsonDoc *api_parse_written(const Buffer *json, ApiError *err);
/* A list whose items `take` writes from those of another; NULL with the reason when one is refused. */
typedef bool ApiTakeItem(Buffer *out, const JsonValue *item, uint32_t i, ApiError *err);
JsonDoc *api_rewrite_list(const JsonValue *items, ApiTakeItem *take, ApiError *err);

/* A request's body, for the handler that has made `state` to answer it. NULL, refused, when the body is not a JSON
 * object, or when there was no memory for the state (NULL). */
const JsonValue *api_body(Exchange *x, const void *state, ApiError *err);
/* Appends "key": seconds since 1970, as RFC 3339 has them. */
void api_write_time(Buffer *out, const char *key, int64_t seconds, long nanoseconds);
/* Appends "key": text, quoted. */
void api_write_text(Buffer *out, const char *key, const char *text, size_t n);

#endif
