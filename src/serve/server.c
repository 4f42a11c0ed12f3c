/* One loop, one engine thread. The engine's thread only ever rings bells: it puts one on a list and writes to an event
 * file descriptor; everything else about connections happens on the loop. */
#define _GNU_SOURCE
#include "serve/server.h"
#include "base/log.h"
#include "base/memory.h"
#include "serve/access.h"
#include "serve/routes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_RESPONSES = 1000, MAX_RESPONSE_BYTES = 64 << 20 };
enum { MAX_BODY = 32 << 20, IDLE_SECONDS = 300, DRAIN_MILLISECONDS = 20, SWEEP_SECONDS = 1 };
enum { MAX_CONNECTIONS = 4096, REQUEST_SECONDS = 60 };

struct Server {
    ServeOptions options;
    struct event_base *base;
    Http *http;
    Engine *engine;
    Models *models;
    Access *access;
    Metrics *metrics;
    ResponseStore *responses;
    int wake; /* eventfd */
    struct event *woken, *stop[2], *reload, *drained, *sweep;
    struct Parked *parked; /* exchanges that wait for a model */
    Bell models_bell;
    pthread_mutex_t lock; /* over the list of bells */
    Bell *bells, **last_bell;
    bool stopping;
};

Engine *server_engine(Server *s) {
    return s->engine;
}

Models *server_models(Server *s) {
    return s->models;
}

struct event_base *server_base(Server *s) {
    return s->base;
}

Metrics *server_metrics(Server *s) {
    return s->metrics;
}

int server_exchanges(const Server *s) {
    return http_open_exchanges(s->http);
}

ResponseStore *server_responses(Server *s) {
    return s->responses;
}

const ServeOptions *server_options(const Server *s) {
    return &s->options;
}

/* ---- models that are not there yet ---- */

/* An exchange that waits for a model. */
typedef struct Parked {
    Server *server;
    ServedModel *model;
    Exchange *exchange;
    struct Parked *next;
} Parked;

static void unpark(Parked *p) {
    Parked **at = &p->server->parked;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    mem_free(p);
}

static void parked_left(void *context) {
    unpark(context);
}

/* The models may be changing while an exchange is put aside; nothing is lost, for states change on the loop only. */
static void park(Exchange *x, void *context) {
    Parked *p = mem_zeroed(1, sizeof *p);
    ServedModel *model = context;
    Server *s = exchange_server(x);
    if (!p) {
        ApiError err;
        api_refuse(&err, 500, NULL, "out of memory");
        api_fail(x, API_CHAT, &err);
        return;
    }
    *p = (Parked){s, model, x, s->parked};
    s->parked = p;
    exchange_on_leave(x, parked_left, p);
    models_load(s->models, model);
}

static Parked *next_parked(Server *s, const ServedModel *model) {
    Parked *p = s->parked;
    while (p && p->model != model) p = p->next;
    return p;
}

/* A model that was unloaded meanwhile is loaded again for who waits for it; one that can not be loaded is refused to
 * all. */
static void on_models(void *context) {
    Server *s = context;
    for (ServedModel *m; (m = models_take(s->models));) {
        bool failed = m->state == MODEL_COLD && m->failure.text[0];
        if (m->state == MODEL_COLD && !failed && next_parked(s, m)) models_load(s->models, m);
        if (m->state != MODEL_READY && !failed) continue;
        for (Parked *p; (p = next_parked(s, m));) {
            Exchange *x = p->exchange;
            unpark(p);
            if (!failed) {
                exchange_retry(x);
                continue;
            }
            ApiError err;
            api_refuse(&err, 500, "model", "the model '%s' can not be loaded: %s", m->name, m->failure.text);
            exchange_on_leave(x, NULL, NULL);
            api_fail(x, API_CHAT, &err);
        }
        m->failure.text[0] = '\0';
    }
}

static void on_sweep(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Server *s = argument;
    models_sweep(s->models);
}

bool server_model(Server *s, const char *name, ServedModel **out, ApiError *err) {
    ServedModel *m = models_find(s->models, name);
    if (!m) {
        api_refuse(err, 404, "model", "there is no model '%s' here: GET /v1/models lists those there are", name);
        err->code = "model_not_found";
        return false;
    }
    *out = m;
    if (m->state == MODEL_READY) return true;
    *err = (ApiError){.status = API_LATER, .later = park, .context = m};
    return false;
}

/* ---- bells ---- */

void server_ring(void *context) {
    Bell *bell = context;
    Server *s = bell->server;
    uint64_t one = 1;
    pthread_mutex_lock(&s->lock);
    bool first = !bell->rung;
    if (first) {
        bell->rung = true;
        bell->next = NULL;
        *s->last_bell = bell;
        s->last_bell = &bell->next;
    }
    pthread_mutex_unlock(&s->lock);
    if (first && write(s->wake, &one, sizeof one) < 0) return; /* the counter is full: the loop wakes in any case */
}

void server_forget(Server *s, Bell *bell) {
    pthread_mutex_lock(&s->lock);
    for (Bell **at = &s->bells; bell->rung && *at; at = &(*at)->next) {
        if (*at != bell) continue;
        *at = bell->next;
        if (s->last_bell == &bell->next) s->last_bell = at;
        bell->rung = false;
        break;
    }
    pthread_mutex_unlock(&s->lock);
}

static Bell *next_bell(Server *s) {
    pthread_mutex_lock(&s->lock);
    Bell *bell = s->bells;
    if (bell) {
        s->bells = bell->next;
        if (!s->bells) s->last_bell = &s->bells;
        bell->rung = false;
    }
    pthread_mutex_unlock(&s->lock);
    return bell;
}

static int count_bells(Server *s) {
    int n = 0;
    pthread_mutex_lock(&s->lock);
    for (const Bell *bell = s->bells; bell; bell = bell->next) n++;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Those that are there now: what rings meanwhile wakes the loop again, which has others to look after as well. A small
 * model rings faster than its answers can be sent. */
static void on_wake(evutil_socket_t fd, short what, void *argument) {
    (void)what;
    uint64_t count;
    Bell *bell;
    if (read((int)fd, &count, sizeof count) < 0) return;
    for (int n = count_bells(argument); n > 0 && (bell = next_bell(argument)); n--) bell->answer(bell->context);
}

/* ---- signals ---- */

static void on_drained(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Server *s = argument;
    if (http_open_exchanges(s->http) == 0) event_base_loopbreak(s->base);
}

static void on_stop(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Server *s = argument;
    struct timeval soon = {0, DRAIN_MILLISECONDS * 1000};
    if (s->stopping) {
        event_base_loopbreak(s->base);
        return;
    }
    s->stopping = true;
    http_stop_listening(s->http);
    engine_drain(s->engine);
    event_add(s->drained, &soon);
}

static void on_reload(evutil_socket_t fd, short what, void *argument) {
    (void)fd, (void)what;
    Server *s = argument;
    Error err = {""};
    if (!access_read(s->access, &err)) log_warn("the keys stay as they were: %s", err.text);
}

/* ---- life ---- */

static bool admit(Exchange *x, void *context) {
    Server *s = context;
    OriginRules rules = {s->options.host, s->options.origins, http_is_local(s->http)};
    return access_admits(s->access, x, &rules);
}

static void write_error(Buffer *out, const char *path, const char *id, int status, const char *message) {
    ApiError err;
    api_refuse(&err, status, NULL, "%s", message);
    api_write_error(out, api_of_path(path), id, &err);
}

static void lost(Exchange *x, const char *methods, void *context) {
    (void)context;
    reply_lost(x, methods);
}

static void on_answered(void *context, const HttpRoute *route, int status) {
    Server *s = context;
    metrics_note_request(s->metrics, route, status);
}

static bool open_loop(Server *s, Error *err) {
    s->base = event_base_new();
    s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!s->base || s->wake < 0) return error_set(err, "the event loop cannot start: %s", strerror(errno));
    s->woken = event_new(s->base, s->wake, EV_READ | EV_PERSIST, on_wake, s);
    s->stop[0] = evsignal_new(s->base, SIGINT, on_stop, s);
    s->stop[1] = evsignal_new(s->base, SIGTERM, on_stop, s);
    s->reload = evsignal_new(s->base, SIGHUP, on_reload, s);
    s->drained = event_new(s->base, -1, EV_PERSIST, on_drained, s);
    s->sweep = event_new(s->base, -1, EV_PERSIST, on_sweep, s);
    s->models_bell = (Bell){.server = s, .answer = on_models, .context = s};
    if (!s->sweep || !s->woken || !s->stop[0] || !s->stop[1] || !s->reload || !s->drained)
        return error_memory(err, "the server");
    event_add(s->woken, NULL);
    return true;
}

/* Only now do signals mean the loop: while models load, they end the process as usual. */
static bool start_listening(Server *s, Error *err) {
    const ServeOptions *o = &s->options;
    HttpOptions http = {.host = o->host,
                        .port = o->port,
                        .origins = o->origins,
                        .max_body = o->max_body ? o->max_body : MAX_BODY,
                        .max_connections = o->max_connections ? o->max_connections : MAX_CONNECTIONS,
                        .request_seconds = o->request_seconds ? o->request_seconds : REQUEST_SECONDS,
                        .idle_seconds = o->idle_seconds ? o->idle_seconds : IDLE_SECONDS,
                        .admit = admit,
                        .lost = lost,
                        .write_error = write_error,
                        .answered = on_answered,
                        .routes = routes,
                        .context = s};
    if (!(s->http = http_new(s->base, &http, err))) return false;
    event_add(s->stop[0], NULL);
    event_add(s->stop[1], NULL);
    event_add(s->reload, NULL);
    event_add(s->sweep, &(struct timeval){SWEEP_SECONDS, 0});
    if (o->ready) o->ready(o->host, http_port(s->http));
    return true;
}

/* A connection is a file descriptor, and the usual limit of 1,024 is lower than what people hold open. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void event_clear(struct event *e) {
    if (e) event_free(e);
}

static void server_clear(Server *s) {
    http_free(s->http); /* whoever is still connected leaves, which lets go of jobs */
    models_free(s->models);
    engine_free(s->engine);
    access_free(s->access);
    metrics_free(s->metrics);
    response_store_free(s->responses);
    event_clear(s->woken);
    event_clear(s->stop[0]);
    event_clear(s->stop[1]);
    event_clear(s->reload);
    event_clear(s->drained);
    event_clear(s->sweep);
    if (s->base) event_base_free(s->base);
    if (s->wake >= 0) close(s->wake);
    pthread_mutex_destroy(&s->lock);
}

static Models *open_models(Server *s, Error *err) {
    const ServeOptions *o = &s->options;
    ModelsOptions m = {.engine = s->engine,
                       .paths = o->models,
                       .n = o->n_models,
                       .load = &o->load,
                       .keep_seconds = o->keep_seconds,
                       .changed = server_ring,
                       .context = &s->models_bell};
    return models_new(&m, err);
}

bool serve(const ServeOptions *options, Error *err) {
    Server s = {.options = *options, .wake = -1};
    s.last_bell = &s.bells;
    pthread_mutex_init(&s.lock, NULL);
    raise_file_limit();
    bool ok = (s.access = access_new(options->keys, options->n_keys, options->key_file, err)) &&
              (s.metrics = metrics_new(err)) && open_loop(&s, err) &&
              (s.responses = response_store_new(MAX_RESPONSES, MAX_RESPONSE_BYTES, err)) &&
              (s.engine = engine_new(&options->engine, err)) && (s.models = open_models(&s, err)) &&
              start_listening(&s, err);
    if (ok) event_base_dispatch(s.base);
    server_clear(&s);
    return ok;
}
