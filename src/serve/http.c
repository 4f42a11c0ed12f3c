/* evhttp does the protocol, but for a stream's events, which go to the socket at once; this file keeps its two traps
 * away from everyone else.
 *
 * A client that leaves while its request is worked on is only noticed when the connection is read from, but evhttp,
 * which has stopped reading by then, ends the process when its own read callback runs in that state. So reading goes on
 * with a low watermark that is never reached: the end of the stream is seen, and data of a pipelined request waits.
 *
 * A request whose connection is gone belongs to us: answering it frees it. A request whose connection is freed by
 * evhttp (at the end) does not. */
#define _POSIX_C_SOURCE 200809L
#include "serve/http.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/connections.h"
#include "serve/framing.h"
#include "serve/origin.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { MAX_HEADERS = 64 << 10, PIPELINED = 64 << 10, CLIENT_LEFT = 499, ID = 32 };

struct Http {
    struct evhttp *server;
    struct evhttp_bound_socket *socket;
    Connections *connections;
    HttpOptions options;
    int port, open;
    bool local;
    uint64_t n_exchanges;
};

struct Exchange {
    Http *http;
    struct evhttp_request *request;
    struct evhttp_connection *connection;
    const HttpRoute *route; /* NULL: none, or not yet */
    JsonDoc *body;
    char *tail;
    struct evkeyvalq query;
    char id[ID];
    bool streaming;
    void (*left)(void *context);
    void *context;
};

/* ---- the exchange's life ---- */

static void exchange_free(Exchange *x) {
    x->http->open--;
    json_free(x->body);
    mem_free(x->tail);
    evhttp_clear_headers(&x->query);
    mem_free(x);
}

static void note_answer(const Exchange *x, int status) {
    const HttpOptions *o = &x->http->options;
    if (o->answered) o->answered(o->context, x->route, status);
}

/* Evhttp goes on with the connection as it knows it. */
static void give_back(Exchange *x) {
    if (!x->connection) return;
    struct bufferevent *stream = evhttp_connection_get_bufferevent(x->connection);
    struct timeval idle = {x->http->options.idle_seconds, 0};
    evhttp_connection_set_closecb(x->connection, NULL, NULL);
    connection_ends(x->http->connections, stream);
    bufferevent_disable(stream, EV_READ);
    bufferevent_setwatermark(stream, EV_READ, 0, 0);
    bufferevent_set_timeouts(stream, &idle, &idle);
}

static void on_close(struct evhttp_connection *connection, void *argument) {
    (void)connection;
    Exchange *x = argument;
    bool ours = evhttp_request_get_connection(x->request) == NULL;
    x->connection = NULL;
    if (!x->streaming) note_answer(x, CLIENT_LEFT);
    if (x->left) x->left(x->context);
    if (ours && x->streaming)
        evhttp_send_reply_end(x->request);
    else if (ours)
        evhttp_send_reply(x->request, HTTP_INTERNAL, NULL, NULL);
    exchange_free(x);
}

static void watch(Exchange *x) {
    struct bufferevent *stream = evhttp_connection_get_bufferevent(x->connection);
    struct timeval taking = {x->http->options.idle_seconds, 0};
    evhttp_connection_set_closecb(x->connection, on_close, x);
    connection_begins(x->http->connections, stream);
    bufferevent_set_timeouts(stream, NULL, &taking); /* an answer may take its time, its reader may not */
    bufferevent_setwatermark(stream, EV_READ, SIZE_MAX, PIPELINED);
    bufferevent_enable(stream, EV_READ);
}

static void next_id(Http *h, char out[ID]) {
    snprintf(out, ID, "req_%016" PRIx64, ++h->n_exchanges);
}

static Exchange *exchange_new(Http *h, struct evhttp_request *request) {
    Exchange *x = mem_zeroed(1, sizeof *x);
    if (!x) return NULL;
    x->http = h;
    x->request = request;
    x->connection = evhttp_request_get_connection(request);
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    TAILQ_INIT(&x->query);
    if (query) evhttp_parse_query_str(query, &x->query);
    next_id(h, x->id);
    h->open++;
    watch(x);
    return x;
}

/* ---- what a handler reads ---- */

const char *exchange_path(const Exchange *x) {
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(x->request));
    return path && *path ? path : "/";
}

const char *exchange_method(const Exchange *x) {
    switch (evhttp_request_get_command(x->request)) {
    case EVHTTP_REQ_GET: return "GET";
    case EVHTTP_REQ_POST: return "POST";
    case EVHTTP_REQ_DELETE: return "DELETE";
    case EVHTTP_REQ_HEAD: return "HEAD";
    case EVHTTP_REQ_OPTIONS: return "OPTIONS";
    case EVHTTP_REQ_PUT: return "PUT";
    case EVHTTP_REQ_PATCH: return "PATCH";
    default: return "?";
    }
}

const char *exchange_header(const Exchange *x, const char *name) {
    return evhttp_find_header(evhttp_request_get_input_headers(x->request), name);
}

const char *exchange_tail(const Exchange *x) {
    return x->tail ? x->tail : "";
}

const char *exchange_query(const Exchange *x, const char *name) {
    return evhttp_find_header(&x->query, name);
}

void *exchange_server(const Exchange *x) {
    return x->http->options.context;
}

const char *exchange_id(const Exchange *x) {
    return x->id;
}

const JsonValue *exchange_body(Exchange *x, Error *err) {
    struct evbuffer *input = evhttp_request_get_input_buffer(x->request);
    size_t n = evbuffer_get_length(input);
    const char *text = n ? (const char *)evbuffer_pullup(input, -1) : "";
    if (!text) {
        error_memory(err, "the body");
        return NULL;
    }
    if (!x->body && !(x->body = json_parse(text, n, 0, err))) {
        error_prefix(err, "the body is not JSON");
        return NULL;
    }
    if (json_root(x->body)->type == JSON_OBJECT) return json_root(x->body);
    error_set(err, "the body must be a JSON object");
    return NULL;
}

void exchange_on_leave(Exchange *x, void (*left)(void *context), void *context) {
    x->left = left;
    x->context = context;
}

void exchange_retry(Exchange *x) {
    exchange_on_leave(x, NULL, NULL);
    x->route->handle(x, x->http->options.context);
}

/* ---- answers ---- */

void exchange_add_header(Exchange *x, const char *name, const char *value) {
    evhttp_add_header(evhttp_request_get_output_headers(x->request), name, value);
}

/* Whatever the request says of it. evhttp takes that for granted: it keeps a connection of HTTP/1.0 when asked, and
 * then gives an answer that has not begun a length of 0. */
static void close_after(Exchange *x) {
    evhttp_remove_header(evhttp_request_get_input_headers(x->request), "Connection");
    exchange_add_header(x, "Connection", "close");
}

void exchange_reply(Exchange *x, int status, const char *type, const char *body, size_t n) {
    struct evbuffer *out = evbuffer_new();
    char length[24];
    bool head = evhttp_request_get_command(x->request) == EVHTTP_REQ_HEAD;
    snprintf(length, sizeof length, "%zu", n);
    if (head && status != HTTP_NOTMODIFIED) exchange_add_header(x, "Content-Length", length);
    if (out && !head) evbuffer_add(out, body, n); /* evhttp would send the body of an answer to HEAD too */
    if (type) exchange_add_header(x, "Content-Type", type);
    exchange_add_header(x, "x-request-id", x->id);
    log_verbose("%s %s %s: %d", x->id, exchange_method(x), exchange_path(x), status);
    note_answer(x, status);
    give_back(x);
    evhttp_send_reply(x->request, status, NULL, out);
    if (out) evbuffer_free(out);
    exchange_free(x);
}

void exchange_reply_json(Exchange *x, int status, const Buffer *body) {
    static const char memory[] =
        "{\"error\": {\"message\": \"out of memory\", \"type\": \"server_error\", \"param\": null, "
        "\"code\": null}}";
    if (body->failed)
        exchange_reply(x, HTTP_INTERNAL, "application/json", memory, sizeof memory - 1);
    else
        exchange_reply(x, status, "application/json", buffer_string(body), body->length);
}

void exchange_stream_begin(Exchange *x, const char *type) {
    exchange_add_header(x, "Content-Type", type);
    exchange_add_header(x, "Cache-Control", "no-cache");
    exchange_add_header(x, "x-request-id", x->id);
    if (x->request->major < 1 || x->request->minor < 1) close_after(x); /* without chunks nothing else ends it */
    log_verbose("%s %s %s: stream", x->id, exchange_method(x), exchange_path(x));
    x->streaming = true;
    note_answer(x, HTTP_OK);
    evhttp_send_reply_start(x->request, HTTP_OK, NULL);
}

/* A chunk as evhttp would frame it, straight to the socket, where nothing waits before it; what the socket does not
 * take is left to the loop. By way of the loop each token costs four more system calls, on a CPU that is wanted for the
 * next one. */
static bool send_now(Exchange *x, const char *data, size_t n) {
    struct bufferevent *stream = evhttp_connection_get_bufferevent(x->connection);
    struct evbuffer *unsent = bufferevent_get_output(stream);
    char length[24];
    int n_length = snprintf(length, sizeof length, "%zx\r\n", n);
    struct iovec parts[] = {{length, (size_t)n_length}, {(char *)(uintptr_t)data, n}, {(char *)(uintptr_t) "\r\n", 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    if (n == 0 || !x->request->chunked || evbuffer_get_length(unsent) > 0) return false;
    ssize_t sent = sendmsg(bufferevent_getfd(stream), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return false; /* an error is met again by the loop, which knows what to do */
    for (int i = 0; i < 3; i++) {
        size_t done = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
        sent -= (ssize_t)done;
        evbuffer_add(unsent, (char *)parts[i].iov_base + done, parts[i].iov_len - done);
    }
    return true;
}

void exchange_send(Exchange *x, const char *data, size_t n) {
    if (send_now(x, data, n)) return;
    struct evbuffer *out = evbuffer_new();
    if (!out) return;
    evbuffer_add(out, data, n);
    evhttp_send_reply_chunk(x->request, out);
    evbuffer_free(out);
}

void exchange_stream_end(Exchange *x) {
    give_back(x);
    evhttp_send_reply_end(x->request);
    exchange_free(x);
}

bool exchange_is_streaming(const Exchange *x) {
    return x->streaming;
}

size_t exchange_unsent(const Exchange *x) {
    return evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(x->connection)));
}

/* ---- routes ---- */

/* In place. What is no escape stays. */
static void percent_decode(char *text) {
    char *out = text;
    for (const char *at = text; *at; at++) {
        int high = *at == '%' ? hex_digit(at[1]) : -1, low = high >= 0 ? hex_digit(at[2]) : -1;
        *out++ = low >= 0 ? (char)(high * 16 + low) : *at;
        if (low >= 0) at += 2;
    }
    *out = '\0';
}

static bool route_matches(Exchange *x, const HttpRoute *r) {
    const char *path = exchange_path(x);
    size_t n = strlen(r->path);
    if (n == 0 || r->path[n - 1] != '*') return strcmp(path, r->path) == 0;
    if (strncmp(path, r->path, n - 1) != 0 || path[n - 1] == '\0') return false;
    mem_free(x->tail);
    x->tail = mem_string(path + n - 1, strlen(path + n - 1));
    if (x->tail) percent_decode(x->tail);
    return x->tail != NULL;
}

static bool is_method(const Exchange *x, const HttpRoute *r) {
    const char *method = exchange_method(x);
    return strcmp(method, r->method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

/* Cross-origin headers; true when that was all the client asked for. */
static bool answer_cors(Exchange *x) {
    const char *origins = x->http->options.origins, *origin = exchange_header(x, "Origin");
    if (origin && origin_is_listed(origins, origin)) {
        exchange_add_header(x, "Access-Control-Allow-Origin", origin);
        exchange_add_header(x, "Vary", "Origin");
        exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        const char *headers = exchange_header(x, "Access-Control-Request-Headers");
        exchange_add_header(x, "Access-Control-Allow-Headers",
                            headers ? headers : "Authorization, Content-Type, x-api-key");
        exchange_add_header(x, "Access-Control-Max-Age", "86400");
    }
    if (strcmp(exchange_method(x), "OPTIONS") != 0) return false;
    exchange_reply(x, HTTP_NOCONTENT, NULL, "", 0);
    return true;
}

static void dispatch(Exchange *x) {
    const HttpOptions *o = &x->http->options;
    Buffer methods = {0};
    if (answer_cors(x)) return;
    if (o->admit && !o->admit(x, o->context)) return;
    for (const HttpRoute *r = o->routes; r->path; r++) {
        if (!route_matches(x, r)) continue;
        if (!is_method(x, r)) {
            buffer_printf(&methods, "%s%s", methods.length ? ", " : "", r->method);
            continue;
        }
        buffer_clear(&methods);
        x->route = r;
        r->handle(x, o->context);
        return;
    }
    o->lost(x, buffer_string(&methods), o->context);
    buffer_clear(&methods);
}

/* True when the request is not one, and that was answered. */
static bool answer_fault(Exchange *x) {
    bool ends = false;
    Buffer out = {0};
    FramingFault f = framing_check(x->request, &ends);
    if (ends) close_after(x);
    if (!f.status) return false;
    if (f.status == 415) exchange_add_header(x, "Accept-Encoding", "identity");
    x->http->options.write_error(&out, exchange_path(x), x->id, f.status, f.message);
    exchange_reply_json(x, f.status, &out);
    buffer_clear(&out);
    return true;
}

static void on_request(struct evhttp_request *request, void *argument) {
    Exchange *x = exchange_new(argument, request);
    if (x && answer_fault(x)) return;
    if (x)
        dispatch(x);
    else
        evhttp_send_reply(request, HTTP_SERVUNAVAIL, NULL, NULL);
}

/* ---- requests that can not be read ---- */

static void on_unread(Buffer *out, const char *line, size_t received, int status, void *context) {
    Http *h = context;
    const HttpOptions *o = &h->options;
    UnreadRequest r = {status, line, received, o->max_body, MAX_HEADERS};
    FramingFault f = framing_explain(&r);
    Buffer body = {0};
    char id[ID], path[256];
    next_id(h, id);
    framing_path(path, sizeof path, line);
    o->write_error(&body, path, id, f.status, f.message);
    buffer_printf(out,
                  "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n"
                  "x-request-id: %s\r\n\r\n",
                  f.status, framing_phrase(f.status), body.length, id);
    if (strncmp(line, "HEAD ", 5) != 0) buffer_append(out, body.data, body.length);
    out->failed = out->failed || body.failed;
    buffer_clear(&body);
    log_verbose("%s %s: %d, %s", id, path, f.status, f.message);
    if (o->answered) o->answered(o->context, NULL, f.status);
}

/* ---- the server ---- */

static void note_address(Http *h) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t n = sizeof address;
    memset(&address, 0, sizeof address);
    if (getsockname(evhttp_bound_socket_get_fd(h->socket), &address.any, &n) != 0) return;
    bool v6 = address.any.sa_family == AF_INET6;
    h->port = ntohs(v6 ? address.v6.sin6_port : address.v4.sin_port);
    h->local = v6 ? IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr) : ntohl(address.v4.sin_addr.s_addr) >> 24 == 127;
}

static bool listens(Http *h, struct event_base *base, Error *err) {
    const HttpOptions *o = &h->options;
    ConnectionsOptions connections = {o->max_connections, o->request_seconds, on_unread, h};
    h->socket = evhttp_bind_socket_with_handle(h->server, o->host, (ev_uint16_t)o->port);
    if (!h->socket)
        return error_set(err, "cannot listen on %s port %d: is another program there? (--port)", o->host, o->port);
    note_address(h);
    h->connections = connections_new(base, h->server, h->socket, &connections, err);
    return h->connections != NULL;
}

Http *http_new(struct event_base *base, const HttpOptions *options, Error *err) {
    Http *h = mem_zeroed(1, sizeof *h);
    if (!h || !(h->server = evhttp_new(base))) {
        mem_free(h);
        error_memory(err, "the server");
        return NULL;
    }
    h->options = *options;
    /* Also those that no path takes: evhttp's own answer to them would not say what the path takes. */
    evhttp_set_allowed_methods(h->server, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_DELETE | EVHTTP_REQ_HEAD |
                                              EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PUT | EVHTTP_REQ_PATCH);
    evhttp_set_max_body_size(h->server, (ev_ssize_t)options->max_body);
    evhttp_set_flags(h->server, EVHTTP_SERVER_LINGERING_CLOSE); /* most clients read once all is sent, or never */
    evhttp_set_max_headers_size(h->server, MAX_HEADERS);
    evhttp_set_timeout(h->server, options->idle_seconds);
    evhttp_set_gencb(h->server, on_request, h);
    if (listens(h, base, err)) return h;
    http_free(h);
    return NULL;
}

void http_free(Http *h) {
    if (!h) return;
    evhttp_free(h->server);
    connections_free(h->connections);
    mem_free(h);
}

int http_port(const Http *h) {
    return h->port;
}

bool http_is_local(const Http *h) {
    return h->local;
}

int http_open_exchanges(const Http *h) {
    return h->open;
}

void http_stop_listening(Http *h) {
    if (!h->socket) return;
    connections_stop(h->connections);
    evhttp_del_accept_socket(h->server, h->socket);
    h->socket = NULL;
}
