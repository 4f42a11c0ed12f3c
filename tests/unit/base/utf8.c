/* UTF-8 against the table of the Unicode standard (3-7) and Python's bytes.decode(..., "replace"). */
#include "base/utf8.h"
#include "base/buffer.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static void decodes_and_encodes_every_length(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        uint32_t code;
    } cases[] = {{"A", 0x41},
                 {"\x7F", 0x7F},
                 {"\xC2\x80", 0x80},
                 {"\xC3\xB1", 0xF1},
                 {"\xDF\xBF", 0x7FF},
                 {"\xE0\xA0\x80", 0x800},
                 {"\xED\x9F\xBF", 0xD7FF},
                 {"\xEE\x80\x80", 0xE000},
                 {"\xEF\xBF\xBF", 0xFFFF},
                 {"\xF0\x90\x80\x80", 0x10000},
                 {"\xF0\x9F\x8C\xB1", 0x1F331},
                 {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t code = 0;
        int n = (int)strlen(cases[i].bytes);
        assert_int_equal(utf8_decode(cases[i].bytes, (size_t)n, &code), n);
        assert_int_equal(code, cases[i].code);
        char out[4];
        assert_int_equal(utf8_encode(code, out), n);
        assert_memory_equal(out, cases[i].bytes, n);
        for (int cut = 0; cut < n; cut++) assert_int_equal(utf8_decode(cases[i].bytes, (size_t)cut, &code), 0);
    }
    char out[4];
    uint32_t code;
    assert_int_equal(utf8_decode("\0", 1, &code), 1);
    assert_int_equal(code, 0);
    assert_int_equal(utf8_encode(0xD800, out), 0);
    assert_int_equal(utf8_encode(0xDFFF, out), 0);
    assert_int_equal(utf8_encode(0x110000, out), 0);
}

static void characters_are_counted(void **state) {
    (void)state;
    static const char *const characters[] = {"a", "\xC3\xB1", "\xE2\x82\xAC", "\xF0\x9F\x8C\xB1", "z"};
    Buffer b = {0};
    for (size_t n = 0; n < 60; n++) {
        assert_int_equal(utf8_count(buffer_string(&b), b.length), n);
        buffer_text(&b, characters[n * n % 5]);
    }
    buffer_clear(&b);
}

static void refuses_what_is_not_utf8(void **state) {
    (void)state;
    static const char *bad[] = {"\x80",
                                "\xBF",
                                "\xC0\x80",
                                "\xC1\xBF",
                                "\xE0\x9F\xBF",
                                "\xED\xA0\x80",
                                "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80",
                                "\xF5\x80\x80\x80",
                                "\xFF",
                                "\xC3(",
                                "\xE2\x82("};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t code = 7;
        assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &code), 0);
        assert_int_equal(code, 7);
    }
}

static void names_the_first_bad_byte(void **state) {
    (void)state;
    assert_int_equal(utf8_valid("", 0), 0);
    assert_int_equal(utf8_valid("plain text, over eight bytes", 28), 28);
    assert_int_equal(utf8_valid("na\xC3\xAFve \xF0\x9F\x8C\xB1", 11), 11);
    assert_int_equal(utf8_valid("0123456789\xFFz", 12), 10);
    assert_int_equal(utf8_valid("0123456\xE2\x82", 9), 7);
}

static void holds_back_only_what_may_be_completed(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t tail;
    } cases[] = {{"", 0},          {"abc", 0},          {"a\xC3", 1},
                 {"a\xC3\xB1", 0}, {"\xE2\x82", 2},     {"\xF0", 1},
                 {"x\xF0\x9F", 2}, {"\xF0\x9F\x8C", 3}, {"\xF0\x9F\x8C\xB1", 0},
                 {"\xED\xA0", 0},  {"\x80\x80", 0},     {"\xC3\xB1\x80", 0},
                 {"\xF0\x8F", 0},  {"\xF5", 0},         {"\xE2\x82z", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(utf8_incomplete_tail(cases[i].bytes, strlen(cases[i].bytes)), cases[i].tail);
    }
}

static void lossy(const char *bytes, const char *expected) {
    Buffer b = {0};
    utf8_append_lossy(&b, bytes, strlen(bytes));
    assert_string_equal(buffer_string(&b), expected);
    buffer_clear(&b);
}

/* Expected values are Python 3.11's. */
static void replaces_each_maximal_part_once(void **state) {
    (void)state;
#define R "\xEF\xBF\xBD"
    lossy("plain", "plain");
    lossy("a\xF0\x9F\x8Cz", "a" R "z");
    lossy("\xF0\x9F\x8C", R);
    lossy("\xED\xA0\x80", R R R);
    lossy("\xC0\x80", R R);
    lossy("\xF4\x90\x80\x80", R R R R);
    lossy("\xE2\x82\xE2\x82\xAC", R "\xE2\x82\xAC");
    lossy("\xFF\xFE", R R);
#undef R
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_and_encodes_every_length),
        cmocka_unit_test(characters_are_counted),
        cmocka_unit_test(refuses_what_is_not_utf8),
        cmocka_unit_test(names_the_first_bad_byte),
        cmocka_unit_test(holds_back_only_what_may_be_completed),
        cmocka_unit_test(replaces_each_maximal_part_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
