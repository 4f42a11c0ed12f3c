/* Rope scaling rules. The expected tables come from a NumPy float32 transcription of transformers 5.24.0's
 * modeling_rope_utils (the goldens check the same rules through whole models). */
#include "model/rope_rules.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Reads rope settings from a config text; what config_finish says goes to err ("" when all is well). */
static RopeSpec read_text(const char *text, RopeInput in, Error *err) {
    static const ConfigLists lists = {.family = "llama"};
    JsonDoc *doc = json_parse(text, strlen(text), 0, NULL);
    ConfigRecord record;
    Config c;
    RopeSpec spec = {.rule = ""};
    assert_non_null(doc);
    err->text[0] = 0;
    config_init(&c, &record, json_root(doc));
    Config section = rope_section(&c);
    rope_read(&section, &in, &spec);
    config_finish(&c, &lists, err);
    config_clear(&record);
    json_free(doc);
    return spec;
}

static void assert_table(const char *text, RopeInput in, const float *expected, double scale) {
    Error err;
    RopeSpec spec = read_text(text, in, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(spec.table.dims, in.dims);
    for (int i = 0; i < in.dims / 2; i++) assert_true(spec.table.inv_freq[i] == expected[i]);
    assert_true(spec.table.scale == (float)scale);
    mem_free(spec.table.inv_freq);
}

static void assert_refused(const char *text, RopeInput in, const char *says) {
    Error err;
    RopeSpec spec = read_text(text, in, &err);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    mem_free(spec.table.inv_freq);
}

static void settings_are_found_in_their_old_and_new_places(void **state) {
    static const float plain[] = {1.0f, 1.0f / 10, 1.0f / 100, 1.0f / 1000}, from_16[] = {1, 0.5f, 0.25f, 0.125f};
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 64};
    (void)state;
    assert_table("{}", in, plain, 1);
    assert_table("{\"rope_scaling\": null}", in, plain, 1);
    assert_table("{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 16}}", in, from_16, 1);
    assert_table("{\"rope_scaling\": {\"type\": \"default\"}}", in, plain, 1);
    assert_refused("{\"rope_scaling\": {\"type\": \"default\"}, \"rope_parameters\": {}}", in, "has both");
}

static void linear_divides_every_frequency(void **state) {
    static const float expected[] = {0x1p-2f, 0x1.99999ap-6f, 0x1.47ae14p-9f, 0x1.0624dep-12f};
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 64};
    (void)state;
    assert_table("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}}", in, expected, 1);
    assert_table("{\"rope_scaling\": {\"rope_type\": \"linear\", \"type\": \"dynamic\", \"factor\": 4}}", in, expected,
                 1);
    assert_refused("{\"rope_scaling\": {\"type\": \"linear\"}}", in, "has no \"rope_scaling.factor\"");
    assert_refused("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}", in, "below 1");
}

static void dynamic_is_plain_within_its_context(void **state) {
    static const float plain[] = {1.0f, 1.0f / 10, 1.0f / 100, 1.0f / 1000};
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 16};
    RopeSpec spec = {.rule = "dynamic"}, other = {.rule = "yarn"};
    (void)state;
    assert_table("{\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}}", in, plain, 1);
    assert_non_null(strstr(rope_context_note(&spec), "max_position_embeddings"));
    assert_null(rope_context_note(&other));
}

static void llama3_divides_long_wavelengths_and_blends_between(void **state) {
    static const float expected[] = {0x1p+0f,         0x1.453c18p-4f,  0x1.341190p-8f,  0x1.ddee9ep-11f,
                                     0x1.72ba42p-13f, 0x1.1f91f0p-15f, 0x1.be2188p-18f, 0x1.5a0f4ep-20f};
    RopeInput in = {.theta = 500000, .dims = 16, .max_position = 512};
    (void)state;
    assert_table("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"
                 " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}}",
                 in, expected, 1);
    in.original = 64; /* of the top level, which wins */
    assert_table("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"
                 " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}}",
                 in, expected, 1);
    assert_refused("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 4.0,"
                   " \"high_freq_factor\": 4.0}}",
                   in, "do not make a range");
}

static void yarn_blends_by_a_ramp_over_dimensions(void **state) {
    static const float small[] = {0x1p+0f,        0x1.43d136p-4f,  0x1.99999ap-6f,  0x1.030dc6p-7f,
                                  0x1.47ae14p-9f, 0x1.9e7c70p-11f, 0x1.0624dep-12f, 0x1.4b96c0p-14f};
    static const float large[] = {0x1p+0f,        0x1.43d136p-2f,  0x1.99999ap-4f,  0x1.a4f660p-6f,
                                  0x1.999998p-8f, 0x1.6aace2p-10f, 0x1.0624dep-12f, 0x1.4b96c0p-14f};
    static const float exact[] = {0x1p+0f,        0x1.43d136p-2f,  0x1.99999ap-4f,  0x1.d4ce2ep-6f,
                                  0x1.adb7b8p-8f, 0x1.51054cp-10f, 0x1.0624dep-12f, 0x1.4b96c0p-14f};
    RopeInput in = {.theta = 10000, .dims = 16, .max_position = 64};
    (void)state;
    assert_table("{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16,"
                 " \"beta_fast\": 32, \"beta_slow\": 1}}",
                 in, small, 0x1.237d38p+0);
    assert_table(
        "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 4096}}", in,
        large, 0x1.237d38p+0);
    assert_table(
        "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 4096,"
        " \"truncate\": false}}",
        in, exact, 0x1.237d38p+0);
    in.max_position = 16384; /* the factor is then max over original */
    assert_table("{\"rope_scaling\": {\"rope_type\": \"yarn\", \"original_max_position_embeddings\": 4096}}", in, large,
                 0x1.237d38p+0);
}

static void yarn_scale_is_given_or_from_mscales_or_from_the_factor(void **state) {
    static const struct {
        const char *keys;
        double scale;
    } cases[] = {{"", 0x1.237d38p+0},                                           /* 0.1 ln 4 + 1 */
                 {", \"mscale\": 0.7, \"mscale_all_dim\": 0.5", 0x1.06a342p+0}, /* (0.07 ln 4 + 1) / (0.05 ln 4 + 1) */
                 {", \"mscale\": 1.0, \"mscale_all_dim\": 1.0", 1},
                 {", \"mscale\": 0.7, \"mscale_all_dim\": 0", 0x1.237d38p+0}, /* both or neither */
                 {", \"mscale\": 0.7", 0x1.237d38p+0},
                 {", \"attention_factor\": 1.5, \"mscale\": 0.7, \"mscale_all_dim\": 0.5", 1.5}};
    RopeInput in = {.theta = 10000, .dims = 16, .max_position = 64};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256] =
            "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16";
        Error err;
        strncat(text, cases[i].keys, 128);
        strncat(text, "}}", 3);
        RopeSpec spec = read_text(text, in, &err);
        assert_string_equal(err.text, "");
        assert_true(spec.table.scale == (float)cases[i].scale);
        mem_free(spec.table.inv_freq);
    }
}

static void what_is_not_known_is_refused(void **state) {
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 64};
    (void)state;
    assert_refused("{\"rope_scaling\": {\"type\": \"longrope\", \"factor\": 4}}", in,
                   "\"longrope\"; known here: default, linear");
    assert_refused("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4, \"fancy\": 1}}", in, "rope_scaling.fancy");
    assert_refused("{\"rope_parameters\": {\"rope_theta\": 0.5}}", in, "\"rope_theta\" is 0.5");
    in.dims = 7;
    assert_refused("{}", in, "even");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_found_in_their_old_and_new_places),
        cmocka_unit_test(linear_divides_every_frequency),
        cmocka_unit_test(dynamic_is_plain_within_its_context),
        cmocka_unit_test(llama3_divides_long_wavelengths_and_blends_between),
        cmocka_unit_test(yarn_blends_by_a_ramp_over_dimensions),
        cmocka_unit_test(yarn_scale_is_given_or_from_mscales_or_from_the_factor),
        cmocka_unit_test(what_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
