/* The step: rows do not see each other, a fault stays with its sequence, mistakes of a caller leave everything as it
 * was, and a steady decode step takes nothing from the heap. */
#include "base/memory.h"
#include "math/kernels.h"
#include "support/fresh.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static TinyModel tiny;

static int setup(void **state) {
    (void)state;
    tiny_make(&tiny, &(TinyLlama){.head = TINY_HEAD_OWN}, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tiny_close(&tiny);
    return 0;
}

static State *new_state(void) {
    State *s = state_new(model_state_shape(tiny.model), NULL);
    assert_non_null(s);
    return s;
}

static const float *step(const Row *rows, int n, RowFault *faults) {
    const float *logits = NULL;
    Error err = {""};
    if (!model_step(tiny.model, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
    return logits;
}

static void only_wanted_rows_get_logits_and_the_same_ones(void **state) {
    State *a = new_state(), *b = new_state();
    Row all[4], some[4];
    RowFault faults[4];
    float kept[4][TINY_VOCAB];
    (void)state;
    for (int i = 0; i < 4; i++) {
        all[i] = (Row){.state = a, .position = i, .token = 7 + i, .wants_logits = true};
        some[i] = (Row){.state = b, .position = i, .token = 7 + i, .wants_logits = i == 1 || i == 3};
    }
    memcpy(kept, step(all, 4, faults), sizeof kept);
    const float *logits = step(some, 4, faults);
    assert_memory_equal(logits, kept[1], sizeof kept[1]);
    assert_memory_equal(logits + TINY_VOCAB, kept[3], sizeof kept[3]);
    assert_int_equal(state_length(a), 4);
    some[0] = (Row){.state = b, .position = 4, .token = 1};
    assert_null(step(some, 1, faults));
    assert_int_equal(state_length(b), 5);
    state_free(a);
    state_free(b);
}

/* Rows that want no logits leave the last layer early; a fault there reaches the row that wants them. */
static void a_fault_reaches_later_rows_of_its_sequence_in_the_last_layer(void **state) {
    TinyModel m;
    RowFault faults[5];
    Row rows[5];
    const float *logits;
    TinyLlama t = {.head = TINY_HEAD_OWN, .poison = "lm_head.weight", .poison_at = 5, .poison_value = INFINITY};
    (void)state;
    tiny_make(&m, &t, NULL);
    State *a = state_new(model_state_shape(m.model), NULL), *b = state_new(model_state_shape(m.model), NULL);
    for (int i = 0; i < 5; i++)
        rows[i] = (Row){.state = i < 2 ? a : b, .position = i < 2 ? i : i - 2, .token = i, .wants_logits = i == 3};
    assert_true(model_step(m.model, rows, 5, &logits, faults, NULL));
    for (int i = 0; i < 5; i++) assert_int_equal(faults[i].failed, i >= 3);
    assert_int_equal(state_length(a), 2);
    assert_int_equal(state_length(b), 0);
    state_free(a);
    state_free(b);
    tiny_close(&m);
}

static void an_embedding_takes_the_place_of_a_token(void **state) {
    State *a = new_state(), *b = new_state();
    RowFault fault;
    float embedding[TINY_HIDDEN], kept[TINY_VOCAB];
    const Tensor *t = checkpoint_find(tiny.checkpoint, "model.embed_tokens.weight");
    (void)state;
    memcpy(embedding, t->data + 9 * sizeof embedding, sizeof embedding);
    memcpy(kept, step(&(Row){.state = a, .token = 9, .wants_logits = true}, 1, &fault), sizeof kept);
    const float *logits =
        step(&(Row){.state = b, .token = -1, .embedding = embedding, .wants_logits = true}, 1, &fault);
    assert_memory_equal(logits, kept, sizeof kept);
    state_free(a);
    state_free(b);
}

/* A sequence whose embedding is not finite fails from that row on; the row before it and the other sequences keep their
 * bytes. */
static void a_fault_stays_with_its_sequence(void **state) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    State *alone = new_state();
    float kept[3][TINY_VOCAB];
    RowFault faults[6];
    Row rows[6];
    (void)state;
    for (int i = 0; i < 3; i++) rows[i] = (Row){.state = alone, .position = i, .token = 20 + i, .wants_logits = true};
    memcpy(kept, step(rows, 3, faults), sizeof kept);
    state_free(alone);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        State *first = new_state(), *sick = new_state(), *last = new_state();
        float embedding[TINY_HIDDEN] = {0};
        embedding[5] = bad[k];
        rows[0] = (Row){.state = first, .position = 0, .token = 20, .wants_logits = true};
        rows[1] = (Row){.state = sick, .position = 0, .token = 20, .wants_logits = true};
        rows[2] = (Row){.state = sick, .position = 1, .token = 0, .embedding = embedding, .wants_logits = true};
        rows[3] = (Row){.state = sick, .position = 2, .token = 3, .wants_logits = true};
        rows[4] = (Row){.state = last, .position = 0, .token = 20, .wants_logits = true};
        rows[5] = (Row){.state = last, .position = 1, .token = 21, .wants_logits = true};
        const float *logits = step(rows, 6, faults);
        assert_memory_equal(logits, kept[0], sizeof kept[0]);
        assert_memory_equal(logits + TINY_VOCAB, kept[0], sizeof kept[0]);
        assert_memory_equal(logits + 4 * TINY_VOCAB, kept[0], sizeof kept[0]);
        assert_memory_equal(logits + 5 * TINY_VOCAB, kept[1], sizeof kept[1]);
        for (int i = 0; i < 6; i++) assert_int_equal(faults[i].failed, i == 2 || i == 3);
        assert_int_equal(faults[2].layer, 0);
        assert_string_equal(faults[2].operation, "q_proj");
        for (int i = 2 * TINY_VOCAB; i < 4 * TINY_VOCAB; i++) assert_true(logits[i] == 0);
        assert_int_equal(state_length(sick), 0); /* not advanced */
        assert_int_equal(state_length(last), 2);
        state_free(first);
        state_free(sick);
        state_free(last);
    }
}

/* A checkpoint with one weight that overflows names where it is met. */
static void a_fault_names_layer_and_operation(void **state) {
    static const struct {
        const char *tensor;
        int at, layer;
        const char *operation;
    } cases[] = {{"model.layers.1.input_layernorm.weight", 3, 1, "q_proj"},
                 {"model.layers.0.self_attn.k_proj.weight", 0, 0, "kv_write"},
                 {"model.layers.1.self_attn.o_proj.weight", 0, 1, "gate_proj"},
                 {"model.layers.1.mlp.up_proj.weight", 0, 1, "down_proj"},
                 {"model.norm.weight", 0, -1, "logits"},
                 {"lm_head.weight", 0, -1, "logits"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TinyModel m;
        Error err = {""};
        RowFault fault;
        const float *logits;
        TinyLlama t = {.head = TINY_HEAD_OWN, .poison = cases[i].tensor, .poison_at = cases[i].at, .poison_value = NAN};
        tiny_make(&m, &t, NULL);
        State *s = state_new(model_state_shape(m.model), NULL);
        assert_true(
            model_step(m.model, &(Row){.state = s, .token = 1, .wants_logits = true}, 1, &logits, &fault, &err));
        assert_true(fault.failed);
        assert_int_equal(fault.layer, cases[i].layer);
        assert_string_equal(fault.operation, cases[i].operation);
        state_free(s);
        tiny_close(&m);
    }
}

static void mistakes_of_a_caller_change_nothing(void **state) {
    State *s = new_state();
    RowFault faults[2];
    const float *logits = NULL;
    Row rows[2] = {{.state = s, .token = 4}, {.state = s, .position = 1, .token = 4}};
    Error err = {""};
    (void)state;
    step(rows, 2, faults);

    static const struct {
        int position, token;
        const char *says;
    } cases[] = {{1, 4, "position 1, expected 2"},
                 {3, 4, "position 3, expected 2"},
                 {2, TINY_VOCAB, "token id 40 is outside the vocabulary of 40"},
                 {2, -1, "token id -1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Row row = {.state = s, .position = cases[i].position, .token = cases[i].token};
        assert_false(model_step(tiny.model, &row, 1, &logits, faults, &err));
        if (!strstr(err.text, cases[i].says)) fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].says);
        assert_int_equal(state_length(s), 2);
    }
    assert_false(model_step(tiny.model, rows, 0, &logits, faults, &err));
    state_free(s);
}

static void the_context_is_the_end(void **state) {
    ModelOptions o = {.numeric = {KV_F32, 16}, .context = 3};
    TinyModel m;
    RowFault fault;
    const float *logits;
    Error err = {""};
    (void)state;
    tiny_make(&m, &(TinyLlama){.head = TINY_HEAD_OWN}, &o);
    State *s = state_new(model_state_shape(m.model), NULL);
    for (int i = 0; i < 3; i++)
        assert_true(model_step(m.model, &(Row){.state = s, .position = i, .token = i}, 1, &logits, &fault, &err));
    assert_false(model_step(m.model, &(Row){.state = s, .position = 3, .token = 3}, 1, &logits, &fault, &err));
    assert_non_null(strstr(err.text, "position 3 is past the context of 3"));
    state_free(s);
    tiny_close(&m);
}

/* Rotary tables that change past 16 tokens: which rows may be in a state of which side. */
static void rows_on_the_wrong_side_are_refused(void **state) {
    static const struct {
        int side, length; /* of the state */
        bool wants_logits, runs;
    } cases[] = {{0, 15, true, true},  {0, 15, false, true}, {0, 16, true, false}, {0, 16, false, false},
                 {1, 15, true, false}, {1, 15, false, true}, {1, 16, true, true},  {1, 16, false, true}};
    TinyModel m;
    RowFault faults[17];
    Row rows[17];
    const float *logits;
    (void)state;
    fresh_longrope_open(&m, 16, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        State *s = state_new(model_state_shape(m.model), NULL);
        Error err = {""};
        state_restart(s, cases[i].side);
        for (int r = 0; r <= cases[i].length; r++) rows[r] = (Row){.state = s, .position = r, .token = r};
        rows[cases[i].length].wants_logits = cases[i].wants_logits;
        assert_int_equal(model_step(m.model, rows, cases[i].length + 1, &logits, faults, &err), cases[i].runs);
        if (!cases[i].runs) {
            assert_non_null(strstr(err.text, cases[i].side ? "position 15 needs the short rotary table"
                                                           : "position 16 needs the long rotary table"));
            assert_int_equal(state_length(s), 0);
        }
        state_free(s);
    }
    tiny_close(&m);
}

/* Sequences of both sides in one step, in turns: each gets the logits it gets alone, and the sides are not the same. */
static void sides_do_not_mix_in_a_step(void **state) {
    enum { SEQUENCES = 5 };
    TinyModel m;
    Row rows[SEQUENCES * 18];
    RowFault faults[SEQUENCES * 18];
    State *states[SEQUENCES];
    int32_t all[18];
    float alone[TINY_VOCAB], kept[SEQUENCES][TINY_VOCAB];
    const float *logits;
    int n = 0;
    Error err = {""};
    (void)state;
    fresh_longrope_open(&m, 16, 0);
    fresh_ids(all, 18);
    for (int i = 0; i < SEQUENCES; i++) {
        int length = 14 + i;
        states[i] = state_new(model_state_shape(m.model), NULL);
        state_restart(states[i], model_side(m.model, length));
        for (int r = 0; r < length; r++)
            rows[n++] = (Row){.state = states[i], .position = r, .token = all[r], .wants_logits = r + 1 == length};
    }
    if (!model_step(m.model, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
    memcpy(kept, logits, sizeof kept);
    for (int i = 0; i < SEQUENCES; i++) {
        fresh_logits(m.model, all, 14 + i, alone);
        assert_memory_equal(alone, kept[i], sizeof alone);
        state_free(states[i]);
    }
    tiny_close(&m);
    fresh_longrope_open(&m, 17, 0); /* another boundary, and the same prefix of 17 has other logits */
    fresh_logits(m.model, all, 17, alone);
    assert_memory_not_equal(alone, kept[3], sizeof alone);
    fresh_logits(m.model, all, 16, alone);
    assert_memory_equal(alone, kept[2], sizeof alone);
    tiny_close(&m);
}

static void a_steady_decode_step_takes_nothing_from_the_heap(void **state) {
    State *a = new_state(), *b = new_state();
    RowFault faults[2];
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    for (int i = 0; i < 60; i++) {
        uint64_t before = mem_count();
        Row rows[2] = {{.state = a, .position = i, .token = i % TINY_VOCAB, .wants_logits = true},
                       {.state = b, .position = i, .token = 1, .wants_logits = true}};
        step(rows, 2, faults);
        if (i >= 2) assert_int_equal(mem_count(), before); /* both within their first page */
    }
    state_free(a);
    state_free(b);
}

static void an_allocation_that_fails_leaves_the_state_usable(void **state) {
    State *s = new_state(), *fresh = new_state();
    RowFault faults[200];
    static Row rows[200];
    static float kept[TINY_VOCAB];
    const float *logits = NULL;
    Error err;
    bool ran = false;
    (void)state;
    for (int i = 0; i < 200; i++)
        rows[i] = (Row){.state = s, .position = i, .token = i % TINY_VOCAB, .wants_logits = i == 199};
    for (int n = 1; !ran && n < 1000; n++) {
        mem_fail_after((uint64_t)n);
        ran = model_step(tiny.model, rows, 200, &logits, faults, &err);
        mem_fail_after(0);
        if (!ran) assert_int_equal(state_length(s), 0);
    }
    assert_true(ran);
    memcpy(kept, logits, sizeof kept);
    for (int i = 0; i < 200; i++) rows[i].state = fresh;
    logits = step(rows, 200, faults);
    assert_memory_equal(logits, kept, sizeof kept);
    state_free(s);
    state_free(fresh);
}

typedef struct Taps {
    char text[4096];
} Taps;

static void note_tap(void *context, int layer, const char *kind, const char *operation, const float *values, int rows,
                     int cols) {
    Taps *t = context;
    size_t used = strlen(t->text);
    (void)values;
    snprintf(t->text + used, sizeof t->text - used, "%d %s %s %dx%d\n", layer, kind, operation, rows, cols);
}

static void the_tap_sees_every_operation_in_order(void **state) {
    static Taps taps;
    State *s = new_state();
    RowFault fault;
    (void)state;
    model_set_tap(tiny.model, note_tap, &taps);
    step(&(Row){.state = s, .token = 1, .wants_logits = true}, 1, &fault);
    model_set_tap(tiny.model, NULL, NULL);
    assert_non_null(strstr(
        taps.text, "-1  embedding 1x32\n0 full mixer norm 1x32\n0 full k_proj 1x16\n0 full v_proj 1x16\n"
                   "0 full rope k 1x16\n0 full q_proj 1x32\n0 full rope q 1x32\n0 full attention 1x32\n"
                   "0 full o_proj 1x32\n0 full ffn norm 1x32\n0 full gate_proj 1x48\n0 full up_proj 1x48\n"
                   "0 full activation 1x48\n0 full down_proj 1x32\n0 full residual 1x32\n1 full mixer norm 1x32\n"));
    assert_non_null(strstr(taps.text, "-1  final norm 1x32\n-1  logits 1x40\n"));
    state_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_wanted_rows_get_logits_and_the_same_ones),
        cmocka_unit_test(a_fault_reaches_later_rows_of_its_sequence_in_the_last_layer),
        cmocka_unit_test(an_embedding_takes_the_place_of_a_token),
        cmocka_unit_test(a_fault_stays_with_its_sequence),
        cmocka_unit_test(a_fault_names_layer_and_operation),
        cmocka_unit_test(mistakes_of_a_caller_change_nothing),
        cmocka_unit_test(the_context_is_the_end),
        cmocka_unit_test(rows_on_the_wrong_side_are_refused),
        cmocka_unit_test(sides_do_not_mix_in_a_step),
        cmocka_unit_test(a_steady_decode_step_takes_nothing_from_the_heap),
        cmocka_unit_test(an_allocation_that_fails_leaves_the_state_usable),
        cmocka_unit_test(the_tap_sees_every_operation_in_order),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
