/* The store: what a name resolves to, the list, and that removal stays inside. */
#define _GNU_SOURCE
#include "file/store.h"
#include "base/memory.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

static TestFolder folder;

static int make(void **state) {
    (void)state;
    test_folder_make(&folder);
    setenv("XDG_DATA_HOME", folder.path, 1);
    Buffer root = {0};
    if (!store_root(&root, NULL)) return 1;
    bool right = strcmp(root.data, test_path(&folder, "lockstep/models")) == 0;
    buffer_clear(&root);
    mkdir(test_path(&folder, "lockstep/models/zeta"), 0777);
    mkdir(test_path(&folder, "lockstep/models/alpha"), 0777);
    mkdir(test_path(&folder, "lockstep/models/alpha/sub"), 0777);
    test_write(&folder, "lockstep/models/alpha/a", "12345", 5);
    test_write(&folder, "lockstep/models/alpha/sub/b", "123", 3);
    return right ? 0 : 1;
}

static int clear(void **state) {
    (void)state;
    test_folder_remove(&folder);
    return 0;
}

static void says(bool ok, const Error *err, const char *text) {
    assert_false(ok);
    if (!strstr(err->text, text)) fail_msg("\"%s\" does not say \"%s\"", err->text, text);
}

static void a_folder_comes_before_a_name(void **state) {
    (void)state;
    Buffer out = {0};
    Error err;
    assert_true(store_resolve("alpha", &out, &err));
    assert_string_equal(out.data, test_path(&folder, "lockstep/models/alpha"));
    assert_true(store_resolve(folder.path, &out, &err));
    assert_string_equal(out.data, folder.path);
    char *before = get_current_dir_name();
    assert_int_equal(chdir(folder.path), 0);
    mkdir("alpha", 0777);
    assert_true(store_resolve("alpha", &out, &err));
    assert_string_equal(out.data, "alpha");
    assert_int_equal(chdir(before), 0);
    free(before);
    buffer_clear(&out);
}

static void what_is_no_model_is_refused(void **state) {
    (void)state;
    Buffer out = {0};
    Error err;
    says(store_resolve("beta", &out, &err), &err, "beta: neither a folder here nor a model in ");
    says(store_resolve("no/such", &out, &err), &err, "no/such: No such file");
    says(store_resolve("../alpha", &out, &err), &err, "../alpha: No such file");
    says(store_resolve("", &out, &err), &err, "No such file");
    says(store_resolve("absent.gguf", &out, &err), &err, "absent.gguf: No such file");
    test_write(&folder, "m.gguf", "GGUF", 4);
    says(store_resolve(test_path(&folder, "m.gguf"), &out, &err), &err, "lockstep import ");
    test_write(&folder, "file", "text", 4);
    says(store_resolve(test_path(&folder, "file"), &out, &err), &err, "is a file");
    assert_null(out.data);
}

static void the_list_is_sorted_and_sized(void **state) {
    (void)state;
    mkdir(test_path(&folder, "lockstep/models/new.part"), 0777);
    mkdir(test_path(&folder, "lockstep/models/.hidden"), 0777);
    test_write(&folder, "lockstep/models/file", "x", 1);
    StoreEntry *entries;
    int n;
    assert_true(store_list(&entries, &n, NULL));
    assert_int_equal(n, 2);
    assert_string_equal(entries[0].name, "alpha");
    assert_string_equal(entries[0].path, test_path(&folder, "lockstep/models/alpha"));
    assert_int_equal(entries[0].bytes, 8);
    assert_string_equal(entries[1].name, "zeta");
    assert_int_equal(entries[1].bytes, 0);
    store_list_free(entries, n);
}

static void removal_takes_one_entry(void **state) {
    (void)state;
    assert_true(store_remove("alpha", NULL));
    assert_false(test_exists(test_path(&folder, "lockstep/models/alpha")));
    assert_true(test_exists(test_path(&folder, "lockstep/models/zeta")));
    assert_false(test_exists(test_path(&folder, "lockstep/models/.removed-alpha")));
    Error err;
    says(store_remove("alpha", &err), &err, "no such model");
}

static void removal_never_leaves_the_store(void **state) {
    (void)state;
    Error err;
    mkdir(test_path(&folder, "outside"), 0777);
    test_write(&folder, "outside/precious", "x", 1);
    const char *names[] = {"..", ".", "", "../../outside", "alpha/sub", "/", folder.path, ".removed-alpha"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        says(store_remove(names[i], &err), &err, "is not the name of a model in the store");
    assert_int_equal(symlink(test_path(&folder, "outside"), test_path(&folder, "lockstep/models/link")), 0);
    assert_int_equal(symlink(test_path(&folder, "outside"), test_path(&folder, "lockstep/models/alpha/link")), 0);
    assert_true(store_remove("link", &err));
    assert_true(store_remove("alpha", &err));
    assert_false(test_exists(test_path(&folder, "lockstep/models/link")));
    assert_true(test_exists(test_path(&folder, "outside/precious")));
    test_write(&folder, "lockstep/models/file", "x", 1);
    says(store_remove("file", &err), &err, "is not a folder");
}

static void failing_allocations_leak_nothing(void **state) {
    (void)state;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        Error err = {""};
        StoreEntry *entries;
        int count;
        mem_fail_after(n);
        done = store_list(&entries, &count, &err);
        mem_fail_after(0);
        if (done)
            store_list_free(entries, count);
        else
            says(false, &err, "memory");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_comes_before_a_name, make, clear),
        cmocka_unit_test_setup_teardown(what_is_no_model_is_refused, make, clear),
        cmocka_unit_test_setup_teardown(the_list_is_sorted_and_sized, make, clear),
        cmocka_unit_test_setup_teardown(removal_takes_one_entry, make, clear),
        cmocka_unit_test_setup_teardown(removal_never_leaves_the_store, make, clear),
        cmocka_unit_test_setup_teardown(failing_allocations_leak_nothing, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
