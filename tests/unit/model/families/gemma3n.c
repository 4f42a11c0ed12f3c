/* Gemma 3n's shared layers: a prefill of 12, chunks of 5, 4 and 3, and token by token give the same bytes (the
 * references agree only within 1e-4, since one of them rotates by an offset that layers move). And the sparse gate's
 * quantile. */
#include "math/kernels.h"
#include "support/blueprint.h"
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 12, VOCAB = 136 };

static void run_in(Golden *g, const int *chunks, float out[IDS][VOCAB]) {
    Error err = {""};
    State *s = state_new(model_state_shape(g->model), &err);
    int at = 0;
    for (int c = 0; at < IDS; c++) {
        Row rows[IDS];
        RowFault faults[IDS];
        const float *logits;
        int n = chunks ? chunks[c] : 1;
        for (int i = 0; i < n; i++)
            rows[i] = (Row){.state = s, .position = at + i, .token = (at + i) * 11 % 128, .wants_logits = true};
        if (!model_step(g->model, rows, n, &logits, faults, &err)) fail_msg("%s", err.text);
        memcpy(out[at], logits, (size_t)n * sizeof out[0]);
        at += n;
    }
    state_free(s);
}

static void a_prefill_is_its_chunks_and_its_tokens(void **state) {
    static float whole[IDS][VOCAB], chunked[IDS][VOCAB], single[IDS][VOCAB];
    Golden g;
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    golden_open(&g, "tests/goldens/mlx/gemma3n", KV_F32, 2);
    assert_int_equal(model_vocab_size(g.model), VOCAB);
    run_in(&g, (int[]){12}, whole);
    run_in(&g, (int[]){5, 4, 3}, chunked);
    run_in(&g, NULL, single);
    assert_memory_equal(whole, chunked, sizeof whole);
    assert_memory_equal(whole, single, sizeof whole);
    golden_close(&g);
}

static const char common[] = "\"model_type\": \"gemma3n_text\", \"hidden_size\": 48, \"num_hidden_layers\": 2,"
                             " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 50,"
                             " \"layer_types\": [\"sliding_attention\", \"full_attention\"]";

static void the_gate_keeps_what_the_normal_quantile_says(void **state) {
    Blueprint b = test_blueprint_read(common, ", \"intermediate_size\": [20, 24], \"num_kv_shared_layers\": 0,"
                                              " \"activation_sparsity_pattern\": [0.95, 0.0]");
    (void)state;
    assert_true(fabs((double)b.layers[0].mlp.sparsity - 1.6448536269514722) < 1e-6);
    assert_true(b.layers[1].mlp.sparsity == 0);
    assert_int_equal(b.layers[0].mlp.width, 20);
    assert_int_equal(b.layers[1].mlp.width, 24);
    blueprint_clear(&b);
    test_blueprint_refused(common, ", \"intermediate_size\": [20], \"num_kv_shared_layers\": 0",
                           "has 1 items, expected 2");
    test_blueprint_refused(common, ", \"intermediate_size\": 20, \"num_kv_shared_layers\": 1",
                           "shares keys and values");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefill_is_its_chunks_and_its_tokens),
        cmocka_unit_test(the_gate_keeps_what_the_normal_quantile_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
