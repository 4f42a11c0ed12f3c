/* What the configs of dense families say beside sizes: windows and which layers have them, null against absent, caps,
 * scales, rotary tables by kind of layer, layers without a half; and what is refused, by name. */
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

typedef struct WindowCase {
    const char *type, *more;
    int windows[3];
    bool rotates[3];
} WindowCase;

/* Null takes a window away, an absent key has the family's default, layer_types says which layers have it. */
static void windows_and_rotation_layer_by_layer(void **state) {
    static const char types[] = ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]";
    static const WindowCase cases[] = {
        {"mistral", "", {4096, 4096, 4096}, {1, 1, 1}},
        {"mistral", ", \"sliding_window\": null", {0}, {1, 1, 1}},
        {"mistral", ", \"sliding_window\": 7, T", {0, 7, 0}, {1, 1, 1}},
        {"gemma2", "", {4096, 0, 4096}, {1, 1, 1}},
        {"gemma3_text", ", \"sliding_window\": 9, \"sliding_window_pattern\": 2", {9, 0, 9}, {1, 1, 1}},
        {"gemma3_text", ", \"sliding_window\": 9", {9, 9, 9}, {1, 1, 1}},
        {"olmo3", ", \"sliding_window\": 9, T", {0, 9, 0}, {1, 1, 1}},
        {"cohere2", ", \"sliding_window\": 9, T", {0, 9, 0}, {0, 1, 0}},
        {"cohere2", ", \"sliding_window_pattern\": 3", {4096, 4096, 0}, {1, 1, 0}},
        {"exaone4", ", \"sliding_window\": 9, \"sliding_window_pattern\": \"LG\"", {9, 0, 9}, {1, 0, 1}},
        {"exaone4", ", \"sliding_window\": 9, \"sliding_window_pattern\": 3", {9, 9, 0}, {1, 1, 0}},
        {"exaone4", ", \"sliding_window\": null, \"sliding_window_pattern\": null", {0}, {1, 1, 1}},
        {"smollm3", "", {0}, {1, 1, 1}},
        {"smollm3", ", \"no_rope_layers\": [0, 1, 0], \"sliding_window\": 9", {0}, {0, 1, 0}},
        {"smollm3",
         ", \"no_rope_layer_interval\": 2, \"sliding_window\": 9, \"use_sliding_window\": true",
         {0, 9, 0},
         {1, 0, 1}},
        {"starcoder2", "", {0}, {1, 1, 1}},
        {"starcoder2", ", \"sliding_window\": 9", {9, 9, 9}, {1, 1, 1}}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[300];
        size_t n = strlen(cases[i].more);
        bool listed = n > 3 && strcmp(cases[i].more + n - 3, ", T") == 0;
        snprintf(more, sizeof more, "%.*s%s", (int)(listed ? n - 3 : n), cases[i].more, listed ? types : "");
        Blueprint b = test_typed_read(cases[i].type, more);
        for (int l = 0; l < 3; l++) {
            assert_int_equal(b.layers[l].attention.window, cases[i].windows[l]);
            assert_int_equal(b.layers[l].attention.rope != NO_ROPE, cases[i].rotates[l]);
        }
        blueprint_clear(&b);
    }
}

static void caps_and_scales(void **state) {
    (void)state;
    Blueprint b = test_typed_read("gemma2", "");
    assert_true(b.logit_softcap == 30 && b.layers[0].attention.softcap == 50 && b.layers[2].ffn_out.plus == 1);
    assert_true(b.layers[0].attention.scale == 0.0625f && b.layers[0].attention.head_dim == 256);
    blueprint_clear(&b);
    b = test_typed_read("gemma2", ", \"final_logit_softcapping\": null, \"attn_logit_softcapping\": null");
    assert_true(b.logit_softcap == 0 && b.layers[0].attention.softcap == 0);
    blueprint_clear(&b);
    test_typed_refused("gemma2", ", \"attn_logit_softcapping\": 0", "attn_logit_softcapping");
    b = test_typed_read("granite",
                        ", \"logits_scaling\": 8, \"attention_multiplier\": 0.25, \"residual_multiplier\": 0.5");
    assert_true(b.logit_scale == 0.125f && b.layers[1].attention.scale == 0.25f && b.layers[1].mixer_scale == 0.5f);
    blueprint_clear(&b);
    test_typed_refused("granite", ", \"logits_scaling\": 0", "logits_scaling");
    b = test_typed_read("minicpm", ", \"scale_depth\": 3, \"scale_emb\": 12, \"dim_model_base\": 24");
    assert_true(b.embedding_scale == 12 && b.head_scale == 0.5f);
    assert_true(b.layers[0].ffn_scale == 1.7320508f); /* 3 / sqrt(3 layers) */
    blueprint_clear(&b);
    b = test_typed_read("olmo", ", \"clip_qkv\": 6");
    assert_true(b.layers[2].attention.clip == 6 && b.final_norm.kind == NORM_LAYER && !b.final_norm.weight);
    blueprint_clear(&b);
    test_typed_refused("olmo", ", \"clip_qkv\": -1", "clip_qkv");
}

/* "gelu" means its tanh form in Gemma 1 and itself elsewhere. */
static void activations(void **state) {
    (void)state;
    Blueprint b = test_typed_read("gemma", ", \"hidden_act\": \"gelu\", \"hidden_activation\": null");
    assert_int_equal(b.layers[0].mlp.activation, ACT_GELU_TANH);
    blueprint_clear(&b);
    b = test_typed_read("gemma3_text", ", \"hidden_activation\": \"gelu\", \"hidden_act\": \"silu\"");
    assert_int_equal(b.layers[0].mlp.activation, ACT_GELU);
    blueprint_clear(&b);
    b = test_typed_read("apertus", ", \"rope_scaling\": {\"rope_type\": \"default\"}");
    assert_non_null(b.layers[0].mlp.xielu.alpha_p);
    assert_null(b.layers[0].mlp.gate.name);
    blueprint_clear(&b);
    test_typed_refused("apertus", "", "rope_parameters");
    test_typed_refused("apertus", ", \"rope_scaling\": {\"rope_type\": \"default\"}, \"post_norm\": true", "post_norm");
}

/* Gemma 3's scaling is for full layers, in the older form as in the newer. */
static void ropes_by_kind_of_layer(void **state) {
    (void)state;
    Blueprint b = test_typed_read("gemma3_text", ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}");
    assert_true(b.ropes[0].theta == 1e6 && b.ropes[0].factor == 8 && b.ropes[1].theta == 1e4);
    assert_true(b.ropes[1].factor == 1 && b.layers[0].attention.rope == 1);
    blueprint_clear(&b);
    b = test_typed_read("olmo3",
                        ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4},"
                        " \"sliding_attention\": {\"rope_theta\": 7000}},"
                        " \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]");
    assert_true(b.ropes[0].theta == 500000 && b.ropes[0].factor == 4 && b.ropes[1].theta == 7000);
    blueprint_clear(&b);
    b = test_typed_read("ministral3",
                        ", \"rope_parameters\": {\"rope_type\": \"default\", \"llama_4_scaling_beta\": 0.1,"
                        " \"original_max_position_embeddings\": 16}");
    assert_true(b.layers[0].attention.position_scale.beta == 0.1 && b.layers[0].attention.position_scale.length == 16);
    assert_int_equal(b.layers[0].attention.window, 0);
    blueprint_clear(&b);
    test_typed_refused("ministral3", "", "rope_parameters");
}

#define BLOCK(attention, ffn) "{\"attention\": {" attention "}, \"ffn\": {" ffn "}}"

static void searched_layers(void **state) {
    static const char good[] = ", \"block_configs\": [" BLOCK("\"n_heads_in_group\": 3", "\"no_op\": true") ", " BLOCK(
        "\"replace_with_linear\": true", "\"ffn_mult\": 8.1") ", " BLOCK("\"no_op\": true",
                                                                         "\"replace_with_linear\": true") "]";
    (void)state;
    Blueprint b = test_typed_read("nemotron-nas", good);
    assert_ptr_equal(b.layers[0].mixer, &mixer_attention);
    assert_int_equal(b.layers[0].attention.n_kv_heads, 2);
    assert_null(b.layers[0].ffn);
    assert_ptr_equal(b.layers[1].mixer, &mixer_matrix);
    assert_int_equal(b.layers[1].mlp.width, 512); /* 2 * 8.1 * 48 / 3 = 259.2, up to a multiple of 256 */
    assert_null(b.layers[2].mixer);
    assert_ptr_equal(b.layers[2].ffn, &ffn_matrix);
    blueprint_clear(&b);
    test_typed_refused("nemotron-nas", "", "block_configs");
    test_typed_refused(
        "nemotron-nas",
        ", \"num_hidden_layers\": 1, \"block_configs\": [" BLOCK("\"n_heads_in_group\": 4", "\"no_op\": true") "]",
        "groups of 4");
    test_typed_refused("nemotron-nas",
                       ", \"num_hidden_layers\": 1, \"block_configs\": [" BLOCK(
                           "\"n_heads_in_group\": 3, \"window_length\": 8", "\"no_op\": true") "]",
                       "block_configs[0].attention.window_length");
    test_typed_refused(
        "nemotron-nas",
        ", \"num_hidden_layers\": 1, \"block_configs\": [" BLOCK("\"no_op\": true", "\"ffn_mult\": 1e300") "]",
        "ffn_mult");
}

static void what_no_reference_has_is_refused(void **state) {
    (void)state;
    test_typed_refused("gemma", ", \"use_bidirectional_attention\": true", "use_bidirectional_attention");
    test_typed_refused("gemma3_text", ", \"sliding_window\": null", "sliding_window");
    test_typed_refused("cohere2", ", \"use_qk_norm\": true", "use_qk_norm");
    test_typed_refused("cohere2", ", \"rotary_pct\": 0.5", "rotary_pct");
    test_typed_refused("exaone4", ", \"sliding_window_pattern\": \"LXG\"", "LXG");
    test_typed_refused("smollm3", ", \"no_rope_layers\": [0, 1, 2]", "no_rope_layers");
    test_typed_refused("smollm3", ", \"no_rope_layers\": [0, 1]", "no_rope_layers");
    test_typed_refused("mistral",
                       ", \"sliding_window\": null, \"layer_types\": [\"full_attention\", \"full_attention\","
                       " \"sliding_attention\"]",
                       "layer 2");
    test_typed_refused("mistral", ", \"layer_types\": [\"linear_attention\", \"full_attention\", \"full_attention\"]",
                       "layer_types");
    test_typed_refused("stablelm", ", \"partial_rotary_factor\": 0.4", "partial_rotary_factor");
    test_typed_refused("granite", ", \"surprise\": 1", "surprise");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_and_rotation_layer_by_layer),
        cmocka_unit_test(caps_and_scales),
        cmocka_unit_test(activations),
        cmocka_unit_test(ropes_by_kind_of_layer),
        cmocka_unit_test(searched_layers),
        cmocka_unit_test(what_no_reference_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
