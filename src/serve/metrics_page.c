/* GET /metrics: what the server and its engine count, in Prometheus' text form. A metric of the engine is one line of
 * the table; each model is a label. */
#define _POSIX_C_SOURCE 200809L
#include "serve/metrics.h"
#include "serve/routes.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef enum CountKind { COUNT_U64, COUNT_INT, COUNT_SIZE, COUNT_SECONDS } CountKind;

typedef struct CountRow {
    const char *name, *label; /* label: further ones, or empty; of a name with several, only the first has the help */
    const char *type, *help;
    CountKind kind;
    size_t place;
} CountRow;

#define AT(field) offsetof(EngineCounts, field)

static const CountRow rows[] = {
    {"lockstep_jobs_total", "", "counter", "Requests that the engine took.", COUNT_U64, AT(jobs)},
    {"lockstep_jobs_refused_total", "", "counter", "Requests refused because too many waited.", COUNT_U64,
     AT(jobs_refused)},
    {"lockstep_jobs_cancelled_total", "", "counter", "Answers that ended because the client left.", COUNT_U64,
     AT(jobs_cancelled)},
    {"lockstep_jobs_failed_total", "", "counter", "Answers that ended with an error.", COUNT_U64, AT(jobs_failed)},
    {"lockstep_prompt_tokens_total", "", "counter", "Tokens of prompts.", COUNT_U64, AT(prompt_tokens)},
    {"lockstep_cached_tokens_total", "", "counter", "Tokens of prompts that were not computed again.", COUNT_U64,
     AT(cached_tokens)},
    {"lockstep_answer_tokens_total", "", "counter", "Tokens of answers.", COUNT_U64, AT(answer_tokens)},
    {"lockstep_steps_total", "", "counter", "Steps of the model.", COUNT_U64, AT(steps)},
    {"lockstep_step_seconds_total", "", "counter", "Time in those steps.", COUNT_SECONDS, AT(step_seconds)},
    {"lockstep_rows_total", "", "counter", "Rows (tokens) that went through the model.", COUNT_U64, AT(rows)},
    {"lockstep_prompt_rows_total", "", "counter", "Of those, rows of prompts.", COUNT_U64, AT(prompt_rows)},
    {"lockstep_preempted_total", "", "counter", "Sequences that gave up their memory and read again.", COUNT_U64,
     AT(preempted)},
    {"lockstep_running", "", "gauge", "Sequences that have memory.", COUNT_INT, AT(running)},
    {"lockstep_waiting", "", "gauge", "Sequences that wait for it.", COUNT_INT, AT(waiting)},
    {"lockstep_state_bytes", "", "gauge", "Memory of sequences and cached prefixes.", COUNT_SIZE, AT(state_bytes)},
    {"lockstep_state_budget_bytes", "", "gauge", "What they may have.", COUNT_SIZE, AT(state_budget)},
    {"lockstep_prefix_hits_total", "", "counter", "Prompts of which the cache had a beginning.", COUNT_U64,
     AT(prefix.hits)},
    {"lockstep_prefix_misses_total", ",reason=\"cut\"", "counter",
     "Prompts of which it had none, or none it could use: cut (its state can not be cut there), side (it was read with "
     "the other rotary tables), bypassed (the prompt is scored), new (nothing begins alike).",
     COUNT_U64, AT(prefix.misses_cut)},
    {"lockstep_prefix_misses_total", ",reason=\"side\"", "counter", NULL, COUNT_U64, AT(prefix.misses_side)},
    {"lockstep_prefix_misses_total", ",reason=\"bypassed\"", "counter", NULL, COUNT_U64, AT(prefix.bypassed)},
    {"lockstep_prefix_misses_total", ",reason=\"new\"", "counter", NULL, COUNT_U64, AT(prefix.misses)},
    {"lockstep_prefix_evicted_total", "", "counter", "Cached prefixes dropped for memory.", COUNT_U64,
     AT(prefix.evicted)},
};

/* A name as the value of a label. */
static void write_label(Buffer *out, const char *name) {
    for (const char *at = name; *at; at++) {
        if (*at == '"' || *at == '\\') buffer_byte(out, '\\');
        buffer_byte(out, *at == '\n' ? ' ' : *at);
    }
}

static void write_count(Buffer *out, const CountRow *row, const char *model, const EngineCounts *c) {
    const char *at = (const char *)c + row->place;
    buffer_printf(out, "%s{model=\"", row->name);
    write_label(out, model);
    buffer_printf(out, "\"%s} ", row->label);
    switch (row->kind) {
    case COUNT_U64: buffer_printf(out, "%" PRIu64 "\n", *(const uint64_t *)at); break;
    case COUNT_INT: buffer_printf(out, "%d\n", *(const int *)at); break;
    case COUNT_SIZE: buffer_printf(out, "%zu\n", *(const size_t *)at); break;
    case COUNT_SECONDS: buffer_printf(out, "%.9g\n", *(const double *)at); break;
    }
}

static void write_widths(Buffer *out, const char *model, const EngineCounts *c) {
    static const char name[] = "lockstep_batch_width";
    uint64_t below = 0;
    for (int i = 0; i < ENGINE_WIDTHS; i++) {
        below += c->widths[i];
        buffer_printf(out, "%s_bucket{model=\"", name);
        write_label(out, model);
        if (i + 1 < ENGINE_WIDTHS)
            buffer_printf(out, "\",le=\"%d\"} %" PRIu64 "\n", 1 << i, below);
        else
            buffer_printf(out, "\",le=\"+Inf\"} %" PRIu64 "\n", below);
    }
    buffer_printf(out, "%s_sum{model=\"", name);
    write_label(out, model);
    buffer_printf(out, "\"} %" PRIu64 "\n%s_count{model=\"", c->turns, name);
    write_label(out, model);
    buffer_printf(out, "\"} %" PRIu64 "\n", below);
}

/* The models that run now, each with its counts as of one moment. */
typedef struct Counted {
    const char *names[ENGINE_MODELS];
    EngineCounts counts[ENGINE_MODELS];
    int n;
} Counted;

static void count_models(Server *s, Counted *out) {
    Models *models = server_models(s);
    for (int i = 0; i < models_count(models) && out->n < ENGINE_MODELS; i++) {
        const ServedModel *m = models_at(models, i);
        if (m->state != MODEL_READY) continue;
        EngineCounts *c = &out->counts[out->n];
        *c = engine_counts(server_engine(s), m->lane);
        c->prefix.misses -= c->prefix.misses_cut + c->prefix.misses_side; /* what is left is new */
        out->names[out->n++] = m->name;
    }
}

static void write_engine(Buffer *out, const Counted *c) {
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (rows[r].help) metrics_write_head(out, rows[r].name, rows[r].type, rows[r].help);
        for (int i = 0; i < c->n; i++) write_count(out, &rows[r], c->names[i], &c->counts[i]);
    }
    metrics_write_head(out, "lockstep_batch_width", "histogram", "Sequences that shared a step.");
    for (int i = 0; i < c->n; i++) write_widths(out, c->names[i], &c->counts[i]);
}

/* Bytes of this process that are in memory; 0 where the system does not tell. */
static long long resident_bytes(void) {
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    if (fscanf(f, "%*s %lld", &pages) != 1) pages = 0;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

void metrics(Exchange *x, void *context) {
    Server *s = context;
    Buffer out = {0};
    Counted counted = {.n = 0};
    count_models(s, &counted);
    metrics_write(server_metrics(s), &out);
    write_engine(&out, &counted);
    metrics_write_head(&out, "lockstep_open_requests", "gauge", "HTTP requests that are being answered.");
    buffer_printf(&out, "lockstep_open_requests %d\n", server_exchanges(s));
    metrics_write_head(&out, "process_resident_memory_bytes", "gauge",
                       "Memory of the process, mapped weights included.");
    buffer_printf(&out, "process_resident_memory_bytes %lld\n", resident_bytes());
    if (out.failed)
        exchange_reply_json(x, 500, &out);
    else
        exchange_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", buffer_string(&out), out.length);
    buffer_clear(&out);
}
