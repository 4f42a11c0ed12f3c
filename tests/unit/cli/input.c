/* What the command line reads: lists of ids, files, lines. */
#include "cli/input.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void assert_ids(const char *text, size_t n, const int32_t *expected) {
    IdList ids = {0};
    Error err = {""};
    if (!input_ids("--ids", text, &ids, &err)) fail_msg("%s", err.text);
    assert_int_equal(ids.n, n);
    if (n > 0) assert_memory_equal(ids.ids, expected, n * sizeof *expected);
    id_list_clear(&ids);
}

static void ids_in_every_spelling(void **state) {
    (void)state;
    const int32_t expected[] = {1, 2, 2147483647};
    assert_ids("1,2,2147483647", 3, expected);
    assert_ids(" 1, 2 ,\n2147483647\n", 3, expected);
    assert_ids("1 2 2147483647", 3, expected);
    assert_ids("[1, 2, 2147483647]\n", 3, expected);
    assert_ids("", 0, NULL);
    assert_ids("[]", 0, NULL);
    const int32_t negative[] = {-1};
    assert_ids("-1", 1, negative); /* what it means is the vocabulary's to say */
}

static void assert_bad(const char *text, const char *message) {
    IdList ids = {0};
    Error err = {""};
    assert_false(input_ids("--ids", text, &ids, &err));
    assert_string_equal(err.text, message);
    id_list_clear(&ids);
}

static void what_is_no_id_is_shown(void **state) {
    (void)state;
    assert_bad("1,x", "--ids: \"x\" at byte 2: ids are whole numbers separated by commas");
    assert_bad("1,,2", "--ids: \",2\" at byte 2: ids are whole numbers separated by commas");
    assert_bad("1,2,", "--ids: \"\" at byte 4: ids are whole numbers separated by commas");
    assert_bad("2147483648", "--ids: \"2147483648\" at byte 0: ids are whole numbers separated by commas");
    assert_bad("[1,2", "--ids: the list of ids does not end with ]");
    assert_bad("1.5", "--ids: \".5\" at byte 1: ids are whole numbers separated by commas");
}

static void a_text_must_be_utf8(void **state) {
    (void)state;
    TestFolder f;
    Buffer text = {0};
    Error err;
    test_folder_make(&f);
    test_write(&f, "bad.txt", "caf\xE9!", 5);
    assert_false(input_text(test_path(&f, "bad.txt"), &text, &err));
    assert_non_null(strstr(err.text, "bad.txt: not UTF-8: byte 3 is 0xe9"));
    buffer_reset(&text);
    test_write_text(&f, "good.txt", "caf\xC3\xA9");
    assert_true(input_text(test_path(&f, "good.txt"), &text, &err));
    assert_string_equal(text.data, "caf\xC3\xA9");
    assert_false(input_text(test_path(&f, "none.txt"), &text, &err));
    assert_non_null(strstr(err.text, "none.txt: cannot open: No such file or directory"));
    buffer_clear(&text);
    test_folder_remove(&f);
}

static bool collect(void *context, const char *text, size_t n, Error *err) {
    (void)err;
    Buffer *out = context;
    buffer_printf(out, "<%.*s>", (int)n, text);
    return true;
}

static void lines_with_and_without_a_last_newline(void **state) {
    (void)state;
    TestFolder f;
    Error err;
    Buffer out = {0};
    test_folder_make(&f);
    test_write_text(&f, "a", "one\n\ntwo\n");
    assert_true(input_lines(test_path(&f, "a"), collect, &out, &err));
    assert_string_equal(out.data, "<one><><two>");
    buffer_reset(&out);
    test_write_text(&f, "b", "one\ntwo");
    assert_true(input_lines(test_path(&f, "b"), collect, &out, &err));
    assert_string_equal(out.data, "<one><two>");
    buffer_clear(&out);
    test_folder_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_in_every_spelling),
        cmocka_unit_test(what_is_no_id_is_shown),
        cmocka_unit_test(a_text_must_be_utf8),
        cmocka_unit_test(lines_with_and_without_a_last_newline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
