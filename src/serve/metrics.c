/* Counters by route and status are few, since only paths of the table count; histograms have fixed bounds, so that
 * servers can be added up. */
#include "serve/metrics.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_BOUNDS = 16 };

typedef struct Histogram {
    const char *name, *help;
    double bounds[MAX_BOUNDS]; /* seconds, rising; 0 ends them */
    uint64_t counts[MAX_BOUNDS + 1];
    uint64_t n;
    double sum;
} Histogram;

static const Histogram first_token = {
    .name = "lockstep_time_to_first_token_seconds",
    .help = "From a request's arrival to its first token, of requests that were answered.",
    .bounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160}};
static const Histogram each_token = {
    .name = "lockstep_time_per_token_seconds",
    .help = "Mean time between the tokens of an answer, of requests that were answered.",
    .bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5}};
static const Histogram in_queue = {.name = "lockstep_queue_seconds",
                                   .help = "From a request's arrival to its first step.",
                                   .bounds = {0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160}};
static const Histogram whole = {.name = "lockstep_answer_seconds",
                                .help = "From a request's arrival to the end of its answer.",
                                .bounds = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}};

typedef struct RequestCount {
    const HttpRoute *route; /* NULL: no route */
    int status;
    uint64_t n;
} RequestCount;

struct Metrics {
    RequestCount *requests;
    size_t n, capacity;
    Histogram first_token, each_token, in_queue, whole;
};

Metrics *metrics_new(Error *err) {
    Metrics *m = mem_zeroed(1, sizeof *m);
    if (!m) {
        error_memory(err, "the metrics");
        return NULL;
    }
    m->first_token = first_token;
    m->each_token = each_token;
    m->in_queue = in_queue;
    m->whole = whole;
    return m;
}

void metrics_free(Metrics *m) {
    if (!m) return;
    mem_free(m->requests);
    mem_free(m);
}

/* ---- counting ---- */

void metrics_note_request(Metrics *m, const HttpRoute *route, int status) {
    for (size_t i = 0; i < m->n; i++) {
        RequestCount *c = &m->requests[i];
        if (c->route != route || c->status != status) continue;
        c->n++;
        return;
    }
    RequestCount *requests = mem_room(m->requests, m->n, &m->capacity, sizeof *requests);
    if (!requests) return; /* a count less is better than a request less */
    m->requests = requests;
    requests[m->n++] = (RequestCount){route, status, 1};
}

static void observe(Histogram *h, double value) {
    int i = 0;
    while (i < MAX_BOUNDS && h->bounds[i] > 0 && value > h->bounds[i]) i++;
    h->counts[i]++;
    h->n++;
    h->sum += value;
}

void metrics_note_answer(Metrics *m, JobUsage u, int n_choices) {
    int gaps = u.n_answer / n_choices - 1;
    observe(&m->in_queue, u.queued_seconds);
    observe(&m->whole, u.seconds);
    if (u.n_answer > 0) observe(&m->first_token, u.first_token_seconds);
    if (gaps > 0) observe(&m->each_token, (u.seconds - u.first_token_seconds) / gaps);
}

/* ---- writing ---- */

void metrics_write_head(Buffer *out, const char *name, const char *kind, const char *help) {
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void write_histogram(const Histogram *h, Buffer *out) {
    uint64_t below = 0;
    metrics_write_head(out, h->name, "histogram", h->help);
    for (int i = 0; i < MAX_BOUNDS && h->bounds[i] > 0; i++) {
        below += h->counts[i];
        buffer_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", h->name, h->bounds[i], below);
    }
    buffer_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9g\n%s_count %" PRIu64 "\n", h->name, h->n,
                  h->name, h->sum, h->name, h->n);
}

void metrics_write(const Metrics *m, Buffer *out) {
    metrics_write_head(out, "lockstep_requests_total", "counter",
                       "HTTP requests by route and status; 499: the client left before its answer began.");
    for (size_t i = 0; i < m->n; i++) {
        const RequestCount *c = &m->requests[i];
        buffer_printf(out, "lockstep_requests_total{method=\"%s\",route=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                      c->route ? c->route->method : "", c->route ? c->route->path : "", c->status, c->n);
    }
    write_histogram(&m->first_token, out);
    write_histogram(&m->each_token, out);
    write_histogram(&m->in_queue, out);
    write_histogram(&m->whole, out);
}
