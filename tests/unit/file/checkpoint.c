/* Checkpoint folders: which files are part of one, what is refused, look-up by name, the hash. */
#include "file/checkpoint.h"
#include "base/memory.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
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
    test_write_text(&folder, "config.json", "{\"model_type\": \"llama\"}");
    return 0;
}

static int clear(void **state) {
    (void)state;
    test_folder_remove(&folder);
    return 0;
}

/* A safetensors file of U8 tensors of two bytes each, named by the letters of `names`. */
static void write_weights(const char *file, const char *names) {
    Tensor tensors[8];
    char text[8][2];
    int n = (int)strlen(names);
    for (int i = 0; i < n; i++) {
        text[i][0] = names[i];
        text[i][1] = 0;
        tensors[i] = (Tensor){.name = text[i], .dtype = DTYPE_U8, .n_dims = 1, .shape = {2}};
    }
    SafetensorsWriter *w = safetensors_create(test_path(&folder, file), tensors, n, NULL);
    assert_non_null(w);
    for (int i = 0; i < n; i++) assert_true(safetensors_write(w, (char[2]){names[i], file[6]}, 2, NULL));
    assert_true(safetensors_finish(w, NULL));
}

static void refuses(const char *says) {
    Error err = {""};
    assert_null(checkpoint_open(folder.path, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_non_null(strstr(err.text, folder.path));
}

static void a_single_file(void **state) {
    (void)state;
    write_weights("model.safetensors", "abc");
    write_weights("golden.safetensors", "z");
    test_write_text(&folder, "generation_config.json", "{\"eos_token_id\": 2}");
    Error err = {""};
    Checkpoint *c = checkpoint_open(test_path(&folder, "/"), &err);
    assert_string_equal(err.text, "");
    assert_non_null(c);
    assert_true(json_equals(json_get(checkpoint_config(c), "model_type"), "llama"));
    assert_non_null(json_get(checkpoint_generation_config(c), "eos_token_id"));
    assert_int_equal(checkpoint_count(c), 3);
    assert_memory_equal(checkpoint_find(c, "b")->data, "bs", 2);
    assert_null(checkpoint_find(c, "z"));
    assert_null(checkpoint_find(c, ""));
    assert_string_equal(checkpoint_tensor(c, 2)->name, "c");
    assert_string_equal(checkpoint_folder(c), folder.path);
    checkpoint_close(c);
}

static void many_files_without_an_index(void **state) {
    (void)state;
    write_weights("model-2.safetensors", "cd");
    write_weights("model-1.safetensors", "ab");
    Checkpoint *c = checkpoint_open(folder.path, NULL);
    assert_non_null(c);
    assert_null(checkpoint_generation_config(c));
    for (int i = 0; i < 4; i++) assert_int_equal(checkpoint_tensor(c, i)->name[0], 'a' + i); /* files by name */
    assert_non_null(strstr(checkpoint_find(c, "d")->file, "/model-2.safetensors"));
    checkpoint_close(c);
    write_weights("model-3.safetensors", "a");
    refuses("model-3.safetensors: tensor \"a\" is also in ");
}

static void the_index_decides(void **state) {
    (void)state;
    write_weights("model-1.safetensors", "ab");
    write_weights("other.safetensors", "c");
    write_weights("model-old.safetensors", "ac");
    const char *index = "model.safetensors.index.json";
    test_write_text(
        &folder, index,
        "{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-1.safetensors\",\"c\":\"other.safetensors\"}}");
    Checkpoint *c = checkpoint_open(folder.path, NULL);
    assert_non_null(c);
    assert_int_equal(checkpoint_count(c), 3);
    checkpoint_close(c);
    test_write_text(&folder, index, "{\"weight_map\":{\"x\":\"model-1.safetensors\"}}");
    refuses("/model-1.safetensors: has no tensor \"x\", which model.safetensors.index.json says it has");
    test_write_text(&folder, index, "{\"weight_map\":{\"c\":\"model-1.safetensors\",\"a\":\"other.safetensors\"}}");
    refuses("/model-1.safetensors: has no tensor \"c\"");
    test_write_text(&folder, index, "{\"weight_map\":{\"a\":\"model-9.safetensors\"}}");
    refuses("/model-9.safetensors: No such file");
    test_write_text(&folder, index, "{\"weight_map\":{\"a\":\"../model-1.safetensors\"}}");
    refuses("tensor \"a\" names no file of the folder");
    test_write_text(&folder, index, "{\"weight_map\":{\"a\":1}}");
    refuses("tensor \"a\" names no file of the folder");
    test_write_text(&folder, index, "{}");
    refuses("has no weight_map");
    test_write_text(&folder, index, "{\"weight_map\":{}}");
    refuses("has no weights");
}

static void bad_folders_are_refused(void **state) {
    (void)state;
    refuses("has no weights");
    write_weights("model.safetensors", "a");
    test_write_text(&folder, "config.json", "[]");
    refuses("config.json: is not a JSON object");
    test_write_text(&folder, "config.json", "{");
    refuses("config.json");
    unlink(test_path(&folder, "config.json"));
    refuses("it has no config.json");
    Error err;
    assert_null(checkpoint_open(test_path(&folder, "absent"), &err));
    assert_non_null(strstr(err.text, "No such file"));
    assert_null(checkpoint_open(test_path(&folder, "model.safetensors"), &err));
    assert_non_null(strstr(err.text, "a checkpoint is a folder"));
    assert_null(checkpoint_open(test_path(&folder, "m.gguf"), &err));
    assert_non_null(strstr(err.text, "lockstep import "));
    test_write(&folder, "blob", "GGUF\3\0\0\0", 8);
    assert_null(checkpoint_open(test_path(&folder, "blob"), &err));
    assert_non_null(strstr(err.text, "lockstep import "));
}

static uint64_t hash_now(void) {
    Checkpoint *c = checkpoint_open(folder.path, NULL);
    assert_non_null(c);
    uint64_t h = checkpoint_hash(c);
    checkpoint_close(c);
    return h;
}

static void the_hash_names_config_and_tensors(void **state) {
    (void)state;
    write_weights("model.safetensors", "ab");
    uint64_t first = hash_now();
    assert_true(first == hash_now());
    write_weights("model.safetensors", "ac");
    uint64_t second = hash_now();
    assert_true(first != second);
    test_write_text(&folder, "config.json", "{\"model_type\": \"llamA\"}");
    assert_true(hash_now() != second);
}

static void thousands_of_names_are_found(void **state) {
    (void)state;
    enum { N = 3000 };
    Tensor *tensors = calloc(N, sizeof *tensors);
    char(*names)[24] = calloc(N, sizeof *names);
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "layers.%d.w", i);
        tensors[i] = (Tensor){.name = names[i], .dtype = DTYPE_U8, .n_dims = 1, .shape = {0}};
    }
    SafetensorsWriter *w = safetensors_create(test_path(&folder, "model.safetensors"), tensors, N, NULL);
    assert_true(safetensors_finish(w, NULL));
    Checkpoint *c = checkpoint_open(folder.path, NULL);
    assert_non_null(c);
    for (int i = 0; i < N; i++) assert_string_equal(checkpoint_find(c, names[i])->name, names[i]);
    assert_null(checkpoint_find(c, "layers.3000.w"));
    checkpoint_close(c);
    free(tensors);
    free(names);
}

static void failing_allocations_leak_nothing(void **state) {
    (void)state;
    write_weights("model-1.safetensors", "ab");
    write_weights("model-2.safetensors", "cd");
    test_write_text(&folder, "generation_config.json", "{}");
    Checkpoint *c = NULL;
    for (uint64_t n = 1; !c; n++) {
        Error err = {""};
        mem_fail_after(n);
        c = checkpoint_open(folder.path, &err);
        mem_fail_after(0);
        if (!c && !strstr(err.text, "memory")) fail_msg("allocation %d: \"%s\"", (int)n, err.text);
    }
    checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_single_file, make, clear),
        cmocka_unit_test_setup_teardown(many_files_without_an_index, make, clear),
        cmocka_unit_test_setup_teardown(the_index_decides, make, clear),
        cmocka_unit_test_setup_teardown(bad_folders_are_refused, make, clear),
        cmocka_unit_test_setup_teardown(the_hash_names_config_and_tensors, make, clear),
        cmocka_unit_test_setup_teardown(thousands_of_names_are_found, make, clear),
        cmocka_unit_test_setup_teardown(failing_allocations_leak_nothing, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
