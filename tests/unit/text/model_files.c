/* Tokenizers of folders without tokenizer.json: SentencePiece models, tiktoken files, tekken.json. The expected ids are
 * those of the libraries sentencepiece 0.2.3, tiktoken 0.14.0 and mistral_common 1.13.1
 * (tests/differential/compare_models.py made the data); damaged files are errors, whatever the damage. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/memory.h"
#include "text/tokenizer.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define FOLDER "tests/data/tokenizers/models/"

static Tokenizer *load(const char *name) {
    char path[256];
    Error err = {""};
    snprintf(path, sizeof path, FOLDER "%s", name);
    Tokenizer *t = tokenizer_load(path, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static void check_row(const Tokenizer *t, const JsonValue *row) {
    const JsonValue *text = json_item(row, 0), *expected = json_item(row, 1);
    IdList ids = {0};
    Error err = {""};
    if (!tokenizer_encode(t, text->text, text->length, 0, &ids, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < ids.n || i < expected->length; i++) {
        int64_t id = -1;
        if (i >= ids.n || !json_int(json_item(expected, (uint32_t)i), &id) || ids.ids[i] != id) {
            fail_msg("\"%s\": id %zu of %zu is not %d (of %u)", text->text, i, ids.n, (int)id, expected->length);
        }
    }
    id_list_clear(&ids);
}

static void encodes_as_its_library(const char *name) {
    char path[256];
    snprintf(path, sizeof path, FOLDER "%s/rows.json", name);
    Error err;
    JsonDoc *doc = json_parse_file(path, 0, &err);
    if (!doc) fail_msg("%s", err.text);
    Tokenizer *t = load(name);
    assert_int_equal(json_root(doc)->length, 60);
    for (uint32_t i = 0; i < json_root(doc)->length; i++) check_row(t, json_item(json_root(doc), i));
    tokenizer_free(t);
    json_free(doc);
}

static void sentencepiece_bpe(void **state) {
    (void)state;
    encodes_as_its_library("spm-bpe");
}

static void sentencepiece_unigram_with_rules_and_user_symbols(void **state) {
    (void)state;
    encodes_as_its_library("spm-unigram");
}

/* The normalizer leaves them alone: "A" stays, where other rules make it "a"; runs of the space mark are among them. */
static void bpe_cuts_user_pieces_out_of_normal_text(void **state) {
    (void)state;
    encodes_as_its_library("spm-bpe-user");
}

static void unigram_prefers_user_pieces(void **state) {
    (void)state;
    encodes_as_its_library("spm-unigram-user");
}

static void sentencepiece_characters(void **state) {
    (void)state;
    encodes_as_its_library("spm-characters");
}

static void ends_with(const Tokenizer *t, const Buffer *text, const int32_t *expected, size_t n) {
    IdList ids = {0};
    Error err = {""};
    if (!tokenizer_encode(t, buffer_string(text), text->length, 0, &ids, &err)) fail_msg("%s", err.text);
    assert_true(ids.n >= n);
    assert_memory_equal(ids.ids + ids.n - n, expected, n * sizeof *expected);
    id_list_clear(&ids);
}

/* Two texts whose best ways differ by less than rounding: one where the unknown piece's score must be rounded, and one
 * so long that the library begins to count anew (the end of its ids). */
static void scores_are_single_precision_and_counted_anew(void **state) {
    (void)state;
    static const int32_t rounded[] = {4, 0, 104, 304, 3, 8, 0, 455, 8, 455, 8, 82, 0};
    static const int32_t anew[] = {0, 40, 0, 40, 0, 40, 16, 26};
    Buffer text = {0};
    buffer_text(&text, "\xE4\xB8\xAFlllaab_\xE4\xB8\xAF==_==_d\xE4\xB8\xAF");
    Tokenizer *t = load("spm-unigram");
    ends_with(t, &text, rounded, sizeof rounded / sizeof *rounded);
    tokenizer_free(t);
    buffer_reset(&text);
    for (int i = 0; i < 5000; i++)
        buffer_text(&text, "\xE4\xB8\xAF"
                           "a");
    for (int i = 0; i < 20; i++) buffer_text(&text, "\xE2\x96\x81");
    t = load("spm-unigram-user");
    ends_with(t, &text, anew, sizeof anew / sizeof *anew);
    tokenizer_free(t);
    buffer_clear(&text);
}

/* Patterns of programs that ship such files: Llama 3's, Qwen 1's, Kimi's. */
static void tiktoken_lines(void **state) {
    (void)state;
    encodes_as_its_library("tiktoken");
    encodes_as_its_library("qwen-tiktoken");
    encodes_as_its_library("kimi-tiktoken");
}

static void tekken(void **state) {
    (void)state;
    encodes_as_its_library("tekken");
}

static void round_trip(const Tokenizer *t, const char *text, unsigned flags, const char *expected) {
    IdList ids = {0};
    Buffer out = {0};
    Error err = {""};
    assert_true(tokenizer_encode(t, text, strlen(text), flags, &ids, &err));
    if (!tokenizer_decode(t, ids.ids, ids.n, false, &out, &err)) fail_msg("%s", err.text);
    assert_string_equal(buffer_string(&out), expected);
    id_list_clear(&ids);
    buffer_clear(&out);
}

static void specials_and_decoding(void **state) {
    (void)state;
    Tokenizer *t = load("spm-bpe");
    round_trip(t, "two  words, \xF0\x9F\x8C\xB1", 0, "two  words, \xF0\x9F\x8C\xB1");
    round_trip(t, "a<s>b", ENCODE_SPECIAL, "<s> a<s>b");
    assert_true(tokenizer_is_special(t, tokenizer_find(t, "</s>")));
    tokenizer_free(t);
    t = load("tekken");
    assert_int_equal(tokenizer_find(t, "[INST]"), 3);
    assert_int_equal(tokenizer_size(t), 620);
    round_trip(t, "[INST]x \xF0\x9F\x8C\xB1[/INST]", ENCODE_SPECIAL, "<s>[INST]x \xF0\x9F\x8C\xB1[/INST]");
    tokenizer_free(t);
    t = load("tiktoken");
    round_trip(t, "x \xF0\x9F\x8C\xB1\n", ENCODE_SPECIAL, "x \xF0\x9F\x8C\xB1\n");
    tokenizer_free(t);
    t = load("qwen-tiktoken"); /* its special tokens are in no file: they follow the vocabulary */
    assert_int_equal(tokenizer_find(t, "<|endoftext|>"), 600);
    assert_int_equal(tokenizer_find(t, "<|im_end|>"), 602);
    assert_int_equal(tokenizer_find(t, "<|extra_204|>"), 807);
    tokenizer_free(t);
}

typedef struct Place {
    char folder[64], file[128];
} Place;

static Place place_new(const char *name) {
    Place p = {.folder = "/tmp/lockstep-models-XXXXXX"};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.file, sizeof p.file, "%s/%s", p.folder, name);
    return p;
}

static void place_write(const Place *p, const char *bytes, size_t n) {
    FILE *f = fopen(p->file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void place_remove(const Place *p) {
    unlink(p->file);
    rmdir(p->folder);
}

static Buffer read_data(const char *name) {
    Buffer b = {0};
    char path[256], block[4096];
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) buffer_append(&b, block, n);
    fclose(f);
    if (b.length == 0) fail_msg("%s is empty", path);
    return b;
}

/* Cut at many places, and with single bytes changed: an error, or a tokenizer that works on; never a crash. */
static void damaged_models_do_no_harm(void **state) {
    (void)state;
    Buffer model = read_data("spm-unigram/tokenizer.model");
    Place p = place_new("tokenizer.model");
    uint32_t seed = 3;
    for (int i = 0; i < 300; i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t at = (seed >> 8) % model.length;
        char kept = model.data[at];
        bool cut = i % 2;
        if (!cut) model.data[at] = (char)(kept ^ (1 << (seed >> 4 & 7)));
        place_write(&p, model.data, cut ? at : model.length);
        Error err = {""};
        Tokenizer *t = tokenizer_load(p.folder, &err);
        if (t) {
            IdList ids = {0};
            tokenizer_encode(t, "some text \xC3\xA9", 12, ENCODE_SPECIAL, &ids, &err);
            id_list_clear(&ids);
        } else {
            assert_non_null(strstr(err.text, "tokenizer.model"));
        }
        tokenizer_free(t);
        model.data[at] = kept;
    }
    place_remove(&p);
    buffer_clear(&model);
}

static void refuses(const char *name, const char *content, const char *message) {
    Place p = place_new(name);
    place_write(&p, content, strlen(content));
    Error err = {""};
    assert_null(tokenizer_load(p.folder, &err));
    char expected[256];
    snprintf(expected, sizeof expected, "%s: %s", p.file, message);
    assert_string_equal(err.text, expected);
    place_remove(&p);
}

static void errors_name_the_file_and_the_fault(void **state) {
    (void)state;
    refuses("tokenizer.model", "", "it is no SentencePiece model, or damaged");
    refuses("tokenizer.model", "not a model", "it is no SentencePiece model, or damaged");
    refuses("tokenizer.model", "YQ== 0\nYg== x\n", "token 1 has no valid rank");
    refuses("qwen.tiktoken", "YQ== 0\n!!!! 1\n", "token 1 is not base64");
    refuses("tekken.json", "{}", "config.pattern is not a string");
    refuses("tekken.json",
            "{\"config\":{\"pattern\":\"(\",\"default_vocab_size\":9,\"default_num_special_tokens\":2},\"vocab\":[{"
            "\"rank\":0,"
            "\"token_bytes\":\"YQ==\"}]}",
            "')' missing at byte 1");
    Place empty = place_new("x");
    Error err = {""};
    char expected[256];
    snprintf(expected, sizeof expected, "%s/tokenizer.json: No such file or directory", empty.folder);
    assert_null(tokenizer_load(empty.folder, &err));
    assert_string_equal(err.text, expected);
    place_remove(&empty);
}

/* Such files have many names; of two the first by name counts, and one of the known names before both. */
static void any_name_that_ends_in_tiktoken_is_found(void **state) {
    (void)state;
    Place later = place_new("b.tiktoken"), sooner = later, known = later;
    Error err = {""};
    snprintf(sooner.file, sizeof sooner.file, "%s/a.b.tiktoken", sooner.folder);
    snprintf(known.file, sizeof known.file, "%s/tiktoken.model", known.folder);
    const Place *places[] = {&later, &sooner, &known};
    static const char *const contents[] = {"YQ== 0\n", "YQ== 0\nYg== 1\n", "YQ== 0\nYg== 1\nYw== 2\n"};
    for (int i = 0; i < 3; i++) {
        place_write(places[i], contents[i], strlen(contents[i]));
        Tokenizer *t = tokenizer_load(later.folder, &err);
        if (!t) fail_msg("%s", err.text);
        assert_int_equal(tokenizer_size(t), i + 1);
        tokenizer_free(t);
    }
    for (int i = 0; i < 3; i++) place_remove(places[i]);
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    static const char *const names[] = {"spm-bpe-user", "spm-unigram-user", "tiktoken", "tekken"};
    for (int k = 0; k < 4; k++) {
        char path[256];
        snprintf(path, sizeof path, FOLDER "%s", names[k]);
        for (uint64_t nth = 1; nth < 4000; nth += 1 + nth / 20) {
            Error err = {""};
            mem_fail_after(nth);
            Tokenizer *t = tokenizer_load(path, &err);
            mem_fail_after(0);
            assert_true(t || err.text[0]);
            tokenizer_free(t);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_bpe),
        cmocka_unit_test(sentencepiece_unigram_with_rules_and_user_symbols),
        cmocka_unit_test(bpe_cuts_user_pieces_out_of_normal_text),
        cmocka_unit_test(unigram_prefers_user_pieces),
        cmocka_unit_test(sentencepiece_characters),
        cmocka_unit_test(scores_are_single_precision_and_counted_anew),
        cmocka_unit_test(tiktoken_lines),
        cmocka_unit_test(tekken),
        cmocka_unit_test(specials_and_decoding),
        cmocka_unit_test(damaged_models_do_no_harm),
        cmocka_unit_test(errors_name_the_file_and_the_fault),
        cmocka_unit_test(any_name_that_ends_in_tiktoken_is_found),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
