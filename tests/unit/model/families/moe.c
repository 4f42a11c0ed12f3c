/* What the configs of mixtures of experts say beside sizes: which layers have experts and windows, how experts are
 * chosen, which rotary tables there are; and what is refused, by name. */
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

#define LISTS "\"short_factor\": [1, 1.5, 2, 2.5], \"long_factor\": [2, 4, 8, 16]"
#define MSCALES "\"short_mscale\": 1.25, \"long_mscale\": 1.5"

/* ---- Phi MoE ---- */

/* One test reads the block with the original length in it, one at the top level; theta 1e6 is the family's default, so
 * plain frequencies are 1e6^(-i/4): 1, 0.0316, 0.001, 3.16e-05. */
static void phimoe_has_a_table_and_a_scale_for_each_length(void **state) {
    static const char *const configs[] = {
        ", \"rope_scaling\": {\"type\": \"longrope\", " LISTS ", " MSCALES
        ", \"original_max_position_embeddings\": 16}",
        ", \"original_max_position_embeddings\": 16, \"rope_scaling\": {\"type\": \"longrope\", " LISTS ", " MSCALES
        "}"};
    static const double plain[] = {1, 0.0316227766, 0.001, 3.16227766e-05}, short_[] = {1, 1.5, 2, 2.5},
                        long_[] = {2, 4, 8, 16};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        Blueprint b = test_typed_read("phimoe", configs[i]);
        const RopeSpec *rope = &b.ropes[0];
        assert_int_equal(rope->boundary, 16);
        assert_true(rope->table.scale == 1.25f && rope->long_table.scale == 1.5f);
        for (int f = 0; f < 4; f++) {
            assert_float_equal(rope->table.inv_freq[f], plain[f] / short_[f], 1e-7);
            assert_float_equal(rope->long_table.inv_freq[f], plain[f] / long_[f], 1e-7);
        }
        blueprint_clear(&b);
    }
}

static void phimoe_with_a_null_block_is_plain(void **state) {
    Blueprint b = test_typed_read("phimoe", ", \"rope_scaling\": null, \"original_max_position_embeddings\": 16");
    (void)state;
    assert_string_equal(b.ropes[0].rule, "default");
    assert_int_equal(b.ropes[0].boundary, 0);
    assert_null(b.ropes[0].long_table.inv_freq);
    blueprint_clear(&b);
}

static void phimoe_chooses_by_the_sparse_mixer(void **state) {
    Blueprint b = test_typed_read("phimoe", "");
    (void)state;
    const RouterRule *rule = &b.layers[2].experts.rule;
    assert_int_equal(rule->score, ROUTER_SPARSE_MIXER);
    assert_int_equal(rule->n_experts, 16);
    assert_int_equal(rule->n_chosen, 2);
    assert_true(rule->sparse_eps == 0.01f);
    assert_false(rule->renormalise);
    blueprint_clear(&b);
    b = test_typed_read("phimoe",
                        ", \"router_jitter_noise\": 0.25, \"num_local_experts\": 3, \"num_experts_per_tok\": 3");
    assert_true(b.layers[0].experts.rule.sparse_eps == 0.25f);
    blueprint_clear(&b);
    test_typed_refused("phimoe", ", \"num_local_experts\": 3, \"num_experts_per_tok\": 4",
                       "\"num_experts_per_tok\" 4 is more than \"num_local_experts\" 3");
    test_typed_refused("phimoe", ", \"rope_scaling\": {\"type\": \"longrope\", " LISTS ", \"short_mscale\": 1}",
                       "one of short_mscale and long_mscale");
}

/* ---- which layers are what ---- */

typedef struct LayerCase {
    const char *type, *more;
    bool experts[3], rotates[3];
    int windows[3], chunks[3];
} LayerCase;

static const LayerCase layer_cases[] = {
    {"gpt_oss", "", {1, 1, 1}, {1, 1, 1}, {128, 0, 128}, {0}},
    {"gpt_oss", ", \"sliding_window\": 7", {1, 1, 1}, {1, 1, 1}, {7, 0, 7}, {0}},
    {"glm4_moe", "", {0, 1, 1}, {1, 1, 1}, {0}, {0}},
    {"glm4_moe", ", \"first_k_dense_replace\": 0", {1, 1, 1}, {1, 1, 1}, {0}, {0}},
    {"dots1",
     ", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"max_window_layers\": 1, \"sliding_window\": 5,"
     " \"first_k_dense_replace\": 2",
     {0, 0, 1},
     {1, 1, 1},
     {0, 5, 5},
     {0}},
    {"exaone_moe", ", \"sliding_window_pattern\": 2, \"sliding_window\": 5", {0, 1, 1}, {1, 0, 1}, {5, 0, 5}, {0}},
    {"exaone_moe", ", \"sliding_window\": null", {0, 1, 1}, {1, 1, 1}, {0}, {0}},
    {"exaone_moe",
     ", \"sliding_window\": null, \"mlp_layer_types\": [\"sparse\", \"dense\", \"sparse\"]",
     {1, 0, 1},
     {1, 1, 1},
     {0},
     {0}},
    {"exaone_moe",
     ", \"sliding_window\": null, \"is_moe_layer\": [false, false, true]",
     {0, 0, 1},
     {1, 1, 1},
     {0},
     {0}},
    {"ernie4_5_moe", ", \"moe_layer_interval\": 2", {0, 1, 0}, {1, 1, 1}, {0}, {0}},
    {"ernie4_5_moe", ", \"moe_layer_start_index\": 0, \"moe_layer_end_index\": 1", {1, 1, 0}, {1, 1, 1}, {0}, {0}},
    {"afmoe", ", \"global_attn_every_n_layers\": 2", {0, 1, 1}, {1, 0, 1}, {1024, 0, 1024}, {0}},
    {"llama4_text",
     ", \"attention_chunk_size\": 6, \"no_rope_layers\": [1, 0, 1], \"interleave_moe_layer_step\": 2",
     {0, 1, 0},
     {1, 0, 1},
     {0},
     {6, 0, 6}},
    {"llama4_text", ", \"attention_chunk_size\": null, \"moe_layers\": [2]", {0, 0, 1}, {1, 1, 1}, {0}, {0}},
    {"llama4_text", ", \"no_rope_layers\": [0, 1, 1]", {0, 0, 0}, {0, 1, 1}, {0}, {0}}, /* mlx-lm's dense model */
    {"mimo_v2_flash", "", {0, 1, 1}, {1, 1, 1}, {0, 129, 129}, {0}},
    {"mimo_v2_flash",
     ", \"sliding_window_size\": 8, \"hybrid_layer_pattern\": [1, 0, 1], \"moe_layer_freq\": [1, 0, 0]",
     {1, 0, 0},
     {1, 1, 1},
     {9, 0, 9},
     {0}},
    {"laguna", "", {0, 1, 1}, {1, 1, 1}, {0}, {0}},
    {"step3p5",
     ", \"num_attention_groups\": 2, \"moe_layers_enum\": \"0,2\", \"sliding_window\": 5",
     {1, 0, 1},
     {1, 1, 1},
     {5, 0, 5},
     {0}},
    {"Klear",
     ", \"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, \"n_shared_experts\": 1,"
     " \"mlp_only_layers\": [1]",
     {1, 0, 1},
     {1, 1, 1},
     {0},
     {0}},
};

static void layers_have_experts_windows_and_rotation(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layer_cases / sizeof *layer_cases; i++) {
        const LayerCase *k = &layer_cases[i];
        Blueprint b = test_typed_read(k->type, k->more);
        for (int l = 0; l < 3; l++) {
            const LayerSpec *layer = &b.layers[l];
            if ((layer->ffn == &ffn_experts) != k->experts[l] || (layer->attention.rope != NO_ROPE) != k->rotates[l] ||
                layer->attention.window != k->windows[l] || layer->attention.chunk != k->chunks[l])
                fail_msg("%s%s: layer %d: experts %d, rope %d, window %d, chunk %d", k->type, k->more, l,
                         layer->ffn == &ffn_experts, layer->attention.rope, layer->attention.window,
                         layer->attention.chunk);
        }
        blueprint_clear(&b);
    }
}

/* ---- gpt-oss ---- */

/* transformers takes the published yarn where the config has no rope settings: a factor of 32 over 4096. */
static void gpt_oss_without_rope_settings_has_the_published_ones(void **state) {
    Blueprint said =
        test_typed_read("gpt_oss", ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32, \"beta_fast\": 32,"
                                   " \"beta_slow\": 1, \"truncate\": false,"
                                   " \"original_max_position_embeddings\": 4096}");
    Blueprint unsaid = test_typed_read("gpt_oss", "");
    (void)state;
    assert_string_equal(unsaid.ropes[0].rule, "yarn");
    assert_int_equal(unsaid.ropes[0].table.dims, 64);
    for (int i = 0; i < 32; i++) assert_true(unsaid.ropes[0].table.inv_freq[i] == said.ropes[0].table.inv_freq[i]);
    assert_true(unsaid.ropes[0].table.scale == said.ropes[0].table.scale && unsaid.ropes[0].table.scale > 1);
    blueprint_clear(&said);
    blueprint_clear(&unsaid);
}

/* ---- routers ---- */

static void routers_follow_their_configs(void **state) {
    (void)state;
    Blueprint b = test_typed_read("glm4_moe", ", \"n_group\": 4, \"topk_group\": 2, \"norm_topk_prob\": false");
    RouterRule r = b.layers[1].experts.rule;
    assert_int_equal(r.score, ROUTER_SIGMOID);
    assert_int_equal(r.n_groups, 4);
    assert_int_equal(r.n_kept_groups, 2);
    assert_false(r.renormalise || r.rejected_zero || r.group_by_best);
    assert_int_equal(b.layers[1].experts.shared.width, 1408);
    assert_int_equal(b.n_extra_layers, 1);
    blueprint_clear(&b);
    b = test_typed_read("ernie4_5_moe", ", \"moe_num_shared_experts\": 0");
    assert_int_equal(b.layers[1].experts.rule.score, ROUTER_SOFTMAX);
    assert_true(b.layers[1].experts.rule.renormalise && b.layers[1].experts.rule.renormalise_min == 1e-12f);
    assert_int_equal(b.layers[1].experts.shared.width, 0);
    blueprint_clear(&b);
    b = test_typed_read("laguna",
                        ", \"moe_router_logit_softcapping\": 30, \"moe_router_score_func\": \"sqrtsoftplus\"");
    assert_int_equal(b.layers[1].experts.rule.score, ROUTER_SQRT_SOFTPLUS);
    assert_true(b.layers[1].experts.router_softcap == 30);
    blueprint_clear(&b);
}

/* Heads, widths and limits that differ layer by layer, as lists or numbers. */
static void lists_hold_layer_by_layer(void **state) {
    (void)state;
    Blueprint b =
        test_typed_read("hunyuan", ", \"num_experts\": 4, \"moe_topk\": [1, 2, 3], \"num_shared_expert\": [1, 2, 1],"
                                   " \"moe_intermediate_size\": 12, \"use_mixed_mlp_moe\": true, \"use_cla\": true,"
                                   " \"cla_share_factor\": 2");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b.layers[i].experts.rule.n_chosen, i + 1);
        assert_int_equal(b.layers[i].experts.shared.width, i == 1 ? 40 : 20);
        assert_int_equal(b.layers[i].experts.expert.width, 12);
        assert_int_equal(b.layers[i].attention.lends, i != 1);
        assert_int_equal(b.layers[i].attention.borrows, i == 1);
    }
    blueprint_clear(&b);
    b = test_typed_read("step3p5", ", \"num_attention_groups\": 2, \"swiglu_limits\": [0, null, 7],"
                                   " \"swiglu_limits_shared\": [3], \"rope_theta\": [100, 100, 400]");
    assert_true(b.layers[0].mlp.up_limit == 3 && b.layers[0].mlp.act_limit == 3);
    assert_true(b.layers[1].experts.expert.up_limit == 0 && b.layers[2].experts.expert.up_limit == 7);
    assert_true(b.layers[2].experts.shared.up_limit == 0);
    assert_int_equal(b.n_ropes, 2);
    assert_int_equal(b.layers[1].attention.rope, 0);
    assert_int_equal(b.layers[2].attention.rope, 1);
    blueprint_clear(&b);
}

static void what_no_reference_has_is_refused(void **state) {
    static const char *const cases[][3] = {
        {"glm4_moe", ", \"n_group\": 3", "128 experts in 3 groups"},
        {"glm4_moe", ", \"scoring_func\": \"softmax\"", "\"scoring_func\" is \"softmax\""},
        {"glm4_moe", ", \"topk_method\": \"greedy\"", "\"topk_method\" is \"greedy\""},
        {"gpt_oss", ", \"swiglu_alpha\": 1.5", "swiglu_alpha"},
        {"gpt_oss", ", \"layer_types\": [\"full_attention\"]", "\"layer_types\" has 1 items, expected 3"},
        {"minimax_m2", ", \"shared_intermediate_size\": 8", "shared_intermediate_size"},
        {"minimax_m2", ", \"attn_type_list\": [1, 0, 1]", "item 1 is not 1"},
        {"olmoe", ", \"clip_qkv\": 0", "\"clip_qkv\" is 0"},
        {"deepseek", ", \"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"norm_topk_prob\": true",
         "norm_topk_prob"},
        {"bailing_moe",
         ", \"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, \"norm_head\": true",
         "norm_head"},
        {"laguna", ", \"moe_apply_router_weight_on_input\": true", "moe_apply_router_weight_on_input"},
        {"step3p5", ", \"num_attention_groups\": 2, \"moe_layers_enum\": \"1;2\"", "numbers with commas"},
        {"llama4_text",
         ", \"attention_chunk_size\": 8, \"layer_types\": [\"sliding_attention\", \"full_attention\","
         " \"full_attention\"]",
         "neither full nor chunked"},
        {"longcat_flash_ngram", ", \"num_layers\": 2, \"emb_neighbor_num\": 1", "make no embedding of 48"},
        {"longcat_flash_ngram", ", \"num_layers\": 2, \"emb_neighbor_num\": 14, \"emb_split_num\": 4",
         "make no embedding"},
        {"longcat_flash_ngram", ", \"num_layers\": 2, \"ngram_vocab_size_ratio\": 99999999", "ngram_vocab_size_ratio"},
        {"olmoe", ", \"strange\": 1", "\"strange\" is not known"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) test_typed_refused(cases[i][0], cases[i][1], cases[i][2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phimoe_has_a_table_and_a_scale_for_each_length),
        cmocka_unit_test(phimoe_with_a_null_block_is_plain),
        cmocka_unit_test(phimoe_chooses_by_the_sparse_mixer),
        cmocka_unit_test(layers_have_experts_windows_and_rotation),
        cmocka_unit_test(gpt_oss_without_rope_settings_has_the_published_ones),
        cmocka_unit_test(routers_follow_their_configs),
        cmocka_unit_test(lists_hold_layer_by_layer),
        cmocka_unit_test(what_no_reference_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
