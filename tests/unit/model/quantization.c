/* The quantisation block: the default, overrides under the file's names, and what is refused. */
#include "model/quantization.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static JsonDoc *parse(const char *text) {
    JsonDoc *doc = json_parse(text, strlen(text), 0, NULL);
    assert_non_null(doc);
    return doc;
}

static void assert_spec(const char *text, const char *module, WeightFormat format, int bits, int group) {
    JsonDoc *doc = parse(text);
    Quantization q;
    Error err = {""};
    if (!quantization_read(json_root(doc), NULL, &q, &err)) fail_msg("%s", err.text);
    QuantSpec spec = quantization_of(&q, module);
    assert_false(spec.off);
    assert_int_equal(spec.format, format);
    assert_int_equal(spec.bits, bits);
    assert_int_equal(spec.group, group);
    json_free(doc);
}

static void assert_refused(const char *text, const char *says) {
    JsonDoc *doc = parse(text);
    Quantization q;
    Error err = {""};
    assert_false(quantization_read(json_root(doc), NULL, &q, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    json_free(doc);
}

static void the_default_holds_where_nothing_else_is_said(void **state) {
    (void)state;
    assert_spec("{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": \"affine\"}}", "a", WEIGHT_AFFINE, 4,
                64);
    assert_spec("{\"quantization\": {\"group_size\": 128, \"bits\": 3}}", "a", WEIGHT_AFFINE, 3, 128);
    assert_spec("{\"quantization_config\": {\"group_size\": 32, \"bits\": 8}}", "a", WEIGHT_AFFINE, 8, 32);
    assert_spec("{\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"mxfp4\"}}", "a", WEIGHT_MXFP4, 4, 32);
    assert_spec("{\"quantization\": {\"mode\": \"nvfp4\"}}", "a", WEIGHT_NVFP4, 4, 16);
    assert_spec("{\"quantization\": {\"mode\": \"mxfp8\"}}", "a", WEIGHT_MXFP8, 8, 32);
    assert_spec("{\"quantization\": {\"mode\": \"q6_k\", \"bits\": 6, \"group_size\": 16}}", "a", WEIGHT_Q6_K, 6, 16);
}

static void an_override_is_found_under_the_name_of_the_module(void **state) {
    static const char text[] =
        "{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": \"mxfp8\", \"group_size\": 32, \"bits\": 8,"
        " \"m.down\": {\"group_size\": 64, \"bits\": 6}, \"m.up\": {\"mode\": \"q4_k\", \"bits\": 4, \"group_size\": "
        "32},"
        " \"m.gate\": true, \"m.off\": false}}";
    JsonDoc *doc = parse(text);
    Quantization q;
    (void)state;
    assert_spec(text, "m.down", WEIGHT_AFFINE, 6, 64); /* an entry without a mode is affine, whatever the default is */
    assert_spec(text, "m.up", WEIGHT_Q4_K, 4, 32);
    assert_spec(text, "m.gate", WEIGHT_MXFP8, 8, 32);
    assert_spec(text, "other", WEIGHT_MXFP8, 8, 32);
    assert_true(quantization_read(json_root(doc), NULL, &q, NULL));
    assert_true(quantization_of(&q, "m.off").off);
    json_free(doc);
}

static void what_an_import_widened_is_said(void **state) {
    JsonDoc *doc = parse("{\"quantization\": {\"bits\": 4, \"widened\": {\"m.up\": \"IQ2_S, and why\"}}}");
    JsonDoc *without = parse("{}");
    Quantization q, none;
    (void)state;
    assert_true(quantization_read(json_root(doc), NULL, &q, NULL));
    assert_string_equal(quantization_widened(&q, "m.up"), "IQ2_S, and why");
    assert_null(quantization_widened(&q, "m.down"));
    assert_true(quantization_read(json_root(without), NULL, &none, NULL));
    assert_null(quantization_widened(&none, "m.up"));
    assert_refused("{\"quantization\": {\"bits\": 4, \"widened\": {\"m.up\": 2}}}", "is not an object of strings");
    assert_refused("{\"quantization\": {\"bits\": 4, \"widened\": true}}", "is not an object of strings");
    json_free(doc);
    json_free(without);
}

static void absent_is_absent(void **state) {
    JsonDoc *doc = parse("{\"quantization\": null}");
    Quantization q;
    (void)state;
    assert_true(quantization_read(json_root(doc), NULL, &q, NULL));
    assert_null(q.object);
    json_free(doc);
}

static void other_methods_and_odd_values_are_refused(void **state) {
    (void)state;
    assert_refused("{\"quantization_config\": {\"quant_method\": \"hqq\", \"bits\": 4}}",
                   "\"hqq\" are not supported; supported: awq, gptq, fp8");
    assert_refused("{\"quantization\": {\"bits\": 4}, \"quantization_config\": {\"quant_method\": \"fp8\"}}",
                   "another form");
    assert_refused("{\"quantization\": {\"bits\": 7, \"group_size\": 64}}", "7 bits in groups of 64");
    assert_refused("{\"quantization\": {\"bits\": 4, \"group_size\": 16}}", "groups of 16");
    assert_refused("{\"quantization\": {\"bits\": \"x\", \"group_size\": 64}}", "0 bits");
    assert_refused("{\"quantization\": {\"mode\": \"mxfp4\", \"group_size\": 64}}",
                   "mxfp4 quantisation with 4 bits in groups of 64");
    assert_refused("{\"quantization\": {\"mode\": \"int4\"}}", "mode \"int4\"");
    assert_refused("{\"quantization\": {\"bits\": 4, \"group_size\": 64, \"m.up\": {\"bits\": 9}}}", "\"m.up\"");
    assert_refused("{\"quantization\": {\"bits\": 4, \"group_size\": 64, \"m.up\": 4}}", "\"m.up\" is neither");
    assert_refused("{\"quantization\": 4}", "not an object");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_holds_where_nothing_else_is_said),
        cmocka_unit_test(an_override_is_found_under_the_name_of_the_module),
        cmocka_unit_test(what_an_import_widened_is_said),
        cmocka_unit_test(absent_is_absent),
        cmocka_unit_test(other_methods_and_odd_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
