/* What Phi-3's config says: where the original length comes from, which rope types it has, its window, and which rows
 * of the fused matrices are whose. */
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LISTS "\"short_factor\": [1, 1, 1, 1], \"long_factor\": [2, 2, 2, 2]"

static void the_original_length_is_the_top_levels_or_4096(void **state) {
    static const struct {
        const char *more;
        int boundary;
    } cases[] = {
        {", \"max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": \"longrope\", " LISTS "}", 4096},
        {", \"max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": \"yarn\", " LISTS
         ", \"original_max_position_embeddings\": 16}",
         4096},
        {", \"max_position_embeddings\": 8192, \"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": "
         "\"su\", " LISTS ", \"original_max_position_embeddings\": 16}",
         64},
        {", \"original_max_position_embeddings\": 64, \"rope_scaling\": null", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Blueprint b;
        Error err = {""};
        if (!test_blueprint("phi3", cases[i].more, &b, &err)) fail_msg("%s", err.text);
        assert_int_equal(blueprint_boundary(&b), cases[i].boundary);
        assert_int_equal(b.ropes[0].long_table.inv_freq != NULL, cases[i].boundary > 0);
        assert_string_equal(b.ropes[0].rule, cases[i].boundary ? "longrope" : "default");
        blueprint_clear(&b);
    }
}

static void other_rope_types_are_refused(void **state) {
    static const char *const types[] = {"yarn", "dynamic"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char more[120];
        Blueprint b;
        Error err = {""};
        snprintf(more, sizeof more, ", \"rope_scaling\": {\"type\": \"%s\", \"factor\": 2}", types[i]);
        assert_false(test_blueprint("phi3", more, &b, &err));
        assert_non_null(strstr(err.text, types[i]));
        assert_non_null(strstr(err.text, "rope, which Phi-3 does not have"));
    }
}

static void a_window_as_long_as_the_context_is_none(void **state) {
    static const struct {
        const char *more;
        int window;
    } cases[] = {{"", 0},
                 {", \"sliding_window\": 2047", 2047},
                 {", \"sliding_window\": 4096", 0},
                 {", \"sliding_window\": 262144", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Blueprint b;
        Error err = {""};
        if (!test_blueprint("phi3", cases[i].more, &b, &err)) fail_msg("%s", err.text);
        for (int l = 0; l < 3; l++) assert_int_equal(b.layers[l].attention.window, cases[i].window);
        blueprint_clear(&b);
    }
}

static void fused_matrices_are_cut_in_order(void **state) {
    Blueprint b;
    Error err = {""};
    (void)state;
    if (!test_blueprint("phi3", ", \"partial_rotary_factor\": 0.75", &b, &err)) fail_msg("%s", err.text);
    const AttentionSpec *a = &b.layers[2].attention;
    const MlpSpec *m = &b.layers[2].mlp;
    assert_int_equal(b.ropes[0].table.dims, 6); /* of 8 */
    assert_int_equal(a->q.rows.total, 48 + 16 + 16);
    assert_int_equal(a->q.rows.from, 0);
    assert_int_equal(a->k.rows.from, 48);
    assert_int_equal(a->v.rows.from, 64);
    assert_int_equal(m->gate.rows.total, 40);
    assert_int_equal(m->gate.rows.from, 0);
    assert_int_equal(m->up.rows.from, 20);
    blueprint_clear(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_original_length_is_the_top_levels_or_4096),
        cmocka_unit_test(other_rope_types_are_refused),
        cmocka_unit_test(a_window_as_long_as_the_context_is_none),
        cmocka_unit_test(fused_matrices_are_cut_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
