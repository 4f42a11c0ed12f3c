/* To which sizes a model's vectors may be cut: what each file and key says, together, and the one line otherwise. */
#include "engine/matryoshka.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* config and settings are the texts of the two files, or NULL. */
static Matryoshka read_cuts(const char *config, const char *settings) {
    Matryoshka m;
    Error err = {""};
    if (config) test_write_text(&test_folder, "config.json", config);
    JsonDoc *doc = settings ? json_parse(settings, strlen(settings), 0, &err) : NULL;
    if (!matryoshka_read(test_folder.path, doc ? json_root(doc) : NULL, &m, &err)) fail_msg("%s", err.text);
    json_free(doc);
    return m;
}

static void refuses(const Matryoshka *m, int wanted, const char *says) {
    Error err = {""};
    assert_false(matryoshka_allows(m, 768, wanted, &err));
    assert_string_equal(err.text, says);
}

static void nothing_said_allows_only_the_whole(void **state) {
    (void)state;
    Matryoshka m = read_cuts(NULL, NULL);
    assert_true(matryoshka_allows(&m, 768, 768, NULL));
    refuses(&m, 256, "this model's vectors have 768 values, and no file of it says that they may be cut to 256");
    refuses(&m, 0, "this model's vectors have 768 values, and no file of it says that they may be cut to 0");
    matryoshka_clear(&m);
}

static void named_sizes_come_from_both_files(void **state) {
    (void)state;
    Matryoshka m = read_cuts("{\"matryoshka_dimensions\": [512, 256], \"is_matryoshka\": true}",
                             "{\"matryoshka_dims\": [128], \"truncate_dim\": 64}");
    static const int allowed[] = {512, 256, 128, 64, 768};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        assert_true(matryoshka_allows(&m, 768, allowed[i], NULL));
    refuses(&m, 100, "this model's vectors have 768 values, and may be cut to 512, 256, 128, 64, not to 100");
    assert_false(matryoshka_allows(&m, 256, 512, NULL)); /* no vector grows */
    matryoshka_clear(&m);
}

static void a_flag_alone_allows_every_size(void **state) {
    (void)state;
    Matryoshka m = read_cuts("{\"is_matryoshka\": true}", NULL);
    assert_true(matryoshka_allows(&m, 768, 1, NULL));
    assert_true(matryoshka_allows(&m, 768, 767, NULL));
    refuses(&m, 0, "this model's vectors have 768 values: they can not have 0");
    refuses(&m, 769, "this model's vectors have 768 values: they can not have 769");
    matryoshka_clear(&m);
}

static void what_is_no_size_allows_none(void **state) {
    (void)state;
    Matryoshka m =
        read_cuts("{\"matryoshka_dimensions\": [0, -3, 2.5, \"64\", null, 99999999], \"truncate_dim\": null}",
                  "{\"matryoshka_dims\": 32}");
    refuses(&m, 32, "this model's vectors have 768 values, and no file of it says that they may be cut to 32");
    refuses(&m, 64, "this model's vectors have 768 values, and no file of it says that they may be cut to 64");
    matryoshka_clear(&m);
}

static void a_broken_file_is_an_error(void **state) {
    (void)state;
    Matryoshka m = {.any = true};
    Error err = {""};
    test_write_text(&test_folder, "config.json", "{\"is_matryoshka\": ");
    assert_false(matryoshka_read(test_folder.path, NULL, &m, &err));
    assert_non_null(strstr(err.text, "config.json"));
    assert_true(m.any && !m.sizes); /* as it was */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_said_allows_only_the_whole, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(named_sizes_come_from_both_files, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_flag_alone_allows_every_size, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_size_allows_none, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_broken_file_is_an_error, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
