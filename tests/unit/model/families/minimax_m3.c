/* MiniMax-M3 and Muse Spark: what older configs nest and newer ones say flat, which layers have an index, experts and
 * gates; and what is refused. */
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char m3[] = "\"model_type\": \"minimax_m3_vl_text\", \"hidden_size\": 32, \"vocab_size\": 50, "
                         "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                         "\"head_dim\": 16, \"rotary_dim\": 8, \"max_position_embeddings\": 64";
static const char spark[] = "\"model_type\": \"muse_spark_text\", \"hidden_size\": 32, \"vocab_size\": 50, "
                            "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                            "\"head_dim\": 16, \"max_position_embeddings\": 64";

static void nested_and_flat_configs_say_the_same(void **state) {
    static const char *const forms[2] = {
        ", \"moe_layer_freq\": [0, 1, 1], \"sparse_attention_config\": {\"sparse_num_index_heads\": 2, "
        "\"sparse_index_dim\": 24, \"sparse_block_size\": 4, \"sparse_topk_blocks\": 3, \"sparse_local_block\": 2, "
        "\"sparse_attention_freq\": [0, 1, 0]}",
        ", \"mlp_layer_types\": [\"dense\", \"sparse\", \"sparse\"], \"index_n_heads\": 2, \"index_head_dim\": 24, "
        "\"index_block_size\": 4, \"index_topk_blocks\": 3, \"index_local_blocks\": 2, "
        "\"layer_types\": [\"full_attention\", \"minimax_m3_sparse\", \"full_attention\"]"};
    (void)state;
    for (int form = 0; form < 2; form++) {
        Blueprint b = test_blueprint_read(m3, forms[form]);
        for (int i = 0; i < 3; i++) {
            const BlockIndexSpec *index = &b.layers[i].attention.block_index;
            assert_int_equal(b.layers[i].ffn == &ffn_experts, i > 0);
            assert_int_equal(index->n_chosen, i == 1 ? 3 : 0);
            assert_int_equal(index->head_dim, i == 1 ? 24 : 0);
            assert_int_equal(index->n_local, i == 1 ? 2 : 0);
        }
        assert_int_equal(b.ropes[0].table.dims, 8);
        assert_true(b.final_norm.plus == 1 && b.layers[2].ffn_norm.plus == 1);
        blueprint_clear(&b);
    }
}

/* gate * sigmoid(alpha * gate) is the quick gelu, or silu(alpha * gate) / alpha. */
static void another_alpha_scales_the_gate(void **state) {
    Blueprint b = test_blueprint_read(m3, ", \"swiglu_alpha\": 2, \"swiglu_limit\": 3");
    (void)state;
    const ExpertsSpec *e = &b.layers[0].experts;
    assert_true(e->expert.gate_scale == 2 && e->expert.gate_limit == 6 && e->expert.up_limit == 3);
    assert_true(e->expert.up_plus == 1 && e->routed_scale == 0.5f && e->shared.out_scale == 0.5f);
    assert_int_equal(e->expert.activation, ACT_SILU);
    blueprint_clear(&b);
}

static void spark_has_gates_and_a_latent_space(void **state) {
    Blueprint b = test_blueprint_read(spark, ", \"mlp_layer_types\": [\"dense\", \"sparse\", \"sparse\"], "
                                             "\"moe_hidden_size\": 24, \"output_multiplier\": 0.5");
    (void)state;
    assert_ptr_equal(b.layers[0].ffn, &ffn_mlp);
    assert_ptr_equal(b.layers[1].ffn, &ffn_experts);
    assert_int_equal(b.layers[1].experts.latent, 24);
    assert_true(b.layers[1].experts.rule.temperature == 2 && b.logit_scale == 0.5f);
    for (int i = 0; i < 3; i++) {
        assert_non_null(b.layers[i].mixer_gate.gate);
        assert_int_equal(b.layers[i].ffn_out.kind, NORM_SCALED);
        assert_null(b.layers[i].mixer_out.weight);
        assert_int_equal(b.layers[i].attention.rope, i == 2 ? NO_ROPE : 0); /* every fourth, counted from the last */
        assert_int_equal(b.layers[i].attention.window, i == 2 ? 0 : 2048);
    }
    assert_true(fabs((double)b.layers[0].attention.scale - 5.4730064863875 / 4) < 1e-6);
    blueprint_clear(&b);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    test_blueprint_refused(m3, ", \"partial_rotary_factor\": 1", "rotary_dim");
    test_blueprint_refused(m3, ", \"index_n_heads\": 4", "index of 4 heads for 2 key-value heads");
    test_blueprint_refused(m3, ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
                           "\"layer_types\" item 1");
    test_blueprint_refused(m3, ", \"swiglu_limit\": 0", "not above 0");
    test_blueprint_refused(spark, ", \"residual_gate_temperature\": 0", "expected more than 0");
    test_blueprint_refused(spark, ", \"output_multiplier\": 0", "expected more than 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_and_flat_configs_say_the_same),
        cmocka_unit_test(another_alpha_scales_the_gate),
        cmocka_unit_test(spark_has_gates_and_a_latent_space),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
