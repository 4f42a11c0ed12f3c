/* Prompts for filling in the middle, in the order and with the marks of each family. */
#include "text/fim.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Letters and marks as tokens: 0 <unk>, 1 <s>, 2 a, 3 b, 4 c, 5 a newline, 6 ▁, 7 ▁a, 8 ab; then `marks`, from 9 on.
 * `spaced`: a space goes before every text, as SentencePiece's do. The beginning is <s>. */
static Tokenizer *make(const char *const *marks, bool spaced) {
    Buffer json = {0};
    Error err = {""};
    buffer_text(&json, "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}");
    for (int i = 0; marks[i]; i++)
        buffer_printf(&json, ", {\"id\": %d, \"content\": \"%s\", \"special\": true}", 9 + i, marks[i]);
    buffer_text(&json, "], \"normalizer\": ");
    buffer_text(&json, spaced
                           ? "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"▁\"}, "
                             "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}]}"
                           : "null");
    buffer_text(&json,
                ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
                "\"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], "
                "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}}, "
                "\"decoder\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"▁\"}, \"content\": \" \"}, "
                "\"pre_tokenizer\": null, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", "
                "\"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"a\": 2, \"b\": 3, \"c\": 4, \"\\n\": 5, \"▁\": 6, \"▁a\": 7, "
                "\"ab\": 8}, \"merges\": [[\"▁\", \"a\"], [\"a\", \"b\"]]}}");
    Tokenizer *t = tokenizer_parse(json.data, json.length, NULL, 0, &err);
    if (!t) fail_msg("%s", err.text);
    buffer_clear(&json);
    return t;
}

/* The ids of prefix and suffix, as words. */
static void check(const char *const *marks, bool spaced, const char *prefix, const char *suffix, const char *expected) {
    Tokenizer *t = make(marks, spaced);
    const FimForm *f = fim_form_of(t);
    IdList ids = {0};
    Buffer words = {0};
    Error err = {""};
    assert_non_null(f);
    assert_true(fim_encode(f, t, prefix, strlen(prefix), suffix, strlen(suffix), &ids, &err));
    for (size_t i = 0; i < ids.n; i++) buffer_printf(&words, "%s%d", i ? " " : "", (int)ids.ids[i]);
    assert_string_equal(buffer_string(&words), expected);
    buffer_clear(&words);
    id_list_clear(&ids);
    tokenizer_free(t);
}

static void test_prefix_first(void **state) {
    (void)state;
    static const char *const marks[][4] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", NULL},
                                           {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", NULL},
                                           {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", NULL},
                                           {"<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>", NULL},
                                           {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", NULL},
                                           {"<PRE>", "<SUF>", "<MID>", NULL}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) check(marks[i], false, "ac", "ab", "1 9 2 4 10 8 11");
}

static void test_suffix_first(void **state) {
    (void)state;
    static const char *const seed[] = {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", NULL};
    static const char *const geex[] = {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", NULL};
    static const char *const mistral[] = {"[PREFIX]", "[SUFFIX]", NULL};
    static const char *const mellum[] = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "</assistant>", NULL};
    check(seed, false, "ac", "b", "1 10 3 9 2 4 11");
    check(geex, false, "ac", "b", "1 10 3 9 2 4 11");
    check(mistral, false, "ac", "b", "1 10 3 9 2 4");
    check(mellum, false, "ac", "b", "1 10 3 9 2 4 11");
}

/* Code Llama's texts get no space of the tokenizer's, and keep their own: "ac" is not "▁a c". */
static void test_no_space_is_added(void **state) {
    (void)state;
    static const char *const marks[] = {"▁<PRE>", "▁<SUF>", "▁<MID>", NULL};
    check(marks, true, "ac", "ab", "1 9 2 4 10 8 11");
    check(marks, true, " ac", "", "1 9 7 4 10 11");
    check(marks, true, "", "\na", "1 9 10 5 2 11");
}

static void test_its_own_ends(void **state) {
    (void)state;
    static const char *const marks[] = {"<fim_prefix>", "<fim_suffix>",  "<fim_middle>",
                                        "<fim_pad>",    "<|endoftext|>", NULL};
    Tokenizer *t = make(marks, false);
    IdList ends = {0};
    assert_true(fim_end_ids(fim_form_of(t), t, &ends));
    assert_int_equal(ends.n, 2);
    assert_int_equal(ends.ids[0], 13);
    assert_int_equal(ends.ids[1], 12);
    id_list_clear(&ends);
    tokenizer_free(t);
}

static void test_others_have_none(void **state) {
    (void)state;
    static const char *const some[] = {"<fim_prefix>", "<fim_suffix>", NULL};
    Tokenizer *t = make(some, false);
    assert_null(fim_form_of(t));
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_first),      cmocka_unit_test(test_suffix_first),
        cmocka_unit_test(test_no_space_is_added), cmocka_unit_test(test_its_own_ends),
        cmocka_unit_test(test_others_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
