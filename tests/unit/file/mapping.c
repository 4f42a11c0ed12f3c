/* Mapped files: what is opened, what is refused, and that dropped pages come back. */
#include "file/mapping.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>

static TestFolder folder;

static void bytes_are_those_of_the_file(void **state) {
    (void)state;
    Mapping m;
    Error err;
    test_write(&folder, "a", "hello", 5);
    assert_true(mapping_open(&m, test_path(&folder, "a"), &err));
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "hello", 5);
    mapping_close(&m);
    assert_null(m.data);
}

static void an_empty_file_is_no_error(void **state) {
    (void)state;
    Mapping m;
    test_write(&folder, "empty", "", 0);
    assert_true(mapping_open(&m, test_path(&folder, "empty"), NULL));
    assert_int_equal(m.size, 0);
    assert_non_null(m.data);
    mapping_close(&m);
}

static void what_is_no_file_is_refused_with_its_path(void **state) {
    (void)state;
    Mapping m;
    Error err;
    assert_false(mapping_open(&m, test_path(&folder, "absent"), &err));
    assert_ptr_equal(strstr(err.text, test_path(&folder, "absent")), err.text);
    assert_non_null(strstr(err.text, "No such file"));
    assert_false(mapping_open(&m, folder.path, &err));
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(mkfifo(test_path(&folder, "pipe"), 0600), 0);
    assert_false(mapping_open(&m, test_path(&folder, "pipe"), &err)); /* and does not wait for a writer */
    assert_non_null(strstr(err.text, "not a regular file"));
}

static void released_pages_come_back(void **state) {
    (void)state;
    size_t n = 1 << 20;
    uint8_t *bytes = malloc(n);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    test_write(&folder, "big", bytes, n);
    Mapping m;
    assert_true(mapping_open(&m, test_path(&folder, "big"), NULL));
    assert_memory_equal(m.data, bytes, n);
    mapping_release(m.data + 10, n - 20);
    mapping_want(m.data + 5000, n - 5000);
    mapping_release(m.data + 10, 20); /* no whole page: nothing */
    mapping_release(m.data, 0);
    assert_memory_equal(m.data, bytes, n);
    mapping_close(&m);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_file),
        cmocka_unit_test(an_empty_file_is_no_error),
        cmocka_unit_test(what_is_no_file_is_refused_with_its_path),
        cmocka_unit_test(released_pages_come_back),
    };
    test_folder_make(&folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(&folder);
    return failed;
}
