/* What the configs of Falcon-H1, Bamba, PLaMo 2, RecurrentGemma and RWKV 7 say: where multipliers go, which layers are
 * of which kind, sizes that follow from others, and what is refused. */
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char falcon[] = "\"model_type\": \"falcon_h1\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                             " \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"num_key_value_heads\": 2,"
                             " \"vocab_size\": 50, \"mamba_n_heads\": 4, \"mamba_d_ssm\": 80";
static const char bamba[] = "\"model_type\": \"bamba\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                            " \"num_hidden_layers\": 4, \"num_attention_heads\": 6, \"num_key_value_heads\": 2,"
                            " \"vocab_size\": 50, \"mamba_n_heads\": 8";
static const char plamo[] = "\"model_type\": \"plamo2\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                            " \"num_hidden_layers\": 6, \"num_attention_heads\": 6, \"num_key_value_heads\": 2,"
                            " \"vocab_size\": 50, \"hidden_size_per_head\": 8, \"mamba_num_heads\": 3";
static const char griffin[] = "\"model_type\": \"recurrent_gemma\", \"hidden_size\": 72, \"intermediate_size\": 20,"
                              " \"num_hidden_layers\": 5, \"num_attention_heads\": 6, \"num_key_value_heads\": 1,"
                              " \"vocab_size\": 50";
static const char rwkv[] = "\"model_type\": \"rwkv7\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                           " \"num_hidden_layers\": 3, \"vocab_size\": 50, \"head_dim\": 16, \"a_low_rank_dim\": 4,"
                           " \"v_low_rank_dim\": 5, \"gate_low_rank_dim\": 6, \"decay_low_rank_dim\": 7";

/* a: attention, m: Mamba-2, b: both, r: a gated recurrence, t: time mixing, c: channel mixing. */
static void layers_are(const char *config, const char *more, const char *expected) {
    static const struct {
        const Mechanism *mixer;
        char kind;
    } kinds[] = {{&mixer_attention, 'a'}, {&mixer_mamba2, 'm'}, {&mixer_ssm_beside_attention, 'b'},
                 {&mixer_rglru, 'r'},     {&mixer_rwkv7, 't'},  {&mixer_channel_mix, 'c'}};
    Blueprint b = test_blueprint_read(config, more);
    char found[64] = "";
    for (int i = 0; i < b.n_layers; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (b.layers[i].mixer == kinds[k].mixer) found[i] = kinds[k].kind;
    assert_string_equal(found, expected);
    blueprint_clear(&b);
}

static void layers_are_of_the_kind_that_the_config_says(void **state) {
    (void)state;
    layers_are(falcon, "", "bb");
    layers_are(bamba, "", "mmmm");
    layers_are(bamba, ", \"attn_layer_indices\": [1, 3]", "mama");
    layers_are(plamo, "", "mamama");
    layers_are(plamo, ", \"mamba_step\": 5", "mmammm");
    layers_are(plamo, ", \"mamba_step\": 12", "mmmmma"); /* too few: the last */
    layers_are(plamo, ", \"mamba_enabled\": false", "aaaaaa");
    layers_are(griffin, "", "rrarr");
    layers_are(griffin, ", \"_block_types\": [\"attention\", \"recurrent\"]", "arara");
    layers_are(rwkv, "", "tctctc");
    test_blueprint_refused(plamo, ", \"mamba_step\": 1", "mamba_step");
    test_blueprint_refused(griffin, ", \"block_types\": [\"recurrent\", \"linear\"]", "block_types");
}

static void multipliers_of_falcon_act_at_run_time(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(
        falcon,
        ", \"head_dim\": 16, \"key_multiplier\": 0.5, \"embedding_multiplier\": 3, \"lm_head_multiplier\": 0.25,"
        " \"attention_in_multiplier\": 0.9, \"attention_out_multiplier\": 0.8, \"ssm_in_multiplier\": 1.5,"
        " \"ssm_out_multiplier\": 0.7, \"mlp_multipliers\": [0.6, 0.4],"
        " \"ssm_multipliers\": [1.5, 2.5, 3.5, 4.5, 5.5], \"mamba_rms_norm\": true, \"projectors_bias\": true");
    const LayerSpec *l = &b.layers[1];
    assert_true(b.embedding_scale == 3 && b.logit_scale == 0.25f);
    assert_true(l->attention.scale == 0.125f); /* half of 1 / sqrt(16) */
    assert_true(l->beside.attention_in == 0.9f && l->beside.attention_out == 0.8f);
    assert_true(l->beside.ssm_in == 1.5f && l->beside.ssm_out == 0.7f);
    assert_true(l->mlp.gate_scale == 0.6f && l->mlp.out_scale == 0.4f);
    assert_true(l->ssm.z_scale == 1.5f && l->ssm.x_scale == 2.5f && l->ssm.b_scale == 3.5f);
    assert_true(l->ssm.c_scale == 4.5f && l->ssm.dt_scale == 5.5f);
    assert_int_equal(l->ssm.head_dim, 20);
    assert_true(l->ssm.norm_first && l->ssm.norm.kind == NORM_RMS);
    assert_true(l->ssm.o.bias && !l->ssm.x.bias);
    blueprint_clear(&b);
    b = test_blueprint_read(falcon, "");
    assert_int_equal(b.layers[0].ssm.norm.kind, NORM_NONE);
    blueprint_clear(&b);
    test_blueprint_refused(falcon, ", \"key_multiplier\": 0", "key_multiplier");
    test_blueprint_refused(falcon, ", \"ssm_multipliers\": [1, 1, 0, 1, 1]", "ssm_multipliers");
    test_blueprint_refused(falcon, ", \"ssm_multipliers\": [1, 1]", "ssm_multipliers");
}

static void heads_of_mamba_follow_from_the_width(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(bamba, ", \"mamba_d_head\": \"auto\", \"time_step_limit\": [0.25, 2]");
    assert_int_equal(b.layers[0].ssm.head_dim, 12); /* twice 48, over 8 heads */
    assert_true(b.layers[0].ssm.dt_min == 0.25f && b.layers[0].ssm.dt_max == 2);
    assert_int_equal(b.ropes[0].table.dims, 4); /* half a head */
    blueprint_clear(&b);
    b = test_blueprint_read(bamba, ", \"mamba_d_head\": 5");
    assert_int_equal(b.layers[0].ssm.head_dim, 5);
    blueprint_clear(&b);
    test_blueprint_refused(bamba, ", \"mamba_n_heads\": 7", "7 heads of mamba");
    test_blueprint_refused(bamba, ", \"mamba_expand\": 268435456", "mamba");
    test_blueprint_refused(bamba, ", \"hidden_act\": \"gelu\"", "hidden_act");
    b = test_blueprint_read(plamo, "");
    assert_int_equal(b.layers[0].ssm.rank, 64); /* at least */
    assert_int_equal(b.layers[0].ssm.dt_down.rows.from, 2 * 64);
    blueprint_clear(&b);
}

static void griffin_halves_its_mlp_and_scales_embeddings_in_bf16(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(griffin, ", \"lru_width\": 36, \"attention_window_size\": 7");
    assert_int_equal(b.layers[0].mlp.width, 10);
    assert_int_equal(b.layers[0].rglru.width, 36);
    assert_int_equal(b.layers[2].attention.window, 7);
    assert_true(b.embedding_scale_bf16);
    assert_true(b.logit_softcap == 30);
    assert_int_equal(b.ropes[0].table.dims, 6); /* half of 12 */
    blueprint_clear(&b);
    test_blueprint_refused(griffin, ", \"hidden_activation\": \"step\"", "hidden_activation");
}

static void halves_of_rwkv_layers_share_a_number(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(rwkv, "");
    for (int i = 0; i < 6; i++) assert_int_equal(i - b.layers[i].names_back, i / 2);
    assert_true(b.layers[0].rwkv7.lends && !b.layers[2].rwkv7.lends);
    assert_null(b.layers[0].rwkv7.first.up.name); /* the first layer mixes in nobody's values */
    assert_int_equal(b.layers[2].rwkv7.first.rank, 5);
    assert_int_equal(b.layers[4].rwkv7.heads, 3);
    blueprint_clear(&b);
    test_blueprint_refused(rwkv, ", \"num_heads\": 4", "num_heads");
    test_blueprint_refused(rwkv, ", \"hidden_act\": \"silu\"", "hidden_act");
    test_blueprint_refused(rwkv, ", \"norm_first\": false", "norm_first");
    test_blueprint_refused(rwkv, ", \"num_hidden_layers\": 268435456", "layers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_of_the_kind_that_the_config_says),
        cmocka_unit_test(multipliers_of_falcon_act_at_run_time),
        cmocka_unit_test(heads_of_mamba_follow_from_the_width),
        cmocka_unit_test(griffin_halves_its_mlp_and_scales_embeddings_in_bf16),
        cmocka_unit_test(halves_of_rwkv_layers_share_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
