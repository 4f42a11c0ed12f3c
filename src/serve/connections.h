/* The open connections of a server: how many there are, and for how long each has been sending a request. */
#ifndef LOCKSTEP_SERVE_CONNECTIONS_H
#define LOCKSTEP_SERVE_CONNECTIONS_H

#include "base/buffer.h"
#include "base/error.h"

#include <event2/event.h>

struct bufferevent;
struct evhttp;
struct evhttp_bound_socket;

typedef struct Connections Connections;

typedef struct ConnectionsOptions {
    int most;    /* while so many are open no further one is accepted */
    int seconds; /* one that has not sent a whole request so long after its first byte is closed */
    /* A request that evhttp has answered by itself with `status`, as it could not read it: what is sent instead goes
     * into out, whole. line: how the request began, its first line unless that is very long; received: bytes of it. */
    void (*unread)(Buffer *out, const char *line, size_t received, int status, void *context);
    void *context;
} ConnectionsOptions;

/* Watches those of `server`, which must be freed before this is. */
Connections *connections_new(struct event_base *base, struct evhttp *server, struct evhttp_bound_socket *socket,
                             const ConnectionsOptions *options, Error *err);
void connections_free(Connections *c);
/* The listener is about to go. */
void connections_stop(Connections *c);

/* A whole request has come, and is being answered; and the answer is out. */
void connection_begins(Connections *c, struct bufferevent *stream);
void connection_ends(Connections *c, struct bufferevent *stream);

#endif
