/* evhttp knows neither a limit nor a slow sender: its time-out starts anew with every byte. So this file makes the
 * streams for it (the one hook there is), notes when the first byte of a request comes, and looks at all of them once a
 * second.
 *
 * A stream is held by one reference of ours, so that it can be looked at safely; that evhttp has let go of it shows in
 * its event callback, which is gone then. Until ours is gone too the socket stays open: its number must not go to a new
 * connection while this stream still reads from it. */
#include "serve/connections.h"
#include "base/memory.h"
#include "engine/clock.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>

enum { LOOK_SECONDS = 1 };

typedef struct Connection {
    Connections *all;
    struct bufferevent *stream;
    double since; /* the first byte of the request that is coming; 0: none has come */
    bool busy;    /* its request is being answered */
    struct Connection *next;
} Connection;

struct Connections {
    Connection *first;
    int n, most, seconds;
    struct event *look;
    struct evconnlistener *listener;
    bool refuses;
};

static void on_bytes(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *argument) {
    (void)buffer;
    Connection *c = argument;
    if (info->n_added > 0 && !c->busy && c->since == 0) c->since = clock_seconds();
}

static void forget(Connection **at) {
    Connection *c = *at;
    *at = c->next;
    c->all->n--;
    evbuffer_remove_cb(bufferevent_get_input(c->stream), on_bytes, c);
    bufferevent_decref(c->stream);
    mem_free(c);
}

/* The connection as evhttp knows it; NULL when it has let go of the stream. */
static struct evhttp_connection *owner(const Connection *c) {
    bufferevent_event_cb on_event = NULL;
    void *context = NULL;
    bufferevent_getcb(c->stream, NULL, NULL, &on_event, &context);
    return on_event ? context : NULL;
}

static void forget_gone(Connections *all) {
    for (Connection **at = &all->first; *at;) {
        Connection *c = *at;
        if (owner(c))
            at = &c->next;
        else
            forget(at);
    }
}

/* Without memory for an entry the connection is served all the same, and not watched. */
static struct bufferevent *make_stream(struct event_base *base, void *argument) {
    Connections *all = argument;
    forget_gone(all); /* or their sockets would stay open until the next look */
    struct bufferevent *stream = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    Connection *c = stream ? mem_zeroed(1, sizeof *c) : NULL;
    if (!c) return stream;
    *c = (Connection){.all = all, .stream = stream, .next = all->first};
    all->first = c;
    all->n++;
    bufferevent_incref(stream);
    evbuffer_add_cb(bufferevent_get_input(stream), on_bytes, c);
    if (all->n >= all->most && !all->refuses && all->listener)
        all->refuses = evconnlistener_disable(all->listener) == 0;
    return stream;
}

static void on_look(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Connections *all = argument;
    double now = clock_seconds();
    for (Connection *c = all->first; c; c = c->next) {
        bool slow = !c->busy && c->since != 0 && now - c->since > all->seconds;
        if (slow && owner(c)) evhttp_connection_free(owner(c));
    }
    forget_gone(all);
    if (all->refuses && all->n < all->most) all->refuses = evconnlistener_enable(all->listener) != 0;
}

Connections *connections_new(struct event_base *base, struct evhttp *server, struct evhttp_bound_socket *socket,
                             int most, int seconds, Error *err) {
    struct timeval look = {LOOK_SECONDS, 0};
    Connections *c = mem_zeroed(1, sizeof *c);
    if (c) {
        *c = (Connections){.most = most, .seconds = seconds, .listener = evhttp_bound_socket_get_listener(socket)};
        c->look = event_new(base, -1, EV_PERSIST, on_look, c);
    }
    if (!c || !c->look) {
        mem_free(c);
        error_memory(err, "the connections");
        return NULL;
    }
    event_add(c->look, &look);
    evhttp_set_bevcb(server, make_stream, c);
    return c;
}

void connections_free(Connections *c) {
    if (!c) return;
    while (c->first) forget(&c->first);
    event_free(c->look);
    mem_free(c);
}

void connections_stop(Connections *c) {
    c->listener = NULL;
    c->refuses = false;
}

static Connection *find(const Connections *all, const struct bufferevent *stream) {
    Connection *c = all->first;
    while (c && c->stream != stream) c = c->next;
    return c;
}

void connection_begins(Connections *all, struct bufferevent *stream) {
    Connection *c = find(all, stream);
    if (c) c->busy = true;
}

void connection_ends(Connections *all, struct bufferevent *stream) {
    Connection *c = find(all, stream);
    if (!c) return;
    c->busy = false;
    c->since = 0;
}
