/* What is kept of responses: bounded by number and bytes, the longest unused go first. */
#include "serve/responses_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static ResponseStore *make(int most, size_t most_bytes) {
    Error err = {""};
    ResponseStore *s = response_store_new(most, most_bytes, &err);
    assert_non_null(s);
    return s;
}

/* A response whose texts hold at least n bytes. */
static void keep(ResponseStore *s, const char *id, size_t n) {
    Buffer response = {0}, input = {0}, output = {0};
    buffer_text(&response, id);
    while (input.length < n) buffer_byte(&input, 'x');
    response_store_keep(s, id, &response, &input, &output);
    assert_null(response.data);
    assert_null(input.data);
}

static void test_the_longest_unused_goes_first(void **state) {
    (void)state;
    ResponseStore *s = make(3, 1 << 20);
    keep(s, "a", 10);
    keep(s, "b", 10);
    keep(s, "c", 10);
    assert_string_equal(buffer_string(&response_store_find(s, "a")->response), "a");
    keep(s, "d", 10); /* b is the one that nobody asked for since */
    assert_null(response_store_find(s, "b"));
    assert_non_null(response_store_find(s, "a"));
    assert_non_null(response_store_find(s, "c"));
    assert_non_null(response_store_find(s, "d"));
    response_store_free(s);
}

static void test_bytes_are_bounded(void **state) {
    (void)state;
    ResponseStore *s = make(100, 10000);
    keep(s, "a", 3000);
    keep(s, "b", 3000);
    assert_non_null(response_store_find(s, "a"));
    keep(s, "c", 3000);
    assert_null(response_store_find(s, "b"));
    assert_non_null(response_store_find(s, "a"));
    keep(s, "huge", 20000); /* more than there is room for even alone: the others stay */
    assert_null(response_store_find(s, "huge"));
    assert_non_null(response_store_find(s, "c"));
    response_store_free(s);
}

static void test_deleting(void **state) {
    (void)state;
    ResponseStore *s = make(2, 1 << 20);
    keep(s, "a", 1);
    keep(s, "b", 1);
    assert_true(response_store_delete(s, "a"));
    assert_false(response_store_delete(s, "a"));
    keep(s, "c", 1);
    assert_non_null(response_store_find(s, "b"));
    assert_non_null(response_store_find(s, "c"));
    response_store_free(s);
}

static void test_what_failed_is_not_kept(void **state) {
    (void)state;
    ResponseStore *s = make(2, 1 << 20);
    Buffer response = {0}, input = {0}, output = {0};
    buffer_text(&response, "text");
    input.failed = true;
    response_store_keep(s, "a", &response, &input, &output);
    assert_null(response_store_find(s, "a"));
    assert_null(response.data);
    response_store_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_longest_unused_goes_first),
        cmocka_unit_test(test_bytes_are_bounded),
        cmocka_unit_test(test_deleting),
        cmocka_unit_test(test_what_failed_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
