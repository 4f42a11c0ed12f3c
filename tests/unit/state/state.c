/* Pages of a sequence: growth with use, windows that drop what no row can see, cuts, and failure without a trace. */
#include "base/memory.h"
#include "state/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const LayerShape two_layers[2] = {{.kv = {KV_I16, 2, 32, 32}}, {.kv = {KV_I16, 2, 32, 32}, .window = 100}};
static const StateShape shape = {2, two_layers};
/* 2 heads * (64 positions * (32 + 32) * 2 bytes + 2 * 64 scales * 4 bytes) */
enum { PAGE_BYTES = 2 * (64 * 64 * 2 + 2 * 64 * 4) };

static State *new_state(void) {
    Error err;
    State *s = state_new(&shape, &err);
    assert_non_null(s);
    return s;
}

static void grow(State *s, int n) {
    Error err;
    assert_true(state_reserve(s, n, &err));
    state_set_length(s, n);
    state_trim(s, n);
}

static void memory_grows_by_pages_as_used(void **state) {
    (void)state;
    State *s = new_state();
    assert_int_equal(kv_page_bytes(&two_layers[0].kv), PAGE_BYTES);
    assert_int_equal(state_bytes(s), 0);
    grow(s, 1);
    assert_int_equal(state_bytes(s), 2 * PAGE_BYTES);
    grow(s, 64);
    assert_int_equal(state_bytes(s), 2 * PAGE_BYTES);
    grow(s, 65);
    assert_int_equal(state_bytes(s), 4 * PAGE_BYTES);
    assert_int_equal(state_length(s), 65);
    state_free(s);
}

/* Window 100: a row at 1000 sees 901 .. 1000, pages 14 and 15; one dropped page is kept for the next. */
static void a_window_keeps_only_what_rows_can_see(void **state) {
    (void)state;
    State *s = new_state();
    for (int n = 1; n <= 1000; n++) grow(s, n);
    const KvView *windowed = state_layer(s, 1), *full = state_layer(s, 0);
    for (int p = 0; p < 14; p++) {
        assert_null(windowed->pages[p]);
        assert_non_null(full->pages[p]);
    }
    assert_non_null(windowed->pages[14]);
    assert_non_null(windowed->pages[15]);
    assert_true(state_bytes(s) <= (16 + 4) * PAGE_BYTES);
    state_free(s);
}

static void a_cut_is_refused_where_the_window_forgot(void **state) {
    (void)state;
    State *s = new_state();
    for (int n = 1; n <= 1000; n++) grow(s, n);
    assert_false(state_cut(s, 900)); /* a row at 900 sees 801: page 12 is gone */
    assert_int_equal(state_length(s), 1000);
    assert_true(state_cut(s, 996)); /* sees 897, page 14 */
    assert_int_equal(state_length(s), 996);
    assert_false(state_cut(s, 997)); /* forward is no cut */
    state_free(s);
}

static void a_cut_returns_whole_pages(void **state) {
    (void)state;
    State *s = new_state();
    grow(s, 90);
    assert_true(state_cut(s, 10));
    assert_int_equal(state_bytes(s), 2 * PAGE_BYTES);
    assert_true(state_cut(s, 0));
    assert_int_equal(state_bytes(s), 0);
    grow(s, 70);
    assert_int_equal(state_bytes(s), 4 * PAGE_BYTES);
    state_free(s);
}

/* A sequence that is run again from its start: the windowed layer's pages move to the front, and none is taken anew. */
static void a_restart_keeps_the_memory(void **state) {
    (void)state;
    State *s = new_state();
    assert_int_equal(state_side(s), 0);
    for (int n = 1; n <= 1000; n++) grow(s, n);
    size_t before = state_bytes(s);
    state_restart(s, 1);
    assert_int_equal(state_side(s), 1);
    assert_int_equal(state_length(s), 0);
    assert_int_equal(state_bytes(s), before);
    const KvView *windowed = state_layer(s, 1);
    assert_non_null(windowed->pages[0]);
    assert_non_null(windowed->pages[1]);
    for (int p = 2; p < 16; p++) assert_null(windowed->pages[p]);
    for (int n = 1; n <= 1000; n++) grow(s, n);
    assert_int_equal(state_bytes(s), before);
    assert_null(windowed->pages[13]);
    assert_non_null(windowed->pages[14]);
    assert_non_null(windowed->pages[15]);
    assert_true(state_cut(s, 996));
    assert_int_equal(state_side(s), 1);
    state_free(s);
}

static void failed_growth_changes_nothing(void **state) {
    (void)state;
    for (int nth = 1;; nth++) {
        State *s = new_state();
        grow(s, 64);
        size_t before = state_bytes(s);
        Error err = {{0}};
        mem_fail_after((uint64_t)nth);
        bool grown = state_reserve(s, 400, &err);
        mem_fail_after(0);
        if (grown) {
            assert_true(nth > 6);
            state_free(s);
            return;
        }
        assert_non_null(strstr(err.text, "out of memory"));
        assert_int_equal(state_bytes(s), before);
        assert_int_equal(state_length(s), 64);
        grow(s, 400); /* and it still works */
        state_free(s);
    }
}

/* A recurrent state stands for all positions: it cannot be cut, only restarted or restored. */
static void recurrent_floats_are_saved_and_restored(void **state) {
    static const LayerShape layers[2] = {{.kv = {KV_I16, 2, 32, 32}}, {.recurrent = 3}};
    static const StateShape hybrid = {2, layers};
    State *s = state_new(&hybrid, NULL);
    (void)state;
    assert_null(state_recurrent(s, 0));
    float *r = state_recurrent(s, 1);
    assert_true(r[0] == 0 && r[2] == 0);
    assert_true(state_reserve(s, 5, NULL));
    state_set_length(s, 5);
    r[1] = 7;
    StateSnapshot *at5 = state_save(s, NULL);
    assert_true(state_reserve(s, 9, NULL));
    state_set_length(s, 9);
    r[1] = 8;
    assert_false(state_cut(s, 5));
    assert_int_equal(state_length(s), 9);
    state_spoil(s);
    assert_false(state_cut(s, 9));
    assert_true(state_restore(s, at5));
    assert_false(state_spoiled(s));
    assert_int_equal(state_length(s), 5);
    assert_true(r[1] == 7);
    state_restart(s, 0);
    assert_true(r[1] == 0);
    assert_false(state_restore(s, at5)); /* its keys and values are gone */
    state_snapshot_free(at5);
    state_free(s);
}

static void write(State *s, int position, float value) {
    float k[64], v[64];
    for (int i = 0; i < 64; i++) k[i] = v[i] = value;
    for (int layer = 0; layer < 2; layer++) assert_true(kv_write(state_layer(s, layer), position, k, v));
}

/* The first number of the value of head 0 at a position, as it is stored. */
static int stored(const State *s, int layer, int position) {
    const KvView *view = state_layer(s, layer);
    const float one = 1, *q[1] = {(float[32]){one}};
    float out[1][KV_PAGE], *scores[1] = {out[0]};
    kv_page_scores(view, position / KV_PAGE, 0, q, 1, 1, scores);
    return (int)(out[0][position % KV_PAGE] + 0.5F);
}

static void write_all(State *s, int from, int to, float value) {
    Error err;
    assert_true(state_reserve(s, to, &err));
    for (int p = from; p < to; p++) write(s, p, value);
    state_set_length(s, to);
    state_trim(s, to);
}

/* 90 positions are two pages: the clone at 70 shares both until it writes, then has a second page of its own. */
static void a_clone_shares_pages_until_it_writes(void **state) {
    (void)state;
    StateAccount account = {0};
    State *s = new_state();
    state_charge(s, &account);
    write_all(s, 0, 90, 3);
    assert_int_equal(account.bytes, 4 * PAGE_BYTES);
    State *clone = state_clone(s, 70, NULL);
    assert_int_equal(state_length(clone), 70);
    assert_int_equal(account.bytes, 4 * PAGE_BYTES);
    assert_ptr_equal(state_layer(clone, 0)->pages[1], state_layer(s, 0)->pages[1]);
    write_all(clone, 70, 80, 5);
    assert_int_equal(account.bytes, 6 * PAGE_BYTES); /* page 1 of each layer, copied */
    assert_ptr_equal(state_layer(clone, 0)->pages[0], state_layer(s, 0)->pages[0]);
    for (int layer = 0; layer < 2; layer++) {
        assert_int_equal(stored(s, layer, 69), 3);
        assert_int_equal(stored(s, layer, 75), 3);
        assert_int_equal(stored(clone, layer, 69), 3);
        assert_int_equal(stored(clone, layer, 75), 5);
    }
    write_all(s, 90, 91, 7); /* its page is its own again: nothing is copied */
    assert_int_equal(account.bytes, 6 * PAGE_BYTES);
    state_free(s);
    assert_int_equal(account.bytes, 4 * PAGE_BYTES);
    assert_int_equal(stored(clone, 0, 10), 3);
    state_free(clone);
    assert_int_equal(account.bytes, 0);
}

/* The original writes on first: it must leave the shared page alone as well, also after a restart and in a window. */
static void the_original_leaves_shared_pages_alone(void **state) {
    (void)state;
    StateAccount account = {0};
    State *s = new_state();
    state_charge(s, &account);
    write_all(s, 0, 200, 3);
    State *clone = state_clone(s, 200, NULL);
    write_all(s, 200, 400, 4); /* layer 1 drops what its window has left, which the clone still holds */
    assert_null(state_layer(s, 1)->pages[1]);
    assert_non_null(state_layer(clone, 1)->pages[1]);
    state_restart(s, 0);
    write_all(s, 0, 200, 9);
    for (int layer = 0; layer < 2; layer++) {
        assert_int_equal(stored(clone, layer, 150), 3);
        assert_int_equal(stored(clone, layer, 199), 3);
        assert_int_equal(stored(s, layer, 150), 9);
    }
    assert_false(state_can_cut(clone, 120)); /* a row there sees 21, page 0: gone when the clone was made */
    assert_null(state_clone(clone, 120, &(Error){{0}}));
    state_free(clone);
    state_free(s);
    assert_int_equal(account.bytes, 0);
}

static void a_clone_has_recurrent_floats_of_its_own(void **state) {
    static const LayerShape layers[1] = {{.recurrent = 3}};
    static const StateShape recurrent = {1, layers};
    (void)state;
    StateAccount account = {0};
    State *s = state_new(&recurrent, NULL);
    state_charge(s, &account);
    assert_true(state_reserve(s, 5, NULL));
    state_set_length(s, 5);
    state_recurrent(s, 0)[2] = 7;
    State *clone = state_clone(s, 5, NULL);
    state_recurrent(s, 0)[2] = 8;
    assert_true(state_recurrent(clone, 0)[2] == 7);
    assert_int_equal(account.bytes, 2 * 3 * sizeof(float));
    assert_null(state_clone(s, 4, &(Error){{0}}));
    state_free(s);
    state_free(clone);
    assert_int_equal(account.bytes, 0);
}

static void a_failed_clone_leaves_nothing(void **state) {
    (void)state;
    StateAccount account = {0};
    State *s = new_state();
    state_charge(s, &account);
    write_all(s, 0, 90, 3);
    for (int nth = 1;; nth++) {
        Error err = {{0}};
        mem_fail_after((uint64_t)nth);
        State *clone = state_clone(s, 70, &err);
        bool grown = clone && state_reserve(clone, 130, &err);
        mem_fail_after(0);
        state_free(clone);
        assert_int_equal(account.bytes, 4 * PAGE_BYTES);
        if (grown) break;
        assert_non_null(strstr(err.text, "out of memory"));
    }
    write_all(s, 90, 95, 4);
    assert_int_equal(account.bytes, 4 * PAGE_BYTES);
    state_free(s);
}

/* Entries for 5 positions each: 64 of them fill a page, so it takes 325 positions to need another. */
static void entries_of_many_positions_take_fewer_pages(void **state) {
    static const LayerShape layers[2] = {{.kv = {KV_I16, 2, 32, 32}}, {.kv = {KV_I16, 2, 32, 32}, .every = 5}};
    static const StateShape pooled = {2, layers};
    State *s = state_new(&pooled, NULL);
    (void)state;
    grow(s, 4);
    assert_int_equal(state_bytes(s), 1 * PAGE_BYTES); /* no entry yet */
    grow(s, 5);
    assert_int_equal(state_bytes(s), 2 * PAGE_BYTES);
    grow(s, 324);
    assert_int_equal(state_bytes(s), (6 + 1) * PAGE_BYTES);
    grow(s, 325);
    assert_int_equal(state_bytes(s), (6 + 2) * PAGE_BYTES);
    assert_int_equal(state_bytes_at(&pooled, 325), (6 + 2) * PAGE_BYTES);
    assert_true(state_cut(s, 324));
    assert_int_equal(state_bytes(s), (6 + 1) * PAGE_BYTES);
    assert_int_equal(state_need(s, 325), 1 * PAGE_BYTES);
    assert_true(state_cut(s, 4));
    assert_int_equal(state_bytes(s), 1 * PAGE_BYTES);
    state_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_by_pages_as_used),
        cmocka_unit_test(a_window_keeps_only_what_rows_can_see),
        cmocka_unit_test(a_cut_is_refused_where_the_window_forgot),
        cmocka_unit_test(a_cut_returns_whole_pages),
        cmocka_unit_test(a_restart_keeps_the_memory),
        cmocka_unit_test(failed_growth_changes_nothing),
        cmocka_unit_test(entries_of_many_positions_take_fewer_pages),
        cmocka_unit_test(recurrent_floats_are_saved_and_restored),
        cmocka_unit_test(a_clone_shares_pages_until_it_writes),
        cmocka_unit_test(the_original_leaves_shared_pages_alone),
        cmocka_unit_test(a_clone_has_recurrent_floats_of_its_own),
        cmocka_unit_test(a_failed_clone_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
