/* Every byte: the 22 digits have their values, nothing else is one. */
#include "base/hex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void only_digits_have_a_value(void **state) {
    (void)state;
    static const char digits[] = "0123456789abcdefABCDEF";
    for (int c = 0; c < 256; c++) {
        const char *at = c ? strchr(digits, c) : NULL;
        int value = !at ? -1 : (int)(at - digits) - (at - digits < 16 ? 0 : 6);
        assert_int_equal(hex_digit((char)c), value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_digits_have_a_value)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
