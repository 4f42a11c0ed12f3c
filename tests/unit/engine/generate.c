/* Sequences and the loop around them, on a golden of a few thousand weights: ids are the reference's, and no way of
 * cutting the work or reusing earlier work changes them. Text is tested in sequence.c. */
#include "engine/generate.h"
#include "base/memory.h"
#include "support/fresh.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { MANY = 64 };

static Golden golden;
static int32_t prompt[MANY], answer[MANY];
static int n_prompt, n_answer;

static int setup(void **state) {
    (void)state;
    golden_open(&golden, "tests/goldens/mlx/llama", KV_F32, 2);
    n_prompt = golden_ids(&golden, "prompts", "short", prompt, 0, MANY);
    n_answer = golden_ids(&golden, "continuation", "short", answer, 0, MANY);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    golden_close(&golden);
    return 0;
}

static Request greedy_request(int max_tokens) {
    return (Request){.prompt = prompt, .n_prompt = n_prompt, .max_tokens = max_tokens, .sampling = SAMPLING_GREEDY};
}

static void assert_answer(const Generation *g, int n, FinishReason finish) {
    assert_int_equal(g->ids.n, n);
    if (n > 0) assert_memory_equal(g->ids.ids, answer, (size_t)n * sizeof *answer);
    assert_int_equal(g->finish, finish);
}

static void run(PrefixCache *cache, const Request *r, int n, FinishReason finish) {
    Generation g;
    Error err = {""};
    if (!generate(golden.model, NULL, cache, r, NULL, NULL, &g, &err)) fail_msg("%s", err.text);
    assert_answer(&g, n, finish);
    generation_clear(&g);
}

static void the_greedy_answer_is_the_reference(void **state) {
    (void)state;
    PrefixCache *cache = fresh_cache(golden.model);
    Request r = greedy_request(16);
    run(cache, &r, 16, FINISH_LENGTH);
    assert_int_equal(n_answer, 16);
    int32_t all[MANY + 1];
    memcpy(all, prompt, (size_t)n_prompt * sizeof *all);
    memcpy(all + n_prompt, answer, 16 * sizeof *all);
    assert_int_equal(prefix_cache_find(cache, 0, all, n_prompt + 16), n_prompt + 15); /* the last token was not run */
    assert_int_equal(prefix_cache_find(cache, 0, all, n_prompt + 15), n_prompt + 14); /* and the last must be */
    prefix_cache_free(cache);
}

static void an_end_token_is_in_the_answer_and_ends_it(void **state) {
    (void)state;
    PrefixCache *cache = fresh_cache(golden.model);
    Request r = greedy_request(16);
    r.end_ids = answer + 3;
    r.n_end_ids = 1;
    run(cache, &r, 4, FINISH_STOP);
    prefix_cache_free(cache);
}

static void no_tokens_asked_gives_none(void **state) {
    (void)state;
    PrefixCache *cache = fresh_cache(golden.model);
    Request r = greedy_request(0);
    run(cache, &r, 0, FINISH_LENGTH);
    prefix_cache_free(cache);
}

/* Every cut of an earlier run, and a run that went elsewhere, leave the answer as it is. */
static void a_reused_prefix_changes_nothing(void **state) {
    (void)state;
    Error err;
    for (int cut = 0; cut <= n_prompt; cut++) {
        PrefixCache *cache = fresh_cache(golden.model);
        int32_t other[MANY];
        memcpy(other, prompt, sizeof other);
        for (int i = cut; i < n_prompt; i++) other[i] = 100 + i;
        Request elsewhere = greedy_request(5), r = greedy_request(16);
        elsewhere.prompt = other;
        Generation g;
        assert_true(generate(golden.model, NULL, cache, &elsewhere, NULL, NULL, &g, &err));
        generation_clear(&g);
        assert_true(generate(golden.model, NULL, cache, &r, NULL, NULL, &g, &err));
        assert_answer(&g, 16, FINISH_LENGTH);
        assert_int_equal(g.n_cached, cut < n_prompt ? cut : n_prompt - 1); /* the last token is run again */
        assert_int_equal(g.n_prompt, n_prompt);
        assert_int_equal(g.decode_steps, 15);
        generation_clear(&g);
        prefix_cache_free(cache);
    }
}

/* A sequence stepped by hand in chunks of every size. */
static void chunks_of_the_prompt_change_nothing(void **state) {
    (void)state;
    Error err;
    Row rows[MANY];
    RowFault faults[MANY];
    Sampler *sampler = sampler_new(model_vocab_size(golden.model), &err);
    for (int chunk = 1; chunk <= n_prompt; chunk++) {
        PrefixCache *cache = fresh_cache(golden.model);
        Request r = greedy_request(4);
        Sequence *s = sequence_new(&r, golden.model, NULL, cache, &err);
        assert_non_null(s);
        assert_true(sequence_start(s, &err));
        int steps = 0;
        for (int n; (n = sequence_rows(s, chunk, rows)) > 0; steps++) {
            const float *logits = NULL;
            assert_true(n <= chunk);
            assert_true(model_step(golden.model, rows, n, &logits, faults, &err));
            sequence_accept(s, sampler, n, faults, logits);
        }
        int n;
        const int32_t *ids = sequence_answer(s, &n);
        assert_int_equal(n, 4);
        assert_memory_equal(ids, answer, 4 * sizeof *ids);
        assert_int_equal(steps, (n_prompt + chunk - 1) / chunk + 3);
        sequence_free(s);
        prefix_cache_free(cache);
    }
    sampler_free(sampler);
}

static void a_failed_row_names_its_place_and_forgets_the_prefix(void **state) {
    (void)state;
    Error err;
    Row rows[MANY];
    RowFault faults[MANY] = {{0}};
    PrefixCache *cache = fresh_cache(golden.model);
    Request r = greedy_request(4);
    Sequence *s = sequence_new(&r, golden.model, NULL, cache, &err);
    assert_true(sequence_start(s, &err));
    int n = sequence_rows(s, MANY, rows);
    assert_int_equal(n, n_prompt);
    faults[2] = (RowFault){true, 1, "attention"};
    sequence_accept(s, NULL, n, faults, NULL);
    assert_int_equal(sequence_finish(s), FINISH_FAILED);
    assert_string_equal(sequence_error(s), "position 2: a value that is not finite in layer 1, attention");
    assert_int_equal(sequence_rows(s, MANY, rows), 0);
    assert_false(sequence_started(s));
    sequence_free(s);
    assert_int_equal(prefix_cache_bytes(cache), 0); /* nobody else gets to read it */
    prefix_cache_free(cache);
}

static bool stop_after(void *context, const char *text, size_t n) {
    (void)text;
    assert_int_equal(n, 0);
    return --*(int *)context > 0;
}

static void the_sink_can_end_it(void **state) {
    (void)state;
    Error err;
    PrefixCache *cache = fresh_cache(golden.model);
    Request r = greedy_request(16);
    Generation g;
    int steps = 3;
    assert_true(generate(golden.model, NULL, cache, &r, stop_after, &steps, &g, &err));
    assert_answer(&g, 3, FINISH_CANCELLED);
    generation_clear(&g);
    run(cache, &r, 16, FINISH_LENGTH); /* and what was read stays good */
    prefix_cache_free(cache);
}

static void assert_refused(const Request *r, const char *message) {
    Error err = {""};
    PrefixCache *cache = fresh_cache(golden.model);
    assert_null(sequence_new(r, golden.model, NULL, cache, &err));
    assert_string_equal(err.text, message);
    prefix_cache_free(cache);
}

static void requests_that_can_not_run_are_refused_before_work(void **state) {
    (void)state;
    int32_t ids[300] = {0};
    StopText stop = {"x", 1};
    Request r = greedy_request(1);
    r.n_prompt = 0;
    assert_refused(&r, "the prompt is empty: a model needs at least one token");
    r.prompt = ids;
    r.n_prompt = 257;
    assert_refused(&r, "the prompt has 257 tokens, the context holds 256: shorten the prompt");
    r.n_prompt = 1;
    ids[0] = 128;
    assert_refused(&r, "id 128 of the prompt is outside the vocabulary (0 to 127)");
    ids[0] = -1;
    assert_refused(&r, "id -1 of the prompt is outside the vocabulary (0 to 127)");
    ids[0] = 1;
    r.stops = &stop;
    r.n_stops = 1;
    assert_refused(&r, "stop strings need a tokenizer, and this model's folder has no tokenizer.json");
    r.n_stops = 0;
    r.sampling.top_p = 2;
    assert_refused(&r, "top-p is 2: it must be from 0 to 1");
}

static void a_full_context_leaves_no_room(void **state) {
    (void)state;
    Error err;
    PrefixCache *cache = fresh_cache(golden.model);
    int32_t ids[256] = {0};
    Request r = {.prompt = ids, .n_prompt = 254, .max_tokens = -1, .sampling = SAMPLING_GREEDY};
    Generation g;
    assert_true(generate(golden.model, NULL, cache, &r, NULL, NULL, &g, &err));
    assert_int_equal(g.ids.n, 2);
    assert_int_equal(g.finish, FINISH_LENGTH);
    generation_clear(&g);
    r.n_prompt = 256;
    assert_true(generate(golden.model, NULL, cache, &r, NULL, NULL, &g, &err));
    assert_int_equal(g.ids.n, 0);
    assert_int_equal(g.finish, FINISH_LENGTH);
    generation_clear(&g);
    prefix_cache_free(cache);
}

static void running_out_of_memory_leaks_nothing(void **state) {
    (void)state;
    Error err;
    bool done = false;
    for (uint64_t nth = 1; nth < 2000 && !done; nth++) {
        PrefixCache *cache = fresh_cache(golden.model);
        Request r = greedy_request(3);
        Generation g = {0};
        mem_fail_after(nth);
        done = generate(golden.model, NULL, cache, &r, NULL, NULL, &g, &err);
        mem_fail_after(0);
        if (done) assert_answer(&g, 3, FINISH_LENGTH);
        generation_clear(&g);
        prefix_cache_free(cache);
    }
    assert_true(done);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_greedy_answer_is_the_reference),
        cmocka_unit_test(an_end_token_is_in_the_answer_and_ends_it),
        cmocka_unit_test(no_tokens_asked_gives_none),
        cmocka_unit_test(a_reused_prefix_changes_nothing),
        cmocka_unit_test(chunks_of_the_prompt_change_nothing),
        cmocka_unit_test(a_failed_row_names_its_place_and_forgets_the_prefix),
        cmocka_unit_test(the_sink_can_end_it),
        cmocka_unit_test(requests_that_can_not_run_are_refused_before_work),
        cmocka_unit_test(a_full_context_leaves_no_room),
        cmocka_unit_test(running_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
