/* Patterns against what Oniguruma (as Python tokenizers 0.23.3 carries it) matches; every expected value was taken from
 * it. Where the two syntaxes differ stands beside the case. */
#include "text/pattern.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The non-empty matches, each between brackets. */
static void matches(const char *source, const char *text, const char *expected) {
    Error err = {""};
    Pattern *p = pattern_new(source, strlen(source), &err);
    if (!p) fail_msg("%s: %s", source, err.text);
    PatternScratch scratch = {0};
    SpanList spans = {0};
    Buffer out = {0};
    if (!pattern_spans(p, &scratch, text, strlen(text), &spans, &err)) fail_msg("%s: %s", source, err.text);
    size_t start = 0;
    for (size_t i = 0; i < spans.n; i++) {
        if (spans.items[i].match && spans.items[i].end > start) {
            buffer_printf(&out, "[%.*s]", (int)(spans.items[i].end - start), text + start);
        }
        start = spans.items[i].end;
    }
    assert_int_equal(start, strlen(text)); /* spans cover the text */
    if (strcmp(buffer_string(&out), expected) != 0)
        fail_msg("%s on \"%s\": %s, not %s", source, text, out.data, expected);
    buffer_clear(&out);
    span_clear(&spans);
    pattern_scratch_clear(&scratch);
    pattern_free(p);
}

static void refuses(const char *source, const char *message) {
    Error err = {""};
    assert_null(pattern_new(source, strlen(source), &err));
    assert_string_equal(err.text, message);
}

static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static void patterns_of_published_tokenizers(void **state) {
    (void)state;
    matches(gpt2, "Hello my friend's  12\xC3\xA9\xC2\xBD \xF0\x9F\x8C\xB1",
            "[Hello][ my][ friend]['s][ ][ 12][\xC3\xA9][\xC2\xBD][ \xF0\x9F\x8C\xB1]");
    matches(llama3, "IT'S 12345 x!\n\n y  z", "[IT]['S][ ][123][45][ x][!\n\n][ y][ ][ z]");
}

static void anchors_are_those_of_lines(void **state) {
    (void)state;
    matches("^a", "a\na\n", "[a][a]");
    matches("a$", "a\na\n", "[a][a]");
    matches("\\Aa", "a\na", "[a]");
    matches("a\\z", "a\na", "[a]");
    matches("a\\Z", "a\na\n", "[a]");
    matches("\\s+$", "a  \n b  \n", "[  ][  \n]");
}

static void repeats_follow_ruby(void **state) {
    (void)state;
    matches("a{2}+", "aaaaa", "[aaaa]"); /* not possessive */
    matches("a{,2}", "aaaaab", "[aa][aa][a]");
    matches("a{2}?", "aaaaa", "[aa][aa]"); /* (?:a{2})?, not lazy */
    matches("a{1,3}?", "aaa", "[a][a][a]");
    matches("a{x}", "a{x}", "[a{x}]");
    matches("a{1", "a{1", "[a{1]");
    matches("a**", "aa", "[aa]");
    matches("a+*", "aa", "[aa]");
    matches("a{2}{3}", "aaaaaaa", "[aaaaaa]");
    matches("(?:ab)*+", "abab", "[abab]");
    matches("(?>a+)b", "aab", "[aab]");
    matches("x*", "axb", "[x]");
}

static void options_follow_ruby(void **state) {
    (void)state;
    matches("a(?i)b|c", "aB C c", "[aB]");   /* a(?i:b|c) */
    matches("(?m:.)", "a\nb", "[a][\n][b]"); /* m is what others call s */
    matches(".", "a\nb", "[a][b]");
    matches("(?-i:a)", "A", "");
    matches("(?x: a b )", "ab", "[ab]");
    matches("(?i:\\p{Lu})", "aAbB", "[A][B]"); /* a bare property is not folded */
    matches("(?i:[\\p{Lu}])", "aAbB", "[a][A][b][B]");
    matches("(?i:[^a])", "aAbB", "[b][B]");
    matches("(?i:s)", "sS\xC5\xBF", "[s][S][\xC5\xBF]");    /* the long s */
    matches("(?i)k", "k\xE2\x84\xAA", "[k][\xE2\x84\xAA]"); /* the Kelvin sign */
}

static void classes_nest_and_intersect(void **state) {
    (void)state;
    matches("[]a]", "a]", "[a][]]");
    matches("[a&&[^b]]", "ab", "[a]");
    matches("[a-c[x-z]]", "axm", "[a][x]");
    matches("[^a&&b]", "abc", "[a][b][c]");
    matches("[a-z&&[^aeiou]&&[a-m]]", "abcxyz", "[b][c]");
    matches("[[:alpha:]_]+", "a\xC3\xB1_1", "[a\xC3\xB1_]");
    matches("[[:^alpha:]]", "a1", "[1]");
    matches("[\\p{^L}]", "a1", "[1]");
    matches("[^\\P{L}]", "a1", "[a]");
    matches("[a-]", "-", "[-]");
    matches("[+--]", "+,-", "[+][,][-]");
    matches("[\\x{41}-\\x{43}]", "ABCD", "[A][B][C]");
    matches("[^\\S\\n]", "a \n", "[ ]");
}

static void names_of_properties(void **state) {
    (void)state;
    matches("\\p{Latn}", "a\xD0\xB1", "[a]");
    matches("\\p{Han}", "a\xE4\xB8\xAD", "[\xE4\xB8\xAD]");
    matches("\\p{LC}", "ab1", "[a][b]");
    matches("\\p{Uppercase_Letter}", "aB", "[B]");
    matches("\\p{Punct}", "a,+", "[,]");
    matches("[[:punct:]]", "a,+", "[,][+]");
    matches("\\w+|[^\\w\\s]+", "!\xC2\xBD", "[!\xC2\xBD]"); /* one half is a word character, but not in brackets */
    matches("\\w", "\xC2\xBD", "[\xC2\xBD]");
    matches("\\p{Word}", "a", "[a]");
    matches("\\P{L}", "a1", "[1]");
    matches("\\h", "ag", "[a]");
    matches("\\w+", "a\xCC\x81_1-", "[a\xCC\x81_1]"); /* marks are word characters */
    matches("\\p{N}", "x\xF0\x90\xB9\xA0", "[\xF0\x90\xB9\xA0]");
    refuses("\\p{Script=Latin}", "unknown property \\p{Script=Latin}");
    refuses("[[:foo:]]", "unknown class [:foo:]");
}

static void assertions(void **state) {
    (void)state;
    matches("\\bfoo\\b",
            "foo \xC3\xA9"
            "foo foo",
            "[foo][foo]");
    matches("(?<!a)b", "abb", "[b]");
    matches("(?<=ab|c)d", "abdcd", "[d][d]");
    matches("'(?=[a-z])", "'a'1", "[']");
    matches("\\R", "a\r\nb\n", "[\r\n][\n]");
}

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    refuses("(a)\\1", "escape that is not supported at byte 5");
    refuses("\\X", "escape that is not supported at byte 2");
    refuses("(?P<n>a)", "group that is not supported at byte 2");
    refuses("a|*", "nothing to repeat at byte 2");
    refuses("(a", "')' missing at byte 2");
    refuses("a)", "')' without '(' at byte 1");
    refuses("[a", "']' missing at byte 2");
    refuses("[]", "']' missing at byte 2");
    refuses("[a-\\d]", "bad range in a class at byte 5");
    refuses("a{3,2}", "repeat counts in the wrong order at byte 6");
    refuses("\\", "pattern ends in an escape at byte 1");
    refuses("(?<=a+)b", "the pattern cannot be used: lookbehind assertion is not fixed length");
    char deep[400];
    memset(deep, '(', 200);
    memset(deep + 200, ')', 200);
    Error err = {""};
    assert_null(pattern_new(deep, 400, &err));
    assert_string_equal(err.text, "too deeply nested at byte 101");
}

static void a_literal_is_itself(void **state) {
    (void)state;
    Error err;
    Pattern *p = pattern_literal("aa", 2, &err);
    PatternScratch scratch = {0};
    SpanList spans = {0};
    assert_true(pattern_spans(p, &scratch, "baaaab", 6, &spans, &err));
    assert_int_equal(spans.n, 4);
    assert_int_equal(spans.items[0].end, 1);
    assert_int_equal(spans.items[1].end, 3);
    assert_true(spans.items[1].match);
    assert_int_equal(spans.items[2].end, 5);
    assert_int_equal(spans.items[3].end, 6);
    assert_false(spans.items[3].match);
    assert_true(pattern_spans(p, &scratch, "", 0, &spans, &err));
    assert_int_equal(spans.n, 1);
    span_clear(&spans);
    pattern_scratch_clear(&scratch);
    pattern_free(p);
    assert_null(pattern_literal("", 0, &err));
}

/* Ten million characters in one match, with and without something that fails at the end. */
static void a_long_run_is_one_match(void **state) {
    (void)state;
    enum { N = 10000000 };
    char *text = malloc(N + 2);
    memset(text, ' ', N);
    Error err = {""};
    Pattern *p = pattern_new(llama3, sizeof llama3 - 1, &err);
    PatternScratch scratch = {0};
    SpanList spans = {0};
    assert_true(pattern_spans(p, &scratch, text, N, &spans, &err));
    assert_int_equal(spans.n, 1);
    text[N] = 'x';
    if (!pattern_spans(p, &scratch, text, N + 1, &spans, &err)) fail_msg("%s", err.text);
    assert_int_equal(spans.n, 2);
    assert_int_equal(spans.items[0].end, N - 1);
    span_clear(&spans);
    pattern_scratch_clear(&scratch);
    pattern_free(p);
    free(text);
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        Error err = {""};
        mem_fail_after(nth);
        Pattern *p = pattern_new(llama3, sizeof llama3 - 1, &err);
        mem_fail_after(0);
        pattern_free(p);
        if (p) break;
        assert_true(err.text[0] != 0);
        assert_true(nth < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_of_published_tokenizers),
        cmocka_unit_test(anchors_are_those_of_lines),
        cmocka_unit_test(repeats_follow_ruby),
        cmocka_unit_test(options_follow_ruby),
        cmocka_unit_test(classes_nest_and_intersect),
        cmocka_unit_test(names_of_properties),
        cmocka_unit_test(assertions),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(a_literal_is_itself),
        cmocka_unit_test(a_long_run_is_one_match),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
