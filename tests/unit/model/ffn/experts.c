/* How much a mixture of experts reads: an expert that rows of a step chose is unpacked once for all of them. */
#include "math/router.h"
#include "model/model.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* 2 layers of 6 experts of 24 from hidden 64, of which 3 are chosen: 2 tiles for gate and up each, 4 for down. */
static const char golden_folder[] = "tests/goldens/mlx/olmoe";
enum { ROWS = 40, LAYERS = 2, EXPERTS = 6, CHOSEN = 3, TILES = 2 + 2 + 4 };

/* Which experts the rows of a step choose in each layer, from the router's logits. */
typedef struct Seen {
    bool chosen[LAYERS][EXPERTS];
} Seen;

static void note_choices(void *context, int layer, const char *kind, const char *operation, const float *values,
                         int rows, int cols) {
    static const RouterRule rule = {.score = ROUTER_SOFTMAX, .n_experts = EXPERTS, .n_chosen = CHOSEN};
    Seen *seen = context;
    (void)kind;
    if (strcmp(operation, "router") != 0) return;
    assert_int_equal(cols, EXPERTS);
    for (int r = 0; r < rows; r++) {
        float scratch[2 * EXPERTS], weights[CHOSEN];
        int ids[CHOSEN];
        router_choose(&rule, values + r * cols, NULL, scratch, ids, weights);
        for (int i = 0; i < CHOSEN; i++) seen->chosen[layer][ids[i]] = true;
    }
}

static uint64_t count_seen(const Seen *seen) {
    uint64_t n = 0;
    for (int i = 0; i < LAYERS * EXPERTS; i++) n += seen->chosen[i / EXPERTS][i % EXPERTS];
    return n;
}

/* Runs the long prompt in chunks of `chunk`; each step's counts are those of the experts it chose. */
static void run_in_chunks(Golden *g, int chunk) {
    int32_t ids[ROWS];
    Row rows[ROWS];
    RowFault faults[ROWS];
    const float *logits;
    Error err = {""};
    State *state = state_new(model_state_shape(g->model), &err);
    assert_non_null(state);
    assert_int_equal(golden_ids(g, "prompts", "long", ids, 0, ROWS), ROWS);
    for (int at = 0; at < ROWS; at += chunk) {
        Seen seen = {{{false}}};
        ModelCounts before = model_counts(g->model);
        model_set_tap(g->model, note_choices, &seen);
        for (int i = 0; i < chunk; i++)
            rows[i] = (Row){.state = state, .position = at + i, .token = ids[at + i], .wants_logits = true};
        if (!model_step(g->model, rows, chunk, &logits, faults, &err)) fail_msg("%s", err.text);
        ModelCounts after = model_counts(g->model);
        uint64_t chosen = count_seen(&seen);
        assert_true(chosen >= LAYERS * CHOSEN);
        assert_int_equal(after.experts - before.experts, chosen);
        assert_int_equal(after.expert_tiles - before.expert_tiles, chosen * TILES);
    }
    model_set_tap(g->model, NULL, NULL);
    state_free(state);
}

static void a_chunk_unpacks_each_chosen_expert_once(void **state) {
    Golden g;
    (void)state;
    golden_open(&g, golden_folder, KV_F32, 2);
    run_in_chunks(&g, 1);
    run_in_chunks(&g, 8);
    run_in_chunks(&g, ROWS);
    golden_close(&g);
}

/* Of 6 experts a step reads 3: half of their bytes. All weights are bf16. */
static void the_bytes_of_a_step_are_those_of_the_chosen_experts(void **state) {
    enum { EXPERT = 3 * 24 * 64, ATTENTION = 4 * 64 * 64, ROUTER = 6 * 64, HEAD = 128 * 64 };
    Golden g;
    (void)state;
    golden_open(&g, golden_folder, KV_F32, 1);
    assert_int_equal(model_step_bytes(g.model), 2 * (LAYERS * (CHOSEN * EXPERT + ATTENTION + ROUTER) + HEAD));
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_unpacks_each_chosen_expert_once),
        cmocka_unit_test(the_bytes_of_a_step_are_those_of_the_chosen_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
