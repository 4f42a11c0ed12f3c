/* The GGUF reader: a file of the official writer, and files that lie about every count, length, type and offset. */
#include "file/gguf.h"
#include "base/memory.h"
#include "support/folder.h"
#include "support/gguf_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static TestFolder folder;

static void refuses_bytes(const void *bytes, size_t n, const char *says) {
    Error err = {""};
    test_write(&folder, "t.gguf", bytes, n);
    assert_null(gguf_open(test_path(&folder, "t.gguf"), &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_non_null(strstr(err.text, "t.gguf: "));
}

static void refuses(GgufBuild *b, const char *says) {
    Buffer all = {0};
    build_join(b, &all);
    refuses_bytes(all.data, all.length, says);
    buffer_clear(&all);
    build_clear(b);
    build_begin(b);
}

static void a_file_of_the_official_writer(void **state) {
    (void)state;
    Error err = {""};
    Gguf *g = gguf_open("tests/data/gguf/mixed.gguf", &err);
    assert_string_equal(err.text, "");
    assert_non_null(g);
    assert_int_equal(gguf_count(g), 27);
    uint64_t n;
    double number;
    assert_true(gguf_uint(gguf_find(g, "llama.block_count"), &n));
    assert_int_equal(n, 2);
    assert_true(gguf_number(gguf_find(g, "llama.rope.freq_base"), &number));
    assert_true(number == 500000.0);
    assert_true(gguf_item_number(gguf_find(g, "llama.attention.head_count_kv"), 1, &number));
    assert_true(number == 1.0);
    assert_false(gguf_item_number(gguf_find(g, "llama.attention.head_count_kv"), 2, &number));
    assert_false(gguf_uint(gguf_find(g, "tokenizer.ggml.pre"), &n));
    assert_null(gguf_find(g, "llama"));
    const GgufTensor *t = gguf_find_tensor(g, "blk.1.attn_k.weight");
    assert_non_null(t);
    assert_int_equal(t->type, GGML_Q5_1);
    assert_int_equal(t->shape[0], 256);
    assert_int_equal(t->shape[1], 32);
    assert_int_equal(t->bytes, 256 / 32 * 24 * 32);
    uint64_t at = 0;
    const char *text;
    size_t length, count = 0;
    while (gguf_next_string(gguf_find(g, "tokenizer.ggml.merges"), &at, &text, &length)) count++;
    assert_int_equal(count, 4);
    assert_memory_equal(text, "a n", 3);
    for (int i = 1; i < gguf_n_keys(g); i++) assert_true(strcmp(gguf_key(g, i - 1), gguf_key(g, i)) < 0);
    gguf_close(g);
}

static void every_kind_of_value(void **state) {
    (void)state;
    static const struct {
        uint32_t kind;
        int bytes;
        uint64_t bits;
        double value;
    } kinds[] = {{GGUF_U8, 1, 200, 200},
                 {GGUF_I8, 1, 0xFE, -2},
                 {GGUF_U16, 2, 60000, 60000},
                 {GGUF_I16, 2, 0xFFFD, -3},
                 {GGUF_U32, 4, 4e9, 4e9},
                 {GGUF_I32, 4, 0xFFFFFFFC, -4},
                 {GGUF_U64, 8, 1ull << 40, 0x1p40},
                 {GGUF_I64, 8, UINT64_MAX, -1},
                 {GGUF_F64, 8, 0x3FF8000000000000, 1.5}};
    GgufBuild b;
    build_begin(&b);
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char key[4] = {'k', (char)('0' + i)};
        build_string(&b.keys, key);
        build_number(&b.keys, kinds[i].kind, 4);
        build_number(&b.keys, kinds[i].bits, kinds[i].bytes);
        b.n_keys++;
    }
    build_bool(&b, "yes", true);
    build_write(&b, &folder, "kinds.gguf");
    build_clear(&b);
    Gguf *g = gguf_open(test_path(&folder, "kinds.gguf"), NULL);
    assert_non_null(g);
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double v;
        uint64_t n;
        assert_true(gguf_number(gguf_find(g, (char[3]){'k', (char)('0' + i)}), &v));
        assert_true(v == kinds[i].value);
        bool whole = kinds[i].kind != GGUF_F64 && v >= 0;
        assert_int_equal(gguf_uint(gguf_find(g, (char[3]){'k', (char)('0' + i)}), &n), whole);
    }
    bool yes;
    assert_true(gguf_bool(gguf_find(g, "yes"), &yes) && yes);
    assert_false(gguf_bool(gguf_find(g, "no"), &yes));
    gguf_close(g);
}

static void bad_headers_are_refused(void **state) {
    (void)state;
    refuses_bytes("GGU", 3, "is not a GGUF file");
    refuses_bytes("GGML\3\0\0\0", 8, "is not a GGUF file");
    refuses_bytes("GGUF\3\0", 6, "ends within its header");
    refuses_bytes("GGUF\0\0\0\3", 8, "big-endian");
    refuses_bytes("GGUF\1\0\0\0", 8, "version 1");
    refuses_bytes("GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16, "ends within its header");
    uint8_t counts[24] = "GGUF\3";
    memset(counts + 16, 0xFF, 8);
    uint64_t before = mem_count();
    refuses_bytes(counts, 24, "metadata entries");
    assert_true(mem_count() - before <= 4);
    memset(counts + 16, 0, 8);
    memset(counts + 8, 0xFF, 8);
    refuses_bytes(counts, 24, "tensors, more than any model");
    memset(counts + 8, 0, 8);
    counts[16] = 5;
    refuses_bytes(counts, 24, "ends within a metadata entry");
}

static void bad_metadata_is_refused(void **state) {
    (void)state;
    GgufBuild b;
    build_begin(&b);
    build_u32(&b, "", 1);
    refuses(&b, "name of 0 bytes");
    build_u32(&b, "a\xFF", 1);
    refuses(&b, "no text");
    build_u32(&b, "a", 1);
    build_u32(&b, "a", 2);
    refuses(&b, "metadata \"a\" is there twice");
    build_string(&b.keys, "a");
    build_number(&b.keys, 13, 4);
    b.n_keys = 1;
    refuses(&b, "metadata \"a\": unknown value type 13");
    build_string(&b.keys, "a");
    build_number(&b.keys, GGUF_STRING, 4);
    build_number(&b.keys, UINT64_MAX, 8);
    b.n_keys = 1;
    refuses(&b, "metadata \"a\": ends within a string");
    static const uint32_t items[] = {GGUF_U8, GGUF_F64, GGUF_STRING};
    for (int i = 0; i < 3; i++) {
        build_string(&b.keys, "a");
        build_number(&b.keys, GGUF_ARRAY, 4);
        build_number(&b.keys, items[i], 4);
        build_number(&b.keys, i == 1 ? 1ull << 61 : 1ull << 40, 8); /* 2^61 doubles: the product overflows */
        b.n_keys = 1;
        refuses(&b, "ends within an array");
    }
    build_string(&b.keys, "a");
    build_number(&b.keys, GGUF_ARRAY, 4);
    build_number(&b.keys, GGUF_ARRAY, 4);
    build_number(&b.keys, 1, 8);
    b.n_keys = 1;
    refuses(&b, "array of unknown type 9");
    build_u32(&b, "general.alignment", 24);
    refuses(&b, "general.alignment is no power of two");
    build_u32(&b, "general.alignment", 0);
    refuses(&b, "general.alignment is no power of two");
    build_clear(&b);
}

static void bad_tensors_are_refused(void **state) {
    (void)state;
    GgufBuild b;
    build_begin(&b);
    build_entry(&b, "t", 5, (uint64_t[5]){1, 1, 1, 1, 1}, GGML_F32, 0);
    refuses(&b, "tensor \"t\": has 5 dimensions");
    build_entry(&b, "t", 1, (uint64_t[1]){0}, GGML_F32, 0);
    refuses(&b, "tensor \"t\": dimension 0 is no size");
    build_entry(&b, "t", 1, (uint64_t[1]){UINT64_MAX}, GGML_F32, 0);
    refuses(&b, "tensor \"t\": dimension 0 is no size");
    build_entry(&b, "t", 3, (uint64_t[3]){1u << 31, 1u << 31, 1u << 31}, GGML_F32, 0);
    refuses(&b, "no size");
    build_entry(&b, "t", 2, (uint64_t[2]){1u << 31, 1u << 20}, GGML_F32, 0);
    refuses(&b, "past the end of the file");
    build_entry(&b, "t", 2, (uint64_t[2]){1ull << 32, 1u << 31}, GGML_F32, 0);
    refuses(&b, "tensor \"t\": its shape overflows");
    build_entry(&b, "t", 1, (uint64_t[1]){32}, 99, 0);
    refuses(&b, "tensor \"t\": has tensor type 99, which lockstep does not read");
    build_entry(&b, "t", 1, (uint64_t[1]){32}, 31, 0);
    refuses(&b, "tensor \"t\": has tensor type Q4_0_4_4 (31)");
    build_entry(&b, "t", 1, (uint64_t[1]){33}, GGML_Q4_0, 0);
    refuses(&b, "tensor \"t\": rows of 33 values are no whole blocks of Q4_0");
    build_entry(&b, "t", 1, (uint64_t[1]){1}, GGML_F32, 16);
    refuses(&b, "tensor \"t\" is not aligned to 32 bytes");
    build_entry(&b, "t", 1, (uint64_t[1]){1}, GGML_F32, UINT64_MAX - 31);
    refuses(&b, "tensor \"t\" reaches past the end");
    build_tensor(&b, "t", GGML_F32, 0, 8, NULL, 32);
    build_tensor(&b, "t", GGML_F32, 0, 8, NULL, 32);
    refuses(&b, "tensor \"t\" is there twice");
    build_tensor(&b, "t", GGML_F32, 0, 16, NULL, 64);
    build_entry(&b, "u", 1, (uint64_t[1]){8}, GGML_F32, 32);
    refuses(&b, "tensors \"t\" and \"u\" overlap");
    build_clear(&b);
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    GgufBuild b;
    Buffer all = {0};
    build_begin(&b);
    build_llama_keys(&b);
    build_tensor(&b, "t", GGML_F32, 2, 8, NULL, 64);
    build_join(&b, &all);
    build_clear(&b);
    for (size_t n = 0; n < all.length; n++) {
        test_write(&folder, "cut.gguf", all.data, n);
        assert_null(gguf_open(test_path(&folder, "cut.gguf"), NULL));
    }
    test_write(&folder, "cut.gguf", all.data, all.length);
    Gguf *g = gguf_open(test_path(&folder, "cut.gguf"), NULL);
    assert_non_null(g);
    gguf_close(g);
    buffer_clear(&all);
}

static void other_alignment_and_version_2(void **state) {
    (void)state;
    GgufBuild b;
    build_begin(&b);
    b.version = 2;
    build_u32(&b, "general.alignment", 8);
    build_entry(&b, "t", 1, (uint64_t[1]){2}, GGML_F32, 8);
    Buffer all = {0};
    build_join(&b, &all);
    build_clear(&b);
    /* build_join pads to 32; cut back to the first multiple of 8 and put the data there */
    size_t end = 24 + 8 + 17 + 4 + 4 + 8 + 1 + 4 + 8 + 4 + 8;
    all.length = (end + 7) / 8 * 8;
    buffer_append(&all, "\0\0\0\0\0\0\0\0\1\2\3\4\5\6\7\x8", 16);
    test_write(&folder, "a.gguf", all.data, all.length);
    buffer_clear(&all);
    Gguf *g = gguf_open(test_path(&folder, "a.gguf"), NULL);
    assert_non_null(g);
    assert_memory_equal(gguf_tensor(g, 0)->data, "\1\2\3\4\5\6\7\x8", 8);
    gguf_close(g);
}

static void failing_allocations_leak_nothing(void **state) {
    (void)state;
    Gguf *g = NULL;
    for (uint64_t n = 1; !g; n++) {
        Error err = {""};
        mem_fail_after(n);
        g = gguf_open("tests/data/gguf/mixed.gguf", &err);
        mem_fail_after(0);
        if (!g && !strstr(err.text, "memory")) fail_msg("allocation %d: \"%s\"", (int)n, err.text);
    }
    gguf_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_the_official_writer), cmocka_unit_test(every_kind_of_value),
        cmocka_unit_test(bad_headers_are_refused),       cmocka_unit_test(bad_metadata_is_refused),
        cmocka_unit_test(bad_tensors_are_refused),       cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(other_alignment_and_version_2), cmocka_unit_test(failing_allocations_leak_nothing),
    };
    test_folder_make(&folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(&folder);
    return failed;
}
