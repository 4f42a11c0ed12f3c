/* Fork-join threads. A region splits its work into tasks by output, never inside a sum; which thread takes a task is
 * left to chance and must not matter. Waiting threads spin briefly and then sleep, because a decode step of a small
 * model forks some hundred times within a few milliseconds. */
#ifndef LOCKSTEP_BASE_POOL_H
#define LOCKSTEP_BASE_POOL_H

#include "base/error.h"

typedef struct Pool Pool;

/* One task of a region; `thread` is 0 .. n_threads - 1, for per-thread scratch. */
typedef void PoolTask(void *context, int task, int thread);

/* n_threads counts the caller. Each thread sets the IEEE rounding and denormal mode when it starts. */
Pool *pool_new(int n_threads, Error *err);
void pool_free(Pool *pool);
int pool_threads(const Pool *pool);

/* Runs task 0 .. n_tasks - 1 and returns when all are done. One caller at a time; a task must not call it. */
void pool_run(Pool *pool, PoolTask *task, void *context, int n_tasks);

/* Whose task it is where several jobs' tasks are numbered through: the job j with first_task[j] <= task <
 * first_task[j + 1]. first_task [n_jobs + 1] ascends from 0. */
int pool_job_of_task(const int *first_task, int n_jobs, int task);

/* CPUs this process may use: affinity mask and cgroup quota, at least 1. */
int pool_cpus(void);

#endif
