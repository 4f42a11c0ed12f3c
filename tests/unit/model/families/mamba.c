/* What the configs of Mamba, FalconMamba and Jamba say: sizes that are left out, which layers are of which kind, and
 * what is refused. */
#include "model/mechanism.h"
#include "support/blueprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char mamba[] = "\"model_type\": \"mamba\", \"hidden_size\": 50, \"num_hidden_layers\": 2,"
                            " \"vocab_size\": 50";
static const char falcon[] = "\"model_type\": \"falcon_mamba\", \"hidden_size\": 48, \"num_hidden_layers\": 2,"
                             " \"vocab_size\": 50";
static const char jamba[] = "\"model_type\": \"jamba\", \"hidden_size\": 48, \"intermediate_size\": 20,"
                            " \"num_hidden_layers\": 10, \"num_attention_heads\": 6, \"num_key_value_heads\": 2,"
                            " \"vocab_size\": 50";

static void sizes_that_are_left_out_follow_the_hidden_size(void **state) {
    static const struct {
        const char *more;
        int channels, d_state, rank, kernel;
    } cases[] = {{"", 100, 16, 4, 4}, /* 50 / 16, rounded up */
                 {", \"expand\": 1.5, \"time_step_rank\": \"auto\"", 75, 16, 4, 4},
                 {", \"expand\": 16, \"intermediate_size\": 90, \"state_size\": 5", 90, 5, 4, 4},
                 {", \"time_step_rank\": 7, \"conv_kernel\": 3", 100, 16, 7, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Blueprint b = test_blueprint_read(mamba, cases[i].more);
        const Mamba1Spec *m = &b.layers[1].mamba1;
        assert_int_equal(m->channels, cases[i].channels);
        assert_int_equal(m->d_state, cases[i].d_state);
        assert_int_equal(m->rank, cases[i].rank);
        assert_int_equal(m->kernel, cases[i].kernel);
        assert_int_equal(m->z.rows.from, cases[i].channels);
        assert_int_equal(m->c.rows.from, cases[i].rank + cases[i].d_state);
        assert_null(b.layers[1].ffn);
        blueprint_clear(&b);
    }
    test_blueprint_refused(mamba, ", \"expand\": 0", "expand");
    test_blueprint_refused(mamba, ", \"expand\": 1e300", "expand");
    test_blueprint_refused(mamba, ", \"time_step_rank\": \"half\"", "time_step_rank");
    test_blueprint_refused(mamba, ", \"hidden_act\": \"gelu\"", "hidden_act");
    test_blueprint_refused(mamba, ", \"n_groups\": 2", "n_groups");
}

static void falcon_alone_norms_what_the_token_chooses(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(mamba, "");
    assert_int_equal(b.layers[0].mamba1.dt_norm.kind, NORM_NONE);
    blueprint_clear(&b);
    b = test_blueprint_read(falcon, ", \"mixer_rms_eps\": 0.5, \"use_bcdt_rms\": false");
    assert_int_equal(b.layers[0].mamba1.dt_norm.kind, NORM_RMS);
    assert_null(b.layers[0].mamba1.b_norm.weight);
    assert_true(b.layers[0].mamba1.c_norm.eps == 0.5f);
    blueprint_clear(&b);
}

/* a: attention, m: mamba; capitals have experts. */
static void layers_are(const char *more, const char *expected) {
    Blueprint b = test_blueprint_read(jamba, more);
    for (int i = 0; i < 10; i++) {
        bool attention = b.layers[i].mixer == &mixer_attention, experts = b.layers[i].ffn == &ffn_experts;
        assert_int_equal(attention ? experts ? 'A' : 'a' : experts ? 'M' : 'm', expected[i]);
        assert_true(attention || b.layers[i].mixer == &mixer_mamba1);
        assert_int_equal(b.layers[i].attention.rope, NO_ROPE);
    }
    blueprint_clear(&b);
}

static void attention_and_experts_are_counted_from_their_offsets(void **state) {
    (void)state;
    layers_are("", "mMmMaMmMmM");
    layers_are(", \"num_experts\": 1", "mmmmammmmm");
    layers_are(", \"attn_layer_offset\": 1, \"attn_layer_period\": 3, \"expert_layer_offset\": 1,"
               " \"expert_layer_period\": 4",
               "mAmmaMmamM");
    layers_are(", \"num_local_experts\": 1, \"layers_block_type\": [\"attention\", \"mamba\", \"mamba\", \"mamba\","
               " \"mamba\", \"mamba\", \"mamba\", \"mamba\", \"mamba\", \"attention\"]",
               "ammmmmmmma");
    test_blueprint_refused(jamba, ", \"attn_layer_offset\": 8", "attn_layer_offset");
    test_blueprint_refused(jamba, ", \"expert_layer_period\": 1", "expert_layer_offset");
    test_blueprint_refused(jamba, ", \"mamba_expand\": 100000000", "mamba_expand");
    test_blueprint_refused(jamba, ", \"layers_block_type\": [\"mamba\"]", "layers_block_type");
}

static void jambas_router_does_not_renormalise(void **state) {
    (void)state;
    Blueprint b = test_blueprint_read(jamba, ", \"num_experts\": 5, \"num_experts_per_tok\": 3");
    assert_int_equal(b.layers[1].experts.rule.score, ROUTER_SOFTMAX);
    assert_int_equal(b.layers[1].experts.rule.n_experts, 5);
    assert_int_equal(b.layers[1].experts.rule.n_chosen, 3);
    assert_false(b.layers[1].experts.rule.renormalise);
    blueprint_clear(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_are_left_out_follow_the_hidden_size),
        cmocka_unit_test(falcon_alone_norms_what_the_token_chooses),
        cmocka_unit_test(attention_and_experts_are_counted_from_their_offsets),
        cmocka_unit_test(jambas_router_does_not_renormalise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
