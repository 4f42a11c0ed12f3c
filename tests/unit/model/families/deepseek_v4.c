/* DeepSeek-V4 and V4.1: which layers have entries, an index and experts by token, in newer and older configs; what
 * layers share; and what is refused. */
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char common[] =
    "\"model_type\": \"deepseek_v4\", \"hidden_size\": 32, \"vocab_size\": 50, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"head_dim\": 32, \"o_groups\": 2, \"max_position_embeddings\": 256, "
    "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16";
static const char common41[] =
    "\"model_type\": \"deepseek_v41\", \"hidden_size\": 32, \"vocab_size\": 50, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 4, \"head_dim\": 32, \"qk_rope_head_dim\": 16, \"o_groups\": 2, "
    "\"max_position_embeddings\": 256, \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, "
    "\"moe_intermediate_size\": 16, \"compress_ratios\": [0, 4, 4, 4]";

static const CompressedSpec *attention(const Blueprint *b, int layer) {
    return &b->layers[layer].compressed;
}

/* Without lists: two heavy layers, then heavy and sparse ones in turn; the first three layers choose by token. */
static void defaults_are_those_of_the_config_class(void **state) {
    static const int every[4] = {128, 128, 128, 4};
    Blueprint b = test_blueprint_read(common, "");
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(attention(&b, i)->every, every[i]);
        assert_int_equal(attention(&b, i)->pool_layer, i);
        assert_int_equal(attention(&b, i)->rope_dim, 4); /* 64 / 512 of a head */
        assert_int_equal(attention(&b, i)->rope, 1);
        assert_int_equal(b.layers[i].experts.by_token != NULL, i < 3);
        assert_int_equal(attention(&b, i)->index.n_chosen, i == 3 ? 256 : 0); /* no more than the context */
    }
    assert_true(attention(&b, 3)->pool.overlap);
    assert_false(attention(&b, 2)->pool.overlap);
    assert_true(b.ropes[0].theta == 10000 && b.ropes[1].theta == 160000);
    blueprint_clear(&b);
}

static void older_configs_say_it_with_ratios(void **state) {
    Blueprint b = test_blueprint_read(common, ", \"compress_ratios\": [0, 4, 128, 4, 0], \"num_hash_layers\": 1, "
                                              "\"compress_rate_hca\": 16, \"qk_rope_head_dim\": 8, \"rope_scaling\": "
                                              "{\"type\": \"yarn\", \"factor\": 4, \"rope_theta\": 77, "
                                              "\"original_max_position_embeddings\": 64}");
    (void)state;
    assert_int_equal(attention(&b, 0)->pool_layer, -1);
    assert_int_equal(attention(&b, 0)->rope, 0);
    assert_int_equal(attention(&b, 1)->every, 4);
    assert_int_equal(attention(&b, 2)->every, 16);
    assert_int_equal(attention(&b, 2)->rope_dim, 8);
    assert_null(b.layers[1].experts.by_token);
    assert_true(b.ropes[1].theta == 160000 && b.ropes[1].table.scale == 1);
    blueprint_clear(&b);
}

/* Layer 1 makes entries and chooses, 2 takes both, 3 asks with its own queries. */
static void layers_share_entries_and_choices(void **state) {
    Blueprint b = test_blueprint_read(common41, ", \"kv_source_layer_ids\": [1], \"index_source_layer_ids\": [1, 3], "
                                                "\"candidate_source_layer_id\": 1");
    (void)state;
    assert_int_equal(attention(&b, 0)->pool_layer, -1);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(attention(&b, i)->pool_layer, 1);
        assert_int_equal(attention(&b, i)->pool.every, i == 1 ? 4 : 0);
        assert_int_equal(attention(&b, i)->index.n_chosen, 256);
        assert_int_equal(attention(&b, i)->index.q.name != NULL, i != 2);
        assert_int_equal(attention(&b, i)->index.k.name != NULL, i == 1);
        assert_int_equal(attention(&b, i)->n_candidates, i == 2 ? 0 : 256);
    }
    assert_int_equal(attention(&b, 3)->index_layer, 1);
    assert_true(attention(&b, 1)->keeps_candidates && !attention(&b, 3)->keeps_candidates);
    blueprint_clear(&b);
    b = test_blueprint_read(common41, ", \"kv_source_layer_ids\": [1]"); /* nothing chooses, so nothing is read */
    assert_int_equal(attention(&b, 1)->pool_layer, -1);
    blueprint_clear(&b);
}

static void what_no_reference_runs_is_refused(void **state) {
    (void)state;
    test_blueprint_refused(common, ", \"scoring_func\": \"cosine\"", "known here: sqrtsoftplus, sigmoid, softmax");
    test_blueprint_refused(common, ", \"swiglu_limit\": 0", "expected more than 0");
    test_blueprint_refused(common, ", \"n_shared_experts\": 2", "n_shared_experts");
    test_blueprint_refused(common, ", \"layer_types\": [\"full_attention\"]", "no item 0 that is a kind of layer");
    test_blueprint_refused(common, ", \"compress_ratios\": [4, 5]", "no item 1 that is 0, 4 or 128");
    test_blueprint_refused(common, ", \"mlp_layer_types\": [\"moe\"]", "no item 1 that is");
    test_blueprint_refused(common, ", \"compress_rate_csa\": 1", "entries of 1 position");
    test_blueprint_refused(common41, ", \"engram_layer_ids\": [1]", "engram");
    test_blueprint_refused(common41, ", \"gate_temp\": 0", "expected more than 0");
    test_blueprint_refused(common41,
                           ", \"compress_ratios\": [0, 4, 8, 4], \"kv_source_layer_ids\": [1], "
                           "\"index_source_layer_ids\": [1]",
                           "layer 2 shares entries or choices");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_config_class),
        cmocka_unit_test(older_configs_say_it_with_ratios),
        cmocka_unit_test(layers_share_entries_and_choices),
        cmocka_unit_test(what_no_reference_runs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
