/* `lockstep serve`: the loop that owns connections, the engine's thread beside it, and what they share. */
#ifndef LOCKSTEP_SERVE_SERVER_H
#define LOCKSTEP_SERVE_SERVER_H

#include "serve/api.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/responses_store.h"

/* What the exactness probe found of a model before it was served. */
typedef struct ServedCheck {
    uint64_t checkpoint; /* its hash then: the folder may hold another one since */
    bool exact;
    int runs;
    char difference[512]; /* when not exact: where it begins */
} ServedCheck;

typedef struct ServeOptions {
    const char *const *models;
    int n_models;
    const ServedCheck *checks; /* of each model; NULL: the probe was not run */
    LoadOptions load;          /* its model is set for each in turn */
    EngineOptions engine;
    const char *host;
    int port;
    const char *const *keys; /* API keys; none: no key is asked for */
    int n_keys;
    const char *key_file; /* one key a line, read again at SIGHUP; NULL: none */
    const char *origins;  /* CORS: allowed origins with commas between, or "*"; NULL: none */
    size_t max_body;      /* 0: 32 MB */
    int idle_seconds;     /* 0: 300 */
    int max_connections;  /* 0: 4096 */
    int request_seconds;  /* a client must have sent its request after them; 0: 60 */
    int keep_seconds;     /* an unused model is unloaded after them; 0: when memory asks only */
    /* Called once it listens, with the address to show. */
    void (*ready)(const char *host, int port);
} ServeOptions;

/* Serves until SIGINT or SIGTERM: then nothing new is taken, what runs is finished, and it returns true. A second
 * signal ends it at once. */
bool serve(const ServeOptions *options, Error *err);

/* ---- for handlers ---- */

typedef struct Server Server;

Engine *server_engine(Server *s);
Models *server_models(Server *s);
struct event_base *server_base(Server *s);
ResponseStore *server_responses(Server *s);
Metrics *server_metrics(Server *s);
int server_exchanges(const Server *s); /* requests that are being answered */
const ServeOptions *server_options(const Server *s);
/* The model of that name, ready; else false with a 404 in *err, or with API_LATER, by which api_fail keeps the exchange
 * until the model is loaded and then calls its handler again. So it comes before anything that can not be done twice.
 */
bool server_model(Server *s, const char *name, ServedModel **out, ApiError *err);

/* Something that the loop looks after once the engine's thread has called server_ring: in a list with others, so that a
 * thread can put it there without a call into the loop. */
typedef struct Bell {
    Server *server;
    void (*answer)(void *context); /* on the loop */
    void *context;
    bool rung;
    struct Bell *next;
} Bell;
void server_ring(void *bell);              /* from any thread; a JobNotify */
void server_forget(Server *s, Bell *bell); /* it is not answered any more */

#endif
