/* Vocabularies of encoders from GGUF files: WordPiece, whose marks are turned around and whose case is found out, and
 * unigram; what the imported tokenizers make of text. */
#include "convert/gguf_encoder_vocab.h"
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

static TestFolder folder;

typedef struct Vocabulary {
    const char *kind;
    const char *const *tokens;
    const int32_t *types;
    const float *scores; /* NULL: none */
    uint64_t n;
    const char *lower_key; /* NULL: the file does not say */
    bool lower;
} Vocabulary;

static void add_scores(GgufBuild *b, const Vocabulary *v) {
    build_string(&b->keys, "tokenizer.ggml.scores");
    build_number(&b->keys, GGUF_ARRAY, 4);
    build_number(&b->keys, GGUF_F32, 4);
    build_number(&b->keys, v->n, 8);
    buffer_append(&b->keys, v->scores, v->n * sizeof *v->scores);
    b->n_keys++;
}

static Gguf *build(const Vocabulary *v) {
    GgufBuild b;
    Error err = {""};
    build_begin(&b);
    build_text(&b, "tokenizer.ggml.model", v->kind);
    build_texts(&b, "tokenizer.ggml.tokens", v->tokens, v->n);
    build_i32s(&b, "tokenizer.ggml.token_type", v->types, v->n);
    if (v->scores) add_scores(&b, v);
    if (v->lower_key) build_bool(&b, v->lower_key, v->lower);
    build_u32(&b, "tokenizer.ggml.cls_token_id", 1);
    build_u32(&b, "tokenizer.ggml.seperator_token_id", 2);
    build_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    build_bool(&b, "tokenizer.ggml.add_bos_token", true);
    build_write(&b, &folder, "v.gguf");
    build_clear(&b);
    Gguf *g = gguf_open(test_path(&folder, "v.gguf"), &err);
    if (!g) fail_msg("%s", err.text);
    return g;
}

static void check_text(const Vocabulary *v, const char *text, const int32_t *expected, size_t n) {
    Error err = {""};
    Buffer out = {0};
    IdList ids = {0};
    test_folder_make(&folder);
    Gguf *g = build(v);
    GgufModel m = {.file = g, .size = {[SIZE_VOCAB] = (int64_t)v->n}};
    if (!gguf_tokenizer_json(&m, &out, &err)) fail_msg("%s", err.text);
    test_write_text(&folder, "tokenizer.json", buffer_string(&out));
    Tokenizer *t = tokenizer_load(folder.path, &err);
    if (!t || !tokenizer_encode(t, text, strlen(text), ENCODE_SPECIAL, &ids, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < ids.n && i < n; i++) assert_int_equal(ids.ids[i], expected[i]);
    assert_int_equal(ids.n, n);
    id_list_clear(&ids);
    tokenizer_free(t);
    buffer_clear(&out);
    gguf_close(g);
    test_folder_remove(&folder);
}

/* As converters write "run", "##ning", "fast", an unused token of old files and of new ones. */
static const char *const words[] = {"[UNK]",     "[CLS]", "[SEP]",       MARK "run",         "ning",
                                    MARK "fast", "er",    "[unused1]",   MARK "[unused2]",   MARK "caf\xC3\xA9",
                                    MARK "cafe", "ste",   MARK "Faster", MARK "\xE4\xB8\xAD"};
static const int32_t word_types[] = {3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void word_pieces_are_found(void **state) {
    (void)state;
    Vocabulary lower = {"bert", words, word_types, NULL, 14, "tokenizer.ggml.normalizer.lowercase", true};
    Vocabulary cased = {"bert", words, word_types, NULL, 14, NULL, false}; /* "Faster": a capital letter */
    Vocabulary plain = {"bert", words, word_types, NULL, 12, NULL, false};
    check_text(&lower, "Running faster", (const int32_t[]){1, 3, 4, 5, 6, 2}, 6);
    check_text(&lower, "runner", (const int32_t[]){1, 0, 2}, 3);                     /* "##ner" is no piece */
    check_text(&lower, "Run caf\xC3\xA9ste", (const int32_t[]){1, 3, 10, 11, 2}, 5); /* the accent goes with the case */
    check_text(&lower, "run\xE4\xB8\xADrun", (const int32_t[]){1, 3, 13, 3, 2}, 5);
    check_text(&cased, "Faster Run run", (const int32_t[]){1, 12, 0, 3, 2}, 5);
    check_text(&cased, "caf\xC3\xA9", (const int32_t[]){1, 9, 2}, 3);
    check_text(&plain, "RUN", (const int32_t[]){1, 3, 2}, 3);
}

static void unigrams_are_found(void **state) {
    static const char *const pieces[] = {"<unk>", "<s>", "</s>", MARK, MARK "a", "b", "ab", MARK "ab", "c"};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, -3, -2, -2, -5, -6, -4};
    Vocabulary v = {"t5", pieces, types, scores, 9, NULL, false};
    (void)state;
    check_text(&v, "ab", (const int32_t[]){1, 4, 5, 2}, 4);           /* -2 - 2 is better than -6 */
    check_text(&v, "a  cab", (const int32_t[]){1, 4, 3, 8, 6, 2}, 6); /* two spaces are one */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(word_pieces_are_found), cmocka_unit_test(unigrams_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
