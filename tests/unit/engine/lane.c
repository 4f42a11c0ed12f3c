/* Sequences that share a model: 50 requests alone and in company, on every kind of state there is; prompts that are
 * read once for several; the gap of those who stream; and memory that runs out. */
#include "engine/lane.h"
#include "base/memory.h"
#include "math/kernels.h"
#include "support/fresh.h"
#include "support/golden.h"
#include "support/storm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LONGEST = 160 };

static Lane *new_lane(const Loaded *loaded, const EngineOptions *o) {
    Error err = {""};
    Lane *lane = lane_new(loaded, o, &err);
    if (!lane) fail_msg("%s", err.text);
    return lane;
}

static void ignore_notify(void *context) {
    (void)context;
}

static Job *new_job(const Request *r, int n_choices) {
    Job *job = job_new(r, n_choices, ignore_notify, NULL, NULL);
    assert_non_null(job);
    return job;
}

/* Each request in a lane of its own, so that nothing is cached. */
static void answer_alone(Storm *s, const Loaded *loaded) {
    for (int i = 0; i < STORM_REQUESTS; i++) {
        StormRequest *r = &s->requests[i];
        Lane *lane = new_lane(loaded, &(EngineOptions){.memory = SIZE_MAX});
        Job *job = new_job(&r->request, r->n_choices);
        lane_add(lane, job);
        while (lane_step(lane)) continue;
        assert_int_equal(storm_take(job, r->answers), r->n_choices);
        job_release(job);
        lane_free(lane);
    }
}

/* They come a few at a time, while others run, and some leave early. */
static EngineCounts answer_together(const Storm *s, const Loaded *loaded, const EngineOptions *o) {
    Job *jobs[STORM_REQUESTS] = {NULL};
    StormAnswer got[STORM_REQUESTS][STORM_CHOICES];
    int left[STORM_REQUESTS], n_events[STORM_REQUESTS] = {0};
    memset(got, 0, sizeof got);
    Lane *lane = new_lane(loaded, o);
    int n_come = 0, n_left = STORM_REQUESTS;
    for (int step = 0; n_left > 0; step++) {
        for (; n_come < STORM_REQUESTS && n_come <= step * 2; n_come++) {
            const StormRequest *r = &s->requests[n_come];
            jobs[n_come] = new_job(&r->request, r->n_choices);
            left[n_come] = r->n_choices;
            lane_add(lane, jobs[n_come]);
        }
        assert_true(lane_step(lane) || n_come < STORM_REQUESTS || n_left == 0);
        for (int i = 0; i < n_come; i++) {
            const StormRequest *r = &s->requests[i];
            if (left[i] == 0) continue;
            if (r->cancel_after && ++n_events[i] == r->cancel_after) job_cancel(jobs[i]);
            left[i] -= storm_take(jobs[i], got[i]);
            if (left[i] == 0) n_left--;
        }
    }
    for (int i = 0; i < STORM_REQUESTS; i++) {
        storm_compare(&s->requests[i], got[i]);
        job_release(jobs[i]);
    }
    EngineCounts counts;
    lane_counts(lane, &counts);
    assert_true(lane_is_empty(lane));
    lane_free(lane);
    return counts;
}

/* Room for everything; for a few sequences, so that some are preempted; and steps of 7 rows at most. */
static uint64_t preempted;

static void storm(const Loaded *loaded) {
    Storm s;
    storm_init(&s, model_vocab_size(loaded->model), LONGEST);
    answer_alone(&s, loaded);
    size_t one = state_bytes_at(model_state_shape(loaded->model), LONGEST);
    EngineCounts wide = answer_together(&s, loaded, &(EngineOptions){.memory = SIZE_MAX});
    EngineCounts tight = answer_together(&s, loaded, &(EngineOptions){.memory = one * 7 / 2, .max_running = 16});
    answer_together(&s, loaded, &(EngineOptions){.memory = one * 20, .max_running = 5, .chunk = 7});
    assert_true(wide.prefix.hits > 0 && wide.preempted == 0 && wide.jobs_cancelled > 0);
    assert_true(tight.state_bytes <= tight.state_budget);
    preempted += tight.preempted;
    storm_clear(&s);
}

static void company_changes_nothing(void **state) {
    static const char *const models[] = {"tests/goldens/mlx/llama-swa",       "tests/goldens/mlx/lfm2",
                                         "tests/goldens/mlx/qwen3_moe",       "tests/goldens/mlx/llama",
                                         "tests/goldens/mlx/mamba2-onegroup", "tests/goldens/mlx/qwen3_next"};
#if defined(__aarch64__)
    const size_t n = 1; /* under emulation a storm takes minutes, and what it tests is not the arithmetic */
#else
    const size_t n = sizeof models / sizeof *models;
#endif
    (void)state;
    for (size_t i = 0; i < n; i++) {
        Golden g;
        golden_open(&g, models[i], KV_I16, 1);
        Loaded loaded = {.model = g.model};
        storm(&loaded);
        golden_close(&g);
    }
    assert_true(preempted > 20); /* it was tight */
}

/* The boundary of 100 tokens is crossed in mid-storm, by prompts and by answers. */
static void crossing_in_company_changes_nothing(void **state) {
    TinyModel m;
    (void)state;
    fresh_longrope_open(&m, 100, 0);
    Loaded loaded = {.model = m.model};
    storm(&loaded);
    tiny_close(&m);
}

/* ---- what is read once ---- */

enum { SHARED = 120, CLIENTS = 8 };

/* Eight prompts of 130 tokens that share 120, all there from the start, and a ninth later. */
static void a_common_beginning_is_read_once(void **state) {
    static const char *const models[] = {"tests/goldens/mlx/llama", "tests/goldens/mlx/llama-swa",
                                         "tests/goldens/mlx/lfm2"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        Golden g;
        int32_t ids[CLIENTS + 1][SHARED + 10];
        Job *jobs[CLIENTS + 1];
        EngineCounts counts;
        golden_open(&g, models[m], KV_I16, 1);
        Loaded loaded = {.model = g.model};
        Lane *lane = new_lane(&loaded, &(EngineOptions){.memory = SIZE_MAX, .chunk = 50});
        for (int i = 0; i <= CLIENTS; i++) {
            for (int k = 0; k < SHARED + 10; k++) ids[i][k] = k < SHARED ? (k * 7 + 3) % 100 : (i * 11 + k * 5) % 100;
            Request r = {.prompt = ids[i], .n_prompt = SHARED + 10, .max_tokens = 3, .sampling = SAMPLING_GREEDY};
            jobs[i] = new_job(&r, 1);
            if (i < CLIENTS) lane_add(lane, jobs[i]);
        }
        while (lane_step(lane)) continue;
        lane_counts(lane, &counts);
        assert_int_equal(counts.prompt_rows + counts.cached_tokens, CLIENTS * (SHARED + 10));
        assert_int_equal(counts.prompt_rows, SHARED + CLIENTS * 10);
        lane_add(lane, jobs[CLIENTS]);
        while (lane_step(lane)) continue;
        lane_counts(lane, &counts);
        assert_int_equal(counts.prompt_rows, SHARED + (CLIENTS + 1) * 10);
        assert_int_equal(job_usage(jobs[CLIENTS]).n_cached, SHARED);
        for (int i = 0; i <= CLIENTS; i++) job_release(jobs[i]);
        lane_free(lane);
        golden_close(&g);
    }
}

/* ---- readers and memory ---- */

static void a_slow_reader_stops_only_itself(void **state) {
    Golden g;
    int32_t ids[2] = {5, 6};
    (void)state;
    golden_open(&g, "tests/goldens/mlx/mamba2-onegroup", KV_I16, 1);
    Loaded loaded = {.model = g.model};
    Lane *lane = new_lane(&loaded, &(EngineOptions){.memory = SIZE_MAX});
    Request r = {.prompt = ids, .n_prompt = 2, .max_tokens = 2000, .sampling = SAMPLING_GREEDY};
    Job *slow = new_job(&r, 1), *quick = new_job(&r, 1);
    lane_add(lane, slow);
    lane_add(lane, quick);
    JobEvent *events;
    size_t n_quick = 0, n_slow = 0, n;
    while (lane_step(lane)) {
        n = job_take(quick, &events);
        n_quick += n;
        job_events_clear(events, n);
    }
    assert_int_equal(n_quick, 2000);
    assert_false(lane_is_empty(lane));
    for (; (n = job_take(slow, &events)) > 0; n_slow += n) {
        job_events_clear(events, n);
        while (lane_step(lane)) continue;
    }
    assert_int_equal(n_slow, 2000);
    assert_true(lane_is_empty(lane));
    job_release(slow);
    job_release(quick);
    lane_free(lane);
    golden_close(&g);
}

/* Every allocation fails in turn: whoever ends, ends with a word, and nothing is left behind. */
static void running_out_of_memory_fails_cleanly(void **state) {
    Golden g;
    bool done = false;
    int32_t ids[90];
    (void)state;
    golden_open(&g, "tests/goldens/mlx/llama-swa", KV_I16, 1);
    for (int i = 0; i < 90; i++) ids[i] = i;
    for (uint64_t nth = 1; nth < 3000 && !done; nth += 1 + nth / 20) {
        Loaded loaded = {.model = g.model};
        Lane *lane = new_lane(&loaded, &(EngineOptions){.memory = SIZE_MAX});
        Request r = {.prompt = ids, .n_prompt = 90, .max_tokens = 4, .sampling = SAMPLING_GREEDY, .scores = true};
        Job *jobs[2] = {new_job(&r, 2), new_job(&r, 1)};
        uint64_t before = mem_count();
        mem_fail_after(nth);
        for (int i = 0; i < 2; i++) lane_add(lane, jobs[i]);
        while (lane_step(lane)) continue;
        mem_fail_after(0);
        done = mem_count() - before < nth;
        while (lane_step(lane)) continue;
        assert_true(lane_is_empty(lane));
        for (int i = 0; i < 2; i++) job_release(jobs[i]);
        lane_free(lane);
    }
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(crossing_in_company_changes_nothing),
        cmocka_unit_test(a_common_beginning_is_read_once),
        cmocka_unit_test(a_slow_reader_stops_only_itself),
        cmocka_unit_test(running_out_of_memory_fails_cleanly),
    };
    kernels_select(NULL, NULL); /* the fastest: equal to the others, and there are some thousand steps */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
