/* The engine's thread beside its clients': 50 requests from four threads are answered as each is alone; those who let
 * go are forgotten; and whatever ends, ends. */
#define _POSIX_C_SOURCE 200809L
#include "engine/engine.h"
#include "engine/lane.h"
#include "engine/sequence.h"
#include "math/kernels.h"
#include "support/golden.h"
#include "support/storm.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LONGEST = 160, CLIENTS = 4 };

static Golden golden;
static Loaded loaded;

static int setup(void **state) {
    (void)state;
    kernels_select(NULL, NULL);
    golden_open(&golden, "tests/goldens/mlx/llama", KV_I16, 2);
    loaded = (Loaded){.model = golden.model};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    golden_close(&golden);
    return 0;
}

/* Sleeps until events are there. */
typedef struct Bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool is_rung;
} Bell;

static void bell_init(Bell *b) {
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->rung, NULL);
    b->is_rung = false;
}

static void bell_clear(Bell *b) {
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->rung);
}

static void bell_ring(void *context) {
    Bell *b = context;
    pthread_mutex_lock(&b->lock);
    b->is_rung = true;
    pthread_cond_signal(&b->rung);
    pthread_mutex_unlock(&b->lock);
}

static void bell_wait(Bell *b) {
    pthread_mutex_lock(&b->lock);
    while (!b->is_rung) pthread_cond_wait(&b->rung, &b->lock);
    b->is_rung = false;
    pthread_mutex_unlock(&b->lock);
}

static Engine *new_engine(const EngineOptions *o, EngineModel **model) {
    Error err = {""};
    Engine *e = engine_new(o, &err);
    if (!e || !(*model = engine_add_model(e, &loaded, &err))) fail_msg("%s", err.text);
    return e;
}

/* One request from its submission to its end, as a client sees it. */
static void ask(Engine *e, EngineModel *m, const StormRequest *r, StormAnswer *answers, bool cancels) {
    Bell bell;
    Error err = {""};
    bell_init(&bell);
    Job *job = job_new(&r->request, r->n_choices, bell_ring, &bell, &err);
    assert_non_null(job);
    if (engine_submit(e, m, &job, 1, &err) != ENGINE_TAKEN) fail_msg("%s", err.text);
    int left = r->n_choices;
    for (int n = 1; left > 0; n++) {
        bell_wait(&bell);
        if (cancels && n == r->cancel_after) job_cancel(job);
        left -= storm_take(job, answers);
    }
    assert_int_equal(job_usage(job).n_prompt, r->request.n_prompt);
    job_release(job);
    bell_clear(&bell);
}

typedef struct Client {
    pthread_t thread;
    int number;
    Engine *engine;
    EngineModel *model;
    const Storm *storm;
    StormAnswer got[STORM_REQUESTS][STORM_CHOICES];
} Client;

/* Test failures must come from the main thread: clients only collect. */
static void *client_thread(void *argument) {
    Client *c = argument;
    for (int i = c->number; i < STORM_REQUESTS; i += CLIENTS)
        ask(c->engine, c->model, &c->storm->requests[i], c->got[i], true);
    return NULL;
}

static void do_nothing(void *context) {
    (void)context;
}

static void clients_in_threads_get_what_they_get_alone(void **state) {
    (void)state;
    static Storm s;
    static Client clients[CLIENTS];
    EngineModel *m;
    storm_init(&s, model_vocab_size(golden.model), LONGEST);
    Engine *e = new_engine(&(EngineOptions){.memory = 1}, &m); /* nothing is cached */
    for (int i = 0; i < STORM_REQUESTS; i++) ask(e, m, &s.requests[i], s.requests[i].answers, false);
    engine_remove_model(e, m);
    m = engine_add_model(e, &loaded, NULL);
    memset(clients, 0, sizeof clients);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (Client){.number = i, .engine = e, .model = m, .storm = &s};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i].thread, NULL);
    for (int i = 0; i < STORM_REQUESTS; i++) storm_compare(&s.requests[i], clients[i % CLIENTS].got[i]);
    engine_run(e, do_nothing, NULL); /* between two steps, so the counts are those of all */
    EngineCounts counts = engine_counts(e, m);
    assert_int_equal(counts.jobs, STORM_REQUESTS);
    assert_int_equal(counts.jobs_failed, 0);
    assert_true(counts.answer_tokens > STORM_REQUESTS);
    assert_true(engine_is_idle(e));
    engine_free(e);
    storm_clear(&s);
}

static Request long_request(const int32_t *ids, int n) {
    return (Request){.prompt = ids, .n_prompt = n, .max_tokens = 200, .sampling = SAMPLING_GREEDY};
}

/* Clients that let go at once, one that never reads, and an engine that ends while they run. */
static void whoever_lets_go_is_forgotten(void **state) {
    (void)state;
    static const int32_t ids[3] = {1, 2, 3};
    EngineModel *m;
    Engine *e = new_engine(&(EngineOptions){.memory = SIZE_MAX}, &m);
    Request r = long_request(ids, 3);
    Bell bell;
    bell_init(&bell);
    for (int i = 0; i < 20; i++) {
        Job *job = job_new(&r, 2, bell_ring, &bell, NULL);
        assert_int_equal(engine_submit(e, m, &job, 1, NULL), ENGINE_TAKEN);
        job_release(job);
    }
    Job *unread = job_new(&r, 1, bell_ring, &bell, NULL);
    assert_int_equal(engine_submit(e, m, &unread, 1, NULL), ENGINE_TAKEN);
    bell_wait(&bell);
    engine_free(e);
    StormAnswer answer = {.finish = FINISH_NONE};
    JobEvent *events;
    size_t n = job_take(unread, &events);
    assert_true(n > 0);
    assert_true(events[n - 1].finish == FINISH_CANCELLED || events[n - 1].finish == FINISH_LENGTH);
    job_events_clear(events, n);
    storm_answers_clear(&answer, 1);
    job_release(unread);
    bell_clear(&bell);
}

static void what_can_not_run_is_refused(void **state) {
    (void)state;
    static int32_t ids[300];
    Error err = {""};
    EngineModel *m;
    Engine *e = new_engine(&(EngineOptions){.memory = SIZE_MAX, .max_waiting = 1, .max_running = 1}, &m);
    Request r = long_request(ids, 300);
    Bell bell;
    bell_init(&bell);
    Job *job = job_new(&r, 1, bell_ring, &bell, NULL);
    assert_int_equal(engine_submit(e, m, &job, 1, &err), ENGINE_REFUSED);
    assert_string_equal(err.text, "the prompt has 300 tokens, the context holds 256: shorten the prompt");
    job_release(job);
    Job *jobs[8];
    int n_full = 0;
    r = long_request(ids, 30);
    for (int i = 0; i < 8; i++) {
        jobs[i] = job_new(&r, 1, bell_ring, &bell, NULL);
        n_full += engine_submit(e, m, &jobs[i], 1, &err) == ENGINE_FULL;
    }
    assert_true(n_full >= 5);
    assert_string_equal(err.text, "1 requests wait already");
    assert_int_equal(engine_counts(e, m).jobs_refused, n_full);
    for (int i = 0; i < 8; i++) job_release(jobs[i]);
    engine_drain(e);
    job = job_new(&r, 1, bell_ring, &bell, NULL);
    assert_int_equal(engine_submit(e, m, &job, 1, &err), ENGINE_FULL);
    assert_string_equal(err.text, "the server is stopping");
    job_release(job);
    engine_free(e);
    bell_clear(&bell);
}

static void wait_at(void *gate) {
    while (sem_wait(gate) != 0) continue; /* EINTR */
}

/* Seats that are free are no queue; and a batch is taken whole where one would be. The thread is kept from taking
 * anybody meanwhile. */
static void who_has_a_seat_does_not_wait(void **state) {
    (void)state;
    static int32_t ids[30];
    Error err = {""};
    EngineModel *m;
    Engine *e = new_engine(&(EngineOptions){.memory = SIZE_MAX, .max_waiting = 2, .max_running = 4}, &m);
    Request r = long_request(ids, 30);
    Bell bell;
    Job *jobs[8];
    sem_t gate;
    bell_init(&bell);
    sem_init(&gate, 0, 0);
    assert_true(engine_post(e, wait_at, &gate));
    for (int i = 0; i < 8; i++) jobs[i] = job_new(&r, 1, bell_ring, &bell, NULL);
    for (int i = 0; i < 5; i++) assert_int_equal(engine_submit(e, m, &jobs[i], 1, &err), ENGINE_TAKEN);
    assert_int_equal(engine_submit(e, m, &jobs[5], 2, &err), ENGINE_TAKEN); /* the place that is left, and one more */
    assert_int_equal(engine_submit(e, m, &jobs[7], 1, &err), ENGINE_FULL);
    assert_string_equal(err.text, "2 requests wait already");
    sem_post(&gate);
    for (int i = 0; i < 8; i++) job_release(jobs[i]);
    engine_free(e);
    sem_destroy(&gate);
    bell_clear(&bell);
}

/* echo: the prompt's tokens are scored by the rows before them, and nothing of it comes from the cache. */
static void a_prompt_can_be_scored(void **state) {
    (void)state;
    int32_t ids[100];
    EngineModel *m;
    Engine *e = new_engine(&(EngineOptions){.memory = SIZE_MAX}, &m);
    for (int i = 0; i < 100; i++) ids[i] = (i * 13 + 1) % 90;
    StormRequest r = {
        .request = {.prompt = ids, .n_prompt = 100, .scores = true, .n_top = 2, .sampling = SAMPLING_GREEDY},
        .n_choices = 1};
    StormRequest next = r;
    r.request.scores_prompt = true;
    for (int round = 0; round < 2; round++) {
        Bell bell;
        StormAnswer answer = {.finish = FINISH_NONE};
        bell_init(&bell);
        Job *job = job_new(&r.request, 1, bell_ring, &bell, NULL);
        assert_int_equal(engine_submit(e, m, &job, 1, NULL), ENGINE_TAKEN);
        bell_wait(&bell);
        assert_int_equal(storm_take(job, &answer), 1);
        assert_int_equal(answer.finish, FINISH_LENGTH);
        assert_int_equal(answer.ids.n, 0);
        size_t n;
        const TokenScore *scores = job_prompt_scores(job, &n);
        assert_int_equal(n, 99);
        assert_int_equal(job_usage(job).n_cached, 0);
        for (int i = 1; i < 100; i += 30) { /* as the answer to ids[0..i) scores it, when it is forced to be ids[i] */
            LogitBias bias = {ids[i], 1000};
            StormAnswer one = {.finish = FINISH_NONE};
            next.request.n_prompt = i;
            next.request.max_tokens = 1;
            next.request.sampling.bias = &bias;
            next.request.sampling.n_bias = 1;
            ask(e, m, &next, &one, false);
            assert_memory_equal(&one.scores.items[0], &scores[i - 1], sizeof *scores);
            storm_answers_clear(&one, 1);
        }
        job_release(job);
        bell_clear(&bell);
    }
    engine_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_in_threads_get_what_they_get_alone),
        cmocka_unit_test(whoever_lets_go_is_forgotten),
        cmocka_unit_test(what_can_not_run_is_refused),
        cmocka_unit_test(who_has_a_seat_does_not_wait),
        cmocka_unit_test(a_prompt_can_be_scored),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
