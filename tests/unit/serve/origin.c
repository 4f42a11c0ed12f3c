/* Names of this machine, and origins of pages that may change something. */
#include "serve/origin.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const OriginRules here = {"127.0.0.1", NULL, true};

static void test_names_of_this_machine_are_taken(void **state) {
    (void)state;
    static const char *const taken[] = {"localhost", "LocalHost:1", "localhost.",      "localhost:", "a.b.localhost:80",
                                        "127.0.0.1", "127.255.1.2", "127.0.0.1:65535", "[::1]",      "[::1]:80",
                                        ""};
    static const char *const not_taken[] = {
        "a.example", "localhosts", "xlocalhost", ".localhost",   "127.1", "1.127.0.0",       "[::1",
        "[]",        "[::1]80",    ":80",        "localhost:8x", "::1",   "a@localhost:1:2", "[::ffff:8.8.8.8]"};
    assert_true(origin_takes_host(&here, NULL));
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) assert_true(origin_takes_host(&here, taken[i]));
    for (size_t i = 0; i < sizeof not_taken / sizeof *not_taken; i++)
        if (origin_takes_host(&here, not_taken[i])) fail_msg("%s is taken", not_taken[i]);
}

static void test_the_bound_name_and_listed_hosts_are_taken(void **state) {
    (void)state;
    OriginRules named = {"me.example", NULL, true},
                listed = {"::1", "x,https://[fe80::1]:4,http://B.example:8080", true};
    OriginRules all = {"127.0.0.1", "*", true}, open = {"0.0.0.0", NULL, false};
    assert_true(origin_takes_host(&named, "ME.example:9"));
    assert_false(origin_takes_host(&named, "not.me.example"));
    assert_true(origin_takes_host(&listed, "b.example"));
    assert_true(origin_takes_host(&listed, "[fe80::1]:8080"));
    assert_false(origin_takes_host(&listed, "x"));
    assert_true(origin_takes_host(&all, "a.example"));
    assert_true(origin_takes_host(&open, "a.example"));
}

static void test_lists_are_of_whole_origins(void **state) {
    (void)state;
    assert_true(origin_is_listed("https://a.example,https://b.example", "https://b.example"));
    assert_false(origin_is_listed("https://a.example,https://b.example", "https://b.exampl"));
    assert_false(origin_is_listed("https://a.example", "https://a.example,"));
    assert_false(origin_is_listed(NULL, "null"));
    assert_true(origin_is_listed("*", "null"));
}

static void test_pages_of_others_change_nothing(void **state) {
    (void)state;
    assert_false(origin_may_change(&here, "null", "localhost"));
    assert_false(origin_may_change(&here, "HTTPS://a.example", "localhost"));
    assert_false(origin_may_change(&here, "http://a.example", NULL));
    assert_false(origin_may_change(&here, "http://a.example:80", "a.example"));
    assert_true(
        origin_may_change(&here, "http://a.example:81", "a.example:81")); /* its own, where that Host is taken */
    assert_true(origin_may_change(&here, "https://x.localhost:3000", "127.0.0.1:8080"));
    assert_true(origin_may_change(&here, "vscode-webview://1f", "localhost"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_this_machine_are_taken),
        cmocka_unit_test(test_the_bound_name_and_listed_hosts_are_taken),
        cmocka_unit_test(test_lists_are_of_whole_origins),
        cmocka_unit_test(test_pages_of_others_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
