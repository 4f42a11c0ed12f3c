/* A SentencePiece vocabulary from a GGUF file: the merges that its scores mean, and what the imported tokenizer makes
 * of text, with and without a space before it. */
#include "convert/gguf_spm.h"
#include "base/json.h"
#include "convert/gguf_tokenizer.h"
#include "support/folder.h"
#include "support/gguf_build.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MARK "\xE2\x96\x81"

enum { N_TOKENS = 17 };

static const char *const tokens[N_TOKENS] = {
    "<unk>", "<s>",           "</s>", "<0xC3>", "<0xA9>",         "a",  "b", "c", MARK, "ab", "bc",
    "abc",   "\342\226\201a", "  ",   "<t>",    "\342\226\201ab", "<u>"};
static const int32_t types[N_TOKENS] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 1, 5};

static TestFolder folder;
static Gguf *file;

/* build_f32s is not there because nothing else needs it: an array is a kind, an item kind, a count and the items. */
static void add_scores(GgufBuild *b) {
    static const float scores[N_TOKENS] = {0, 0, 0, 0, 0, -9, -10, -11, -12, -2, -1, -3, -2, -1000, -1000, -2, 0};
    build_string(&b->keys, "tokenizer.ggml.scores");
    build_number(&b->keys, GGUF_ARRAY, 4);
    build_number(&b->keys, GGUF_F32, 4);
    build_number(&b->keys, N_TOKENS, 8);
    buffer_append(&b->keys, scores, sizeof scores);
    b->n_keys++;
}

static GgufModel open_model(void (*change)(GgufBuild *)) {
    GgufBuild b;
    Error err = {""};
    test_folder_make(&folder);
    build_begin(&b);
    build_text(&b, "tokenizer.ggml.model", "llama");
    build_texts(&b, "tokenizer.ggml.tokens", tokens, N_TOKENS);
    build_i32s(&b, "tokenizer.ggml.token_type", types, N_TOKENS);
    add_scores(&b);
    build_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    build_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    if (change) change(&b);
    build_write(&b, &folder, "m.gguf");
    build_clear(&b);
    if (!(file = gguf_open(test_path(&folder, "m.gguf"), &err))) fail_msg("%s", err.text);
    return (GgufModel){.file = file, .size = {[SIZE_VOCAB] = N_TOKENS}};
}

static void close_model(void) {
    gguf_close(file);
    test_folder_remove(&folder);
}

/* Best score first: bc (-1); then ab, _a and _ab (-2), where of two with equal scores the one with the longer left half
 * comes first; then abc (-3), whose two ways are ordered likewise. Control, byte, unused and user-defined tokens take
 * no part. */
static void merges_follow_the_scores(void **state) {
    GgufModel m = open_model(NULL);
    Buffer out = {0};
    Error err = {""};
    (void)state;
    if (!gguf_spm_merges(&m, &out, &err)) fail_msg("%s", err.text);
    assert_string_equal(buffer_string(&out), "    \"merges\": ["
                                             "\n      [\"b\", \"c\"],"
                                             "\n      [\"" MARK "a\", \"b\"],"
                                             "\n      [\"" MARK "\", \"ab\"],"
                                             "\n      [\"a\", \"b\"],"
                                             "\n      [\"" MARK "\", \"a\"],"
                                             "\n      [\"ab\", \"c\"],"
                                             "\n      [\"a\", \"bc\"]"
                                             "\n    ]\n");
    buffer_clear(&out);
    close_model();
}

static void check_text(void (*change)(GgufBuild *), const char *text, const int32_t *expected, size_t n) {
    GgufModel m = open_model(change);
    Buffer out = {0};
    IdList ids = {0};
    Error err = {""};
    if (!gguf_tokenizer_json(&m, &out, &err)) fail_msg("%s", err.text);
    test_write_text(&folder, "tokenizer.json", buffer_string(&out));
    buffer_clear(&out);
    Tokenizer *t = tokenizer_load(folder.path, &err);
    if (!t || !tokenizer_encode(t, text, strlen(text), ENCODE_SPECIAL, &ids, &err)) fail_msg("%s", err.text);
    assert_int_equal(ids.n, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(ids.ids[i], expected[i]);
    id_list_clear(&ids);
    tokenizer_free(t);
    close_model();
}

static void no_prefix(GgufBuild *b) {
    build_bool(b, "tokenizer.ggml.add_space_prefix", false);
}

static void no_begin(GgufBuild *b) {
    build_bool(b, "tokenizer.ggml.add_bos_token", false);
}

static void text_becomes_the_ids_of_the_vocabulary(void **state) {
    (void)state;
    check_text(NULL, "ab", (const int32_t[]){1, 15}, 2);               /* <s> _ab */
    check_text(no_begin, "ab", (const int32_t[]){15}, 1);              /* the file says so */
    check_text(no_prefix, "ab", (const int32_t[]){1, 9}, 2);           /* <s> ab */
    check_text(no_prefix, "abc", (const int32_t[]){1, 11}, 2);         /* by way of bc */
    check_text(no_prefix, "a  ab", (const int32_t[]){1, 5, 13, 9}, 4); /* the two spaces are a token of the user's */
    check_text(no_prefix, "b\xC3\xA9", (const int32_t[]){1, 6, 3, 4}, 4);
    check_text(no_prefix, "<t>x", (const int32_t[]){1, 14, 0}, 3); /* x has no bytes either */
}

static void a_file_without_scores_is_refused(void **state) {
    GgufBuild b;
    Error err = {""};
    Buffer out = {0};
    (void)state;
    test_folder_make(&folder);
    build_begin(&b);
    build_text(&b, "tokenizer.ggml.model", "llama");
    build_texts(&b, "tokenizer.ggml.tokens", tokens, N_TOKENS);
    build_write(&b, &folder, "m.gguf");
    build_clear(&b);
    if (!(file = gguf_open(test_path(&folder, "m.gguf"), &err))) fail_msg("%s", err.text);
    GgufModel m = {.file = file, .size = {[SIZE_VOCAB] = N_TOKENS}};
    assert_false(gguf_tokenizer_json(&m, &out, &err));
    assert_non_null(strstr(err.text, "has no score for each of its tokens"));
    buffer_clear(&out);
    close_model();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_follow_the_scores),
        cmocka_unit_test(text_becomes_the_ids_of_the_vocabulary),
        cmocka_unit_test(a_file_without_scores_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
