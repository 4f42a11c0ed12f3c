/* Pairs of texts: what each kind of post-processor makes of two lists of ids, and how much of them is left where they
 * are too long. The lengths are those of tokenizers 0.23.3 (truncation "longest_first"). */
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"
#define SPECIAL(name, type) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":" #type "}}"
#define SEQUENCE(name, type) "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":" #type "}}"
#define SINGLE "\"single\":[" SEQUENCE("A", 0) "]"
#define SPECIALS \
    "\"special_tokens\":{\"S\":{\"id\":\"S\",\"ids\":[90],\"tokens\":[\"S\"]},\"T\":{\"id\":\"T\",\"ids\":[91,92]}}"

static Tokenizer *tokenizer_with(const char *post_processor, Error *err) {
    char json[1000];
    snprintf(json, sizeof json, "{\"post_processor\":%s," MODEL "}", post_processor);
    return tokenizer_parse(json, strlen(json), NULL, 0, err);
}

static Tokenizer *tokenizer_of(const char *post_processor) {
    Error err = {""};
    Tokenizer *t = tokenizer_with(post_processor, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static void has(const IdList *list, const char *expected, const char *what) {
    char text[400] = "";
    for (size_t i = 0, at = 0; i < list->n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i ? " " : "", (int)list->ids[i]);
    if (strcmp(text, expected) != 0) fail_msg("%s: %s, not %s", what, text, expected);
}

/* The pair of 1 2 3 and 4 5. */
static void gives(const char *post_processor, const char *ids, const char *types) {
    Tokenizer *t = tokenizer_of(post_processor);
    int32_t first_ids[] = {1, 2, 3}, second_ids[] = {4, 5};
    IdList first = {first_ids, 3, 3}, second = {second_ids, 2, 2}, out = {0}, out_types = {0};
    Error err = {""};
    size_t n_cut = 99;
    if (!tokenizer_pair(t, &first, &second, 100, &out, &out_types, &n_cut, &err)) fail_msg("%s", err.text);
    has(&out, ids, post_processor);
    has(&out_types, types, post_processor);
    assert_int_equal(n_cut, 0);
    id_list_clear(&out);
    id_list_clear(&out_types);
    tokenizer_free(t);
}

static void every_post_processor_knows_pairs(void **state) {
    (void)state;
    gives("{\"type\":\"BertProcessing\",\"cls\":[\"a\",7],\"sep\":[\"b\",8]}", "7 1 2 3 8 4 5 8", "0 0 0 0 0 1 1 1");
    gives("{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",7],\"sep\":[\"b\",8]}", "7 1 2 3 8 8 4 5 8",
          "0 0 0 0 0 0 0 0 0");
    gives("{\"type\":\"TemplateProcessing\"," SINGLE
          ",\"pair\":[" SPECIAL("T", 2) "," SEQUENCE("B", 3) "," SPECIAL("S", 0) "," SEQUENCE("A", 1) "]," SPECIALS "}",
          "91 92 4 5 90 1 2 3", "2 2 3 3 0 1 1 1");
    gives("null", "1 2 3 4 5", "0 0 0 1 1");
    gives("{\"type\":\"ByteLevel\"}", "1 2 3 4 5", "0 0 0 1 1");
    gives("{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":\"BertProcessing\",\"cls\":[\"a\","
          "7],"
          "\"sep\":[\"b\",8]}]}",
          "7 1 2 3 8 4 5 8", "0 0 0 0 0 1 1 1");
}

static void refuses(const char *post_processor, const char *says) {
    Error err = {""};
    assert_null(tokenizer_with(post_processor, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void a_bad_template_is_named(void **state) {
    (void)state;
    refuses("{\"type\":\"TemplateProcessing\"," SINGLE ",\"pair\":3}", "\"pair\" is not an array");
    refuses("{\"type\":\"TemplateProcessing\"," SINGLE ",\"pair\":[{}]}", "\"pair\" holds something unknown");
    refuses("{\"type\":\"TemplateProcessing\"," SINGLE ",\"pair\":[{\"Sequence\":{\"id\":\"A\"}}]}",
            "\"pair\" has an item without a \"type_id\"");
    refuses("{\"type\":\"TemplateProcessing\"," SINGLE ",\"pair\":[" SEQUENCE("C", 0) "]}", "neither \"A\" nor \"B\"");
    refuses("{\"type\":\"TemplateProcessing\"," SINGLE ",\"pair\":[" SPECIAL("U", 0) "]," SPECIALS "}",
            "the special token \"U\" has no \"ids\"");
}

static void a_file_may_know_no_pairs(void **state) {
    Tokenizer *t = tokenizer_of("{\"type\":\"TemplateProcessing\"," SINGLE "," SPECIALS "}");
    IdList none = {0}, out = {0}, types = {0};
    Error err = {""};
    size_t n_cut;
    (void)state;
    assert_false(tokenizer_pair(t, &none, &none, 100, &out, &types, &n_cut, &err));
    assert_string_equal(err.text, "the tokenizer's files do not say how two texts become a pair");
    tokenizer_free(t);
}

/* Of texts of a and b ids, with three special tokens, within max: how many of each are left. */
static void leaves(const Tokenizer *t, size_t a, size_t b, size_t max, size_t of_a, size_t of_b) {
    int32_t many[64];
    for (int i = 0; i < 64; i++) many[i] = i < 32 ? 10 + i : 50 + i;
    IdList first = {many, a, 64}, second = {many + 32, b, 32}, out = {0}, types = {0};
    Error err = {""};
    size_t n_cut;
    if (!tokenizer_pair(t, &first, &second, max, &out, &types, &n_cut, &err)) fail_msg("%s", err.text);
    assert_int_equal(out.n, of_a + of_b + 3);
    assert_int_equal(types.n, out.n);
    assert_int_equal(n_cut, a + b - of_a - of_b);
    assert_memory_equal(out.ids + 1, many, of_a * sizeof *many); /* it is the end that goes */
    assert_int_equal(out.ids[1 + of_a], 8);
    assert_memory_equal(out.ids + 2 + of_a, many + 32, of_b * sizeof *many);
    id_list_clear(&out);
    id_list_clear(&types);
}

static void the_longer_text_is_cut_first(void **state) {
    Tokenizer *t = tokenizer_of("{\"type\":\"BertProcessing\",\"cls\":[\"a\",7],\"sep\":[\"b\",8]}");
    IdList none = {0}, out = {0}, types = {0};
    Error err = {""};
    size_t n_cut;
    (void)state;
    leaves(t, 5, 6, 14, 5, 6); /* just fits */
    leaves(t, 3, 20, 14, 3, 8);
    leaves(t, 20, 3, 14, 8, 3);
    leaves(t, 20, 25, 14, 5, 6); /* the longer keeps the odd one */
    leaves(t, 25, 20, 14, 6, 5);
    leaves(t, 20, 20, 14, 5, 6);
    leaves(t, 6, 6, 14, 5, 6);
    leaves(t, 0, 20, 14, 0, 11);
    leaves(t, 20, 20, 4, 0, 1);
    assert_false(tokenizer_pair(t, &none, &none, 3, &out, &types, &n_cut, &err));
    assert_string_equal(err.text, "3 tokens are too few for a pair: its special ones are 3");
    assert_int_equal(out.n + types.n, 0);
    tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_post_processor_knows_pairs),
        cmocka_unit_test(a_bad_template_is_named),
        cmocka_unit_test(a_file_may_know_no_pairs),
        cmocka_unit_test(the_longer_text_is_cut_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
