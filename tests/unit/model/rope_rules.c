/* Rope scaling rules. The expected tables come from a NumPy float32 transcription of transformers 5.24.0's
 * modeling_rope_utils (the goldens check the same rules through whole models). */
#include "model/rope_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
    rope_clear(&spec);
}

static void assert_refused(const char *text, RopeInput in, const char *says) {
    Error err;
    RopeSpec spec = read_text(text, in, &err);
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    rope_clear(&spec);
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
        rope_clear(&spec);
    }
}

static const char factors[] = "\"short_factor\": [1.0, 1.02, 1.05, 1.1], \"long_factor\": [1.05, 1.2, 1.7, 2.5]";

/* rope_scaling with the two lists, its type and more keys. */
static const char *long_text(const char *type, const char *more) {
    static char text[400];
    snprintf(text, sizeof text, "{\"rope_scaling\": {\"%s, %s%s}}", type, factors, more);
    return text;
}

static void assert_long(const char *text, RopeInput in, int boundary, double short_scale, double long_scale) {
    static const float short_table[] = {0x1p+0f, 0x1.919192p-4f, 0x1.381382p-7f, 0x1.dca01ep-11f};
    static const float long_table[] = {0x1.e79e7cp-1f, 0x1.555556p-4f, 0x1.818182p-8f, 0x1.a36e2ep-12f};
    Error err;
    RopeSpec spec = read_text(text, in, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(spec.rule, "longrope");
    assert_int_equal(spec.boundary, boundary);
    assert_int_equal(spec.long_table.dims, in.dims);
    assert_memory_equal(spec.table.inv_freq, short_table, sizeof short_table);
    assert_memory_equal(spec.long_table.inv_freq, long_table, sizeof long_table);
    assert_true(spec.table.scale == (float)short_scale);
    assert_true(spec.long_table.scale == (float)long_scale);
    rope_clear(&spec);
}

static void longrope_has_two_tables(void **state) {
    const double scale = 0x1.52a7fap+0 /* sqrt(1 + ln 8 / ln 16) */, of_4 = 0x1.3988e2p+0;
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 128};
    (void)state;
    assert_long(long_text("type\": \"longrope\"", ", \"original_max_position_embeddings\": 16"), in, 16, scale, scale);
    in.original = 16; /* of the top level, which wins */
    assert_long(long_text("type\": \"su\"", ""), in, 16, scale, scale);
    assert_long(long_text("rope_type\": \"yarn\"", ", \"original_max_position_embeddings\": 64"), in, 16, scale, scale);
    assert_long(long_text("type\": \"longrope\"", ", \"factor\": 4"), in, 16, of_4, of_4);
    assert_long(long_text("type\": \"longrope\"", ", \"attention_factor\": 1.5"), in, 16, 1.5, 1.5);
    assert_long(long_text("type\": \"longrope\"", ", \"short_mscale\": 1.1, \"long_mscale\": 1.35"), in, 16, 1.1, 1.35);
    in.original = 0;
    assert_long(long_text("type\": \"longrope\"", ""), in, 128, 1, 1); /* the context never grows past it */
}

static void other_rules_have_one_table(void **state) {
    static const char *const texts[] = {"{}", "{\"rope_scaling\": null}",
                                        "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}"};
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 128, .original = 16};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Error err;
        RopeSpec spec = read_text(texts[i], in, &err);
        assert_string_equal(err.text, "");
        assert_null(spec.long_table.inv_freq);
        assert_int_equal(spec.boundary, 0);
        rope_clear(&spec);
    }
}

static void longrope_that_can_not_be_is_refused(void **state) {
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 128, .original = 16};
    (void)state;
    assert_refused("{\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 1, 1, 1]}}", in,
                   "has no \"rope_scaling.short_factor\"");
    assert_refused("{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1]}}", in,
                   "has no \"rope_scaling.long_factor\"");
    assert_refused("{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1]}}", in,
                   "\"rope_scaling.short_factor\" has 3 items, expected 4");
    assert_refused("{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 0, 1]}}", in,
                   "\"rope_scaling.short_factor\" item 2 is no number above 0");
    assert_refused("{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, \"x\", 0, 1]}}", in, "item 1");
    assert_refused(long_text("type\": \"longrope\"", ", \"short_mscale\": 1.1"), in, "both or neither");
    assert_refused(long_text("type\": \"longrope\"", ", \"short_mscale\": 0, \"long_mscale\": 1"), in, "cannot use");
    in.original = 1; /* ln 1 = 0 */
    assert_refused(long_text("type\": \"longrope\"", ""), in, "cannot use");
}

/* Hunyuan: 10000 * 1000^(8 / 6). */
static void dynamic_with_alpha_is_one_larger_base(void **state) {
    static const float expected[] = {0x1p+0f, 0x1.47ae14p-7f, 0x1.a36e2ep-14f, 0x1.0c6f7ap-20f};
    static const char text[] =
        "{\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1000.0, \"factor\": 1.0, \"beta_fast\": "
        "32, \"beta_slow\": 1, \"mscale\": 1.0, \"mscale_all_dim\": 1.0}}";
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 64};
    RopeSpec spec = {.rule = "ntk-alpha"};
    (void)state;
    assert_table(text, in, expected, 1);
    assert_null(rope_context_note(&spec));
    in.dims = 2;
    assert_refused(text, in, "at least 4 rotated dims");
    assert_refused("{\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": -1, \"factor\": 2}}", in,
                   "\"rope_scaling.alpha\"");
}

/* Gemma 4: a quarter of 16 dims are 2 pairs, the others stand still. */
static void proportional_leaves_the_tail_unrotated(void **state) {
    static const float quarter[8] = {0x1p-1f, 0x1.6c310ep-4f},
                       less_than_half[8] = {0x1p+0f, 0x1.6c310ep-3f, 0x1.030dc6p-5f};
    RopeInput in = {.theta = 10000, .dims = 16, .max_position = 64};
    (void)state;
    assert_table("{\"rope_parameters\": {\"rope_type\": \"proportional\", \"rope_theta\": 1000000.0, "
                 "\"partial_rotary_factor\": 0.25, \"factor\": 2}}",
                 in, quarter, 1);
    in.theta = 1000000;
    in.partial = 0.4; /* of the top level: 3.2 pairs */
    assert_table("{\"rope_parameters\": {\"rope_type\": \"proportional\"}}", in, less_than_half, 1);
    in.partial = 1.5;
    assert_refused("{\"rope_parameters\": {\"rope_type\": \"proportional\"}}", in, "at most 1");
}

static void mrope_is_plain_for_text(void **state) {
    static const float plain[] = {1.0f, 1.0f / 10, 1.0f / 100, 1.0f / 1000};
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 64};
    (void)state;
    assert_table("{\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [2, 1, 1]}}", in, plain, 1);
    assert_table(
        "{\"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [2, 1, 1], \"mrope_interleaved\": true}}",
        in, plain, 1);
}

/* Reads the settings of one kind of layer; what config_finish says goes to err. */
static RopeSpec read_kind(const char *text, const char *kind, Error *err) {
    static const ConfigLists lists = {.family = "gemma3"};
    RopeInput in = {.theta = 16, .max_position = 64};
    JsonDoc *doc = json_parse(text, strlen(text), 0, NULL);
    ConfigRecord record;
    Config c;
    RopeSpec spec = {.rule = ""};
    assert_non_null(doc);
    err->text[0] = 0;
    config_init(&c, &record, json_root(doc));
    Config all = rope_section(&c), section = rope_kind_section(&all, kind);
    in.dims = rope_partial_dims(&c, &section, 8, 1);
    rope_read(&section, &in, &spec);
    if (strcmp(kind, "full_attention") == 0 && all.object != section.object)
        rope_kind_section(&all, "sliding_attention");
    config_finish(&c, &lists, err);
    config_clear(&record);
    json_free(doc);
    return spec;
}

static void each_kind_of_layer_may_have_its_own(void **state) {
    static const char nested[] =
        "{\"partial_rotary_factor\": 1.0, \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 256,"
        " \"partial_rotary_factor\": 0.5}, \"sliding_attention\": {}}}";
    static const char flat[] = "{\"rope_parameters\": {\"rope_theta\": 256}}";
    static const struct {
        const char *text, *kind;
        double theta;
        int dims;
    } cases[] = {{nested, "full_attention", 256, 4},
                 {flat, "full_attention", 256, 8},
                 {flat, "sliding_attention", 256, 8},
                 {"{\"partial_rotary_factor\": 0.25}", "sliding_attention", 16, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error err;
        RopeSpec spec = read_kind(cases[i].text, cases[i].kind, &err);
        assert_string_equal(err.text, "");
        assert_true(spec.theta == cases[i].theta);
        assert_int_equal(spec.table.dims, cases[i].dims);
        rope_clear(&spec);
    }
    Error err;
    RopeSpec spec = read_kind("{\"rope_parameters\": {\"full_attention\": {}}}", "sliding_attention", &err);
    assert_string_equal(err.text, "config.json: has no \"rope_parameters.sliding_attention\"");
    rope_clear(&spec);
    spec = read_kind("{\"partial_rotary_factor\": 0.4}", "full_attention", &err);
    assert_non_null(strstr(err.text, "\"partial_rotary_factor\" 0.4 of a head of 8 dims"));
    rope_clear(&spec);
}

static void what_is_not_known_is_refused(void **state) {
    RopeInput in = {.theta = 10000, .dims = 8, .max_position = 64};
    (void)state;
    assert_refused(
        "{\"rope_scaling\": {\"type\": \"wide\", \"factor\": 4}}", in,
        "\"rope_scaling.rope_type\" is \"wide\"; known here: default, linear, dynamic, llama3, yarn, longrope, "
        "proportional");
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
        cmocka_unit_test(longrope_has_two_tables),
        cmocka_unit_test(other_rules_have_one_table),
        cmocka_unit_test(longrope_that_can_not_be_is_refused),
        cmocka_unit_test(dynamic_with_alpha_is_one_larger_base),
        cmocka_unit_test(proportional_leaves_the_tail_unrotated),
        cmocka_unit_test(mrope_is_plain_for_text),
        cmocka_unit_test(each_kind_of_layer_may_have_its_own),
        cmocka_unit_test(what_is_not_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
