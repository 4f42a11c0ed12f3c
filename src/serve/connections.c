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
#include <stdlib.h>
#include <string.h>

enum { LOOK_SECONDS = 1, LINE = 512 };

typedef struct Connection {
    Connections *all;
    struct bufferevent *stream;
    double since;    /* the first byte of the request that is coming; 0: none has come */
    bool busy;       /* its request is being answered */
    bool ours;       /* what is in its output is our answer */
    char line[LINE]; /* how the request that is coming begins */
    size_t received; /* bytes of it */
    int unread;      /* the status of evhttp's own answer, which waits to be replaced; 0: there is none */
    struct Connection *next;
} Connection;

struct Connections {
    ConnectionsOptions options;
    Connection *first;
    int n;
    struct event *look, *unread;
    struct evconnlistener *listener;
    bool refuses;
};

/* The connection as evhttp knows it; NULL when it has let go of the stream. */
static struct evhttp_connection *owner(const Connection *c) {
    bufferevent_event_cb on_event = NULL;
    void *context = NULL;
    bufferevent_getcb(c->stream, NULL, NULL, &on_event, &context);
    return on_event ? context : NULL;
}

/* ---- what comes, and what evhttp says by itself ---- */

/* evhttp takes the first line from the buffer once it is whole, so until then the request begins where the buffer
 * does. */
static void note_request(Connection *c, struct evbuffer *input, size_t n_new) {
    if (c->since == 0) c->since = clock_seconds();
    c->received += n_new;
    if (strchr(c->line, '\n') || strlen(c->line) == sizeof c->line - 1) return;
    ev_ssize_t n = evbuffer_copyout(input, c->line, sizeof c->line - 1);
    c->line[n > 0 ? n : 0] = '\0';
}

/* A client that is still sending while its connection closes would lose the answer if nobody read on. */
static void on_bytes(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *argument) {
    Connection *c = argument;
    if (info->n_added == 0 || c->busy) return;
    if (owner(c))
        note_request(c, buffer, info->n_added);
    else
        evbuffer_drain(buffer, evbuffer_get_length(buffer));
}

/* The status of the answer that begins in a stream's output; 0: too little of it is there. The stream keeps the
 * beginning to itself, unless asked. */
static int status_in(struct evbuffer *output) {
    static const char version[] = "HTTP/1.1 ";
    char line[sizeof version + 3] = "";
    evbuffer_unfreeze(output, 1);
    ev_ssize_t n = evbuffer_copyout(output, line, sizeof line - 1);
    evbuffer_freeze(output, 1);
    return n == (ev_ssize_t)sizeof line - 1 ? atoi(line + sizeof version - 1) : 0;
}

static void on_output(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *argument) {
    Connection *c = argument;
    if (evbuffer_get_length(buffer) == 0 && !c->busy) c->ours = false;
    if (info->n_added == 0 || c->ours || c->unread) return;
    int status = status_in(buffer);
    if (status <= 100) return; /* 100 tells the client to go on, and is no answer yet */
    c->unread = status;
    event_active(c->all->unread, EV_TIMEOUT, 1);
}

static void replace_answer(Connection *c) {
    Buffer out = {0};
    const ConnectionsOptions *o = &c->all->options;
    struct evbuffer *output = bufferevent_get_output(c->stream);
    o->unread(&out, c->line, c->received, c->unread, o->context);
    if (!out.failed) {
        evbuffer_unfreeze(output, 1);
        evbuffer_drain(output, evbuffer_get_length(output));
        evbuffer_freeze(output, 1);
        c->ours = true;
        evbuffer_add(output, out.data, out.length);
    }
    buffer_clear(&out);
}

static void on_unread(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Connections *all = argument;
    for (Connection *c = all->first; c; c = c->next) {
        if (!c->unread) continue;
        if (owner(c)) replace_answer(c);
        c->unread = 0;
    }
}

/* ---- who is there ---- */

static void forget(Connection **at) {
    Connection *c = *at;
    *at = c->next;
    c->all->n--;
    evbuffer_remove_cb(bufferevent_get_input(c->stream), on_bytes, c);
    evbuffer_remove_cb(bufferevent_get_output(c->stream), on_output, c);
    bufferevent_decref(c->stream);
    mem_free(c);
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
    evbuffer_add_cb(bufferevent_get_output(stream), on_output, c);
    if (all->n >= all->options.most && !all->refuses && all->listener)
        all->refuses = evconnlistener_disable(all->listener) == 0;
    return stream;
}

static void on_look(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Connections *all = argument;
    double now = clock_seconds();
    for (Connection *c = all->first; c; c = c->next) {
        bool slow = !c->busy && c->since != 0 && now - c->since > all->options.seconds;
        if (slow && owner(c)) evhttp_connection_free(owner(c));
    }
    forget_gone(all);
    if (all->refuses && all->n < all->options.most) all->refuses = evconnlistener_enable(all->listener) != 0;
}

Connections *connections_new(struct event_base *base, struct evhttp *server, struct evhttp_bound_socket *socket,
                             const ConnectionsOptions *options, Error *err) {
    struct timeval look = {LOOK_SECONDS, 0};
    Connections *c = mem_zeroed(1, sizeof *c);
    if (c) {
        *c = (Connections){.options = *options, .listener = evhttp_bound_socket_get_listener(socket)};
        c->look = event_new(base, -1, EV_PERSIST, on_look, c);
        c->unread = event_new(base, -1, 0, on_unread, c);
    }
    if (!c || !c->look || !c->unread) {
        connections_free(c);
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
    if (c->look) event_free(c->look);
    if (c->unread) event_free(c->unread);
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
    if (c) c->busy = c->ours = true;
}

/* What a client has sent ahead is the beginning of its next request. */
void connection_ends(Connections *all, struct bufferevent *stream) {
    Connection *c = find(all, stream);
    if (!c) return;
    struct evbuffer *input = bufferevent_get_input(stream);
    size_t ahead = evbuffer_get_length(input);
    c->busy = false;
    c->since = 0;
    c->received = 0;
    c->line[0] = '\0';
    if (ahead) note_request(c, input, ahead);
}
