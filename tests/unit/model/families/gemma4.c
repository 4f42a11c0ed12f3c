/* What Gemma 4's config says: kinds of layers and their widths, values from keys, shared layers, defaults of absent
 * keys; and that rows that want no logits leave after the last layer that stores keys. */
#include "math/kernels.h"
#include "model/mechanism.h"
#include "support/blueprint.h"
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KINDS                                                                                                      \
    ", \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\", \"sliding_attention\"," \
    " \"full_attention\"]"

static const char common[] = "\"model_type\": \"gemma4_text\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                             " \"num_hidden_layers\": 5, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
                             " \"head_dim\": 16, \"global_head_dim\": 32, \"sliding_window\": 8, \"vocab_size\": 50";

static void absent_keys_have_transformers_defaults(void **state) {
    Blueprint b = test_blueprint_read(common, "");
    (void)state;
    assert_true(b.logit_softcap == 0);
    assert_int_equal(b.per_layer.width, 256);
    for (int i = 0; i < 5; i++) {
        const AttentionSpec *a = &b.layers[i].attention;
        assert_false(a->shared);
        assert_int_equal(b.layers[i].mlp.width, 20);
        assert_true(a->scale == 1);
        assert_int_equal(a->window, i < 4 ? 8 : 0); /* five of six have a window, the last layer never */
    }
    blueprint_clear(&b);
}

static void full_layers_have_widths_of_their_own(void **state) {
    Blueprint b = test_blueprint_read(common, KINDS ", \"attention_k_eq_v\": true, \"num_global_key_value_heads\": 1");
    const AttentionSpec *sliding = &b.layers[0].attention, *full = &b.layers[1].attention;
    (void)state;
    assert_int_equal(sliding->head_dim, 16);
    assert_int_equal(sliding->n_kv_heads, 2);
    assert_false(sliding->v_is_k);
    assert_int_equal(full->head_dim, 32);
    assert_int_equal(full->n_kv_heads, 1);
    assert_true(full->v_is_k);
    assert_int_equal(full->v_norm.norm.kind, NORM_RMS);
    assert_null(full->v_norm.norm.weight);
    const RopeSpec *rope = &b.ropes[full->rope];
    assert_int_equal(rope->table.dims, 32); /* of which a quarter turns */
    assert_true(rope->theta == 1e6 && rope->table.inv_freq[3] > 0 && rope->table.inv_freq[4] == 0);
    blueprint_clear(&b);
    b = test_blueprint_read(common,
                            KINDS ", \"num_global_key_value_heads\": 1"); /* counts with attention_k_eq_v alone */
    assert_int_equal(b.layers[1].attention.n_kv_heads, 2);
    assert_false(b.layers[1].attention.v_is_k);
    blueprint_clear(&b);
}

static void shared_layers_read_the_last_donor_of_their_kind(void **state) {
    Blueprint b = test_blueprint_read(common, KINDS ", \"num_kv_shared_layers\": 2, \"use_double_wide_mlp\": true");
    (void)state;
    assert_false(b.layers[2].attention.shared);
    assert_true(b.layers[3].attention.shared);
    assert_int_equal(b.layers[3].attention.donor, 2);
    assert_true(b.layers[4].attention.shared);
    assert_int_equal(b.layers[4].attention.donor, 1);
    assert_int_equal(b.layers[2].mlp.width, 20);
    assert_int_equal(b.layers[3].mlp.width, 40);
    LayerShape shape = {0};
    mixer_attention.state(&b.layers[3], KV_F32, &shape);
    assert_int_equal(shape.kv.heads, 0); /* it owns no cache */
    blueprint_clear(&b);
    test_blueprint_refused(common, KINDS ", \"num_kv_shared_layers\": 4", "shares keys and values");
    test_blueprint_refused(common, KINDS ", \"num_kv_shared_layers\": 5", "num_kv_shared_layers");
}

/* ---- rows that want no logits ---- */

enum { LAYERS = 7, DONOR = 3, ROWS = 5 }; /* of the golden: layers 4, 5 and 6 share */

static void count_rows(void *context, int layer, const char *kind, const char *operation, const float *values, int rows,
                       int cols) {
    int *seen = context;
    (void)kind;
    (void)values;
    (void)cols;
    if (layer >= 0 && strcmp(operation, "residual") == 0) seen[layer] = rows;
}

static void rows_leave_after_the_last_donor(void **state) {
    Golden g;
    Row rows[ROWS];
    RowFault faults[ROWS];
    const float *logits;
    int seen[LAYERS] = {0};
    Error err = {""};
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    golden_open(&g, "tests/goldens/mlx/gemma4_text-e2b", KV_F32, 1);
    State *s = state_new(model_state_shape(g.model), &err);
    for (int i = 0; i < ROWS; i++)
        rows[i] = (Row){.state = s, .position = i, .token = 7 + i, .wants_logits = i == ROWS - 1};
    model_set_tap(g.model, count_rows, seen);
    if (!model_step(g.model, rows, ROWS, &logits, faults, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < DONOR; i++) assert_int_equal(seen[i], ROWS);
    for (int i = DONOR; i < LAYERS; i++) assert_int_equal(seen[i], 1);
    state_free(s);
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_have_transformers_defaults),
        cmocka_unit_test(full_layers_have_widths_of_their_own),
        cmocka_unit_test(shared_layers_read_the_last_donor_of_their_kind),
        cmocka_unit_test(rows_leave_after_the_last_donor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
