/* The exactness matrix over every golden: every cut, every width from 1 to 17, 1 and 2 threads, every instruction set
 * of this machine and every cache format, each against its own scalar token-by-token reference. Zero bytes may differ.
 */
#include "eval/check.h"
#include "math/kernels.h"
#include "support/fresh.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { IDS = 24 };

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
                                       cmocka_unit_test(no_byte_differs_past_blocks_pages_and_windows),
                                       cmocka_unit_test(no_byte_differs_past_a_rotary_boundary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
