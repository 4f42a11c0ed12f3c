/* JSON as Python 3.11's json module reads and writes it. Texts and numbers that were found by comparing with it on
 * 30,000 random documents stand here as literals. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/decimal.h"
#include "base/memory.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static JsonDoc *parse(const char *text) {
    Error err;
    JsonDoc *doc = json_parse(text, strlen(text), 0, &err);
    if (!doc) fail_msg("%s: %s", text, err.text);
    return doc;
}

static void refuses(const char *text, const char *message) {
    Error err = {"none"};
    assert_null(json_parse(text, strlen(text), 0, &err));
    assert_string_equal(err.text, message);
}

static void rewrites(const char *text, const JsonStyle *style, const char *expected) {
    JsonDoc *doc = parse(text);
    Buffer b = {0};
    json_write(&b, json_root(doc), style);
    assert_string_equal(buffer_string(&b), expected);
    buffer_clear(&b);
    json_free(doc);
}

static void reads_every_kind_of_value(void **state) {
    (void)state;
    JsonDoc *doc =
        parse(" { \"s\" : \"text\", \"i\":-12,\"f\":2.5e1 ,\"t\":true,\"n\":null,\"a\":[1,[],{}],\"x\":NaN} \n");
    const JsonValue *root = json_root(doc);
    assert_int_equal(root->type, JSON_OBJECT);
    assert_int_equal(root->length, 7);
    assert_string_equal(json_string(json_get(root, "s")), "text");
    assert_true(json_equals(json_get(root, "s"), "text"));
    assert_false(json_equals(json_get(root, "s"), "tex"));
    int64_t i = 0;
    double d = 0;
    bool b = false;
    assert_true(json_int(json_get(root, "i"), &i));
    assert_int_equal(i, -12);
    assert_string_equal(json_get(root, "i")->text, "-12");
    assert_true(json_number(json_get(root, "f"), &d));
    assert_true(d == 25.0);
    assert_int_equal(json_get(root, "f")->type, JSON_FLOAT);
    assert_true(json_bool(json_get(root, "t"), &b) && b);
    assert_non_null(json_get(root, "n"));
    assert_null(json_get_set(root, "n"));
    assert_null(json_get(root, "absent"));
    const JsonValue *a = json_get(root, "a");
    assert_int_equal(a->length, 3);
    assert_int_equal(json_item(a, 1)->type, JSON_ARRAY);
    assert_int_equal(json_item(a, 2)->length, 0);
    assert_null(json_item(a, 3));
    assert_true(isnan(json_get(root, "x")->number));
    assert_null(json_get(a, "s"));
    assert_null(json_get(NULL, "s"));
    json_free(doc);
}

static void integers_keep_any_size(void **state) {
    (void)state;
    JsonDoc *doc = parse("[1000000000000000019884624838656, 9223372036854775807, 9223372036854775808, "
                         "-9223372036854775808, -9223372036854775809, 3.0, 3.5, 1e300, 18446744073709551615]");
    const JsonValue *root = json_root(doc);
    int64_t i = 5;
    assert_string_equal(root->items[0].text, "1000000000000000019884624838656");
    assert_true(root->items[0].number == 1e30);
    assert_false(json_int(&root->items[0], &i));
    assert_true(json_int(&root->items[1], &i) && i == INT64_MAX);
    assert_false(json_int(&root->items[2], &i));
    assert_true(json_int(&root->items[3], &i) && i == INT64_MIN);
    assert_false(json_int(&root->items[4], &i));
    assert_true(json_int(&root->items[5], &i) && i == 3);
    assert_false(json_int(&root->items[6], &i));
    assert_false(json_int(&root->items[7], &i));
    assert_true(root->items[8].number == 0x1p64);
    assert_int_equal(i, 3);
    json_free(doc);
    rewrites("[1000000000000000019884624838656,-0]", NULL, "[1000000000000000019884624838656, 0]");
}

static void strings_become_utf8(void **state) {
    (void)state;
    JsonDoc *doc = parse("[\"\\ud83c\\udf31\", \"\\ud83c\", \"\\udf31x\", \"\\ud83c\\u0041\", \"a\\u0000b\", "
                         "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\","
                         "\"\xC3\xB1\xE2\x82\xAC\x7F\", \"\\u00e9\\u20aC\"]");
    static const char *expected[] = {"\xF0\x9F\x8C\xB1",
                                     "\xEF\xBF\xBD",
                                     "\xEF\xBF\xBDx",
                                     "\xEF\xBF\xBD\x41",
                                     "a\0b",
                                     "\"\\/\b\f\n\r\t",
                                     "\xC3\xB1\xE2\x82\xAC\x7F",
                                     "\xC3\xA9\xE2\x82\xAC"};
    static const uint32_t length[] = {4, 3, 4, 4, 3, 8, 6, 5};
    for (uint32_t i = 0; i < 8; i++) {
        const JsonValue *v = json_item(json_root(doc), i);
        assert_int_equal(v->length, length[i]);
        assert_memory_equal(v->text, expected[i], length[i] + 1);
    }
    json_free(doc);
}

static void bad_text_is_an_error_with_its_place(void **state) {
    (void)state;
    refuses("", "line 1 column 1: the text ends too early");
    refuses("{\n \"a\": 1,\n}", "line 3 column 1: an object's key must be a string");
    refuses("[1 2]", "line 1 column 4: ',' or ']' must stand here");
    refuses("{\"a\" 1}", "line 1 column 6: ':' must follow an object's key");
    refuses("[1", "line 1 column 3: the text ends too early");
    refuses("\"ab", "line 1 column 4: the text ends too early");
    refuses("\"a\tb\"", "line 1 column 3: control character in a string");
    refuses("\"a\\x\"", "line 1 column 4: unknown escape in a string");
    refuses("\"\\u12g4\"", "line 1 column 3: \\u needs four hexadecimal digits");
    refuses("\"\\ud83c\\u12\"", "line 1 column 9: \\u needs four hexadecimal digits");
    refuses("[\"ab\xFF\"]", "line 1 column 5: invalid UTF-8");
    refuses("\"\xED\xA0\x80\"", "line 1 column 2: invalid UTF-8");
    refuses("01", "line 1 column 2: something follows the JSON value");
    refuses("1.", "line 1 column 2: something follows the JSON value");
    refuses("-", "line 1 column 1: a JSON value must stand here");
    refuses("nul", "line 1 column 1: a JSON value must stand here");
    refuses("+1", "line 1 column 1: a JSON value must stand here");
    refuses("[1,]", "line 1 column 4: a JSON value must stand here");
    refuses("\xEF\xBB\xBF{}", "line 1 column 1: a byte order mark stands before the JSON text");
    Error err;
    assert_null(json_parse("1\0", 2, 0, &err));
}

static void nesting_is_limited(void **state) {
    (void)state;
    char text[1100];
    memset(text, '[', 513);
    memset(text + 513, ']', 513);
    Error err;
    JsonDoc *doc = json_parse(text + 1, 1024, 0, &err);
    assert_non_null(doc);
    json_free(doc);
    assert_null(json_parse(text, 1026, 0, &err));
    assert_string_equal(err.text, "line 1 column 513: more than 512 levels of nesting");
}

static void a_repeated_key_keeps_its_place_and_takes_the_last_value(void **state) {
    (void)state;
    rewrites("{\"a\":1,\"b\":2,\"a\":3}", NULL, "{\"a\": 3, \"b\": 2}");
    Error err;
    const char *twice = "{\"x\":{\"a\":1,\"b\":2,\"a\":3}}";
    assert_null(json_parse(twice, strlen(twice), JSON_UNIQUE_KEYS, &err));
    assert_string_equal(err.text, "the key \"a\" stands twice in one object");
    Buffer b = {0};
    buffer_byte(&b, '{');
    for (int i = 0; i < 1000; i++) buffer_printf(&b, "%s\"k%d\":%d", i ? "," : "", i % 600, i);
    buffer_byte(&b, '}');
    JsonDoc *doc = parse(b.data);
    assert_int_equal(json_root(doc)->length, 600);
    for (int i = 0; i < 600; i++) {
        const JsonMember *m = &json_root(doc)->members[i];
        assert_int_equal(atoi(m->key + 1), i);
        assert_true(m->value.number == (i < 400 ? i + 600 : i));
    }
    json_free(doc);
    assert_null(json_parse(b.data, b.length, JSON_UNIQUE_KEYS, &err));
    buffer_clear(&b);
}

static void doubles_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0.1", 0x1.999999999999ap-4},
        {"9007199254740993", 0x1p53},
        {"9007199254740993.0000000001", 0x1.0000000000001p53},
        {"5e-324", 0x1p-1074},
        {"2.4703282292062327e-324", 0},
        {"2.4703282292062328e-324", 0x1p-1074},
        {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
        {"1.7976931348623157e308", 0x1.fffffffffffffp1023},
        {"1.7976931348623158e308", 0x1.fffffffffffffp1023},
        {"1.7976931348623159e308", INFINITY},
        {"1e400", INFINITY},
        {"-1e-400", 0},
        {"1e23", 0x1.52d02c7e14af6p76},
        {"8.5e22", 0x1.1ffdbf6b2b2ebp+76},
        {"123456789012345678901234567890e-10", 0x1.56a95319d63e1p+63},
        {"0.000000000000000000000000000000000000000000000001e48", 1.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(decimal_parse(cases[i].text, strlen(cases[i].text)) == cases[i].value);
    }
}

static void doubles_are_written_as_python_does(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{1e16, "1e+16"},
                 {1e15, "1000000000000000.0"},
                 {123456789012345680.0, "1.2345678901234568e+17"},
                 {1e-4, "0.0001"},
                 {1e-5, "1e-05"},
                 {0.1, "0.1"},
                 {100, "100.0"},
                 {-0.0, "-0.0"},
                 {1.5, "1.5"},
                 {0x1p-1074, "5e-324"},
                 {1e-7, "1e-07"},
                 {0x1p-44, "5.684341886080802e-14"},
                 {9007199254740993.0, "9007199254740992.0"},
                 {1.0 / 3, "0.3333333333333333"},
                 {2.2250738585072014e-308, "2.2250738585072014e-308"},
                 {1e100, "1e+100"},
                 {5e-5, "5e-05"},
                 {0.00012345, "0.00012345"},
                 {1e22, "1e+22"},
                 {-1.7976931348623157e308, "-1.7976931348623157e+308"},
                 {NAN, "NaN"},
                 {-INFINITY, "-Infinity"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Buffer b = {0};
        json_write_double(&b, cases[i].value);
        assert_string_equal(buffer_string(&b), cases[i].text);
        buffer_clear(&b);
    }
}

/* A host program may have called setlocale; where no such locale is installed the test still checks the C locale. */
static void no_locale_changes_a_number(void **state) {
    (void)state;
    static const char *names[] = {"de_DE.UTF-8", "nl_NL.UTF-8", "fr_FR.UTF-8", "C"};
    size_t i = 0;
    while (!setlocale(LC_ALL, names[i])) i++;
    rewrites("[0.5, 1.2345678901234567890123, 2.5e-7]", NULL, "[0.5, 1.2345678901234567, 2.5e-07]");
    setlocale(LC_ALL, "C");
}

static void styles_are_those_of_json_dumps(void **state) {
    (void)state;
    const char *v =
        "{\"naam\":\"Zo\xC3\xAB <i>&'q'</i> \xF0\x9F\x8C\xB1\",\"n\":2.0,\"ok\":true,\"leeg\":null,\"l\":[]}";
    rewrites(
        v, NULL,
        "{\"naam\": \"Zo\xC3\xAB <i>&'q'</i> \xF0\x9F\x8C\xB1\", \"n\": 2.0, \"ok\": true, \"leeg\": null, \"l\": []}");
    JsonStyle style = {.ensure_ascii = true, .sort_keys = true, .indent = -1, .item_sep = ",", .key_sep = ":"};
    rewrites(v, &style,
             "{\"l\":[],\"leeg\":null,\"n\":2.0,\"naam\":\"Zo\\u00eb <i>&'q'</i> \\ud83c\\udf31\",\"ok\":true}");
    JsonStyle indented = {.indent = 2};
    rewrites("{\"a\":[1,{}],\"b\":{}}", &indented, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {}\n}");
    JsonStyle lines = {.indent = 0};
    rewrites("[1,2]", &lines, "[\n1,\n2\n]");
    rewrites("\"\\u0001\\u007f\\n\"", NULL, "\"\\u0001\x7F\\n\"");
    JsonStyle ascii = {.ensure_ascii = true, .indent = -1};
    rewrites("\"\\u0001\\u007f\\n\"", &ascii, "\"\\u0001\\u007f\\n\"");
}

static void a_file_error_names_the_file(void **state) {
    (void)state;
    Error err;
    assert_null(json_parse_file("/nonexistent/x.json", 0, &err));
    assert_string_equal(err.text, "/nonexistent/x.json: No such file or directory");
    assert_null(json_parse_file("/", 0, &err));
    assert_string_equal(err.text, "/: Is a directory");
    char path[] = "/tmp/lockstep-json-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"a\": [1]}", 10), 10);
    JsonDoc *doc = json_parse_file(path, 0, &err);
    assert_non_null(doc);
    assert_true(json_get(json_root(doc), "a")->items[0].number == 1);
    json_free(doc);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_null(json_parse_file(path, 0, &err));
    assert_non_null(strstr(err.text, "line 1 column 11: something follows the JSON value"));
    assert_memory_equal(err.text, path, strlen(path));
    close(fd);
    unlink(path);
}

/* The reader sees 64 KB of the text at a time: what it reads must not depend on where that ends. */
static void the_window_may_end_anywhere(void **state) {
    (void)state;
    const char *text = "{\"k\\u00e9y\":[\"pl\xC3\xA4in \xE2\x82\xAC "
                       "\xF0\x9F\x8C\xB1\",\"\\ud83c\\udf31\\n\\\\\\\"\",-12.5e+3,0.25,-Infinity,NaN,"
                       "123456789012345678901234567890],\"t\":true , \"f\" : false,\"n\":null,\r\n\t\"o\":{\"a\":{}}}";
    const size_t n = strlen(text), window = (1 << 16) + 8;
    JsonDoc *doc = parse(text);
    Buffer expected = {0}, padded = {0}, written = {0};
    json_write(&expected, json_root(doc), NULL);
    json_free(doc);
    for (size_t i = 0; i < window + 4; i++) buffer_byte(&padded, ' ');
    buffer_text(&padded, text);
    for (size_t skip = 0; skip < n + 8; skip++) {
        Error err;
        doc = json_parse(padded.data + skip, padded.length - skip, 0, &err);
        if (!doc) fail_msg("%s", err.text);
        buffer_reset(&written);
        json_write(&written, json_root(doc), NULL);
        json_free(doc);
        assert_string_equal(buffer_string(&written), buffer_string(&expected));
    }
    buffer_clear(&expected);
    buffer_clear(&padded);
    buffer_clear(&written);
}

static void errors_have_their_place_wherever_the_window_ends(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        size_t column;
    } cases[] = {{"[\"ab\xFF\"]", "invalid UTF-8", 5},
                 {"[\"ab\xE2\x82\"]", "invalid UTF-8", 5},
                 {"[\"ab\xE2\x82", "invalid UTF-8", 5},
                 {"[\"a\x01z\"]", "control character in a string", 4},
                 {"[\"a\\x\"]", "unknown escape in a string", 5},
                 {"[\"a\\u12", "\\u needs four hexadecimal digits", 5},
                 {"[\"a\\", "the text ends too early", 5},
                 {"[\"a", "the text ends too early", 4},
                 {"[1.5e", "',' or ']' must stand here", 5},
                 {"[tru", "a JSON value must stand here", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t blanks = (1 << 16) - 8; blanks < (1 << 16) + 16; blanks++) {
            Buffer b = {0};
            buffer_byte(&b, '\n');
            while (b.length < blanks) buffer_byte(&b, ' ');
            buffer_text(&b, cases[i].text);
            char expected[100];
            snprintf(expected, sizeof expected, "line 2 column %zu: %s", blanks - 1 + cases[i].column,
                     cases[i].message);
            refuses(b.data, expected);
            buffer_clear(&b);
        }
    }
}

static void a_token_may_be_longer_than_the_window(void **state) {
    (void)state;
    Buffer text = {0}, expected = {0};
    buffer_text(&text, "[\"");
    for (int i = 0; i < 100000; i++) {
        buffer_text(&text, i % 7 ? "\xE2\x82\xAC" : "\\u20ac");
        buffer_text(&expected, "\xE2\x82\xAC");
    }
    buffer_text(&text, "\", 1");
    for (int i = 0; i < 100000; i++) buffer_byte(&text, '0');
    buffer_byte(&text, ']');
    JsonDoc *doc = parse(text.data);
    const JsonValue *string = json_item(json_root(doc), 0), *number = json_item(json_root(doc), 1);
    assert_int_equal(string->length, expected.length);
    assert_memory_equal(string->text, expected.data, expected.length);
    assert_int_equal(number->length, 100001);
    assert_int_equal(strspn(number->text + 1, "0"), 100000);
    json_free(doc);
    buffer_clear(&text);
    buffer_clear(&expected);
}

static bool note_child(void *context, const JsonMember *child, Error *err) {
    Buffer *b = context;
    if (child->key) buffer_printf(b, "%s=", child->key);
    if (child->value.type == JSON_NULL) return error_set(err, "null is not for me");
    json_write(b, &child->value, NULL);
    buffer_byte(b, ';');
    return true;
}

static void tapped(const char *text, const char *children, const char *rest) {
    Buffer taken = {0}, b = {0};
    Error err = {""};
    const JsonTap taps[] = {{"m", "list", '[', note_child, &taken}, {"m", "map", '{', note_child, &taken}};
    JsonDoc *doc = json_parse_tapped(text, strlen(text), taps, 2, &err);
    assert_string_equal(buffer_string(&taken), children);
    if (doc) json_write(&b, json_root(doc), NULL);
    assert_string_equal(doc ? buffer_string(&b) : err.text, rest);
    json_free(doc);
    buffer_clear(&taken);
    buffer_clear(&b);
}

static void tapped_containers_are_handed_over_child_by_child(void **state) {
    (void)state;
    tapped("{\"a\":[1],\"m\":{\"list\":[\"x\",[\"y\",\"z\"],{\"k\":[]},[]],\"b\":[2]},\"c\":\"d\"}",
           "\"x\";[\"y\", \"z\"];{\"k\": []};[];", "{\"a\": [1], \"m\": {\"list\": [], \"b\": [2]}, \"c\": \"d\"}");
    tapped("{\"m\":{\"map\":{\"p\":1,\"q\":{\"map\":{\"list\":[3]}},\"p\":2},\"list\":[]}}",
           "p=1;q={\"map\": {\"list\": [3]}};p=2;", "{\"m\": {\"map\": {}, \"list\": []}}");
    /* other places, other types */
    tapped(
        "{\"list\":[1],\"n\":{\"list\":[1]},\"m\":{\"x\":{\"list\":[1]},\"list\":{\"l\":1},\"map\":[2]}}", "",
        "{\"list\": [1], \"n\": {\"list\": [1]}, \"m\": {\"x\": {\"list\": [1]}, \"list\": {\"l\": 1}, \"map\": [2]}}");
    tapped("[{\"m\":1},{\"list\":[1]}]", "", "[{\"m\": 1}, {\"list\": [1]}]");
    tapped("{\"x\":{\"list\":1},\"m\":[[1]]}", "", "{\"x\": {\"list\": 1}, \"m\": [[1]]}");
    tapped("{\"m\":{\"list\":[1],\"list\":[2]}}", "1;", "the key \"list\" stands twice in one object");
    tapped("{\"m\":{\"list\":[1,null,2]}}", "1;", "null is not for me");
    tapped("{\"m\":{\"list\":[1 2]}}", "1;", "line 1 column 17: ',' or ']' must stand here");
}

/* The n-th allocation fails, for every n: an error each time, no leak (the sanitizer build watches). */
static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    const char *text =
        "{\"a\":[1,2,{\"b\":\"c\"}],\"k1\":1,\"k2\":1,\"k3\":1,\"k4\":1,\"k5\":1,\"k6\":1,\"k7\":1,\"k8\":1,"
        "\"k9\":1,\"k10\":1,\"k11\":1,\"k12\":1,\"k13\":1,\"k14\":1,\"k15\":1,\"k16\":1,\"k17\":1}";
    for (uint64_t nth = 1;; nth++) {
        Error err = {""};
        mem_fail_after(nth);
        JsonDoc *doc = json_parse(text, strlen(text), 0, &err);
        mem_fail_after(0);
        if (doc) {
            json_free(doc);
            assert_true(nth > 5);
            break;
        }
        assert_memory_equal(err.text, "out of memory", 13);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_kind_of_value),
        cmocka_unit_test(integers_keep_any_size),
        cmocka_unit_test(strings_become_utf8),
        cmocka_unit_test(bad_text_is_an_error_with_its_place),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(the_window_may_end_anywhere),
        cmocka_unit_test(errors_have_their_place_wherever_the_window_ends),
        cmocka_unit_test(a_token_may_be_longer_than_the_window),
        cmocka_unit_test(tapped_containers_are_handed_over_child_by_child),
        cmocka_unit_test(a_repeated_key_keeps_its_place_and_takes_the_last_value),
        cmocka_unit_test(doubles_are_exact),
        cmocka_unit_test(doubles_are_written_as_python_does),
        cmocka_unit_test(no_locale_changes_a_number),
        cmocka_unit_test(styles_are_those_of_json_dumps),
        cmocka_unit_test(a_file_error_names_the_file),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
