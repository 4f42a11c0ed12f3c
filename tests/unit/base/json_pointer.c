/* The examples of RFC 6901, section 6, and what is no pointer. */
#include "base/json_pointer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2, \"e^f\": 3, \"g|h\": 4, "
    "\"i\\\\j\": 5, \"k\\\"l\": 6, \" \": 7, \"m~n\": 8, \"\xC3\xBC x\": {\"y\": 9}, \"~1\": 10}";

static const struct {
    const char *pointer, *found; /* NULL: nothing is there */
} cases[] = {
    {"#/foo/0", "bar"},
    {"#/foo/1", "baz"},
    {"#/", "0"},
    {"#/a~1b", "1"},
    {"#/c%25d", "2"},
    {"#/e%5Ef", "3"},
    {"#/g%7Ch", "4"},
    {"#/i%5Cj", "5"},
    {"#/k%22l", "6"},
    {"#/%20", "7"},
    {"#/m~0n", "8"},
    {"#/m%7E0n", "8"},
    {"#/~01", "10"},
    {"#/%C3%BC%20x/y", "9"},
    {"#/%c3%bc x%2Fy", "9"},
    {"#/foo/2", NULL},
    {"#/foo/01", NULL},
    {"#/foo/-", NULL},
    {"#/foo/", NULL},
    {"#/foo/x", NULL},
    {"#/foo/0/", NULL},
    {"#/a/b", NULL},
    {"#/c%d", NULL},
    {"#/m~n", NULL},
    {"#/m~", NULL},
    {"#foo", NULL},
    {"foo", NULL},
    {"", NULL},
    {"#/%", NULL},
    {"#/%2", NULL},
    {"#/%00", NULL},
    {"#/fo", NULL},
    {"#/foo/1%", NULL},
    {"#/foo/99999999999999999999999", NULL},
    {"#/foo/4294967296", NULL},
};

static void pointers_are_followed(void **state) {
    (void)state;
    Error err = {""};
    JsonDoc *doc = json_parse(text, strlen(text), 0, &err);
    assert_non_null(doc);
    assert_ptr_equal(json_pointer(json_root(doc), "#"), json_root(doc));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const JsonValue *v = json_pointer(json_root(doc), cases[i].pointer);
        if (!cases[i].found && v) fail_msg("%s must lead nowhere", cases[i].pointer);
        if (!cases[i].found) continue;
        if (!v) fail_msg("%s must lead somewhere", cases[i].pointer);
        assert_string_equal(v->text, cases[i].found);
    }
    json_free(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pointers_are_followed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
