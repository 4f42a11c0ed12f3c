/* Requests are the same in every run, so that a failure repeats. */
#include "support/storm.h"
#include "base/memory.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static Request draw_request(const int32_t *ids, int longest) {
    Request r = {.prompt = ids, .sampling = SAMPLING_GREEDY, .scores = true, .n_top = 3, .hashes = true};
    r.n_prompt = 1 + random_below(longest * 3 / 4);
    r.max_tokens = 1 + random_below(longest / 4);
    r.sampling.seed = (uint64_t)random_below(1000);
    if (random_below(2)) {
        r.sampling.temperature = 0.8F;
        r.sampling.top_p = 0.9F;
        r.sampling.repetition_penalty = 1.1F;
    }
    return r;
}

/* Every second prompt begins like one of three others. */
void storm_init(Storm *s, int vocab, int longest) {
    *s = (Storm){.ids = mem_array((size_t)STORM_REQUESTS * (size_t)longest, sizeof *s->ids)};
    assert_non_null(s->ids);
    for (int i = 0; i < STORM_REQUESTS; i++) {
        int32_t *ids = s->ids + (size_t)i * (size_t)longest;
        for (int k = 0; k < longest; k++) ids[k] = random_below(vocab);
        if (i > 3 && i % 2) {
            int common = 1 + random_below(longest);
            memcpy(ids, s->ids + (size_t)(i % 3) * (size_t)longest, (size_t)common * sizeof *ids);
        }
        s->requests[i] = (StormRequest){.request = draw_request(ids, longest),
                                        .n_choices = i % 7 == 0 ? STORM_CHOICES : 1,
                                        .cancel_after = i % 5 == 4 ? 1 + random_below(8) : 0};
    }
}

void storm_answers_clear(StormAnswer *answers, int n) {
    for (int i = 0; i < n; i++) {
        id_list_clear(&answers[i].ids);
        score_list_clear(&answers[i].scores);
        answers[i].finish = FINISH_NONE;
    }
}

void storm_clear(Storm *s) {
    for (int i = 0; i < STORM_REQUESTS; i++) storm_answers_clear(s->requests[i].answers, STORM_CHOICES);
    mem_free(s->ids);
}

int storm_take(Job *job, StormAnswer *answers) {
    JobEvent *events;
    size_t n = job_take(job, &events);
    int ended = 0;
    for (size_t i = 0; i < n; i++) {
        StormAnswer *a = &answers[events[i].choice];
        if (events[i].finish == FINISH_FAILED) fail_msg("%s", events[i].error);
        assert_int_equal(a->finish, FINISH_NONE); /* nothing follows the last event */
        if (events[i].id >= 0) {
            assert_true(id_list_push(&a->ids, events[i].id));
            assert_non_null(events[i].score);
            assert_int_equal(events[i].score->token.id, events[i].id);
            TokenScore *score = score_list_push(&a->scores);
            assert_non_null(score);
            *score = *events[i].score;
        }
        a->finish = events[i].finish;
        ended += events[i].finish != FINISH_NONE;
    }
    job_events_clear(events, n);
    return ended;
}

void storm_compare(const StormRequest *r, StormAnswer *got) {
    for (int i = 0; i < r->n_choices; i++) {
        const StormAnswer *alone = &r->answers[i];
        bool whole = got[i].finish != FINISH_CANCELLED;
        if (whole) assert_int_equal(got[i].ids.n, alone->ids.n);
        if (whole) assert_int_equal(got[i].finish, alone->finish);
        assert_true(got[i].ids.n <= alone->ids.n);
        assert_int_equal(got[i].scores.n, got[i].ids.n);
        if (got[i].ids.n == 0) continue;
        assert_memory_equal(got[i].ids.ids, alone->ids.ids, got[i].ids.n * sizeof *alone->ids.ids);
        assert_memory_equal(got[i].scores.items, alone->scores.items, got[i].scores.n * sizeof *alone->scores.items);
    }
    storm_answers_clear(got, r->n_choices);
}
