/* Fork-join: every task runs exactly once, regions do not overlap, and a late thread neither loses nor repeats work. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MOST_TASKS = 64 };

typedef struct Counts {
    _Atomic int runs[MOST_TASKS];
    _Atomic int bad_threads;
    int n_threads, round;
} Counts;

static void count_task(void *context, int task, int thread) {
    Counts *c = context;
    atomic_fetch_add(&c->runs[task], 1);
    if (thread < 0 || thread >= c->n_threads) atomic_fetch_add(&c->bad_threads, 1);
}

static void every_task_runs_once(void **state) {
    (void)state;
    Error err;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        Pool *pool = pool_new(n_threads, &err);
        assert_int_equal(pool_threads(pool), n_threads);
        for (int round = 0; round < 2000; round++) {
            Counts c = {.n_threads = n_threads};
            int n = round % (MOST_TASKS + 1);
            pool_run(pool, count_task, &c, n);
            for (int i = 0; i < MOST_TASKS; i++) assert_int_equal(atomic_load(&c.runs[i]), i < n);
            assert_int_equal(atomic_load(&c.bad_threads), 0);
        }
        pool_free(pool);
    }
}

/* The result of one region is what the next reads. */
static void sum_task(void *context, int task, int thread) {
    (void)thread;
    int64_t *v = context;
    v[task] = v[task] * 3 + task;
}

static void regions_follow_one_another(void **state) {
    (void)state;
    Error err;
    Pool *pool = pool_new(3, &err);
    int64_t v[7] = {0}, expected[7] = {0};
    for (int round = 0; round < 20; round++) {
        if (round == 10) { /* long enough that the others fall asleep */
            struct timespec t = {0, 3000000};
            nanosleep(&t, NULL);
        }
        pool_run(pool, sum_task, v, 7);
        for (int i = 0; i < 7; i++) expected[i] = expected[i] * 3 + i;
    }
    assert_memory_equal(v, expected, sizeof v);
    pool_free(pool);
}

static void a_silly_thread_count_is_refused(void **state) {
    (void)state;
    Error err;
    assert_null(pool_new(0, &err));
    assert_non_null(strstr(err.text, "use 1 to"));
    assert_null(pool_new(100000, &err));
    assert_true(pool_cpus() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(regions_follow_one_another),
        cmocka_unit_test(a_silly_thread_count_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
