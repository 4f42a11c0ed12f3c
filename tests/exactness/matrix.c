/* The exactness matrix over every golden: every cut, every width from 1 to 17, 1 and 2 threads, every instruction set
 * of this machine and every cache format, each against its own scalar token-by-token reference; and from every position
 * a state that went astray is put back. Zero bytes may differ. */
#include "base/memory.h"
#include "eval/check.h"
#include "math/kernels.h"
#include "support/fresh.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 24, BACK_IDS = 16, DRAFT = 3 };

static void check_all(char folders[GOLDEN_MAX][256], int n) {
    printf("instruction sets:");
    for (const char *const *isa = kernels_available(); *isa; isa++) printf(" %s", *isa);
    printf("\n");
    for (int i = 0; i < n; i++) {
        Golden g;
        CheckReport report;
        Error err = {""};
        int32_t ids[IDS];
        golden_open(&g, folders[i], KV_I16, 1);
        CheckOptions o = {.ids = ids, .n_ids = golden_ids(&g, "prompts", "long", ids, 0, IDS), .every_width = true};
        if (!check_run(g.model, &o, &report, &err)) fail_msg("%s: %s", folders[i], err.text);
        if (!report.exact) fail_msg("%s: %s", folders[i], report.difference);
        assert_true(report.runs >= 3);
        printf("%s: %d runs, exact\n", folders[i], report.runs);
        fflush(stdout);
        golden_close(&g);
    }
}

static void no_byte_differs_in_any_way_of_running(void **state) {
    static char folders[GOLDEN_MAX][256];
    (void)state;
    check_all(folders, golden_list(folders));
}

/* A text of an encoder alone, and beside 16 others of six lengths; what leaves early does not count here. */
static void no_byte_of_a_vector_differs(void **state) {
    static char folders[GOLDEN_MAX][256];
    (void)state;
    check_all(folders, golden_list_embed(folders));
}

/* n tokens onto the state, their logits to out [n][vocab]. */
static void run_on(Model *m, State *s, const int32_t *ids, int n, float *out) {
    Row rows[BACK_IDS];
    RowFault faults[BACK_IDS];
    const float *logits;
    Error err = {""};
    size_t bytes = (size_t)n * (size_t)model_vocab_size(m) * sizeof *out;
    for (int i = 0; i < n; i++)
        rows[i] = (Row){.state = s, .position = state_length(s) + i, .token = ids[i], .wants_logits = true};
    if (n == 0) return;
    if (!model_step(m, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < n; i++) assert_false(faults[i].failed);
    memcpy(out, logits, bytes);
}

/* The model's whole run, token by token, with a snapshot before each and one at the end. */
static State *run_with_snapshots(Model *m, const int32_t *ids, int n, float *out, StateSnapshot **snapshots) {
    Error err = {""};
    State *s = state_new(model_state_shape(m), &err);
    if (!s) fail_msg("%s", err.text);
    for (int i = 0; i <= n; i++) {
        if (!(snapshots[i] = state_save(s, &err))) fail_msg("%s", err.text);
        if (i < n) run_on(m, s, ids + i, 1, out + (size_t)i * (size_t)model_vocab_size(m));
    }
    return s;
}

/* At every position: a draft of wrong tokens, back, then the rest as one chunk. */
static void go_back_everywhere(const Golden *g, const int32_t *ids, int n) {
    size_t vocab = (size_t)model_vocab_size(g->model);
    float *expected = mem_array((size_t)n * vocab, sizeof *expected), *out = mem_array((size_t)n * vocab, sizeof *out);
    StateSnapshot *snapshots[BACK_IDS + 1];
    assert_true(expected && out);
    State *s = run_with_snapshots(g->model, ids, n, expected, snapshots);
    for (int i = 0; i <= n; i++) {
        int32_t draft[DRAFT];
        int n_draft = n - i < DRAFT ? n - i : DRAFT;
        for (int j = 0; j < n_draft; j++) draft[j] = (int32_t)((size_t)(ids[i + j] + 1) % vocab);
        assert_true(state_restore(s, snapshots[i]));
        assert_int_equal(state_length(s), i);
        run_on(g->model, s, draft, n_draft, out);
        assert_true(state_restore(s, snapshots[i]));
        run_on(g->model, s, ids + i, n - i, out);
        for (int j = i; j < n; j++)
            if (memcmp(expected + (size_t)j * vocab, out + (size_t)(j - i) * vocab, vocab * sizeof *out) != 0)
                fail_msg("%s: back at position %d, the logits of position %d differ", g->folder, i, j);
    }
    for (int i = 0; i <= n; i++) state_snapshot_free(snapshots[i]);
    state_free(s);
    mem_free(expected);
    mem_free(out);
}

/* Up to a rotary boundary, past which a prefix is run again from its beginning anyhow. */
static void no_byte_differs_after_going_back(void **state) {
    static char folders[GOLDEN_MAX][256];
    int n = golden_list(folders);
    (void)state;
    for (int i = 0; i < n; i++) {
        Golden g;
        int32_t ids[BACK_IDS];
        golden_open(&g, folders[i], KV_I16, 1);
        int n_ids = golden_ids(&g, "prompts", "long", ids, 0, BACK_IDS), boundary = model_boundary(g.model);
        int most = boundary < model_context(g.model) ? boundary : model_context(g.model);
        go_back_everywhere(&g, ids, n_ids < most ? n_ids : most);
        golden_close(&g);
    }
    printf("%d goldens: back at every position, exact\n", n);
}

/* 600 positions: past the 512 of an attention block, over ten pages, with a window that is no multiple of anything. */
static void check_600(const char *config) {
    enum { LONG_IDS = 600 };
    static int32_t ids[LONG_IDS];
    ModelOptions settings = {.numeric = {KV_I16, 16}};
    TinyModel m;
    CheckReport report;
    Error err = {""};
    fresh_ids(ids, LONG_IDS);
    tiny_make(&m, &(TinyLlama){.config = config}, &settings);
    CheckOptions o = {.ids = ids, .n_ids = LONG_IDS};
    if (!check_run(m.model, &o, &report, &err)) fail_msg("%s", err.text);
    if (!report.exact) fail_msg("%s", report.difference);
    printf("600 positions: %d runs, exact\n", report.runs);
    tiny_close(&m);
}

static void no_byte_differs_past_blocks_pages_and_windows(void **state) {
    (void)state;
    check_600(", \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"sliding_window\": 70");
}

/* Past 530, all that was run is run again with the other rotary table. */
static void no_byte_differs_past_a_rotary_boundary(void **state) {
    (void)state;
    check_600(", \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"sliding_window\": 70,"
              " \"original_max_position_embeddings\": 530, \"rope_scaling\": {\"type\": \"longrope\","
              " \"short_factor\": [1, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.7],"
              " \"long_factor\": [1.05, 1.2, 1.7, 2.5, 4, 6, 9, 12]}");
}

int main(int argc, char **argv) {
    golden_choose(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_byte_differs_in_any_way_of_running),
                                       cmocka_unit_test(no_byte_of_a_vector_differs),
                                       cmocka_unit_test(no_byte_differs_after_going_back),
                                       cmocka_unit_test(no_byte_differs_past_blocks_pages_and_windows),
                                       cmocka_unit_test(no_byte_differs_past_a_rotary_boundary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
