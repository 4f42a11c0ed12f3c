/* The open connections of a server: how many there are, and for how long each has been sending a request. */
#ifndef LOCKSTEP_SERVE_CONNECTIONS_H
#define LOCKSTEP_SERVE_CONNECTIONS_H

#include "base/error.h"

#include <event2/event.h>

struct bufferevent;
struct evhttp;
struct evhttp_bound_socket;

typedef struct Connections Connections;

/* Watches those of `server`, which must be freed before this is. While `most` are open no further one is accepted; one
 * that has not sent a whole request `seconds` after its first byte is closed. */
Connections *connections_new(struct event_base *base, struct evhttp *server, struct evhttp_bound_socket *socket,
                             int most, int seconds, Error *err);
void connections_free(Connections *c);
/* The listener is about to go. */
void connections_stop(Connections *c);

/* A whole request has come, and is being answered; and the answer is out. */
void connection_begins(Connections *c, struct bufferevent *stream);
void connection_ends(Connections *c, struct bufferevent *stream);

#endif
