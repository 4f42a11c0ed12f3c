/* Plain text typed by a tool's schema. */
#include "text/toolcall_schema.h"
#include "support/shared_json.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"n\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},"
    "\"o\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\"}}},\"a\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"string\"}},"
    "\"sn\":{\"type\":[\"string\",\"null\"]},\"si\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},"
    "\"e\":{\"enum\":[\"1\",\"auto\"]},\"ei\":{\"enum\":[1,2]},\"c\":{\"const\":true},\"any\":{},\"null\":{\"type\":"
    "\"string\",\"nullable\":true},"
    "\"r\":{\"$ref\":\"#/$defs/deep/x\"},\"p\":{\"$ref\":\"#/$defs/%C3%BC%20~1\"},\"loop\":{\"$ref\":\"#/$defs/"
    "loop\"},\"lost\":{\"$ref\":\"#/$defs/none\"},"
    "\"wide\":{\"$ref\":\"#/$defs/wide\"},\"props\":{\"properties\":{}},\"list\":{\"items\":{}}},"
    "\"$defs\":{\"\xC3\xBC "
    "/\":{\"type\":\"integer\"},\"deep\":{\"x\":{\"type\":\"integer\"}},\"loop\":{\"$ref\":\"#/$defs/loop\"},"
    "\"wide\":{\"anyOf\":[{\"$ref\":\"#/$defs/wide\"},{\"$ref\":\"#/$defs/wide\"},{\"$ref\":\"#/$defs/wide\"}]}}}}},"
    "{\"name\":\"bare\",\"input_schema\":{\"anyOf\":[{\"properties\":{\"x\":{\"type\":\"string\"}}}],"
    "\"additionalProperties\":{\"type\":\"boolean\"}}}]";

static JsonDoc *tools;

static Schema property(const char *tool, const char *key) {
    return schema_property(tool_schema(json_root(tools), tool, strlen(tool)), key, strlen(key));
}

static void check(const char *key, const char *text, const char *expected) {
    Buffer out = {0};
    buffer_text(&out, "=");
    schema_write(property("f", key), text, strlen(text), &out);
    assert_string_equal(buffer_string(&out) + 1, expected);
    buffer_clear(&out);
}

static void a_string_stays_one(void **state) {
    (void)state;
    check("s", "12", "\"12\"");
    check("s", "null", "\"null\"");
    check("s", " {\"a\": 1}\n", "\" {\\\"a\\\": 1}\\n\"");
    check("s", "", "\"\"");
}

static void other_types_are_read(void **state) {
    (void)state;
    check("i", " 2 ", "2");
    check("i", "2.5", "\"2.5\"");
    check("i", "two", "\"two\"");
    check("n", "2", "2");
    check("n", "-2.50e1", "-2.50e1");
    check("n", ".5", "0.5");
    check("n", "1e5", "1e5");
    check("i", "1e5", "\"1e5\"");
    check("b", "true", "true");
    check("b", "False", "false");
    check("b", "yes", "\"yes\"");
    check("o", "{\"s\": 1}", "{\"s\": 1}");
    check("o", "{'s': True}", "{\"s\": true}");
    check("o", "[1]", "\"[1]\"");
    check("a", "['x', 1]", "[\"x\", 1]");
    check("a", "x", "\"x\"");
    check("i", "\"2\"", "\"\\\"2\\\"\""); /* a quoted text is no number */
}

static void unions_prefer_what_is_no_string(void **state) {
    (void)state;
    check("sn", "null", "null");
    check("sn", "None", "null");
    check("sn", "12", "\"12\"");
    check("null", "null", "null");
    check("si", "12", "12");
    check("si", "12a", "\"12a\"");
    check("e", "1", "\"1\"");
    check("ei", "1", "1");
    check("ei", "x", "\"x\"");
    check("c", "true", "true");
}

static void what_is_unknown_is_guessed(void **state) {
    (void)state;
    check("any", "12", "12");
    check("any", "True", "true");
    check("any", "[1, 2]", "[1, 2]");
    check("any", "Oslo", "\"Oslo\"");
    check("missing", "null", "null");
    check("lost", "1", "1");
    check("loop", "x", "\"x\"");
    check("wide", "7", "7"); /* walks over the branches end */
    check("props", "{}", "{}");
    check("list", "1", "\"1\"");
    Buffer out = {0};
    schema_write((Schema){NULL, NULL}, "1", 1, &out);
    schema_write_json("[1]", 3, &out);
    schema_write_json("{'a': 1}", 8, &out);
    schema_write_json("a b", 3, &out);
    assert_string_equal(buffer_string(&out), "1[1]{\"a\": 1}\"a b\"");
    buffer_clear(&out);
}

static void references_and_nesting_are_followed(void **state) {
    (void)state;
    check("r", "12", "12");
    check("p", "12", "12");
    check("r", "1.5", "\"1.5\"");
    assert_int_equal(schema_types(schema_property(property("f", "o"), "s", 1)), TYPE_STRING);
    assert_int_equal(schema_types(schema_items(property("f", "a"))), TYPE_STRING);
    assert_int_equal(schema_types(schema_items(property("f", "s"))), TYPE_ANY);
    assert_int_equal(schema_types(property("bare", "x")), TYPE_STRING);
    assert_int_equal(schema_types(property("bare", "y")), TYPE_BOOLEAN);
    assert_int_equal(schema_types(property("none", "y")), TYPE_ANY);
}

static void tools_are_known_by_name(void **state) {
    (void)state;
    assert_true(tool_is_known(json_root(tools), "f", 1));
    assert_true(tool_is_known(json_root(tools), "bare", 4));
    assert_false(tool_is_known(json_root(tools), "far", 3));
    assert_false(tool_is_known(NULL, "f", 1));
    assert_null(tool_schema(NULL, "f", 1).node);
}

static int make_tools(void **state) {
    return shared_json_parse(state, tools_text, &tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_stays_one),
        cmocka_unit_test(other_types_are_read),
        cmocka_unit_test(unions_prefer_what_is_no_string),
        cmocka_unit_test(what_is_unknown_is_guessed),
        cmocka_unit_test(references_and_nesting_are_followed),
        cmocka_unit_test(tools_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, make_tools, shared_json_free);
}
