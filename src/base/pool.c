/* A region is one 64-bit word, `claim`: its number in the upper half, the tasks not yet taken in the lower. A thread
 * takes a task by lowering the word, which succeeds only while that region is open; then the region cannot end before
 * the task is done, so what the task needs may be read. Invariant: nobody but the publisher touches a region without
 * having taken a task of it. So the caller never waits for a thread that is late (other programs run on this machine
 * too): it does the work itself. */
#define _GNU_SOURCE
#include "base/pool.h"
#include "base/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SPIN_NANOSECONDS = 100000, MAX_THREADS = 1024 };

struct Pool {
    int n_threads, n_started;
    pthread_t *threads;
    PoolTask *task;
    void *context;
    int n_tasks;
    _Alignas(64) _Atomic uint64_t claim;
    _Alignas(64) _Atomic int done; /* tasks finished in this region */
    _Atomic int sleeping;
    _Atomic bool stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

typedef struct Worker {
    Pool *pool;
    int thread;
} Worker;

static void relax(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Round to nearest, denormals kept: the arithmetic of docs/arithmetic.md, whatever a host program had set. */
static void set_float_mode(void) {
#if defined(__x86_64__)
    _mm_setcsr(0x1F80);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(0ul));
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static unsigned region_of(uint64_t claim) {
    return (unsigned)(claim >> 32);
}

/* Takes tasks until the region has none left. */
static void take_tasks(Pool *pool, int thread) {
    uint64_t claim = atomic_load_explicit(&pool->claim, memory_order_acquire);
    while ((uint32_t)claim > 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->claim, &claim, claim - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        pool->task(pool->context, pool->n_tasks - (int)(uint32_t)claim, thread);
        atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
        claim = atomic_load_explicit(&pool->claim, memory_order_acquire);
    }
}

/* Waits for a region other than `seen`: spinning first, then asleep. */
static unsigned await_region(Pool *pool, unsigned seen) {
    int64_t deadline = 0;
    for (unsigned i = 1;; i++) {
        unsigned region = region_of(atomic_load_explicit(&pool->claim, memory_order_acquire));
        if (region != seen) return region;
        relax();
        if (i % 256) continue;
        int64_t now = now_ns();
        if (!deadline) deadline = now + SPIN_NANOSECONDS;
        if (now > deadline) break;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleeping, 1);
    unsigned region;
    while ((region = region_of(atomic_load(&pool->claim))) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
    return region;
}

static void *worker_main(void *argument) {
    Worker w = *(Worker *)argument;
    mem_free(argument);
    set_float_mode();
    for (unsigned seen = 0;;) {
        seen = await_region(w.pool, seen);
        if (atomic_load(&w.pool->stop)) return NULL;
        take_tasks(w.pool, w.thread);
    }
}

/* Opens the next region with n tasks. */
static void publish(Pool *pool, int n) {
    uint64_t next = (uint64_t)(region_of(atomic_load_explicit(&pool->claim, memory_order_relaxed)) + 1) << 32;
    atomic_store(&pool->claim,
                 next | (uint32_t)n); /* seq_cst: ordered against `sleeping`, or a wake-up could be lost */
    if (atomic_load(&pool->sleeping) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void pool_run(Pool *pool, PoolTask *task, void *context, int n_tasks) {
    if (pool->n_threads == 1 || n_tasks <= 1) {
        for (int i = 0; i < n_tasks; i++) task(context, i, 0);
        return;
    }
    pool->task = task;
    pool->context = context;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    publish(pool, n_tasks);
    take_tasks(pool, 0);
    for (unsigned i = 1; atomic_load_explicit(&pool->done, memory_order_acquire) < n_tasks; i++) {
        relax();
        if (i % 4096 == 0) sched_yield(); /* a thread was taken off its CPU inside a task: let it run */
    }
}

int pool_job_of_task(const int *first_task, int n_jobs, int task) {
    int low = 0, high = n_jobs;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (first_task[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool start_workers(Pool *pool) {
    for (int i = 1; i < pool->n_threads; i++) {
        Worker *w = mem_array(1, sizeof *w);
        if (!w) return false;
        *w = (Worker){pool, i};
        if (pthread_create(&pool->threads[i], NULL, worker_main, w) != 0) {
            mem_free(w);
            return false;
        }
        pool->n_started++;
    }
    return true;
}

Pool *pool_new(int n_threads, Error *err) {
    if (n_threads < 1 || n_threads > MAX_THREADS) {
        error_set(err, "%d threads asked for: use 1 to %d", n_threads, MAX_THREADS);
        return NULL;
    }
    Pool *pool = mem_aligned(1, sizeof *pool);
    pthread_t *threads = mem_zeroed((size_t)n_threads, sizeof *threads);
    if (!pool || !threads) {
        mem_free(pool);
        mem_free(threads);
        error_memory(err, "the thread pool");
        return NULL;
    }
    *pool = (Pool){.n_threads = n_threads, .threads = threads};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    set_float_mode();
    if (!start_workers(pool)) {
        pool_free(pool);
        error_set(err, "cannot start %d threads: lower --threads", n_threads);
        return NULL;
    }
    return pool;
}

void pool_free(Pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stop, true);
    publish(pool, 0);
    for (int i = 1; i <= pool->n_started; i++) pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    mem_free(pool->threads);
    mem_free(pool);
}

int pool_threads(const Pool *pool) {
    return pool->n_threads;
}

/* CPUs allowed by the cgroup v2 quota, 0 when there is none. */
static int quota_cpus(void) {
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) return 0;
    long quota, period;
    int n = fscanf(f, "%ld %ld", &quota, &period);
    fclose(f);
    if (n != 2 || quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

int pool_cpus(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_cpus();
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}
