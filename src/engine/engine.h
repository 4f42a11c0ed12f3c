/* The engine of a server: one thread that owns the states of every model's sequences and runs the steps. Requests come
 * in as jobs; what else is in a step changes no byte of an answer, so scheduling is free. */
#ifndef LOCKSTEP_ENGINE_ENGINE_H
#define LOCKSTEP_ENGINE_ENGINE_H

#include "engine/job.h"
#include "engine/load.h"
#include "engine/prefix.h"

enum { ENGINE_RUNNING = 64 };

typedef struct EngineOptions {
    int max_running; /* sequences of one model in a step; 0: ENGINE_RUNNING */
    int max_waiting; /* sequences beyond them before new jobs are refused; 0: 256 */
    size_t
        memory; /* bytes for the states of one model, cached prefixes included; 0: half of what the system has free */
    int chunk;  /* --batch: most rows of a step; 0: 512 */
} EngineOptions;

enum { ENGINE_MODELS = 32 }; /* most at a time */
enum { ENGINE_WIDTHS = 8 };

typedef struct EngineCounts {
    uint64_t jobs, jobs_refused, jobs_cancelled, jobs_failed;
    uint64_t prompt_tokens, cached_tokens, answer_tokens; /* of all jobs */
    uint64_t steps, rows, prompt_rows;                    /* that ran */
    uint64_t widths[ENGINE_WIDTHS];                       /* of those, with 1, up to 2, 4, ... 64, and more sequences */
    uint64_t turns;                                       /* sequences that had rows in a step, over all steps */
    uint64_t preempted; /* sequences that gave their memory to others and read again */
    double step_seconds;
    int running, waiting; /* sequences, now: those that have memory, and those that have none yet */
    size_t state_bytes, state_budget;
    PrefixCounts prefix;
} EngineCounts;

typedef struct Engine Engine;
/* A model that the engine runs. */
typedef struct EngineModel EngineModel;

Engine *engine_new(const EngineOptions *options, Error *err);
/* Ends every job as cancelled, frees the models' states, and joins the thread. */
void engine_free(Engine *e);

/* From any thread. The loaded model must outlive its use here. */
EngineModel *engine_add_model(Engine *e, const Loaded *loaded, Error *err);
/* Cancels its jobs and waits until none is left. */
void engine_remove_model(Engine *e, EngineModel *m);

typedef enum EngineAnswer { ENGINE_TAKEN, ENGINE_FULL, ENGINE_REFUSED } EngineAnswer;
/* From any thread; all of the jobs or none. The engine holds each until its last event. ENGINE_FULL: too many wait, try
 * later; where there is room for one all are taken, or a large batch would never be. ENGINE_REFUSED: one of them can
 * not run (err says why: over-long prompt with both numbers, ...). */
EngineAnswer engine_submit(Engine *e, EngineModel *m, Job *const *jobs, int n, Error *err);

EngineCounts engine_counts(Engine *e, EngineModel *m);
void engine_drain(Engine *e); /* no new jobs */
bool engine_is_idle(Engine *e);

/* Runs `work` on the engine's thread between two steps, with no other step of the model running, and waits for it: for
 * what needs the model itself, like embeddings. */
typedef void EngineWork(void *context);
void engine_run(Engine *e, EngineWork *work, void *context);
/* The same without waiting. False when out of memory. */
bool engine_post(Engine *e, EngineWork *work, void *context);

#endif
