/* Reading and writing safetensors: the refusals of damaged and hostile headers, what must be accepted, round trips,
 * a full disk and failing allocations. */
#define _GNU_SOURCE
#include "file/safetensors.h"
#include "base/memory.h"
#include "support/folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/resource.h>

static TestFolder folder;

/* A file of a header text and n bytes 0, 1, 2, ...; opened. */
static Safetensors *open_text(const char *header, size_t n_data, Error *err) {
    uint8_t bytes[4096] = {0};
    size_t n = strnlen(header, sizeof bytes - 8 - n_data);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++) bytes[8 + n + i] = (uint8_t)i;
    test_write(&folder, "t.safetensors", bytes, 8 + n + n_data);
    return safetensors_open(test_path(&folder, "t.safetensors"), err);
}

static void refuses(const char *header, size_t n_data, const char *says) {
    Error err = {""};
    assert_null(open_text(header, n_data, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_non_null(strstr(err.text, "t.safetensors: "));
    assert_null(strchr(err.text, '\n'));
}

static void damaged_headers_are_refused(void **state) {
    (void)state;
    refuses("{\"w\":{\"dtype\":\"F16\",\"shape\":[512,513],\"data_offsets\":[0,2]}}", 2,
            "tensor \"w\": F16 [512, 513] needs 525312 bytes, data_offsets give 2");
    refuses("{\"w\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[2,0]}}", 2, "backwards: [2, 0]");
    refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
            6, "tensor \"b\" overlaps \"a\"");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 9,
            "tensor \"w\": ends at byte 16 of its data, the file has 9: truncated");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808,2],\"data_offsets\":[0,4]}}", 4,
            "tensor \"w\": dimension 0 of its shape is no size");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4,4],\"data_offsets\":[0,4]}}", 4,
            "tensor \"w\": its shape overflows");
    refuses("{\"w\":{\"dtype\":\"Q9\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "tensor \"w\": unknown dtype \"Q9\"");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 4,
            "2 bytes at the end belong to no tensor");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}", 4,
            "2 bytes before tensor \"w\" belong to no tensor");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
            "\"v\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
            2, "tensor \"w\" overlaps \"v\"");
}

static void entries_of_another_form_are_refused(void **state) {
    (void)state;
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, "no size");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "no size");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "shape is not a list");
    refuses("{\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "shape is not a list");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "9 dimensions");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "not a pair");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "not a pair");
    refuses("{\"w\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype");
    refuses("{\"w\":[]}", 0, "entry is not an object");
    refuses("{\"w\\u0000x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "holds a NUL");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
            "\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
            0, "\"w\"");
    refuses("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    refuses("{\"w\":", 0, "header: ");
    refuses("[]", 0, "not a JSON object");
    refuses(" {}", 0, "not a JSON object");
}

static void lengths_are_checked_before_use(void **state) {
    (void)state;
    Error err;
    const char *path = test_path(&folder, "l.safetensors");
    test_write(&folder, "l.safetensors", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xF8{}", 10);
    uint64_t before = mem_count();
    assert_null(safetensors_open(path, &err));
    assert_true(mem_count() - before <= 2); /* the object and its path, nothing sized by the header */
    assert_non_null(strstr(err.text, "its header would have"));
    test_write(&folder, "l.safetensors", "\2\0\0\0\0\0", 6);
    assert_null(safetensors_open(path, &err));
    assert_non_null(strstr(err.text, "6 bytes are too few"));
    test_write(&folder, "l.safetensors", "\3\0\0\0\0\0\0\0{}", 10);
    assert_null(safetensors_open(path, &err));
    assert_non_null(strstr(err.text, "the header has 3 bytes, the file 10: truncated"));
    test_write(&folder, "l.safetensors", "\0\0\0\0\0\0\0\0", 8);
    assert_null(safetensors_open(path, &err));
}

static void odd_but_right_files_are_accepted(void **state) {
    (void)state;
    Error err = {""};
    Safetensors *s = open_text("{\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[2,6]},"
                               "\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
                               "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,1],\"data_offsets\":[0,2]},"
                               "\"__metadata__\":{\"format\":\"pt\"}}   ",
                               6, &err);
    assert_string_equal(err.text, "");
    assert_non_null(s);
    assert_int_equal(safetensors_count(s), 3);
    assert_string_equal(safetensors_tensor(s, 0)->name, "e");
    assert_string_equal(safetensors_tensor(s, 1)->name, "a");
    const Tensor *b = safetensors_tensor(s, 2);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->dtype, DTYPE_F32);
    assert_int_equal(b->n_dims, 0);
    assert_int_equal(b->bytes, 4);
    assert_memory_equal(b->data, "\2\3\4\5", 4);
    assert_true(json_equals(json_get(safetensors_metadata(s), "format"), "pt"));
    char text[40];
    tensor_shape_text(safetensors_tensor(s, 0), text, sizeof text);
    assert_string_equal(text, "[0, 4]");
    tensor_shape_text(b, text, sizeof text);
    assert_string_equal(text, "[]");
    safetensors_close(s);
    s = open_text("{\"__metadata__\":null}", 0, &err); /* as mlx.core.save_safetensors writes without metadata */
    assert_non_null(s);
    assert_null(safetensors_metadata(s));
    safetensors_close(s);
    s = open_text("{}", 0, &err);
    assert_non_null(s);
    assert_int_equal(safetensors_count(s), 0);
    assert_null(safetensors_metadata(s));
    safetensors_close(s);
}

static const Tensor three[] = {
    {.name = "first", .dtype = DTYPE_U32, .n_dims = 2, .shape = {3, 5}},
    {.name = "none \"\xC3\xA9\"", .dtype = DTYPE_F16, .n_dims = 1, .shape = {0}},
    {.name = "last", .dtype = DTYPE_I8, .n_dims = 1, .shape = {7}},
};

static void what_is_written_is_read(void **state) {
    (void)state;
    Error err = {""};
    SafetensorsWriter *w = safetensors_create(test_path(&folder, "w.safetensors"), three, 3, &err);
    assert_non_null(w);
    uint8_t bytes[67];
    for (int i = 0; i < 67; i++) bytes[i] = (uint8_t)(100 + i);
    assert_true(safetensors_write(w, bytes, 10, &err));
    assert_true(safetensors_write(w, bytes + 10, 0, &err));
    assert_true(safetensors_write(w, bytes + 10, 57, &err)); /* over the border between two tensors */
    assert_false(safetensors_write(w, bytes, 1, &err));
    assert_non_null(strstr(err.text, "more bytes"));
    assert_true(safetensors_finish(w, &err));
    Safetensors *s = safetensors_open(test_path(&folder, "w.safetensors"), &err);
    assert_non_null(s);
    assert_int_equal(safetensors_count(s), 3);
    assert_memory_equal(safetensors_tensor(s, 0)->data, bytes, 60);
    assert_int_equal((uintptr_t)safetensors_tensor(s, 0)->data % 8, 0);
    assert_int_equal(safetensors_tensor(s, 0)->shape[1], 5);
    assert_string_equal(safetensors_tensor(s, 1)->name, three[1].name);
    assert_memory_equal(safetensors_tensor(s, 2)->data, bytes + 60, 7);
    safetensors_close(s);
}

static void missing_bytes_and_abandoned_files(void **state) {
    (void)state;
    Error err = {""};
    const char *path = test_path(&folder, "m.safetensors");
    SafetensorsWriter *w = safetensors_create(path, three, 3, &err);
    assert_true(safetensors_write(w, "0123", 4, &err));
    assert_false(safetensors_finish(w, &err));
    assert_non_null(strstr(err.text, "missing"));
    w = safetensors_create(path, three, 3, &err);
    assert_true(test_exists(path));
    safetensors_abandon(w);
    assert_false(test_exists(path));
    assert_null(safetensors_create(test_path(&folder, "no/such/folder"), three, 3, &err));
    assert_non_null(strstr(err.text, "cannot be created"));
    Tensor huge = {.name = "h", .dtype = DTYPE_F64, .n_dims = 2, .shape = {INT64_MAX, INT64_MAX}};
    assert_null(safetensors_create(path, &huge, 1, &err));
    assert_non_null(strstr(err.text, "overflows"));
    assert_false(test_exists(path));
}

/* A file size limit stands for a full disk: write fails half-way in the same manner. */
static void a_full_disk_is_an_error(void **state) {
    (void)state;
    Error err = {""};
    Tensor big = {.name = "w", .dtype = DTYPE_U8, .n_dims = 1, .shape = {6 << 20}};
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){3 << 20, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    SafetensorsWriter *w = safetensors_create(test_path(&folder, "full"), &big, 1, &err);
    uint8_t *bytes = calloc(1, 1 << 19);
    bool ok = w != NULL;
    for (int i = 0; ok && i < 12; i++) ok = safetensors_write(w, bytes, 1 << 19, &err);
    safetensors_abandon(w);
    setrlimit(RLIMIT_FSIZE, &old);
    free(bytes);
    assert_false(ok);
    assert_non_null(strstr(err.text, "full: cannot be written: "));
    assert_false(test_exists(test_path(&folder, "full")));
}

static void failing_allocations_leak_nothing(void **state) {
    (void)state;
    safetensors_close(open_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, NULL));
    const char *read = test_path(&folder, "t.safetensors"), *write = test_path(&folder, "f.safetensors");
    Safetensors *s = NULL;
    for (uint64_t n = 1; !s; n++) {
        Error err = {""};
        mem_fail_after(n);
        s = safetensors_open(read, &err);
        mem_fail_after(0);
        if (!s && !strstr(err.text, "memory")) fail_msg("allocation %d: \"%s\"", (int)n, err.text);
    }
    safetensors_close(s);
    SafetensorsWriter *w = NULL;
    for (uint64_t n = 1; !w; n++) {
        Error err = {""};
        mem_fail_after(n);
        w = safetensors_create(write, three, 3, &err);
        mem_fail_after(0);
        if (!w && !strstr(err.text, "memory")) fail_msg("allocation %d: \"%s\"", (int)n, err.text);
        if (!w) assert_false(test_exists(write));
    }
    safetensors_abandon(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_headers_are_refused),    cmocka_unit_test(entries_of_another_form_are_refused),
        cmocka_unit_test(lengths_are_checked_before_use), cmocka_unit_test(odd_but_right_files_are_accepted),
        cmocka_unit_test(what_is_written_is_read),        cmocka_unit_test(missing_bytes_and_abandoned_files),
        cmocka_unit_test(a_full_disk_is_an_error),        cmocka_unit_test(failing_allocations_leak_nothing),
    };
    test_folder_make(&folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(&folder);
    return failed;
}
