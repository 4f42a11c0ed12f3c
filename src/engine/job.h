/* A job: one request with its choices, on its way between who asked (a connection) and the engine's thread. The request
 * goes down and never changes; what happens to it comes up as events, in order; and one word goes down later, cancel.
 */
#ifndef LOCKSTEP_ENGINE_JOB_H
#define LOCKSTEP_ENGINE_JOB_H

#include "base/error.h"
#include "engine/request.h"
#include "engine/score.h"

typedef struct JobEvent {
    int choice;        /* 0 .. n_choices - 1 */
    int32_t id;        /* the token chosen, -1: none with this event */
    TokenScore *score; /* of it, where the request asked for scores; else NULL */
    char *text;        /* what became readable by it, NUL-terminated, n_text bytes; never NULL */
    size_t n_text;
    FinishReason finish; /* not FINISH_NONE: the choice's last event */
    int stop;            /* with FINISH_STOP: which of the request's stop strings it was, -1: none */
    char *error;         /* with FINISH_FAILED: why */
} JobEvent;

/* What a job has cost so far; of a prompt, once for all choices. */
typedef struct JobUsage {
    int n_prompt, n_cached; /* n_cached of the prompt's tokens were not computed for this job */
    int n_answer;           /* of all choices */
    double queued_seconds, first_token_seconds, seconds; /* since it came; queued until its first step */
} JobUsage;

/* Called on the engine's thread when events are there and were not before. It must not block, and not call back. */
typedef void JobNotify(void *context);

typedef struct Job Job;

/* For who asks. The request is copied. NULL when out of memory. */
Job *job_new(const Request *request, int n_choices, JobNotify *notify, void *context, Error *err);
/* Moves all events that are there to *out, which the caller clears with job_events_clear; how many. */
size_t job_take(Job *job, JobEvent **out);
void job_events_clear(JobEvent *events, size_t n);
/* The sequences end within a step, and the events that are there still come. */
void job_cancel(Job *job);
void job_cancel_choice(Job *job, int choice);
/* Who asked lets go, which cancels what still runs. No notify comes after it returns. */
void job_release(Job *job);
const Request *job_request(const Job *job);
int job_choices(const Job *job);
JobUsage job_usage(Job *job);
/* Of the prompt's tokens after the first, where the request scores its prompt; valid after the first event. Borrowed.
 */
const TokenScore *job_prompt_scores(const Job *job, size_t *n);

/* ---- for the engine ---- */

bool job_is_cancelled(const Job *job, int choice);
bool job_is_full(Job *job); /* its reader is slow: it is not scheduled meanwhile */
/* The event's text, score and error are taken over, also when it is lost for lack of memory; then the job is cancelled.
 */
void job_push(Job *job, const JobEvent *event);
void job_set_prompt_scores(Job *job, ScoreList *scores); /* taken over */
void job_note_started(Job *job, int n_cached);
void job_hold(Job *job); /* the engine takes it, */
void job_done(Job *job); /* and lets go */

#endif
