/* The examples of RFC 4648, section 10, and all byte values. */
#include "base/base64.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void check(const char *bytes, size_t n, const char *expected) {
    Buffer out = {0};
    base64_append(&out, bytes, n);
    assert_string_equal(buffer_string(&out), expected);
    buffer_clear(&out);
}

static void test_examples(void **state) {
    (void)state;
    static const char *const expected[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t n = 0; n <= 6; n++) check("foobar", n, expected[n]);
    check("\xff\xfe\x00\xfb\xf0", 5, "//4A+/A=");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
