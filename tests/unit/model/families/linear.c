/* What the configs of families with lightning attention or Kimi's delta rule say: which layers have it, how fast its
 * heads forget, and what is refused. */
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EXPERTS \
    "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, \"num_shared_experts\": 3"

static const char ring[] = "\"model_type\": \"bailing_moe_linear\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                           " \"num_hidden_layers\": 5, \"num_attention_heads\": 6, \"num_key_value_heads\": 2,"
                           " \"vocab_size\": 50, \"head_dim\": 12, \"layer_group_size\": 2, \"group_norm_size\": 3,"
                           " \"partial_rotary_factor\": 0.5, " EXPERTS;
static const char hybrid[] = "\"model_type\": \"bailing_hybrid\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                             " \"num_hidden_layers\": 5, \"num_attention_heads\": 6, \"num_key_value_heads\": 6,"
                             " \"vocab_size\": 50, \"head_dim\": 12, \"layer_group_size\": 2, \"group_norm_size\": 3,"
                             " \"qk_rope_head_dim\": 4, " EXPERTS;
static const char kimi[] = "\"model_type\": \"kimi_linear\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                           " \"num_hidden_layers\": 4, \"num_attention_heads\": 6, \"vocab_size\": 50, \"head_dim\": 9,"
                           " \"mla_use_nope\": true";
static const char third[] =
    "\"model_type\": \"kimi_k3\", \"hidden_size\": 48, \"intermediate_size\": 20, \"num_hidden_layers\": 3,"
    " \"num_attention_heads\": 6, \"vocab_size\": 50, \"q_lora_rank\": 8, \"num_experts\": 32, "
    "\"moe_intermediate_size\": 8";
#define KIMI_LISTS ", \"linear_attn_config\": {\"num_heads\": 3, \"head_dim\": 7, \"kda_layers\": [1, 2, 4], "

/* Layers 0 and 2 forget; 1 and 3 end a group, and 4 is of no whole group. */
static void lightning_stands_where_no_group_ends(void **state) {
    static const bool lightning[] = {true, false, true, false, false};
    (void)state;
    Blueprint b = test_blueprint_read(ring, ""), h = test_blueprint_read(hybrid, "");
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(b.layers[i].mixer, lightning[i] ? &mixer_lightning : &mixer_attention);
        assert_ptr_equal(h.layers[i].mixer, lightning[i] ? &mixer_lightning : &mixer_mla);
    }
    assert_int_equal(b.layers[0].lightning.head_dim, 8); /* hidden / heads, whatever head_dim says */
    assert_int_equal(b.layers[1].attention.head_dim, 12);
    assert_int_equal(h.layers[0].lightning.head_dim, 12);
    assert_int_equal(b.ropes[0].table.dims, 6);
    assert_int_equal(b.ropes[1].table.dims, 4);
    assert_int_equal(h.ropes[0].table.dims, 4);
    assert_int_equal(h.ropes[1].table.dims, 6); /* half of a head where nothing is said */
    assert_true(h.ropes[0].table.interleaved && !h.ropes[1].table.interleaved);
    blueprint_clear(&b);
    blueprint_clear(&h);
}

/* 1 - place / 4 + 1e-5, where the older form's place is one less but not below 0. */
static void later_layers_forget_more_slowly(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(ring, ""), h = test_blueprint_read(hybrid, "");
    assert_float_equal(b.layers[0].lightning.slope_scale, 1.00001, 1e-7);
    assert_float_equal(b.layers[2].lightning.slope_scale, 0.75001, 1e-7);
    assert_float_equal(h.layers[0].lightning.slope_scale, 1.00001, 1e-7);
    assert_float_equal(h.layers[2].lightning.slope_scale, 0.50001, 1e-7);
    blueprint_clear(&b);
    blueprint_clear(&h);
}

static void the_shared_width_is_of_one_expert_or_of_all(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(ring, ", \"moe_shared_expert_intermediate_size\": 5");
    assert_int_equal(b.layers[0].experts.shared.width, 15);
    assert_true(b.layers[0].experts.rule.rejected_zero);
    blueprint_clear(&b);
    b = test_blueprint_read(hybrid, ", \"moe_shared_expert_intermediate_size\": 5");
    assert_int_equal(b.layers[0].experts.shared.width, 5);
    assert_int_equal(b.layers[0].experts.rule.score, ROUTER_SIGMOID);
    assert_false(b.layers[0].experts.rule.rejected_zero);
    blueprint_clear(&b);
    b = test_blueprint_read(hybrid, "");
    assert_int_equal(b.layers[0].experts.shared.width, 24);
    blueprint_clear(&b);
}

static void kimi_counts_its_layers_from_one(void **state) {
    static const bool delta[] = {true, true, false, true};
    (void)state;
    Blueprint b = test_blueprint_read(kimi, KIMI_LISTS "\"full_attn_layers\": [3]}, \"model_max_length\": 77");
    for (int i = 0; i < 4; i++) assert_ptr_equal(b.layers[i].mixer, delta[i] ? &mixer_delta : &mixer_mla);
    assert_int_equal(b.max_context, 77);
    assert_int_equal(b.layers[0].delta.a_rank, 7);
    assert_int_equal(b.layers[2].mla.rope, NO_ROPE);
    assert_int_equal(b.layers[2].mla.v_dim, 9); /* head_dim where v_head_dim is absent */
    assert_ptr_equal(b.layers[3].ffn, &ffn_mlp);
    blueprint_clear(&b);
}

static void the_third_kimi_says_what_it_has(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(third, KIMI_LISTS "\"full_attn_layers\": [3]}");
    assert_int_equal(b.residual_block, 0);
    assert_int_equal(b.layers[0].experts.latent, 0);
    assert_int_equal(b.layers[0].experts.rule.n_chosen, 16);
    assert_true(b.layers[0].experts.expert.situ == 1 && b.layers[0].experts.expert.situ_up == 0);
    assert_true(b.layers[0].delta.decay_floor == 0);
    assert_null(b.layers[2].mla.gate.name);
    assert_true(b.layers[2].mla.q_norm.eps == 1e-6f && b.final_norm.eps == 1e-5f);
    blueprint_clear(&b);
    b = test_blueprint_read(third, KIMI_LISTS
                            "\"full_attn_layers\": [3], \"gate_lower_bound\": -5, \"use_full_rank_gate\": true},"
                            " \"attn_res_block_size\": 2, \"routed_expert_hidden_size\": 24,"
                            " \"activation_situ_beta\": 2.5, \"activation_situ_linear_beta\": 7,"
                            " \"mla_use_output_gate\": true, \"first_k_dense_replace\": 1");
    assert_int_equal(b.residual_block, 2);
    assert_int_equal(b.layers[1].experts.latent, 24);
    assert_int_equal(b.layers[1].experts.latent_norm.kind, NORM_NONE);
    assert_true(b.layers[0].mlp.situ == 2.5f && b.layers[1].experts.shared.situ_up == 7);
    assert_true(b.layers[0].delta.decay_floor == -5);
    assert_null(b.layers[0].delta.z_down.name);
    assert_true(b.layers[2].mla.gate_each);
    blueprint_clear(&b);
    test_blueprint_refused(third, KIMI_LISTS "\"full_attn_layers\": [3]}, \"hidden_act\": \"silu\"", "not \"situ\"");
    test_blueprint_refused(third, KIMI_LISTS "\"full_attn_layers\": [3]}, \"moe_router_activation_func\": \"softmax\"",
                           "moe_router_activation_func");
}

/* Every second layer is linear where nothing is said; both norms are of what goes on. */
static void minimax_text_weighs_both_sides_of_its_sums(void **state) {
    static const char text[] =
        "\"model_type\": \"minimax\", \"architectures\": [\"MiniMaxForCausalLM\"], \"hidden_size\":"
        " 48, \"num_hidden_layers\": 3, \"num_attention_heads\": 6, \"num_key_value_heads\": 2,"
        " \"intermediate_size\": 20, \"vocab_size\": 50";
    (void)state;
    Blueprint b = test_blueprint_read(text, ", \"linear_attn_alpha_factor\": 3, \"full_attn_beta_factor\": 0.5");
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(b.layers[i].mixer, i == 1 ? &mixer_lightning : &mixer_attention);
        assert_true(b.layers[i].mixer_keep == (i == 1 ? 3 : 1) && b.layers[i].mixer_scale == (i == 1 ? 1 : 0.5f));
        assert_int_equal(b.layers[i].mixer_norm.kind, NORM_NONE);
        assert_int_equal(b.layers[i].mid_norm.kind, NORM_RMS);
    }
    assert_float_equal(b.layers[1].lightning.slope_scale, 0.5000125, 1e-6); /* 1 - 1 / 2.00001 + 1e-5 */
    assert_int_equal(b.layers[1].lightning.k.rows.from, 8);
    assert_int_equal(b.layers[0].experts.rule.score, ROUTER_SOFTMAX);
    blueprint_clear(&b);
    test_blueprint_refused(text, ", \"mlp_beta_factor\": 0", "leaves nothing to add");
    test_blueprint_refused(text, ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
                           "item 1 is neither");
}

static void what_no_reference_runs_is_refused(void **state) {
    (void)state;
    test_blueprint_refused(kimi, KIMI_LISTS "\"full_attn_layers\": [3, 4]}", "layer 4 is in both or none");
    test_blueprint_refused(kimi, KIMI_LISTS "\"full_attn_layers\": []}", "layer 3 is in both or none");
    test_blueprint_refused(kimi, KIMI_LISTS "\"full_attn_layers\": [3], \"strange\": 1}", "strange");
    test_blueprint_refused(kimi, KIMI_LISTS "\"full_attn_layers\": [3]}, \"q_lora_rank\": 8", "q_lora_rank");
    test_blueprint_refused(kimi, KIMI_LISTS "\"full_attn_layers\": [3]}, \"mla_use_nope\": false", "mla_use_nope");
    test_blueprint_refused(kimi, "", "num_heads");
    test_blueprint_refused(ring, ", \"score_function\": \"tanh\"", "\"score_function\" is \"tanh\"");
    test_blueprint_refused(ring, ", \"n_group\": 3, \"topk_group\": 1", "4 experts in 3 groups");
    test_blueprint_refused(ring, ", \"hidden_size\": 50", "\"hidden_size\" 50 is not divisible");
    test_blueprint_refused(hybrid,
                           ", \"architectures\": [\"BailingMoeV3ForCausalLM\"], \"n_group\": 2, \"topk_group\": 1, "
                           "\"kda_safe_gate\": false",
                           "kda_safe_gate");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lightning_stands_where_no_group_ends),
        cmocka_unit_test(later_layers_forget_more_slowly),
        cmocka_unit_test(the_shared_width_is_of_one_expert_or_of_all),
        cmocka_unit_test(kimi_counts_its_layers_from_one),
        cmocka_unit_test(the_third_kimi_says_what_it_has),
        cmocka_unit_test(minimax_text_weighs_both_sides_of_its_sums),
        cmocka_unit_test(what_no_reference_runs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
