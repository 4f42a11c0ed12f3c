/* The config reader: every key read, known not to matter, or named; and what a wrong value says. */
#include "model/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Fixture {
    JsonDoc *doc;
    ConfigRecord record;
    Config c;
} Fixture;

static void open_text(Fixture *f, const char *text) {
    f->doc = json_parse(text, strlen(text), 0, NULL);
    assert_non_null(f->doc);
    config_init(&f->c, &f->record, json_root(f->doc));
}

static void close_text(Fixture *f) {
    config_clear(&f->record);
    json_free(f->doc);
}

static void assert_finishes(const Fixture *f, const ConfigLists *lists, const char *says) {
    Error err = {""};
    bool ok = config_finish(&f->c, lists, &err);
    if (says)
        assert_non_null(strstr(err.text, says));
    else
        assert_string_equal(err.text, "");
    assert_int_equal(ok, says == NULL);
}

static const ConfigLists plain = {.family = "llama"};

static void values_are_read_and_fallbacks_taken(void **state) {
    Fixture f;
    (void)state;
    open_text(&f, "{\"n\": 7, \"f\": 8.0, \"x\": 0.5, \"b\": true, \"s\": \"silu\", \"none\": null, \"list\": [1, 2], "
                  "\"zero\": 0,"
                  " \"holes\": [1, null]}");
    assert_int_equal(config_size(&f.c, "n"), 7);
    assert_int_equal(config_size(&f.c, "f"), 8); /* savers write 8.0 for whole numbers */
    assert_true(config_number(&f.c, "x") == 0.5);
    assert_true(config_bool_or(&f.c, "b", false));
    assert_string_equal(config_string_or(&f.c, "s", "gelu"), "silu");
    assert_int_equal(config_size_or(&f.c, "none", 3), 3);
    assert_int_equal(config_size_or(&f.c, "absent", 4), 4);
    assert_int_equal(config_count_or(&f.c, "zero", 3), 0);
    assert_int_equal(config_count_or(&f.c, "absent", 3), 3);
    assert_int_equal(config_size_each(&f.c, "n", 5, 3), 7); /* a number is for all */
    assert_int_equal(config_size_each(&f.c, "list", 1, 3), 2);
    assert_int_equal(config_size_each(&f.c, "list", 2, 3), 3);
    assert_true(config_number_each(&f.c, "holes", 1, 0.25) == 0.25 && config_number_each(&f.c, "absent", 0, 4) == 4);
    assert_false(config_has(&f.c, "none"));
    assert_int_equal(config_array(&f.c, "list", 2)->length, 2);
    assert_int_equal(config_size_at(&f.c, "list", 2, 1), 2);
    assert_true(config_number_at(&f.c, "list", 2, 0) == 1);
    assert_null(config_string_or(&f.c, "absent", NULL));
    assert_finishes(&f, &plain, NULL);
    close_text(&f);
}

static void a_key_nobody_read_is_named_with_the_way_on(void **state) {
    const char *const ignored[] = {"strange"};
    ConfigLists lists = plain;
    Fixture f;
    (void)state;
    open_text(&f, "{\"torch_dtype\": \"float16\", \"strange\": 1, \"nothing\": null}");
    assert_finishes(&f, &plain, "\"strange\" is not known for the llama family");
    assert_finishes(&f, &plain, "--ignore-config strange");
    lists.ignore = ignored;
    lists.n_ignore = 1;
    assert_finishes(&f, &lists, NULL);
    close_text(&f);

    open_text(&f, "{\"odd\": 1, \"odder\": 2}");
    assert_finishes(&f, &plain, "2 keys");
    assert_finishes(&f, &plain, "odd odder");
    close_text(&f);
}

static void a_family_lists_what_does_not_matter(void **state) {
    static const char *const irrelevant[] = {"pretraining_tp", "rope.finetuned", NULL};
    ConfigLists lists = {.family = "llama", .irrelevant = irrelevant};
    Fixture f;
    (void)state;
    open_text(&f, "{\"pretraining_tp\": 1, \"rope\": {\"finetuned\": true}, \"finetuned\": true}");
    config_section(&f.c, "rope");
    assert_finishes(&f, &lists, "\"finetuned\""); /* known only inside its section */
    close_text(&f);
}

static void a_section_accounts_for_its_own_keys(void **state) {
    Fixture f;
    (void)state;
    open_text(&f, "{\"rope\": {\"factor\": 2, \"dtype\": 1, \"deep\": {\"a\": 1}}}");
    Config rope = config_section(&f.c, "rope");
    assert_true(config_number(&rope, "factor") == 2);
    assert_finishes(&f, &plain, "2 keys");
    assert_finishes(&f, &plain, "rope.dtype rope.deep"); /* generic keys are generic at the root only */
    config_whole(&rope, "deep");
    config_whole(&rope, "dtype");
    assert_finishes(&f, &plain, NULL);
    close_text(&f);

    open_text(&f, "{}");
    rope = config_section(&f.c, "rope");
    assert_false(config_has(&rope, "factor"));
    config_number(&rope, "factor");
    assert_finishes(&f, &plain, "has no \"rope.factor\"");
    close_text(&f);
}

static void wrong_values_are_shown_with_what_was_expected(void **state) {
    static const char *const cases[][2] = {{"{\"n\": \"abc\"}", "\"n\" is \"abc\", expected a whole number"},
                                           {"{\"n\": 0}", "\"n\" is 0, expected"},
                                           {"{\"n\": -4}", "\"n\" is -4, expected"},
                                           {"{\"n\": 2.5}", "\"n\" is 2.5, expected"},
                                           {"{\"n\": 1e300}", "expected a whole number"},
                                           {"{\"n\": 268435457}", "expected a whole number"},
                                           {"{\"n\": true}", "\"n\" is true, expected"},
                                           {"{}", "has no \"n\", which this model needs"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f;
        open_text(&f, cases[i][0]);
        assert_int_equal(config_size(&f.c, "n"), 1); /* harmless: nothing is divided by 0 before the mistake is seen */
        assert_false(config_ok(&f.c));
        assert_finishes(&f, &plain, cases[i][1]);
        close_text(&f);
    }
}

static void assert_item_refused(const char *text, const char *says) {
    Fixture f;
    open_text(&f, text);
    config_size_each(&f.c, "n", 0, 1);
    assert_finishes(&f, &plain, says);
    close_text(&f);
}

static void wrong_counts_and_items_are_mistakes(void **state) {
    Fixture f;
    (void)state;
    open_text(&f, "{\"n\": -1}");
    assert_int_equal(config_count_or(&f.c, "n", 3), 1);
    assert_finishes(&f, &plain, "\"n\" is -1, expected a whole number from 0");
    close_text(&f);
    assert_item_refused("{\"n\": [\"a\"]}", "\"n\" is [\"a\"], expected a number or a list of them");
    assert_item_refused("{\"n\": [0.5]}", "\"n\" has 0.5, expected whole numbers");
    assert_item_refused("{\"n\": [-2]}", "\"n\" has -2, expected whole numbers");
}

static void lists_of_each_layer_are_checked(void **state) {
    static const char *const cases[][2] = {{"{\"n\": [1, 2]}", "\"n\" has 2 items, expected 3"},
                                           {"{\"n\": [1, 2, \"x\"]}", "expected a list of numbers"},
                                           {"{\"n\": [1, 2, 0]}", "\"n\" item 2 is 0, expected a whole number"},
                                           {"{\"n\": [1, 2, 2.5]}", "\"n\" item 2 is 2.5, expected"},
                                           {"{}", "has no \"n\", which this model needs"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f;
        open_text(&f, cases[i][0]);
        assert_int_equal(config_size_at(&f.c, "n", 3, 2), 1);
        assert_finishes(&f, &plain, cases[i][1]);
        close_text(&f);
    }
}

static void the_first_mistake_sticks(void **state) {
    Fixture f;
    (void)state;
    open_text(&f, "{\"a\": [], \"b\": NaN, \"c\": {}, \"d\": 1, \"e\": [1]}");
    config_string_or(&f.c, "a", "");
    config_number(&f.c, "b");
    config_fail(&f.c, "later");
    assert_finishes(&f, &plain, "\"a\" is [], expected a string");
    close_text(&f);

    open_text(&f, "{\"b\": NaN}");
    config_number(&f.c, "b");
    assert_finishes(&f, &plain, "\"b\" is NaN, expected a number");
    close_text(&f);

    open_text(&f, "{\"e\": [1], \"d\": 1}");
    assert_null(config_array(&f.c, "e", 2));
    assert_finishes(&f, &plain, "\"e\" has 1 items, expected 2");
    close_text(&f);

    open_text(&f, "{\"d\": 1}");
    assert_null(config_section(&f.c, "d").object);
    assert_finishes(&f, &plain, "\"d\" is 1, expected an object");
    close_text(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_and_fallbacks_taken),
        cmocka_unit_test(a_key_nobody_read_is_named_with_the_way_on),
        cmocka_unit_test(a_family_lists_what_does_not_matter),
        cmocka_unit_test(a_section_accounts_for_its_own_keys),
        cmocka_unit_test(wrong_values_are_shown_with_what_was_expected),
        cmocka_unit_test(wrong_counts_and_items_are_mistakes),
        cmocka_unit_test(lists_of_each_layer_are_checked),
        cmocka_unit_test(the_first_mistake_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
