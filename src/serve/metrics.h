/* What the server counts about itself, for GET /metrics. Only the loop touches it. */
#ifndef LOCKSTEP_SERVE_METRICS_H
#define LOCKSTEP_SERVE_METRICS_H

#include "engine/job.h"
#include "serve/http.h"

typedef struct Metrics Metrics;

Metrics *metrics_new(Error *err);
void metrics_free(Metrics *m);

/* An answer began, at that route (NULL: none has the path). */
void metrics_note_request(Metrics *m, const HttpRoute *route, int status);
/* A job has ended well. */
void metrics_note_answer(Metrics *m, JobUsage usage, int n_choices);

/* Appends all of it in Prometheus' text form. */
void metrics_write(const Metrics *m, Buffer *out);
/* The head of a metric: what it is, and its kind ("counter", "gauge", "histogram"). */
void metrics_write_head(Buffer *out, const char *name, const char *kind, const char *help);

#endif
