/* What Qwen3.5's config says: which layers are full, the output gate, the rotated dims, and what is refused. */
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* 8 layers, 3 heads of 32 over 1. */
static const char common[] = "\"model_type\": \"qwen3_5_text\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                             " \"num_hidden_layers\": 8, \"num_attention_heads\": 3, \"num_key_value_heads\": 1,"
                             " \"head_dim\": 32, \"vocab_size\": 50";

static void full_layers_are(const char *more, const char *expected) {
    Blueprint b = test_blueprint_read(common, more);
    for (int i = 0; i < 8; i++) assert_int_equal(b.layers[i].mixer == &mixer_attention, expected[i] == 'f');
    blueprint_clear(&b);
}

static void layer_types_win_over_the_interval(void **state) {
    (void)state;
    full_layers_are("", "lllflllf");
    full_layers_are(", \"full_attention_interval\": 3", "llfllfll");
    full_layers_are(", \"full_attention_interval\": 1", "ffffffff");
    full_layers_are(", \"full_attention_interval\": 4, \"layer_types\": [\"full_attention\", \"linear_attention\","
                    " \"linear_attention\", \"full_attention\", \"full_attention\", \"linear_attention\","
                    " \"linear_attention\", \"linear_attention\"]",
                    "fllfflll");
    test_blueprint_refused(common, ", \"full_attention_interval\": 0", "full_attention_interval");
    test_blueprint_refused(common, ", \"full_attention_interval\": -4", "full_attention_interval");
}

static void queries_and_gates_lie_head_by_head(void **state) {
    Blueprint b = test_blueprint_read(common, "");
    const AttentionSpec *a = &b.layers[3].attention;
    (void)state;
    assert_int_equal(a->gate_kind, GATE_ELEMENT);
    assert_int_equal(a->q.rows.total, 3 * 2 * 32);
    assert_int_equal(a->q.rows.from, 0);
    assert_int_equal(a->q.rows.take, 32);
    assert_int_equal(a->q.rows.period, 64);
    assert_int_equal(a->gate.rows.from, 32);
    assert_int_equal(a->gate.rows.period, 64);
    blueprint_clear(&b);
    b = test_blueprint_read(common, ", \"attn_output_gate\": true");
    blueprint_clear(&b);
    test_blueprint_refused(common, ", \"attn_output_gate\": false", "attn_output_gate");
}

static void a_part_of_a_head_is_rotated(void **state) {
    static const struct {
        const char *more;
        int dims;
        double theta;
    } cases[] = {
        {"", 8, 10000},
        {", \"partial_rotary_factor\": 0.5, \"rope_theta\": 500", 16, 500},
        {", \"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 700, \"partial_rotary_factor\": 1}", 32, 700},
        {", \"rope_parameters\": {\"rope_theta\": 700, \"partial_rotary_factor\": 0.27}", 8, 700}}; /* int(8.64) */
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Blueprint b = test_blueprint_read(common, cases[i].more);
        assert_int_equal(b.ropes[0].table.dims, cases[i].dims);
        assert_true(b.ropes[0].theta == cases[i].theta);
        blueprint_clear(&b);
    }
    static const char *const refused[] = {"0", "-0.25", "1.5", "0.03", "0.29"}; /* the last: int(9.28) is odd */
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char more[80];
        snprintf(more, sizeof more, ", \"partial_rotary_factor\": %s", refused[i]);
        test_blueprint_refused(common, more, "partial_rotary_factor");
    }
}

/* Packs whose inputs are turned: known schemas, and a list of the packed modules. */
static void packs_say_how_they_are_packed(void **state) {
    static const char pack[] = "\"model_type\": \"prism_hadamard_qwen35\", \"tensor_namespace\": \"mlx-vlm-qwen3_5\","
                               " \"hidden_size\": 512, \"intermediate_size\": 20, \"num_hidden_layers\": 2,"
                               " \"num_attention_heads\": 3, \"num_key_value_heads\": 1, \"head_dim\": 32,"
                               " \"vocab_size\": 50";
    static const char modules[] = ", \"modules\": [{\"path\": \"lm_head\", \"block\": 512}]";
    Blueprint b = test_blueprint_read(pack, modules);
    (void)state;
    assert_true(b.packed);
    blueprint_clear(&b);
    b = test_blueprint_read(common, "");
    assert_false(b.packed);
    blueprint_clear(&b);
    test_blueprint_refused(pack, "", "has no \"modules\"");
    test_blueprint_refused(pack, ", \"schema_version\": 1, \"modules\": [1]", "\"schema_version\" 1");
    test_blueprint_refused(pack, ", \"gdn_activation_layout\": \"flat\", \"modules\": [1]", "known is \"grouped\"");
    test_blueprint_refused(common, modules, "modules");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_types_win_over_the_interval),
        cmocka_unit_test(queries_and_gates_lie_head_by_head),
        cmocka_unit_test(a_part_of_a_head_is_rotated),
        cmocka_unit_test(packs_say_how_they_are_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
