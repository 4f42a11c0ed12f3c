/* The character map of normalizer Precompiled, which replaces a short grapheme cluster whole when it begins with a key:
 * so what is replaced shows where the clusters end. Expected texts are those of Python tokenizers 0.23.3. */
#include "text/charsmap.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { NODE = 256, MOST_NODES = 6 };

static void put32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* A map of the one key to X: a double array whose k-th node lies at 256 * (k + 1). */
static Charsmap map_of(const char *key) {
    size_t n = strlen(key), n_units = NODE * (n + 2), size = 4 + 4 * n_units + 2;
    assert_in_range(n, 1, MOST_NODES - 2);
    uint32_t units[NODE * MOST_NODES] = {0};
    uint32_t place = 0;
    for (size_t i = 0; i <= n; i++) {
        uint32_t base = (uint32_t)(NODE * (i + 1)), leaf = i == n ? 1u << 8 : 0;
        units[place] |= (place ^ base) << 10 | leaf;
        place = i == n ? base : base ^ (unsigned char)key[i];
        units[place] = i == n ? 1u << 31 : (unsigned char)key[i];
    }
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    put32(bytes, (uint32_t)(4 * n_units));
    for (size_t i = 0; i < n_units; i++) put32(bytes + 4 + 4 * i, units[i]);
    memcpy(bytes + size - 2, "X", 2);
    Charsmap map;
    Error err = {""};
    if (!charsmap_load_bytes(&map, bytes, size, &err)) fail_msg("%s", err.text);
    free(bytes);
    return map;
}

typedef struct Case {
    const char *key, *text, *expected;
} Case;

static void check(const Case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Charsmap map = map_of(cases[i].key);
        Buffer out = {0};
        charsmap_apply(&map, cases[i].text, strlen(cases[i].text), &out);
        assert_string_equal(buffer_string(&out), cases[i].expected);
        buffer_clear(&out);
        charsmap_clear(&map);
    }
}

/* U+FFF0 and U+FFF8 are unassigned, U+1D173 a musical control, U+E0001 a tag, U+200B a space without width; then what
 * is none. */
static void nothing_joins_a_control(void **state) {
    (void)state;
    static const Case cases[] = {
        {"\xCC\x81", "\xEF\xBF\xB0\xCC\x81\xCC\x81", "\xEF\xBF\xB0X"},
        {"\xCC\x81", "\xEF\xBF\xB8\xCC\x81\xCC\x81", "\xEF\xBF\xB8X"},
        {"\xCC\x81", "\xF0\x9D\x85\xB3\xCC\x81\xCC\x81", "\xF0\x9D\x85\xB3X"},
        {"\xCC\x81", "\xF3\xA0\x80\x81\xCC\x81\xCC\x81", "\xF3\xA0\x80\x81X"},
        {"\xCC\x81", "\xE2\x80\x8B\xCC\x81\xCC\x81", "\xE2\x80\x8BX"},
        {"\xCC\x81", "a\xCC\x81\xCC\x81", "aXX"},
        {"\xCC\x81", "\xD8\x80\xCC\x81\xCC\x81", "\xD8\x80XX"},
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* Rule GB9c: a consonant, marks, a linker among them, a consonant. The last, with the accent, is no cluster then. */
static void indic_consonants_join_over_a_linker(void **state) {
    (void)state;
    static const Case cases[] = {
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA5\x98\xCC\x81", "\xE0\xA4\x95\xE0\xA5\x8DX\xCC\x81"},
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA5\x98\xCC\x81", "\xE0\xA4\x95X"},
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA5\x8D\xE2\x80\x8D\xE0\xA5\x98\xCC\x81",
         "\xE0\xA4\x95\xE0\xA5\x8D\xE2\x80\x8DX\xCC\x81"},
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xCC\x81\xE0\xA5\x8D\xE0\xA5\x98\xCC\x81",
         "\xE0\xA4\x95\xCC\x81\xE0\xA5\x8DX\xCC\x81"},
        {"\xE0\xA5\x98", "a\xE0\xA5\x8D\xE0\xA5\x98\xCC\x81", "a\xE0\xA5\x8DX"},
        {"\xE0\xA5\x98", "\xE0\xA6\x95\xE0\xA7\x8D\xE0\xA5\x98\xCC\x81", "\xE0\xA6\x95\xE0\xA7\x8DX\xCC\x81"},
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\x83\xE0\xA5\x8D\xE0\xA5\x98\xCC\x81",
         "\xE0\xA4\x95\xE0\xA4\x83\xE0\xA5\x8DX"},
        {"\xE0\xA5\x98", "\xE1\x80\x80\xE1\x80\xB9\xE0\xA5\x98\xCC\x81", "\xE1\x80\x80\xE1\x80\xB9X\xCC\x81"},
    };
    check(cases, sizeof cases / sizeof *cases);
}

/* Marks, joiners, prepended characters, Hangul, line ends; six bytes are too long. */
static void short_clusters_are_replaced_whole(void **state) {
    (void)state;
    static const Case cases[] = {
        {"a", "a", "X"},
        {"a", "ab", "Xb"},
        {"a", "a\xCC\x81", "X"},
        {"a", "a\xCC\x81\xCC\x81\xCC\x81", "X\xCC\x81\xCC\x81\xCC\x81"},
        {"a",
         "\xD8\x80"
         "a\xCC\x81",
         "\xD8\x80X\xCC\x81"},
        {"a", "a\xE2\x80\x8D", "X"},
        {"a",
         "\x09"
         "a",
         "\x09X"},
        {"\xE1\x84\x80", "\xE1\x84\x80", "X"},
        {"\xE1\x84\x80", "\xE1\x84\x80\xE1\x85\xA1", "X\xE1\x85\xA1"},
        {"\xE1\x84\x80", "\xE1\x84\x80\xCC\x81", "X"},
        {"\xE1\x84\x80", "\xE1\x85\xA1\xE1\x84\x80", "\xE1\x85\xA1X"},
        {"\x0D", "\x0D\x0A", "X"},
        {"\x0D", "\x0D\x0D", "XX"},
        {"\x0D", "\x0D\xCC\x81", "X\xCC\x81"},
        {"\xD8\x80",
         "\xD8\x80"
         "a",
         "X"},
        {"\xD8\x80", "\xD8\x80\xD8\x80", "X"},
        {"\xD8\x80", "\xD8\x80\x0A", "X\x0A"},
    };
    check(cases, sizeof cases / sizeof *cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_joins_a_control),
        cmocka_unit_test(indic_consonants_join_over_a_linker),
        cmocka_unit_test(short_clusters_are_replaced_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
