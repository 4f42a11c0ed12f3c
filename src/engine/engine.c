/* The thread takes what was submitted, gives each model with work one step in turn, and sleeps when there is none. The
 * lock is held for the lists only, never during a step, so whoever submits waits for nobody.
 *
 * A lane belongs to the thread alone: making and freeing one, too, is work that the thread does (engine_run). */
#define _POSIX_C_SOURCE 200809L
#include "engine/engine.h"
#include "base/memory.h"
#include "engine/clock.h"
#include "engine/lane.h"
#include "engine/sequence.h"

#include <pthread.h>
#include <string.h>

enum { MAX_WAITING = 256 };

struct EngineModel {
    Engine *engine;
    const Loaded *loaded;
    Lane *lane;
    Job **incoming; /* submitted and not in the lane yet */
    size_t n_incoming, capacity;
    uint64_t refused;
    EngineCounts counts; /* as of the last step */
};

/* What somebody waits for until the thread has done it. */
typedef struct Errand {
    EngineWork *work;
    void *context;
    bool done, posted; /* posted: nobody waits, it is freed when done */
    struct Errand *next;
} Errand;

struct Engine {
    EngineOptions options;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;      /* over what follows, and the models' incoming jobs and counts */
    pthread_cond_t wake, done; /* something came; an errand was run */
    EngineModel *models[ENGINE_MODELS];
    int n_models;
    Errand *errands;
    bool draining, ending;
};

static void *engine_thread(void *argument);

Engine *engine_new(const EngineOptions *options, Error *err) {
    Engine *e = mem_zeroed(1, sizeof *e);
    if (!e) {
        error_memory(err, "the engine");
        return NULL;
    }
    e->options = *options;
    if (e->options.max_running <= 0) e->options.max_running = ENGINE_RUNNING;
    if (e->options.max_waiting <= 0) e->options.max_waiting = MAX_WAITING;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    pthread_cond_init(&e->done, NULL);
    e->started = pthread_create(&e->thread, NULL, engine_thread, e) == 0;
    if (e->started) return e;
    error_set(err, "no thread can be started for the engine");
    engine_free(e);
    return NULL;
}

/* ---- the thread ---- */

/* Lists are changed under the lock; what they held is dealt with outside it. */
static void take_incoming(Engine *e, EngineModel *m) {
    for (;;) {
        pthread_mutex_lock(&e->lock);
        Job *job = m->n_incoming > 0 ? m->incoming[0] : NULL;
        if (job) {
            memmove(m->incoming, m->incoming + 1, --m->n_incoming * sizeof *m->incoming);
            m->counts.waiting++; /* until the lane has counted it: the queue must not look shorter meanwhile */
        }
        pthread_mutex_unlock(&e->lock);
        if (!job) return;
        lane_add(m->lane, job);
        job_done(job); /* the lane holds it once for each choice */
    }
}

static void publish_counts(void *context) {
    EngineModel *m = context;
    EngineCounts counts;
    lane_counts(m->lane, &counts);
    pthread_mutex_lock(&m->engine->lock);
    m->counts = counts;
    pthread_mutex_unlock(&m->engine->lock);
}

/* *posted: whether it was one that nobody waits for. */
static bool run_errand(Engine *e, bool *posted) {
    pthread_mutex_lock(&e->lock);
    Errand *errand = e->errands;
    if (errand) e->errands = errand->next;
    pthread_mutex_unlock(&e->lock);
    if (!errand) return false;
    errand->work(errand->context);
    *posted = errand->posted;
    if (errand->posted) {
        mem_free(errand);
        return true;
    }
    pthread_mutex_lock(&e->lock);
    errand->done = true;
    pthread_cond_broadcast(&e->done);
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* One step of each model; whether anything ran. A model that is added or removed is so by an errand, hence not now. */
static bool step_models(Engine *e) {
    bool ran = false;
    for (int i = 0; i < e->n_models; i++) {
        take_incoming(e, e->models[i]);
        if (lane_step(e->models[i]->lane)) ran = true;
        publish_counts(e->models[i]);
    }
    return ran;
}

static bool has_news(const Engine *e) {
    if (e->ending || e->errands) return true;
    for (int i = 0; i < e->n_models; i++)
        if (e->models[i]->n_incoming > 0) return true;
    return false;
}

/* Sleeps until something comes. Sequences that wait for slow readers are looked at again soon: readers do not call. */
static bool wait_for_news(Engine *e) {
    bool held = false;
    for (int i = 0; i < e->n_models; i++) held = held || !lane_is_empty(e->models[i]->lane);
    pthread_mutex_lock(&e->lock);
    if (held && !has_news(e)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) {
            until.tv_nsec -= 1000 * 1000 * 1000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&e->wake, &e->lock, &until);
    }
    while (!held && !has_news(e)) pthread_cond_wait(&e->wake, &e->lock);
    bool go_on = !e->ending;
    pthread_mutex_unlock(&e->lock);
    return go_on;
}

static bool is_ending(Engine *e) {
    pthread_mutex_lock(&e->lock);
    bool ending = e->ending;
    pthread_mutex_unlock(&e->lock);
    return ending;
}

static void *engine_thread(void *argument) {
    Engine *e = argument;
    bool posted = false;
    while (!is_ending(e)) {
        while (run_errand(e, &posted) && !posted) continue; /* steps go on between pieces of posted work */
        if (!step_models(e) && !wait_for_news(e)) break;
    }
    for (int i = 0; i < e->n_models; i++) {
        take_incoming(e, e->models[i]);
        lane_cancel_all(e->models[i]->lane);
    }
    while (run_errand(e, &posted)) continue;
    return NULL;
}

/* ---- from other threads ---- */

/* The lock is held. */
static void put_errand(Engine *e, Errand *errand) {
    Errand **last = &e->errands;
    while (*last) last = &(*last)->next;
    *last = errand;
    pthread_cond_signal(&e->wake);
}

bool engine_post(Engine *e, EngineWork *work, void *context) {
    Errand *errand = mem_zeroed(1, sizeof *errand);
    if (!errand) return false;
    *errand = (Errand){.work = work, .context = context, .posted = true};
    pthread_mutex_lock(&e->lock);
    put_errand(e, errand);
    pthread_mutex_unlock(&e->lock);
    return true;
}

void engine_run(Engine *e, EngineWork *work, void *context) {
    Errand errand = {.work = work, .context = context};
    pthread_mutex_lock(&e->lock);
    put_errand(e, &errand);
    while (!errand.done) pthread_cond_wait(&e->done, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

typedef struct ModelErrand {
    Engine *engine;
    EngineModel *model;
    Error error;
    bool ok;
} ModelErrand;

static void add_model(void *context) {
    ModelErrand *a = context;
    Engine *e = a->engine;
    if (e->n_models == ENGINE_MODELS) {
        error_set(&a->error, "there are %d models already: unload one", ENGINE_MODELS);
        return;
    }
    a->model->lane = lane_new(a->model->loaded, &e->options, &a->error);
    if (!a->model->lane) return;
    pthread_mutex_lock(&e->lock);
    e->models[e->n_models++] = a->model;
    pthread_mutex_unlock(&e->lock);
    lane_on_settled(a->model->lane, publish_counts, a->model);
    publish_counts(a->model);
    a->ok = true;
}

EngineModel *engine_add_model(Engine *e, const Loaded *loaded, Error *err) {
    ModelErrand a = {.engine = e, .model = mem_zeroed(1, sizeof *a.model), .error = {""}};
    if (!a.model) {
        error_memory(err, "a model");
        return NULL;
    }
    a.model->engine = e;
    a.model->loaded = loaded;
    engine_run(e, add_model, &a);
    if (a.ok) return a.model;
    mem_free(a.model);
    error_set(err, "%s", a.error.text);
    return NULL;
}

static void model_clear(EngineModel *m) {
    lane_free(m->lane);
    mem_free(m->incoming);
    mem_free(m);
}

static void remove_model(void *context) {
    ModelErrand *a = context;
    Engine *e = a->engine;
    take_incoming(e, a->model);
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < e->n_models; i++)
        if (e->models[i] == a->model) e->models[i] = e->models[--e->n_models];
    pthread_mutex_unlock(&e->lock);
    lane_cancel_all(a->model->lane);
    model_clear(a->model);
}

void engine_remove_model(Engine *e, EngineModel *m) {
    ModelErrand a = {.engine = e, .model = m};
    engine_run(e, remove_model, &a);
}

void engine_free(Engine *e) {
    if (!e) return;
    if (e->started) {
        pthread_mutex_lock(&e->lock);
        e->ending = true;
        pthread_cond_signal(&e->wake);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    for (int i = 0; i < e->n_models; i++) model_clear(e->models[i]);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->done);
    pthread_mutex_destroy(&e->lock);
    mem_free(e);
}

/* Whether as many wait as may, beyond those for whom there is a seat. The lock is held. */
static bool queue_is_full(const Engine *e, const EngineModel *m) {
    int seats = e->options.max_running - m->counts.running, waiting = m->counts.waiting + (int)m->n_incoming;
    return waiting >= e->options.max_waiting + (seats > 0 ? seats : 0);
}

/* The lock is held. */
static EngineAnswer put_incoming(Engine *e, EngineModel *m, Job *const *jobs, int n, Error *err) {
    if (e->draining || e->ending) {
        error_set(err, "the server is stopping");
        return ENGINE_FULL;
    }
    if (queue_is_full(e, m)) {
        m->refused += (uint64_t)n;
        error_set(err, "%d requests wait already", e->options.max_waiting);
        return ENGINE_FULL;
    }
    while (m->n_incoming + (size_t)n > m->capacity) {
        Job **incoming = mem_grow(m->incoming, &m->capacity, sizeof *incoming);
        if (!incoming) {
            error_memory(err, "a request");
            return ENGINE_FULL;
        }
        m->incoming = incoming;
    }
    for (int i = 0; i < n; i++) {
        m->incoming[m->n_incoming++] = jobs[i];
        job_hold(jobs[i]);
    }
    pthread_cond_signal(&e->wake);
    return ENGINE_TAKEN;
}

EngineAnswer engine_submit(Engine *e, EngineModel *m, Job *const *jobs, int n, Error *err) {
    for (int i = 0; i < n; i++)
        if (!request_check(job_request(jobs[i]), m->loaded->model, m->loaded->tokenizer, err)) return ENGINE_REFUSED;
    pthread_mutex_lock(&e->lock);
    EngineAnswer answer = put_incoming(e, m, jobs, n, err);
    pthread_mutex_unlock(&e->lock);
    return answer;
}

EngineCounts engine_counts(Engine *e, EngineModel *m) {
    pthread_mutex_lock(&e->lock);
    EngineCounts counts = m->counts;
    counts.jobs_refused = m->refused;
    counts.waiting += (int)m->n_incoming;
    pthread_mutex_unlock(&e->lock);
    return counts;
}

void engine_drain(Engine *e) {
    pthread_mutex_lock(&e->lock);
    e->draining = true;
    pthread_mutex_unlock(&e->lock);
}

bool engine_is_idle(Engine *e) {
    bool idle = true;
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < e->n_models; i++) {
        const EngineModel *m = e->models[i];
        if (m->n_incoming > 0 || m->counts.running > 0 || m->counts.waiting > 0) idle = false;
    }
    pthread_mutex_unlock(&e->lock);
    return idle;
}
