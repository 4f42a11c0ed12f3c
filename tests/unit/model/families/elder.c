/* What the configs of the elder and odder families say, and what is refused, by name. */
#include "math/ops.h"
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* q, k and v in one matrix, in three orders. */
static void fused_matrices(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read("\"model_type\": \"gpt_bigcode\", \"n_embd\": 48, \"n_head\": 6, \"n_layer\": 3,"
                                      " \"vocab_size\": 50",
                                      "");
    const AttentionSpec *a = &b.layers[2].attention;
    assert_true(a->n_kv_heads == 1 && a->q.rows.total == 64 && a->k.rows.from == 48 && a->v.rows.from == 56);
    assert_true(a->o.bias && a->rope == NO_ROPE && b.n_ropes == 0 && b.n_positions == 1024);
    blueprint_clear(&b);
    b = test_typed_read("gpt_neox", "");
    a = &b.layers[0].attention; /* 3 queries, a key and a value of 8 dims, twice */
    assert_true(a->q.rows.total == 80 && a->q.rows.take == 24 && a->q.rows.period == 40);
    assert_true(a->k.rows.from == 24 && a->v.rows.from == 32 && a->v.rows.take == 8 && a->v.rows.period == 40);
    assert_true(b.layers[0].parallel && b.ropes[0].table.dims == 2); /* a quarter of 8 */
    blueprint_clear(&b);
    b = test_blueprint_read(
        "\"model_type\": \"phi3small\", \"hidden_size\": 48, \"num_hidden_layers\": 3,"
        " \"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"vocab_size\": 50,"
        " \"ff_intermediate_size\": 20, \"gegelu_limit\": 20, \"dense_attention_every_n_layers\": 2",
        "");
    const MlpSpec *m = &b.layers[1].mlp;
    assert_true(m->gate.rows.total == 40 && m->gate.rows.period == 2 && m->up.rows.from == 1 && m->up_plus == 1);
    assert_true(b.layers[0].attention.blocks.block == 64 && b.layers[1].attention.blocks.block == 0);
    assert_true(b.layers[0].attention.scale == 0.125f && b.embedding_scale == 10 && b.logit_scale == 0.125f);
    blueprint_clear(&b);
}

/* Every layer of OpenELM has sizes of its own. */
static void sizes_layer_by_layer(void **state) {
    static const char sizes[] =
        "\"model_type\": \"openelm\", \"vocab_size\": 50, \"model_dim\": 40, \"num_transformer_layers\": 3, "
        "\"head_dim\": 8, \"num_query_heads\": [2, 4, 6],"
        " \"num_kv_heads\": [1, 2, 3], \"ffn_dim_divisor\": 16, \"ffn_multipliers\": [0.1, 0.45, 4]";
    static const int widths[] = {16, 32, 160}; /* 4: at least one; 18 is nearest 16, which is under 90 % of it; 160 */
    (void)state;
    Blueprint b = test_blueprint_read(sizes, "");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b.layers[i].attention.n_heads, 2 + 2 * i);
        assert_int_equal(b.layers[i].attention.n_kv_heads, 1 + i);
        assert_int_equal(b.layers[i].mlp.width, widths[i]);
    }
    blueprint_clear(&b);
    test_blueprint_refused(sizes, ", \"ffn_with_glu\": false", "ffn_with_glu");
    test_blueprint_refused(sizes, ", \"num_kv_heads\": [1, 2]", "num_kv_heads");
}

static void layers_that_share_or_turn(void **state) {
    (void)state;
    Blueprint b =
        test_blueprint_read("\"model_type\": \"afm7\", \"vocab_size\": 50, \"hidden_dim\": 48, \"num_heads\": 6, "
                            "\"num_kv_heads\": 2, \"num_layers\": 3,"
                            " \"num_kv_reuse_layers\": 1, \"hidden_dim_scale_factor\": 1.3",
                            "");
    assert_true(!b.layers[1].attention.shared && b.layers[2].attention.shared && b.layers[2].attention.donor == 1);
    assert_true(b.layers[2].names_back == 2 && b.layers[0].mlp.width == 62);
    assert_non_null(b.layers[1].attention.k_grid);
    blueprint_clear(&b);
    b = test_typed_read("iquestloopcoder", "");
    assert_true(b.n_layers == 6 && b.layers[4].attention.second.layer == 1 && b.layers[4].names_back == 3);
    assert_true(b.layers[4].attention.window == 64 && b.layers[1].attention.window == 0);
    blueprint_clear(&b);
    b = test_typed_read("nanochat", "");
    assert_true(b.ropes[0].table.inv_freq[0] == -1 && b.logit_softcap == 15);
    blueprint_clear(&b);
    b = test_typed_read("nanochat", ", \"final_logit_softcapping\": null");
    assert_true(b.logit_softcap == 0);
    blueprint_clear(&b);
    b = test_typed_read("muse_glimmer", ""); /* every fourth, counted back from the last */
    assert_true(b.layers[2].attention.window == 0 && b.layers[2].attention.rope == NO_ROPE);
    assert_true(b.layers[1].attention.window == 2048 && b.layers[1].attention.rope == 0);
    blueprint_clear(&b);
}

static void what_no_reference_has_is_refused(void **state) {
    static const char phi3small[] = ", \"ff_intermediate_size\": 20, \"gegelu_limit\": 20, "
                                    "\"dense_attention_every_n_layers\": 2, \"blocksparse_block_size\": 48";
    static const char *const cases[][3] = {
        {"gptj", ", \"n_embd\": 48, \"n_head\": 6, \"n_layer\": 3", "\"rotary_dim\" 64 is more than the 8 dims"},
        {"qwen", ", \"kv_channels\": 16", "kv_channels"},
        {"qwen", ", \"rotary_pct\": 0.5", "rotary_pct"},
        {"ernie4_5", ", \"compression_ratio\": 2", "compression_ratio"},
        {"hunyuan_v1_dense", ", \"use_cla\": true", "use_cla"},
        {"spark2_5", ", \"sliding_window\": 8, \"gate_attn_act_mode\": \"tanh\"", "gate_attn_act_mode"},
        {"phi3small", phi3small, "blocksparse_block_size"},
        {"plamo", ", \"n_shared_head\": 4", "n_shared_head"},
        {"nanbeige", ", \"loop_share_kv\": true", "loop_share_kv"},
        {"iquestloopcoder", ", \"loop_num\": 3", "loop_num"},
        {"afm7", ", \"num_kv_heads\": 2, \"num_kv_reuse_layers\": 3", "num_kv_reuse_layers"},
        {"gear", ", \"use_bidirectional_attention\": true", "use_bidirectional_attention"},
        {"baichuan_m1", ", \"sliding_window\": 8, \"conv_window\": 3", "conv_window"},
        {"mellum", ", \"mlp_layer_types\": [\"sparse\", \"dense\", \"moe\"]", "mlp_layer_types"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) test_typed_refused(cases[i][0], cases[i][1], cases[i][2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_matrices),
        cmocka_unit_test(sizes_layer_by_layer),
        cmocka_unit_test(layers_that_share_or_turn),
        cmocka_unit_test(what_no_reference_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
