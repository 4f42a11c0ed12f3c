/* Sequences of a model whose rotary tables change with length: every token is chosen by the logits of its own prefix,
 * below, at and past the boundary, whatever was run before. 100 is past a page, and the window of 20 has dropped the
 * first page by then. */
#include "base/memory.h"
#include "engine/generate.h"
#include "support/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 600 };

static int32_t ids[MANY];

static int setup(void **state) {
    (void)state;
    fresh_ids(ids, MANY);
    return 0;
}

static Request request(int n_prompt, int max_tokens) {
    return (Request){.prompt = ids, .n_prompt = n_prompt, .max_tokens = max_tokens, .sampling = SAMPLING_GREEDY};
}

/* The greedy answer by fresh runs of every prefix, after a prompt of ids. */
static void fresh_answer(const TinyModel *m, int n_prompt, int n, int32_t *answer) {
    int32_t all[MANY];
    float logits[TINY_VOCAB];
    memcpy(all, ids, sizeof all);
    for (int i = 0; i < n; i++) {
        fresh_logits(m->model, all, n_prompt + i, logits);
        answer[i] = all[n_prompt + i] = logits_argmax(logits, TINY_VOCAB);
    }
}

/* Steps a sequence by hand; each step's logits are those of a fresh run. How many rows ran. */
static int play(const TinyModel *m, PrefixCache *cache, int n_prompt, int max_tokens, int chunk) {
    Error err = {""};
    Row rows[MANY];
    RowFault faults[MANY];
    float expected[TINY_VOCAB], got[TINY_VOCAB];
    Request r = request(n_prompt, max_tokens);
    Sampler *sampler = sampler_new(TINY_VOCAB, &err);
    Sequence *s = sequence_new(&r, m->model, NULL, cache, &err);
    if (!s || !sequence_start(s, &err)) fail_msg("%s", err.text);
    int n_rows = 0, n_answer;
    for (int n; (n = sequence_rows(s, chunk, rows)) > 0; n_rows += n) {
        const float *logits = NULL;
        assert_true(n <= chunk);
        if (!model_step(m->model, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
        if (logits) memcpy(got, logits, sizeof got); /* a fresh run takes their place */
        if (logits) {
            int32_t all[MANY];
            const int32_t *answer = sequence_answer(s, &n_answer);
            memcpy(all, ids, sizeof all);
            memcpy(all + n_prompt, answer, (size_t)n_answer * sizeof *all);
            fresh_logits(m->model, all, n_prompt + n_answer, expected);
            assert_memory_equal(got, expected, sizeof got);
        }
        sequence_accept(s, sampler, n, faults, logits ? got : NULL);
        if (sequence_finish(s) == FINISH_FAILED) fail_msg("%s", sequence_error(s));
    }
    sequence_answer(s, &n_answer);
    assert_int_equal(n_answer, max_tokens);
    assert_int_equal(sequence_finish(s), FINISH_LENGTH);
    sequence_free(s);
    sampler_free(sampler);
    return n_rows;
}

/* What the cache has on a side of a prompt of ids and its answer. */
static int kept(const TinyModel *m, const PrefixCache *cache, int side, int n_prompt, int n_answer) {
    int32_t all[MANY];
    memcpy(all, ids, sizeof all);
    fresh_answer(m, n_prompt, n_answer, all + n_prompt);
    return prefix_cache_find(cache, side, all, n_prompt + n_answer);
}

static void a_crossing_sequence_reads_its_prefix_again_once(void **state) {
    static const int boundaries[] = {16, 100}, chunks[] = {1, 7, 512};
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        TinyModel m;
        int boundary = boundaries[b];
        fresh_longrope_open(&m, boundary, 0);
        for (size_t c = 0; c < 3; c++)
            for (int n_prompt = boundary - 5; n_prompt <= boundary + 1; n_prompt++) {
                PrefixCache *cache = fresh_cache(m.model);
                int n_rows = play(&m, cache, n_prompt, 10, chunks[c]);
                assert_int_equal(n_rows, n_prompt + 9 + (n_prompt <= boundary ? boundary : 0));
                assert_int_equal(kept(&m, cache, 1, n_prompt, 10), n_prompt + 9);
                prefix_cache_free(cache);
            }
        tiny_close(&m);
    }
}

static void an_answer_that_ends_at_the_boundary_stays_short(void **state) {
    TinyModel m;
    (void)state;
    fresh_longrope_open(&m, 16, 0);
    PrefixCache *cache = fresh_cache(m.model);
    assert_int_equal(play(&m, cache, 12, 5, 512), 12 + 4); /* the last token, number 17, is not run */
    assert_int_equal(kept(&m, cache, 0, 12, 5), 16);
    assert_int_equal(kept(&m, cache, 1, 12, 5), 0);
    assert_int_equal(play(&m, cache, 16, 1, 512), 16 - 12);
    prefix_cache_free(cache);
    tiny_close(&m);
}

static void answer(const TinyModel *m, PrefixCache *cache, int n_prompt, int n, int n_cached) {
    Error err = {""};
    Generation g;
    int32_t expected[MANY];
    Request r = request(n_prompt, n);
    if (!generate(m->model, NULL, cache, &r, NULL, NULL, &g, &err)) fail_msg("%s", err.text);
    fresh_answer(m, n_prompt, n, expected);
    assert_int_equal(g.ids.n, n);
    assert_memory_equal(g.ids.ids, expected, (size_t)n * sizeof *expected);
    assert_int_equal(g.n_cached, n_cached);
    generation_clear(&g);
}

/* What a conversation does: it grows, is answered again, is cut. */
static void a_prefix_is_reused_on_its_own_side_only(void **state) {
    TinyModel m;
    (void)state;
    fresh_longrope_open(&m, 16, 0);
    PrefixCache *cache = fresh_cache(m.model);
    answer(&m, cache, 8, 3, 0);
    answer(&m, cache, 14, 1, 8);  /* the answer was another than ids */
    answer(&m, cache, 14, 6, 13); /* again, and past the boundary */
    answer(&m, cache, 14, 6, 13); /* again: the prompt is below it, and what was read there is still kept */
    answer(&m, cache, 20, 4, 14); /* the next turn, of which the long side has what the answer before it began with */
    answer(&m, cache, 40, 4, 20);
    answer(&m, cache, 18, 4, 17); /* cut back, still past it: the long table's keys hold */
    answer(&m, cache, 16, 1, 14); /* cut back to it: they do not, but the short table's are there */
    answer(&m, cache, 17, 1, 16);
    prefix_cache_free(cache);
    tiny_close(&m);
}

static void the_context_may_end_at_the_boundary(void **state) {
    static const int contexts[] = {15, 16, 17};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        TinyModel m;
        fresh_longrope_open(&m, 16, contexts[i]);
        PrefixCache *cache = fresh_cache(m.model);
        assert_int_equal(play(&m, cache, 10, contexts[i] - 10, 512), contexts[i] - 1);
        assert_int_equal(kept(&m, cache, 1, 10, contexts[i] - 10), 0);
        prefix_cache_free(cache);
        tiny_close(&m);
    }
    TinyModel m;
    fresh_longrope_open(&m, 16, 18); /* the last token is run on 17 others, on the long side */
    PrefixCache *cache = fresh_cache(m.model);
    assert_int_equal(play(&m, cache, 10, 8, 512), 17 + 16);
    prefix_cache_free(cache);
    tiny_close(&m);
    fresh_longrope_open(&m, 600, 0); /* as long as the model's context: never */
    assert_int_equal(model_side(m.model, 600), 0);
    tiny_close(&m);
}

static void running_out_of_memory_while_crossing_leaks_nothing(void **state) {
    TinyModel m;
    int32_t expected[8];
    bool done = false;
    (void)state;
    fresh_longrope_open(&m, 100, 0);
    fresh_answer(&m, 97, 8, expected);
    for (uint64_t nth = 1; nth < 4000 && !done; nth++) {
        Error err;
        PrefixCache *cache = fresh_cache(m.model);
        Request r = request(97, 8);
        Generation g = {0};
        mem_fail_after(nth);
        done = generate(m.model, NULL, cache, &r, NULL, NULL, &g, &err);
        mem_fail_after(0);
        if (!done) { /* what is left of the prefix is still good */
            assert_true(generate(m.model, NULL, cache, &r, NULL, NULL, &g, &err));
        }
        assert_int_equal(g.ids.n, 8);
        assert_memory_equal(g.ids.ids, expected, sizeof expected);
        generation_clear(&g);
        prefix_cache_free(cache);
    }
    assert_true(done);
    tiny_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crossing_sequence_reads_its_prefix_again_once),
        cmocka_unit_test(an_answer_that_ends_at_the_boundary_stays_short),
        cmocka_unit_test(a_prefix_is_reused_on_its_own_side_only),
        cmocka_unit_test(the_context_may_end_at_the_boundary),
        cmocka_unit_test(running_out_of_memory_while_crossing_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
