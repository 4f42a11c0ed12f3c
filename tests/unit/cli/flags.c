/* The table of flags and its parser, on commands of the test's own. */
#include "cli/flags.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const Command generate = {CMD_GENERATE, "generate", "MODEL [-n N]", 1, 1, "Continue a prompt.", NULL};
static const Command compare = {CMD_COMPARE, "compare", "A B", 2, 2, "Compare.", NULL};

enum { MOST = 12 };

static bool parse(const Command *c, Args *a, Error *err, ...) {
    char *argv[MOST];
    int n = 0;
    va_list words;
    va_start(words, err);
    for (char *word; (word = va_arg(words, char *));) argv[n++] = word;
    va_end(words);
    return args_parse(c, n, argv, a, err);
}

static void rows_stand_in_the_order_of_their_ids(void **state) {
    (void)state;
    for (int i = 0; i < FLAG_COUNT; i++) {
        assert_int_equal(flag_at((FlagId)i)->id, i);
        assert_int_equal(strncmp(flag_at((FlagId)i)->name, "-", 1), 0);
        assert_true((flag_at((FlagId)i)->value == NULL) == (flag_at((FlagId)i)->kind == KIND_SWITCH));
        assert_true(flag_at((FlagId)i)->commands != 0);
        for (int j = 0; j < i; j++) assert_string_not_equal(flag_at((FlagId)i)->name, flag_at((FlagId)j)->name);
    }
}

static void values_in_every_spelling(void **state) {
    (void)state;
    Args a;
    Error err;
    assert_true(parse(&generate, &a, &err, "folder", "-n", "5", "--temp=0.5", "--json", "--seed",
                      "18446744073709551615", "--presence-penalty", "-1.5", NULL));
    assert_string_equal(a.positional[0], "folder");
    assert_int_equal(args_int(&a, FLAG_N, -1), 5);
    assert_true(args_number(&a, FLAG_TEMP, 0) == 0.5);
    assert_true(args_number(&a, FLAG_PRESENCE_PENALTY, 0) == -1.5);
    assert_true(args_has(&a, FLAG_JSON));
    assert_true(a.values[FLAG_SEED].natural == UINT64_MAX);
    assert_false(args_has(&a, FLAG_TOP_K));
    assert_int_equal(args_int(&a, FLAG_TOP_K, 7), 7);
    args_clear(&a);
    assert_true(parse(&generate, &a, &err, "-n12", "--temperature", "1", "folder", NULL));
    assert_int_equal(args_int(&a, FLAG_N, -1), 12);
    assert_true(args_number(&a, FLAG_TEMP, 0) == 1);
    args_clear(&a);
    assert_true(parse(&generate, &a, &err, "--prompt=a=b", "--", "--folder", NULL));
    assert_string_equal(args_text(&a, FLAG_PROMPT), "a=b");
    assert_string_equal(a.positional[0], "--folder");
    args_clear(&a);
}

static void the_last_of_several_counts_and_lists_keep_all(void **state) {
    (void)state;
    Args a;
    Error err;
    const char **list;
    int n;
    assert_true(parse(&generate, &a, &err, "m", "--stop", "x", "-n", "1", "--stop", "y", "-n", "2", "--logit-bias",
                      "1=2", NULL));
    assert_int_equal(args_int(&a, FLAG_N, 0), 2);
    assert_true(args_list(&a, FLAG_STOP, &list, &n, &err));
    assert_int_equal(n, 2);
    assert_string_equal(list[0], "x");
    assert_string_equal(list[1], "y");
    mem_free(list);
    assert_true(args_list(&a, FLAG_IGNORE_CONFIG, &list, &n, &err));
    assert_int_equal(n, 0);
    mem_free(list);
    args_clear(&a);
}

static void assert_refused(const Command *c, const char *message, char *first, char *second) {
    Args a;
    Error err = {""};
    assert_false(parse(c, &a, &err, "m", first, second, NULL));
    assert_string_equal(err.text, message);
}

static void what_can_not_be_meant_is_refused(void **state) {
    (void)state;
    assert_refused(&generate, "unknown flag --tmp: did you mean --temp?", "--tmp", "1");
    assert_refused(&generate, "unknown flag --xyzzyplugh", "--xyzzyplugh", NULL);
    assert_refused(&compare, "--temp does not belong to compare", "--temp", "1");
    assert_refused(&generate, "--json takes no value", "--json=1", NULL);
    assert_refused(&generate, "-n needs a value: -n N", "-n", NULL);
    assert_refused(&generate, "-n 1.5: it must be a whole number of at least 0", "-n", "1.5");
    assert_refused(&generate, "-n 99999999999: it must be a whole number of at least 0", "-n", "99999999999");
    assert_refused(&generate, "--top-p 2: it must be a number from 0 to 1", "--top-p", "2");
    assert_refused(&generate, "--temp nan: it must be a number from 0 to 1e+06", "--temp", "nan");
    assert_refused(&generate, "--kv f8: it must be one of i16|f32|f16|bf16", "--kv", "f8");
    assert_refused(&generate, "--kv f: it must be one of i16|f32|f16|bf16", "--kv", "f");
    assert_refused(&generate, "--seed -1: it must be a whole number from 0 to 2^64 - 1", "--seed", "-1");
    assert_refused(&generate, "b: one argument too many (quote a text that has spaces)", "b", NULL);
    assert_refused(&compare, "an argument is missing", NULL, NULL);
}

static void help_needs_no_arguments(void **state) {
    (void)state;
    Args a;
    Error err;
    assert_true(parse(&generate, &a, &err, "--help", NULL));
    assert_true(args_has(&a, FLAG_HELP));
    args_clear(&a);
}

static void help_lists_the_flags_of_the_command(void **state) {
    (void)state;
    Buffer out = {0};
    command_help(&compare, &out);
    assert_non_null(strstr(out.data, "usage: lockstep compare A B\n\nCompare.\n"));
    assert_non_null(strstr(out.data, "  --tol X "));
    assert_non_null(strstr(out.data, "  --kv i16|f32|f16|bf16 "));
    assert_null(strstr(out.data, "--temp"));
    buffer_clear(&out);
}

static void near_names_are_suggested(void **state) {
    (void)state;
    static const char *const names[] = {"run", "generate", "tokenize", "detokenize"};
    assert_string_equal(nearest_name("generat", names, 4), "generate");
    assert_string_equal(nearest_name("gen", names, 4), "generate");
    assert_string_equal(nearest_name("tokenise", names, 4), "tokenize");
    assert_string_equal(nearest_name("rnu", names, 4), "run");
    assert_null(nearest_name("frobnicate", names, 4));
}

static void out_of_memory_is_an_error(void **state) {
    (void)state;
    Args a;
    Error err;
    mem_fail_after(1);
    assert_false(parse(&generate, &a, &err, "m", NULL));
    mem_fail_after(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stand_in_the_order_of_their_ids),
        cmocka_unit_test(values_in_every_spelling),
        cmocka_unit_test(the_last_of_several_counts_and_lists_keep_all),
        cmocka_unit_test(what_can_not_be_meant_is_refused),
        cmocka_unit_test(help_needs_no_arguments),
        cmocka_unit_test(help_lists_the_flags_of_the_command),
        cmocka_unit_test(near_names_are_suggested),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
