/* JSON in pieces: what is a value and what is not, byte by byte and whole, and walking over one. */
#include "base/json_scan.h"
#include "base/json.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const char *const sound[] = {
    "{}",
    "[]",
    "{\"a\":1}",
    " { \"a\" : [ 1 , -0.5e+3 , 0 , \"x\\u00e9\\n\\\"\" ] , \"b\" : { } , \"c\":null } ",
    "[true,false,null,[[]],\"\"]",
    "[0,-0,1.0,1e5,1E-5,10]",
    "\"\"",
    "\"\\\\\"",
    "true",
};

static const char *const unsound[] = {
    "{\"a\"}",      "{\"a\":}", "{\"a\":1,}", "{,}",      "[1,]",          "[,1]",  "[01]",    "[1.]",  "[.5]",
    "[+1]",         "[1e]",     "[-]",        "[1.e5]",   "[NaN]",         "[tru]", "[trueX]", "{a:1}", "{'a':1}",
    "{\"a\" 1}",    "[1 2]",    "[\"\\d\"]",  "[\"\n\"]", "[\"\\u12g4\"]", "]",     "}",       "[}",    "{\"a\":1]",
    "[\"\\ud83\"]", "{1:2}",    "[Infinity]", "[--1]",    "[\"\t\"]",      "nul]",
};

/* The result on the whole text, and that it does not depend on the cut. */
static ScanResult scan(const char *text, size_t n, size_t *at) {
    JsonScan whole = {0};
    *at = 0;
    ScanResult result = json_scan(&whole, text, n, at);
    for (size_t cut = 0; cut <= n; cut++) {
        JsonScan s = {0};
        size_t p = 0;
        ScanResult r = json_scan(&s, text, cut, &p);
        if (r == SCAN_MORE) {
            assert_int_equal(p, cut);
            r = json_scan(&s, text, n, &p);
        }
        assert_int_equal(r, result);
        assert_int_equal(p, *at);
    }
    return result;
}

static void sound_values_end_where_they_end(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        size_t at, n = strlen(sound[i]), end = n;
        while (sound[i][end - 1] == ' ') end--;
        assert_int_equal(scan(sound[i], n, &at), SCAN_DONE);
        assert_int_equal(at, end);
        Error err;
        JsonDoc *doc = json_parse(sound[i], n, 0, &err); /* the reader agrees */
        assert_non_null(doc);
        json_free(doc);
    }
}

static void unsound_values_end_at_the_first_wrong_byte(void **state) {
    (void)state;
    size_t at;
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++)
        assert_int_equal(scan(unsound[i], strlen(unsound[i]), &at), SCAN_BAD);
    assert_int_equal(scan("{\"a\": \\d}", 9, &at), SCAN_BAD);
    assert_int_equal(at, 6);
    assert_int_equal(scan("[1, 2", 5, &at), SCAN_MORE);
    assert_int_equal(at, 5);
}

static void numbers_end_at_the_next_byte(void **state) {
    (void)state;
    JsonScan s = {0};
    size_t at = 0;
    assert_int_equal(json_scan(&s, "12", 2, &at), SCAN_MORE);
    assert_true(json_scan_number(&s));
    assert_int_equal(json_scan(&s, "12 ", 3, &at), SCAN_DONE);
    assert_int_equal(at, 2);
    s = (JsonScan){0};
    at = 0;
    assert_int_equal(json_scan(&s, "1.", 2, &at), SCAN_MORE);
    assert_false(json_scan_number(&s));
}

static void a_whole_text_is_a_value_or_not(void **state) {
    (void)state;
    assert_true(json_is_value("1", 1));
    assert_true(json_is_value("-1.5e3", 6));
    assert_true(json_is_value("[1]", 3));
    assert_true(json_is_value("null", 4));
    assert_false(json_is_value("", 0));
    assert_false(json_is_value(" 1", 2));
    assert_false(json_is_value("1 ", 2));
    assert_false(json_is_value("1,2", 3));
    assert_false(json_is_value("nul", 3));
    assert_false(json_is_value("[\"\xff\"]", 5));
}

static void nesting_has_a_limit(void **state) {
    (void)state;
    char text[JSON_SCAN_DEPTH * 2 + 2];
    memset(text, '[', JSON_SCAN_DEPTH);
    memset(text + JSON_SCAN_DEPTH, ']', JSON_SCAN_DEPTH);
    assert_true(json_is_value(text, (size_t)JSON_SCAN_DEPTH * 2));
    memset(text, '[', JSON_SCAN_DEPTH + 1);
    memset(text + JSON_SCAN_DEPTH + 1, ']', JSON_SCAN_DEPTH + 1);
    assert_false(json_is_value(text, sizeof text));
}

static void a_walk_gives_members_and_items(void **state) {
    (void)state;
    const char *text = "{ \"a,}\" : \"x\\\"]\" ,\"b\":[1,{\"c\":2}] , \"d\" : -1 }";
    const char *keys[] = {"\"a,}\"", "\"b\"", "\"d\""}, *values[] = {"\"x\\\"]\"", "[1,{\"c\":2}]", "-1"};
    JsonWalk w = json_walk(text, strlen(text));
    JsonSpan key, value;
    for (int i = 0; i < 3; i++) {
        assert_true(json_walk_next(&w, &key, &value));
        assert_int_equal(key.length, strlen(keys[i]));
        assert_memory_equal(key.text, keys[i], key.length);
        assert_int_equal(value.length, strlen(values[i]));
        assert_memory_equal(value.text, values[i], value.length);
    }
    assert_false(json_walk_next(&w, &key, &value));
    w = json_walk("[\"a\" , 2]", 9);
    assert_true(json_walk_next(&w, &key, &value));
    assert_int_equal(key.length, 0);
    assert_true(json_span_is(value, "a"));
    assert_true(json_walk_next(&w, &key, &value));
    assert_int_equal(value.length, 1);
    assert_false(json_walk_next(&w, &key, &value));
    w = json_walk("{}", 2);
    assert_false(json_walk_next(&w, &key, &value));
}

static void strings_are_unescaped(void **state) {
    (void)state;
    Buffer out = {0};
    assert_true(json_span_string((JsonSpan){"\"a\\u00e9\\n\"", 11}, &out));
    assert_string_equal(buffer_string(&out), "a\xc3\xa9\n");
    assert_false(json_span_string((JsonSpan){"1", 1}, &out));
    buffer_clear(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_values_end_where_they_end),
        cmocka_unit_test(unsound_values_end_at_the_first_wrong_byte),
        cmocka_unit_test(numbers_end_at_the_next_byte),
        cmocka_unit_test(a_whole_text_is_a_value_or_not),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(a_walk_gives_members_and_items),
        cmocka_unit_test(strings_are_unescaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
