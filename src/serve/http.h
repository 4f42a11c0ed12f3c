/* HTTP over libevent's evhttp: one loop, and one Exchange for each request that is being answered. Handlers see bodies
 * as JSON and answer with JSON, or with a stream of server-sent events. */
#ifndef LOCKSTEP_SERVE_HTTP_H
#define LOCKSTEP_SERVE_HTTP_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <event2/event.h>

typedef struct Exchange Exchange;
typedef struct Http Http;

typedef void HttpHandler(Exchange *x, void *context);

/* A path that ends in "*" takes all that begin so. */
typedef struct HttpRoute {
    const char *method, *path;
    HttpHandler *handle;
} HttpRoute;

typedef struct HttpOptions {
    const char *host;
    int port;            /* 0: any that is free */
    const char *origins; /* allowed by CORS, with commas between; "*": all; NULL: none */
    size_t max_body;     /* bytes */
    int max_connections; /* at once; further ones wait to be accepted */
    int request_seconds; /* a request must be whole so long after its first byte */
    int idle_seconds;    /* a connection that sends nothing, or takes nothing, is closed after them */
    /* Whether a request may go on; else it has answered. NULL: all may. */
    bool (*admit)(Exchange *x, void *context);
    const HttpRoute *routes; /* the last has no path */
    /* Answers a request that no route takes. `methods`: what its path takes, with commas between; empty: nothing. */
    void (*lost)(Exchange *x, const char *methods, void *context);
    /* Writes the body of an error that is HTTP's own, as the protocol of that path has it. id: as exchange_id. */
    void (*write_error)(Buffer *out, const char *path, const char *id, int status, const char *message);
    /* Called for each answer as it begins, with its route (NULL: none) and its status; 499 is a client that left before
     * that. NULL: nobody counts. */
    void (*answered)(void *context, const HttpRoute *route, int status);
    void *context; /* of the handlers */
} HttpOptions;

Http *http_new(struct event_base *base, const HttpOptions *options, Error *err);
void http_free(Http *h);
int http_port(const Http *h);
bool http_is_local(const Http *h); /* whether only this machine can reach it */
int http_open_exchanges(const Http *h);
void http_stop_listening(Http *h);

/* ---- an exchange, in a handler and until it is answered ---- */

const char *exchange_path(const Exchange *x); /* without the query */
const char *exchange_method(const Exchange *x);
const char *exchange_header(const Exchange *x, const char *name); /* of the request, or NULL */
const char *exchange_tail(const Exchange *x);                     /* what stands for the "*" of its route, decoded */
const char *exchange_query(const Exchange *x, const char *name);  /* of the path's query, decoded, or NULL */
/* The body as a JSON object; NULL with the reason, and then nothing is answered yet. The document is the exchange's. */
const JsonValue *exchange_body(Exchange *x, Error *err);
/* The context of the routes. */
void *exchange_server(const Exchange *x);
/* A number of its own: what errors, logs and answers call it by. */
const char *exchange_id(const Exchange *x);

/* Called when the client has left before the answer was complete; the exchange is gone after it returns. */
void exchange_on_leave(Exchange *x, void (*left)(void *context), void *context);

/* Gives the request to its handler once more, as if it had just come. */
void exchange_retry(Exchange *x);

/* Headers of the answer, before it begins. */
void exchange_add_header(Exchange *x, const char *name, const char *value);
/* The whole answer; the exchange is gone afterwards. */
void exchange_reply(Exchange *x, int status, const char *type, const char *body, size_t n);
void exchange_reply_json(Exchange *x, int status, const Buffer *body);

/* A stream: begin, any number of sends, end. The exchange is gone after the end. */
void exchange_stream_begin(Exchange *x, const char *type);
void exchange_send(Exchange *x, const char *data, size_t n);
void exchange_stream_end(Exchange *x);
bool exchange_is_streaming(const Exchange *x);
/* Bytes that the client has not taken yet. */
size_t exchange_unsent(const Exchange *x);

#endif
