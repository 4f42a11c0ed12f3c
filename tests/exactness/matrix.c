/* The exactness matrix over every golden: every cut, every width from 1 to 17, 1 and 2 threads, every instruction set
 * of this machine and every cache format, each against its own scalar token-by-token reference. Zero bytes may differ.
 */
#include "eval/check.h"
#include "math/kernels.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { IDS = 24 };

static void no_byte_differs_in_any_way_of_running(void **state) {
    static char folders[GOLDEN_MAX][256];
    int n = golden_list(folders);
    (void)state;
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
        assert_true(report.runs >= 6);
        printf("%s: %d runs, exact\n", folders[i], report.runs);
        fflush(stdout);
        golden_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_byte_differs_in_any_way_of_running)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
