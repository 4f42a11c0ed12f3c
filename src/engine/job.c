/* Events wait in a list that its reader takes whole, so the lock is held for a few assignments only. Two hold a job:
 * who asked, and the engine from its submission to its last event; the last to let go frees it.
 *
 * The notifier is called with a lock of its own held: job_release waits for it, and after that it is never called
 * again; but who is woken by it and takes the events at once, on this very CPU, does not wait for it. */
#define _POSIX_C_SOURCE 200809L
#include "engine/job.h"
#include "base/memory.h"
#include "engine/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { JOB_EVENTS = 512 }; /* more than that unread, and the job waits for its reader */

struct Job {
    Request *request;
    int n_choices;
    pthread_mutex_t notify_lock; /* over the two that follow; never taken with the other held */
    JobNotify *notify;
    void *context;
    atomic_bool *cancelled; /* [n_choices] */
    pthread_mutex_t lock;   /* over what follows */
    int holders;
    JobEvent *events;
    size_t n, capacity;
    ScoreList prompt_scores;
    JobUsage usage;
    double came;
    bool started, answered;
};

static void job_discard(Job *job) {
    request_free(job->request);
    mem_free(job->cancelled);
    mem_free(job);
}

Job *job_new(const Request *request, int n_choices, JobNotify *notify, void *context, Error *err) {
    Job *job = mem_zeroed(1, sizeof *job);
    if (job) job->request = request_copy(request);
    if (job) job->cancelled = mem_zeroed((size_t)n_choices, sizeof *job->cancelled);
    if (!job || !job->request || !job->cancelled) {
        if (job) job_discard(job);
        error_memory(err, "a request");
        return NULL;
    }
    job->n_choices = n_choices;
    job->notify = notify;
    job->context = context;
    job->holders = 1;
    job->usage.n_prompt = request->n_prompt;
    job->came = clock_seconds();
    for (int i = 0; i < n_choices; i++) atomic_init(&job->cancelled[i], false);
    pthread_mutex_init(&job->notify_lock, NULL);
    pthread_mutex_init(&job->lock, NULL);
    return job;
}

static void event_clear(const JobEvent *e) {
    mem_free(e->score);
    mem_free(e->text);
    mem_free(e->error);
}

void job_events_clear(JobEvent *events, size_t n) {
    for (size_t i = 0; i < n; i++) event_clear(&events[i]);
    mem_free(events);
}

static void job_free(Job *job) {
    job_events_clear(job->events, job->n);
    score_list_clear(&job->prompt_scores);
    pthread_mutex_destroy(&job->notify_lock);
    pthread_mutex_destroy(&job->lock);
    job_discard(job);
}

/* The lock is held, and given up. */
static void let_go(Job *job) {
    bool last = --job->holders == 0;
    pthread_mutex_unlock(&job->lock);
    if (last) job_free(job);
}

size_t job_take(Job *job, JobEvent **out) {
    pthread_mutex_lock(&job->lock);
    size_t n = job->n;
    *out = job->events;
    job->events = NULL;
    job->n = job->capacity = 0;
    pthread_mutex_unlock(&job->lock);
    return n;
}

void job_cancel_choice(Job *job, int choice) {
    atomic_store(&job->cancelled[choice], true);
}

void job_cancel(Job *job) {
    for (int i = 0; i < job->n_choices; i++) job_cancel_choice(job, i);
}

void job_release(Job *job) {
    job_cancel(job);
    pthread_mutex_lock(&job->notify_lock);
    job->notify = NULL;
    pthread_mutex_unlock(&job->notify_lock);
    pthread_mutex_lock(&job->lock);
    let_go(job);
}

void job_hold(Job *job) {
    pthread_mutex_lock(&job->lock);
    job->holders++;
    pthread_mutex_unlock(&job->lock);
}

void job_done(Job *job) {
    pthread_mutex_lock(&job->lock);
    let_go(job);
}

const Request *job_request(const Job *job) {
    return job->request;
}

int job_choices(const Job *job) {
    return job->n_choices;
}

JobUsage job_usage(Job *job) {
    pthread_mutex_lock(&job->lock);
    JobUsage usage = job->usage;
    pthread_mutex_unlock(&job->lock);
    return usage;
}

const TokenScore *job_prompt_scores(const Job *job, size_t *n) {
    *n = job->prompt_scores.n;
    return job->prompt_scores.items;
}

bool job_is_cancelled(const Job *job, int choice) {
    return atomic_load(&job->cancelled[choice]);
}

bool job_is_full(Job *job) {
    pthread_mutex_lock(&job->lock);
    bool full = job->n >= JOB_EVENTS;
    pthread_mutex_unlock(&job->lock);
    return full;
}

/* The lock is held. */
static void note_usage(Job *job, const JobEvent *e) {
    job->usage.seconds = clock_seconds() - job->came;
    if (e->id < 0) return;
    job->usage.n_answer++;
    if (!job->answered) job->usage.first_token_seconds = job->usage.seconds;
    job->answered = true;
}

static void notify(Job *job) {
    pthread_mutex_lock(&job->notify_lock);
    if (job->notify) job->notify(job->context);
    pthread_mutex_unlock(&job->notify_lock);
}

void job_push(Job *job, const JobEvent *event) {
    pthread_mutex_lock(&job->lock);
    JobEvent *events = mem_room(job->events, job->n, &job->capacity, sizeof *events);
    if (events) {
        job->events = events;
        events[job->n++] = *event;
        note_usage(job, event);
    } else {
        event_clear(event);
        job_cancel(job);
    }
    bool first = job->n == 1;
    pthread_mutex_unlock(&job->lock);
    if (first) notify(job);
}

void job_set_prompt_scores(Job *job, ScoreList *scores) {
    pthread_mutex_lock(&job->lock);
    if (job->prompt_scores.n == 0) {
        job->prompt_scores = *scores;
        *scores = (ScoreList){0};
    }
    pthread_mutex_unlock(&job->lock);
}

void job_note_started(Job *job, int n_cached) {
    pthread_mutex_lock(&job->lock);
    if (!job->started) {
        job->usage.queued_seconds = clock_seconds() - job->came;
        job->usage.n_cached = n_cached;
    }
    job->started = true;
    pthread_mutex_unlock(&job->lock);
}
