/* The tokenizer cases of the users' list (spaces and specials, flags of added tokens, characters over several tokens,
 * byte-level vocabularies with another decoder), each as a small tokenizer.json written here, and what a caller may
 * rely on: ids and names, errors, streams, threads, memory. */
#define _POSIX_C_SOURCE 200809L
#include "text/tokenizer.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- the fixtures ---- */

#define SPM_DECODER                                                                                         \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"}," \
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"                                   \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
#define SPM_NORMALIZER                                                                             \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"}," \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"

static Tokenizer *parse(const char *json) {
    Error err = {""};
    Tokenizer *t = tokenizer_parse(json, strlen(json), NULL, 0, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static void add_words(Buffer *b, const char *words, int first_id) {
    int id = first_id;
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " ");
        buffer_printf(b, "%s\"%.*s\":%d", id ? "," : "", (int)n, w, id);
        id++;
        w += n + strspn(w + n, " ");
    }
}

/* "a b|c d" as pairs. */
static void add_merges(Buffer *b, const char *merges) {
    for (const char *m = merges; *m;) {
        size_t n = strcspn(m, "|");
        buffer_printf(b, "%s\"%.*s\"", m == merges ? "" : ",", (int)n, m);
        m += n + (m[n] == '|');
    }
}

/* TOK-S of the list: SentencePiece-style. */
static Tokenizer *spm(const char *normalizer, const char *pretokenizer, const char *postprocessor) {
    Buffer b = {0};
    buffer_printf(&b, "{\"added_tokens\":[");
    static const char *const specials[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < 3; i++) {
        buffer_printf(&b, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true,\"normalized\":false}", i ? "," : "", i,
                      specials[i]);
    }
    buffer_printf(
        &b, "],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":" SPM_DECODER ",\"model\":",
        normalizer, pretokenizer, postprocessor);
    buffer_text(&b, "{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{");
    add_words(&b, "<unk> <s> </s>", 0);
    for (int i = 0; i < 256; i++) buffer_printf(&b, ",\"<0x%02X>\":%d", (unsigned)i, 3 + i);
    Buffer words = {0}, merges = {0};
#define S "\xE2\x96\x81"
    add_words(&b,
              S " h e l o w r d x ! = y " S "h " S "he ll " S "hell " S "hello " S "w or " S "wor ld " S "world " S S
                " " S "x " S "y",
              259);
    buffer_text(&b, "},\"merges\":[");
    add_merges(&b, S " h|" S "h e|l l|" S "he ll|" S "hell o|" S " w|o r|" S "w or|l d|" S "wor ld|" S " " S "|" S
                     " x|" S " y");
    buffer_text(&b, "]}}");
    Tokenizer *t = parse(b.data);
    buffer_clear(&b);
    buffer_clear(&words);
    buffer_clear(&merges);
    return t;
}

/* TOK-B of the list: id n is byte n; the merges' results follow. */
static Tokenizer *byte_level(const char *merges, const char *decoder) {
    Buffer b = {0};
    buffer_printf(&b,
                  "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":" BYTE_LEVEL
                  ",\"post_processor\":null,\"decoder\":%s,",
                  decoder);
    buffer_text(&b, "\"model\":{\"type\":\"BPE\",\"vocab\":{");
    uint32_t next = 0x100;
    for (uint32_t i = 0; i < 256; i++) {
        bool printable = (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        char text[5] = "";
        utf8_encode(printable ? i : next++, text);
        if (i) buffer_byte(&b, ',');
        json_write_string(&b, text, strlen(text), false);
        buffer_printf(&b, ":%u", i);
    }
    int id = 256;
    for (const char *m = merges; *m;) {
        size_t n = strcspn(m, "|"), left = strcspn(m, " ");
        buffer_printf(&b, ",\"%.*s%.*s\":%d", (int)left, m, (int)(n - left - 1), m + left + 1, id++);
        m += n + (m[n] == '|');
    }
    buffer_text(&b, "},\"merges\":[");
    add_merges(&b, merges);
    buffer_text(&b, "]}}");
    Tokenizer *t = parse(b.data);
    buffer_clear(&b);
    return t;
}

/* TOK-A of the list: characters, with four added tokens. */
static Tokenizer *characters(void) {
    return parse(
        "{\"added_tokens\":[{\"id\":10,\"content\":\"<img>\",\"lstrip\":true,\"special\":true,\"normalized\":false},"
        "{\"id\":11,\"content\":\"<end>\",\"rstrip\":true,\"special\":true,\"normalized\":false},"
        "{\"id\":12,\"content\":\"ab\",\"single_word\":true,\"normalized\":true},"
        "{\"id\":13,\"content\":\"ABX\",\"normalized\":false}],\"normalizer\":{\"type\":\"Lowercase\"},\"pre_"
        "tokenizer\":null,"
        "\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"<"
        "unk>\":0,\"a\":1,"
        "\"b\":2,\"c\":3,\"x\":4,\"y\":5,\" \":6,\"A\":7,\"X\":8,\"1\":9},\"merges\":[]}}");
}

/* ---- what is checked ---- */

static void encodes_with(const Tokenizer *t, unsigned flags, const char *text, const char *expected) {
    IdList ids = {0};
    Error err = {""};
    Buffer b = {0};
    if (!tokenizer_encode(t, text, strlen(text), flags, &ids, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < ids.n; i++) buffer_printf(&b, "%s%d", i ? "," : "", (int)ids.ids[i]);
    assert_string_equal(buffer_string(&b), expected);
    buffer_clear(&b);
    id_list_clear(&ids);
}

static void encodes(const Tokenizer *t, const char *text, const char *expected) {
    encodes_with(t, 0, text, expected);
}

static void decodes(const Tokenizer *t, const int32_t *ids, size_t n, bool skip, const char *expected) {
    Buffer b = {0};
    Error err = {""};
    if (!tokenizer_decode(t, ids, n, skip, &b, &err)) fail_msg("%s", err.text);
    assert_string_equal(buffer_string(&b), expected);
    buffer_clear(&b);
}

/* cases.md, number 1. */
static void spaces_and_specials_are_taken_literally(void **state) {
    (void)state;
    Tokenizer *t = spm(SPM_NORMALIZER, "null", "null");
    encodes(t, "hello world", "275,280");
    encodes(t, " hello world", "259,275,280");
    encodes(t, "hello<s>hello", "275,1,275");
    encodes(t, "hello<s> hello", "275,1,259,275");
    decodes(t, (int32_t[]){275, 1, 259, 275}, 4, false, "hello<s>  hello");
    encodes(t, "", "");
    tokenizer_free(t);
#define METASPACE(scheme) \
    "{\"type\":\"Metaspace\",\"replacement\":\"" S "\",\"prepend_scheme\":\"" scheme "\",\"split\":false}"
    t = spm("null", METASPACE("first"), "null");
    encodes(t, " hello world", "275,280");
    encodes(t, "hello<s>hello", "275,1,260,261,273,263");
    encodes(t, "hello<s> hello", "275,1,275");
    encodes(t, "<s>hello", "1,260,261,273,263");
    tokenizer_free(t);
    t = spm("null", METASPACE("always"), "null");
    encodes(t, "<s>hello", "1,275");
    tokenizer_free(t);
}

/* cases.md, number 2. */
static void added_tokens_keep_their_flags(void **state) {
    (void)state;
    Tokenizer *t = characters();
    encodes(t, "x  <img> y", "4,10,6,5");
    encodes(t, "x<end>  y", "4,11,5");
    encodes(t, "ab cab ab", "12,6,3,1,2,6,12");
    encodes(t, "ABX abx", "13,6,1,2,4");
    tokenizer_free(t);
}

/* cases.md, number 3. */
static void a_character_over_two_tokens_waits_for_the_second(void **state) {
    (void)state;
    Tokenizer *t = byte_level("\xC3\xB0 \xC5\x81|\xC4\xAE \xC2\xB1|\xC4\xA0 o|\xC4\xA0o k", BYTE_LEVEL);
    static const int32_t ids[] = {103, 111, 32, 256, 257, 259};
    static const char *const pieces[] = {"g", "o", " ", "", "\xF0\x9F\x8C\xB1", " ok"};
    encodes(t, "go \xF0\x9F\x8C\xB1 ok", "103,111,32,256,257,259");
    Error err;
    Detok *d = detok_new(t, false, &err);
    for (int i = 0; i < 6; i++) {
        Buffer b = {0};
        assert_true(detok_push(d, ids[i], &b, &err));
        assert_string_equal(buffer_string(&b), pieces[i]);
        buffer_clear(&b);
    }
    detok_free(d);
    decodes(t, ids, 6, false, "go \xF0\x9F\x8C\xB1 ok");
    /* cut off in the middle: the rest is one U+FFFD, and only at the end */
    d = detok_new(t, false, &err);
    Buffer b = {0};
    assert_true(detok_push(d, 256, &b, &err));
    assert_int_equal(b.length, 0);
    assert_true(detok_finish(d, &b, &err));
    assert_string_equal(buffer_string(&b), "\xEF\xBF\xBD");
    buffer_clear(&b);
    detok_free(d);
    tokenizer_free(t);
}

/* cases.md, number 4. */
static void a_byte_level_vocabulary_decodes_as_one(void **state) {
    (void)state;
    Tokenizer *t = byte_level("\xC4\xA0 y|\xC4\xA0y o", SPM_DECODER);
    static const int32_t ids[] = {111, 104, 257, 32, 195, 177, 10};
    decodes(t, ids, 7, false, "oh yo \xC3\xB1\n");
    Error err;
    Detok *d = detok_new(t, false, &err);
    Buffer b = {0};
    for (int i = 0; i < 7; i++) assert_true(detok_push(d, ids[i], &b, &err));
    assert_true(detok_finish(d, &b, &err));
    assert_string_equal(buffer_string(&b), "oh yo \xC3\xB1\n");
    buffer_clear(&b);
    detok_free(d);
    tokenizer_free(t);
}

static void bytes_of_a_fallback_wait_for_their_run_to_end(void **state) {
    (void)state;
    Tokenizer *t = spm(SPM_NORMALIZER, "null", "null");
    static const int32_t good[] = {275, 3 + 0xC3, 3 + 0xB1, 264}, bad[] = {275, 3 + 0xC3, 3 + 0xC3, 264};
    decodes(t, good, 4, false, "hello\xC3\xB1w");
    decodes(t, bad, 4, false, "hello\xEF\xBF\xBD\xEF\xBF\xBDw");
    Error err;
    Detok *d = detok_new(t, false, &err);
    static const char *const pieces[] = {"hello", "", "", "\xC3\xB1w"};
    for (int i = 0; i < 4; i++) {
        Buffer b = {0};
        assert_true(detok_push(d, good[i], &b, &err));
        assert_string_equal(buffer_string(&b), pieces[i]);
        buffer_clear(&b);
    }
    detok_free(d);
    tokenizer_free(t);
}

static void specials_are_added_only_when_asked(void **state) {
    (void)state;
    Tokenizer *t = spm(SPM_NORMALIZER, "null",
                       "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
                       "{\"Sequence\":{\"id\":"
                       "\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],"
                       "\"tokens\":[\"<s>\"]}}}");
    encodes_with(t, ENCODE_SPECIAL, "hello", "1,275");
    encodes(t, "<s>hello", "1,275");
    encodes_with(t, ENCODE_SPECIAL, "", "1");
    decodes(t, (int32_t[]){1, 275, 2}, 3, true, "hello");
    decodes(t, (int32_t[]){1, 275, 2}, 3, false, "<s> hello</s>");
    IdList ids = {0};
    Error err;
    id_list_push(&ids, 77);
    assert_true(tokenizer_encode(t, "hello", 5, ENCODE_SPECIAL, &ids, &err)); /* appends */
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.ids[0], 77);
    assert_int_equal(ids.ids[1], 1);
    id_list_clear(&ids);
    tokenizer_free(t);
}

static void ids_and_names(void **state) {
    (void)state;
    Tokenizer *t = characters();
    assert_int_equal(tokenizer_size(t), 14);
    assert_int_equal(tokenizer_find(t, "<end>"), 11);
    assert_int_equal(tokenizer_find(t, "y"), 5);
    assert_int_equal(tokenizer_find(t, "z"), -1);
    assert_true(tokenizer_is_special(t, 10));
    assert_false(tokenizer_is_special(t, 12));
    assert_false(tokenizer_is_special(t, 1));
    assert_false(tokenizer_is_special(t, -1));
    size_t n = 0;
    assert_string_equal(tokenizer_token(t, 11, &n), "<end>");
    assert_int_equal(n, 5);
    assert_string_equal(tokenizer_token(t, 5, NULL), "y");
    assert_null(tokenizer_token(t, 14, &n));
    assert_null(tokenizer_token(t, -1, &n));
    Error err;
    Buffer b = {0};
    buffer_text(&b, "kept");
    assert_false(tokenizer_decode(t, (int32_t[]){1, 14}, 2, false, &b, &err));
    assert_string_equal(err.text, "token id 14 is outside the vocabulary of 14 tokens");
    assert_string_equal(b.data, "kept");
    buffer_clear(&b);
    tokenizer_free(t);
}

static void text_must_be_utf8(void **state) {
    (void)state;
    Tokenizer *t = characters();
    IdList ids = {0};
    Error err;
    id_list_push(&ids, 5);
    assert_false(tokenizer_encode(t, "ab\xFF", 3, 0, &ids, &err));
    assert_string_equal(err.text, "the text is not valid UTF-8 at byte 2");
    assert_int_equal(ids.n, 1);
    id_list_clear(&ids);
    tokenizer_free(t);
}

static void refuses(const char *json, const char *message) {
    Error err = {""};
    assert_null(tokenizer_parse(json, strlen(json), NULL, 0, &err));
    assert_string_equal(err.text, message);
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"

static void what_is_unknown_or_wrong_is_named(void **state) {
    (void)state;
    refuses("{", "tokenizer.json: line 1 column 2: the text ends too early");
    refuses("{}", "tokenizer.json: \"model\" is missing");
    refuses("{\"model\":{\"type\":\"Foo\"}}", "tokenizer.json: model \"Foo\" is not known to this version");
    refuses("{\"normalizer\":{\"type\":\"Foo\"}," MODEL "}",
            "tokenizer.json: normalizer: normalizer \"Foo\" is not known to this version");
    refuses("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Foo\"}]}," MODEL "}",
            "tokenizer.json: pre_tokenizer: pre-tokenizer \"Foo\" is not known to this version");
    refuses("{\"decoder\":{\"type\":\"Foo\"}," MODEL "}",
            "tokenizer.json: decoder: decoder \"Foo\" is not known to this version");
    refuses("{\"post_processor\":{\"type\":\"Foo\"}," MODEL "}",
            "tokenizer.json: post_processor: post-processor \"Foo\" is not known to this version");
    refuses("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}," MODEL
            "}",
            "tokenizer.json: pre_tokenizer: Split: \"pattern\": ')' missing at byte 1");
    refuses("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
            "tokenizer.json: merge 0 (\"a\" \"b\") uses a token that is not in the vocabulary");
    refuses("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}}",
            "tokenizer.json: model.vocab: \"a\" has no valid id");
    refuses("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
            "tokenizer.json: model.vocab: \"a\" has no valid id");
    refuses("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}",
            "tokenizer.json: model.unk_id is not an id");
}

static void every_id_of_an_added_token_is_the_reference_s(void **state) {
    (void)
        state; /* a token of the vocabulary keeps its id, others follow the number of tokens, whatever the file says */
    Tokenizer *t = parse(
        "{\"added_tokens\":[{\"id\":10,\"content\":\"<x>\",\"special\":true},{\"id\":7,\"content\":\"c\"},{\"id\":20,"
        "\"content\":"
        "\"<y>\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":5},\"merges\":[]}}");
    encodes(t, "a<x>c<y>", "0,3,5,6");
    tokenizer_free(t);
}

static void the_configuration_adds_tokens(void **state) {
    (void)state;
    const char *json = "{" MODEL "}",
               *config = "{\"added_tokens_decoder\":{\"2\":{\"content\":\"<end>\",\"special\":true}}}";
    Error err;
    Tokenizer *t = tokenizer_parse(json, strlen(json), config, strlen(config), &err);
    assert_non_null(t);
    encodes(t, "a<end>b", "0,2,1");
    assert_true(tokenizer_is_special(t, 2));
    tokenizer_free(t);
}

/* The rules work on the whole text, one after the other, and so they do in a stream: nothing that one of them may still
 * change goes out. */
static void spaces_are_cleaned_where_the_configuration_asks(void **state) {
    (void)state;
    const char *json =
        "{\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":false},\"model\":{\"type\":\"WordPiece\","
        "\"unk_token\":\"a\",\"vocab\":{\"a\":0,\".\":1,\"'\":2,\"s\":3,\"n\":4,\"##t\":5,\"##'t\":6,\"?\":7}}}";
    const char *config = "{\"clean_up_tokenization_spaces\":true}";
    static const int32_t ids[] = {0, 1, 0, 2, 3, 0, 4, 6, 0, 2, 0, 7, 7}; /* "a . a ' s a n't a ' a ? ?" */
    Error err;
    Tokenizer *t = tokenizer_parse(json, strlen(json), config, strlen(config), &err);
    assert_non_null(t);
    decodes(t, ids, 13, false, "a. a's an't a'a??");
    Detok *d = detok_new(t, false, &err);
    static const char *const pieces[] = {"a", ".", " a", "", "'s", " a", "", "n't", " a", "", "'a", "?", "?"};
    for (int i = 0; i < 13; i++) {
        Buffer b = {0};
        assert_true(detok_push(d, ids[i], &b, &err));
        assert_string_equal(buffer_string(&b), pieces[i]);
        buffer_clear(&b);
    }
    detok_free(d);
    tokenizer_free(t);
    t = tokenizer_parse(json, strlen(json), NULL, 0, &err);
    decodes(t, ids, 13, false, "a . a ' s a n't a ' a ? ?");
    tokenizer_free(t);
}

typedef struct Job {
    const Tokenizer *t;
    bool ok;
} Job;

static void *encode_many(void *p) {
    Job *job = p;
    job->ok = true;
    for (int i = 0; i < 200; i++) {
        IdList ids = {0};
        Error err;
        job->ok = job->ok && tokenizer_encode(job->t, "hello world hello", 17, 0, &ids, &err) && ids.n == 3 &&
                  ids.ids[1] == 280;
        id_list_clear(&ids);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state) {
    (void)state;
    Tokenizer *t = spm(SPM_NORMALIZER, "null", "null");
    Job jobs[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (Job){t, false};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].ok);
    }
    tokenizer_free(t);
}

/* Ten million times one character, merged into eights: the queue for long pieces, against counting. Work that grew with
 * the square of the length would not end within a day. */
static void a_long_run_merges_as_a_short_one(void **state) {
    (void)state;
    enum { N = 10000003 };
    Tokenizer *t = parse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2,\"aaaaaaaa\":3},"
                         "\"merges\":[\"a a\",\"aa aa\",\"aaaa aaaa\"]}}");
    char *text = malloc(N);
    memset(text, 'a', N);
    IdList ids = {0};
    Error err;
    for (size_t n = 30; n < 60; n++) { /* across the border between the two ways of merging */
        ids.n = 0;
        assert_true(tokenizer_encode(t, text, n, 0, &ids, &err));
        assert_int_equal(ids.n, n / 8 + n % 8 / 4 + n % 4 / 2 + n % 2);
    }
    ids.n = 0;
    assert_true(tokenizer_encode(t, text, N, 0, &ids, &err));
    assert_int_equal(ids.n, N / 8 + 2); /* the rest is 3: aa, a */
    assert_int_equal(ids.ids[0], 3);
    assert_int_equal(ids.ids[ids.n - 2], 1);
    assert_int_equal(ids.ids[ids.n - 1], 0);
    id_list_clear(&ids);
    free(text);
    tokenizer_free(t);
}

static bool use_everything(Error *err) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{\"type\":\"Sequence\","
        "\"normalizers\":["
        "{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},\"content\":\"y\"}]},\"pre_"
        "tokenizer\":" BYTE_LEVEL
        ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",1]},\"decoder\":" BYTE_LEVEL
        ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"y\":3},\"merges\":[\"a b\"]}}";
    Tokenizer *t = tokenizer_parse(json, sizeof json - 1, NULL, 0, err);
    IdList ids = {0};
    Buffer text = {0};
    bool ok = t && tokenizer_encode(t, "ab\xC3\xA9xx<s>a", 10, ENCODE_SPECIAL, &ids, err) &&
              tokenizer_decode(t, ids.ids, ids.n, false, &text, err);
    if (ok) assert_string_equal(buffer_string(&text), "aaby<s>ab");
    id_list_clear(&ids);
    buffer_clear(&text);
    tokenizer_free(t);
    return ok;
}

/* The n-th allocation fails, for every n: an error or the right result, nothing leaks (the sanitizer build watches). */
static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth < 5000; nth++) {
        Error err = {""};
        uint64_t before = mem_count();
        mem_fail_after(nth);
        bool ok = use_everything(&err);
        mem_fail_after(0);
        assert_true(ok || err.text[0]);
        if (mem_count() - before < nth) {
            assert_true(ok);
            return;
        }
    }
    fail_msg("there is no end to the allocations");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_and_specials_are_taken_literally),
        cmocka_unit_test(added_tokens_keep_their_flags),
        cmocka_unit_test(a_character_over_two_tokens_waits_for_the_second),
        cmocka_unit_test(a_byte_level_vocabulary_decodes_as_one),
        cmocka_unit_test(bytes_of_a_fallback_wait_for_their_run_to_end),
        cmocka_unit_test(specials_are_added_only_when_asked),
        cmocka_unit_test(ids_and_names),
        cmocka_unit_test(text_must_be_utf8),
        cmocka_unit_test(what_is_unknown_or_wrong_is_named),
        cmocka_unit_test(every_id_of_an_added_token_is_the_reference_s),
        cmocka_unit_test(the_configuration_adds_tokens),
        cmocka_unit_test(spaces_are_cleaned_where_the_configuration_asks),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(a_long_run_merges_as_a_short_one),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
