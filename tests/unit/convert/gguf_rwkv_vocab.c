/* RWKV's vocabulary: bytes as Python spells them, cut from the left by the longest token, against a search that is
 * nothing but that; texts come back whole. */
#include "convert/gguf_rwkv_vocab.h"
#include "convert/gguf_tokenizer.h"
#include "support/gguf_build.h"
#include "support/random.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* After the bytes, ids 1 to 256. Two are halves of a character, and a quote or two. */
static const char *const longer[] = {"\n\n",         "\n\n\n",   "he",  "hello", "ello w", " w",   "world", "\xE4\xBD",
                                     "\xE4\xBD\xA0", "\xA0\xE5", "\\n", "'\"",   "\t\r",   "aaaa", "aa"};
enum { LONGER = sizeof longer / sizeof *longer, TOKENS = 1 + 256 + LONGER + 1 };

static char spelled[TOKENS][64];
static const char *names[TOKENS];
static int32_t types[TOKENS];

/* repr(bytes)[2:-1] */
static void spell(const char *text, size_t n, char *out) {
    bool quote = memchr(text, '\'', n) && !memchr(text, '"', n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        static const char escaped[] = "\t\n\r\\", letters[] = "tnr\\";
        const char *at = c ? strchr(escaped, c) : NULL;
        if (at)
            out += sprintf(out, "\\%c", letters[at - escaped]);
        else if (c == '\'' && !quote)
            out += sprintf(out, "\\'");
        else
            out += sprintf(out, c >= 32 && c < 127 ? "%c" : "\\x%02x", c);
    }
    *out = 0;
}

static void name_tokens(void) {
    strcpy(spelled[0], "<s>");
    types[0] = 3;
    for (int i = 1; i < TOKENS; i++) {
        char byte = (char)(i - 1);
        types[i] = i == TOKENS - 1 ? 5 : 1;
        if (i == TOKENS - 1)
            strcpy(spelled[i], "[PAD]");
        else if (i <= 256)
            spell(&byte, 1, spelled[i]);
        else
            spell(longer[i - 257], strlen(longer[i - 257]), spelled[i]);
    }
    for (int i = 0; i < TOKENS; i++) names[i] = spelled[i];
}

static bool import_vocabulary(Error *err) {
    GgufBuild b;
    Buffer out = {0};
    build_begin(&b);
    build_text(&b, "tokenizer.ggml.model", "rwkv");
    build_texts(&b, "tokenizer.ggml.tokens", names, TOKENS);
    build_i32s(&b, "tokenizer.ggml.token_type", types, TOKENS);
    build_u32(&b, "tokenizer.ggml.eos_token_id", 0);
    build_u32(&b, "tokenizer.ggml.eot_token_id", 257);
    build_text(&b, "tokenizer.chat_template", "rwkv-world");
    build_write(&b, &test_folder, "v.gguf");
    build_clear(&b);
    Gguf *g = gguf_open(test_path(&test_folder, "v.gguf"), err);
    assert_non_null(g);
    GgufModel m = {.file = g, .size = {[SIZE_VOCAB] = TOKENS}};
    bool ok = gguf_tokenizer_json(&m, &out, err);
    if (ok) test_write(&test_folder, "tokenizer.json", out.data, out.length);
    buffer_reset(&out);
    assert_true(gguf_chat_template(&m, &out, err));
    assert_int_equal(out.length, 0); /* "rwkv-world" is a name */
    buffer_clear(&out);
    gguf_close(g);
    return ok;
}

static Tokenizer *tokenizer_of(void) {
    Error err = {""};
    name_tokens();
    if (!import_vocabulary(&err)) fail_msg("%s", err.text);
    Tokenizer *t = tokenizer_load(test_folder.path, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

/* The longest of all tokens that text begins with. */
static int32_t longest(const char *text, size_t n, size_t *length) {
    int32_t id = 1 + (unsigned char)*text;
    *length = 1;
    for (int i = 0; i < LONGER; i++) {
        size_t m = strlen(longer[i]);
        if (m <= *length || m > n || memcmp(longer[i], text, m) != 0) continue;
        *length = m;
        id = 257 + i;
    }
    return id;
}

static void check(const Tokenizer *t, const char *text, size_t n) {
    IdList ids = {0};
    Error err = {""};
    Buffer back = {0};
    if (!tokenizer_encode(t, text, n, ENCODE_SPECIAL, &ids, &err)) fail_msg("%s", err.text);
    size_t at = 0, length;
    for (size_t i = 0; i < ids.n; i++, at += length) {
        assert_true(at < n);
        assert_int_equal(ids.ids[i], longest(text + at, n - at, &length));
    }
    assert_int_equal(at, n);
    if (!tokenizer_decode(t, ids.ids, ids.n, false, &back, &err)) fail_msg("%s", err.text);
    assert_int_equal(back.length, n);
    if (n) assert_memory_equal(back.data, text, n);
    buffer_clear(&back);
    id_list_clear(&ids);
}

static void the_longest_token_is_taken(void **state) {
    static const char *const texts[] = {"hello world", "ello world", "\n\n\n\n\n", "\xE4\xBD\xA0\xE5\xA5\xBD",
                                        "'\"\\n\t\r",  "aaaaaaa",    "",           " "};
    Tokenizer *t = tokenizer_of();
    IdList ids = {0};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) check(t, texts[i], strlen(texts[i]));
    assert_true(tokenizer_encode(t, "hello world<s>", 14, ENCODE_SPECIAL, &ids, NULL));
    const int32_t expected[] = {260, 262, 1 + 'o', 1 + 'r', 1 + 'l', 1 + 'd', 0}; /* hello, " w", and its end */
    assert_int_equal(ids.n, 7);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    assert_false(tokenizer_is_special(t, 257)); /* the empty line that ends a turn is a token like any other */
    id_list_clear(&ids);
    tokenizer_free(t);
}

static void random_texts_are_cut_alike(void **state) {
    static char text[4000];
    static const char *const parts[] = {"a",
                                        "e",
                                        "hell",
                                        "o",
                                        " ",
                                        "w",
                                        "\n",
                                        "\t",
                                        "\r",
                                        "'",
                                        "\"",
                                        "\\",
                                        "n",
                                        "\xE4\xBD\xA0",
                                        "\xE5\xA5\xBD",
                                        "\xC2\xA0",
                                        "world"};
    Tokenizer *t = tokenizer_of();
    (void)state;
    for (int round = 0; round < 200; round++) {
        size_t n = 0;
        while (n + 16 < sizeof text && random_below(round < 199 ? 60 : 4000) != 0) {
            const char *p = parts[random_below((int)(sizeof parts / sizeof *parts))];
            while (*p) text[n++] = *p++;
        }
        check(t, text, n);
    }
    tokenizer_free(t);
}

static void other_spellings_are_refused(void **state) {
    static const char *const wrong[] = {"\\", "a\\", "\\x4", "\\xg0", "\\x4G", "\\q", ""};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Error err = {""};
        name_tokens();
        names[258] = wrong[i];
        assert_false(import_vocabulary(&err));
        assert_non_null(strstr(err.text, "its token 258 (\""));
        assert_non_null(strstr(err.text, "is not spelled as Python spells bytes"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_token_is_taken, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(random_texts_are_cut_alike, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(other_spellings_are_refused, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
