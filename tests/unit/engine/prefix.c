/* The cache of prefixes: which entry serves a prompt, what is dropped for memory and what because it is of no use any
 * more, and answers of models whose state can not be cut, which resume from snapshots. */
#include "engine/prefix.h"
#include "base/memory.h"
#include "engine/generate.h"
#include "support/fresh.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const LayerShape whole_layers[1] = {{.kv = {KV_F32, 1, 4, 4}}};
static const StateShape whole = {1, whole_layers};
static const LayerShape window_layers[2] = {{.kv = {KV_F32, 1, 4, 4}}, {.kv = {KV_F32, 1, 4, 4}, .window = 8}};
static const StateShape windowed = {2, window_layers};
enum { PAGE_BYTES = 64 * 8 * 4 };

static PrefixCache *new_cache(const StateShape *shape, size_t budget) {
    PrefixCache *c = prefix_cache_new(shape, budget, NULL);
    assert_non_null(c);
    return c;
}

/* Reads ids up to n, as steps would. */
static void read_on(Prefix *p, const int32_t *ids, int n) {
    assert_true(state_reserve(p->state, n, NULL));
    for (int i = (int)p->ids.n; i < n; i++) assert_true(id_list_push(&p->ids, ids[i]));
    state_set_length(p->state, n);
    state_trim(p->state, n);
}

/* A prompt of ids [n] comes, is read and given back; how much of it was there. */
static int visit(PrefixCache *c, const int32_t *ids, int n) {
    Prefix p = {0};
    assert_true(prefix_cache_take(c, 0, ids, n, &p, NULL));
    int had = (int)p.ids.n;
    read_on(&p, ids, n);
    prefix_cache_give(c, &p);
    assert_null(p.state);
    return had;
}

static void count_up(int32_t *ids, int n, int32_t from) {
    for (int i = 0; i < n; i++) ids[i] = from + i;
}

static void the_longest_beginning_serves(void **state) {
    (void)state;
    int32_t a[200], b[200];
    count_up(a, 200, 0);
    memcpy(b, a, sizeof b);
    count_up(b + 100, 100, 1000);
    PrefixCache *c = new_cache(&whole, SIZE_MAX);
    assert_true(prefix_cache_is_whole(c));
    assert_int_equal(visit(c, a, 70), 0);
    assert_int_equal(visit(c, b, 200), 70);
    assert_int_equal(visit(c, a, 200), 100);
    assert_int_equal(visit(c, a, 200), 199); /* the last token is run again */
    assert_int_equal(prefix_cache_find(c, 0, b, 150), 149);
    assert_int_equal(prefix_cache_find(c, 1, b, 150), 0); /* nothing was read on that side */
    assert_int_equal(prefix_cache_find(c, 0, b + 1, 150), 0);
    const PrefixCounts *counts = prefix_cache_counts(c);
    assert_int_equal(counts->hits, 3);
    assert_int_equal(counts->misses, 1);
    assert_int_equal(counts->tokens, 70 + 100 + 199);
    Prefix p = {0};
    assert_true(prefix_cache_take(c, 1, a, 200, &p, NULL));
    prefix_clear(&p);
    assert_true(prefix_cache_fresh(c, 0, &p, NULL));
    prefix_clear(&p);
    assert_int_equal(counts->misses, 2);
    assert_int_equal(counts->misses_side, 1);
    assert_int_equal(counts->misses_cut, 0);
    assert_int_equal(counts->bypassed, 1);
    prefix_cache_free(c);
}

/* a (two pages) and its longer self (four) are one entry; b shares one page with it. */
static void what_a_longer_entry_serves_is_dropped(void **state) {
    (void)state;
    int32_t a[256], b[128];
    count_up(a, 256, 0);
    count_up(b, 128, 0);
    count_up(b + 64, 64, 1000);
    PrefixCache *c = new_cache(&whole, SIZE_MAX);
    visit(c, a, 128);
    assert_int_equal(prefix_cache_bytes(c), 2 * PAGE_BYTES);
    visit(c, a, 256);
    assert_int_equal(prefix_cache_bytes(c), 4 * PAGE_BYTES);
    visit(c, b, 128);
    assert_int_equal(prefix_cache_bytes(c), 5 * PAGE_BYTES);
    prefix_cache_shrink(c, 4 * PAGE_BYTES); /* a was used before b */
    assert_int_equal(prefix_cache_bytes(c), 2 * PAGE_BYTES);
    assert_int_equal(prefix_cache_counts(c)->evicted, 1);
    assert_int_equal(prefix_cache_find(c, 0, a, 256), 64);
    assert_int_equal(prefix_cache_find(c, 0, b, 128), 127);
    prefix_cache_free(c);
}

static void the_budget_holds(void **state) {
    (void)state;
    int32_t ids[64];
    PrefixCache *c = new_cache(&whole, 10 * PAGE_BYTES);
    for (int i = 0; i < 300; i++) {
        count_up(ids, 64, 100 * i);
        assert_int_equal(visit(c, ids, 64), 0);
        assert_true(prefix_cache_bytes(c) <= 10 * PAGE_BYTES);
    }
    assert_int_equal(prefix_cache_find(c, 0, ids, 64), 63);
    count_up(ids, 64, 100 * 290);
    assert_int_equal(prefix_cache_find(c, 0, ids, 64), 63);
    count_up(ids, 64, 100 * 289);
    assert_int_equal(prefix_cache_find(c, 0, ids, 64), 0);
    prefix_cache_free(c);
    c = new_cache(&whole, 0);
    visit(c, ids, 64);
    assert_int_equal(prefix_cache_bytes(c), 0);
    prefix_cache_free(c);
}

/* A window of 8 after 500 tokens holds pages from 492 on: it serves cuts from there, and a snapshot serves the rest. */
static void a_window_serves_what_it_holds(void **state) {
    (void)state;
    int32_t a[500], b[500];
    count_up(a, 500, 0);
    memcpy(b, a, sizeof b);
    count_up(b + 300, 200, 1000);
    PrefixCache *c = new_cache(&windowed, SIZE_MAX);
    assert_false(prefix_cache_is_whole(c));
    Prefix p = {0};
    assert_true(prefix_cache_take(c, 0, a, 500, &p, NULL));
    read_on(&p, a, 256);
    prefix_cache_snapshot(c, &p);
    read_on(&p, a, 500);
    prefix_cache_give(c, &p);
    assert_int_equal(prefix_cache_find(c, 0, b, 500), 256);
    assert_int_equal(prefix_cache_find(c, 0, a, 500), 499);
    assert_int_equal(prefix_cache_find(c, 0, a, 400), 256);
    assert_int_equal(prefix_cache_find(c, 0, a, 256), 255); /* a row there sees 248, still in its page */
    assert_int_equal(prefix_cache_find(c, 0, a, 190), 0);   /* 182 is not */
    prefix_cache_free(c);
}

static void without_memory_it_forgets(void **state) {
    (void)state;
    int32_t ids[64];
    count_up(ids, 64, 0);
    bool kept = false;
    for (uint64_t nth = 1; !kept; nth++) {
        PrefixCache *c = new_cache(&whole, SIZE_MAX);
        Prefix p = {0};
        assert_true(prefix_cache_take(c, 0, ids, 64, &p, NULL));
        read_on(&p, ids, 64);
        mem_fail_after(nth);
        prefix_cache_snapshot(c, &p);
        mem_fail_after(0);
        kept = prefix_cache_find(c, 0, ids, 64) == 63;
        prefix_clear(&p);
        assert_int_equal(prefix_cache_bytes(c), kept ? PAGE_BYTES : 0);
        prefix_cache_free(c);
    }
}

/* ---- answers of a model with recurrent layers ---- */

enum { LONG = 200, LOGITS = 512 };

/* logits [vocab]: those the last token was chosen by. */
static void ask(const Golden *g, PrefixCache *cache, const int32_t *ids, int n, int end_id, Generation *out,
                float *logits) {
    Error err = {""};
    int32_t end = end_id;
    Request r = {
        .prompt = ids, .n_prompt = n, .max_tokens = 6, .sampling = SAMPLING_GREEDY, .end_ids = &end, .n_end_ids = 1};
    if (!generate(g->model, NULL, cache, &r, NULL, NULL, out, &err)) fail_msg("%s", err.text);
    memcpy(logits, out->last_logits, (size_t)model_vocab_size(g->model) * sizeof *logits);
}

/* The same answer with a warm cache as with a cold one; how much was not read again. */
static int ask_both(const Golden *g, PrefixCache *cache, const int32_t *ids, int n, int end_id) {
    Generation warm, cold;
    float warm_logits[LOGITS], cold_logits[LOGITS];
    assert_true(model_vocab_size(g->model) <= LOGITS);
    PrefixCache *empty = fresh_cache(g->model);
    ask(g, cache, ids, n, end_id, &warm, warm_logits);
    ask(g, empty, ids, n, end_id, &cold, cold_logits);
    assert_int_equal(cold.n_cached, 0);
    assert_int_equal(warm.ids.n, cold.ids.n);
    assert_memory_equal(warm.ids.ids, cold.ids.ids, warm.ids.n * sizeof *warm.ids.ids);
    assert_memory_equal(warm_logits, cold_logits, (size_t)model_vocab_size(g->model) * sizeof *warm_logits);
    int n_cached = warm.n_cached;
    generation_clear(&warm);
    generation_clear(&cold);
    prefix_cache_free(empty);
    return n_cached;
}

/* Message 1 ends with the token 5 at position 120, and a second message follows. */
static void recurrent_state_resumes_from_snapshots(void **state) {
    static const char *const models[] = {"tests/goldens/mlx/lfm2", "tests/goldens/mlx/mamba2-onegroup",
                                         "tests/goldens/mlx/qwen3_next", "tests/goldens/mlx/llama-swa"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        Golden g;
        int32_t ids[LONG];
        golden_open(&g, models[m], KV_F32, 2);
        for (int i = 0; i < LONG; i++) ids[i] = 6 + (i * 7 + i / 9) % 50;
        ids[119] = 5;
        PrefixCache *cache = fresh_cache(g.model);
        assert_false(prefix_cache_is_whole(cache));
        assert_int_equal(ask_both(&g, cache, ids, 150, 5), 0);
        assert_int_equal(ask_both(&g, cache, ids, 150, 5), 149); /* the same again: before its last token */
        for (int i = 140; i < LONG; i++) ids[i] = 7 + i % 40;    /* edited after message 1 */
        int found = ask_both(&g, cache, ids, LONG, 5);
        assert_true(found == 120 || (found == 140 && strstr(models[m], "swa"))); /* a window may still hold more */
        prefix_cache_free(cache);
        golden_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_beginning_serves),
        cmocka_unit_test(what_a_longer_entry_serves_is_dropped),
        cmocka_unit_test(the_budget_holds),
        cmocka_unit_test(a_window_serves_what_it_holds),
        cmocka_unit_test(without_memory_it_forgets),
        cmocka_unit_test(recurrent_state_resumes_from_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
