/* The tokenizer files of an import: what becomes an added token, the post-processor, merges, ends of text, templates,
 * and vocabularies that are refused. */
#include "base/json.h"
#include "convert/import_gguf.h"
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

/* A model whose vocabulary is that of build_llama_keys, changed. */
static bool import_built(void (*change)(GgufBuild *), Error *err) {
    GgufBuild b;
    build_begin(&b);
    build_llama_keys(&b);
    if (change) change(&b);
    build_llama_tensors(&b, NULL);
    build_write(&b, &test_folder, "m.gguf");
    build_clear(&b);
    return import_gguf(test_path(&test_folder, "m.gguf"), test_path(&test_folder, "out"),
                       &(ImportOptions){.force = true}, err);
}

static JsonDoc *imported_file(void (*change)(GgufBuild *), const char *name) {
    Error err = {""};
    char path[64];
    if (!import_built(change, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "out/%s", name);
    JsonDoc *doc = json_parse_file(test_path(&test_folder, path), JSON_UNIQUE_KEYS, &err);
    if (!doc) fail_msg("%s", err.text);
    return doc;
}

static void equals(const JsonValue *v, const char *json) {
    Buffer text = {0};
    assert_non_null(v);
    json_write(&text, v, NULL);
    assert_string_equal(text.data, json);
    buffer_clear(&text);
}

#define CHANGE(name, pre, ...)                    \
    static void name(GgufBuild *b) {              \
        build_text(b, "tokenizer.ggml.pre", pre); \
        __VA_ARGS__;                              \
    }

CHANGE(smollm, "smollm", build_u32(b, "tokenizer.ggml.bos_token_id", 4); build_u32(b, "tokenizer.ggml.eos_token_id", 5))

static void a_vocabulary_without_bos(void **state) {
    (void)state;
    JsonDoc *doc = imported_file(smollm, "tokenizer.json");
    const JsonValue *root = json_root(doc), *model = json_get(root, "model");
    equals(json_get(model, "vocab"),
           "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3, \"<s>\": 4, \"</s>\": 5, \"<tool>\": 6}"); /* no [PAD7] */
    equals(json_get(model, "merges"), "[[\"a\", \"b\"]]");
    equals(json_get(model, "ignore_merges"), "false");
    const JsonValue *added = json_get(root, "added_tokens");
    assert_int_equal(added->length, 3);
    equals(json_item(added, 0),
           "{\"id\": 4, \"content\": \"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": "
           "false, \"normalized\": false, \"special\": true}");
    equals(json_get(json_item(added, 2), "content"), "\"<tool>\"");
    equals(json_get(json_item(added, 2), "special"), "false");
    equals(json_get(root, "normalizer"), "null");
    equals(
        json_get(root, "pre_tokenizer"),
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", \"individual_digits\": true}, {\"type\": "
        "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}]}");
    equals(json_get(json_get(root, "post_processor"), "type"), "\"ByteLevel\"");
    json_free(doc);
}

CHANGE(llama_bpe, "llama-bpe", build_u32(b, "tokenizer.ggml.bos_token_id", 4))
CHANGE(both_ends, "gpt-2", build_u32(b, "tokenizer.ggml.bos_token_id", 4);
       build_u32(b, "tokenizer.ggml.eos_token_id", 5); build_bool(b, "tokenizer.ggml.add_bos_token", true);
       build_bool(b, "tokenizer.ggml.add_eos_token", true))

static void the_ends_are_added_as_the_file_says(void **state) {
    (void)state;
    JsonDoc *doc = imported_file(llama_bpe, "tokenizer.json"); /* this family's default, the file does not say */
    const JsonValue *post = json_get(json_root(doc), "post_processor");
    equals(json_get(post, "single"),
           "[{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]");
    equals(json_get(post, "special_tokens"), "{\"<s>\": {\"id\": \"<s>\", \"ids\": [4], \"tokens\": [\"<s>\"]}}");
    equals(json_get(json_get(json_root(doc), "model"), "ignore_merges"), "true");
    json_free(doc);
    doc = imported_file(both_ends, "tokenizer.json");
    post = json_get(json_root(doc), "post_processor");
    equals(json_get(post, "single"),
           "[{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
           "{\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}]");
    assert_int_equal(json_get(post, "pair")->length, 6);
    assert_int_equal(json_get(post, "special_tokens")->length, 2);
    json_free(doc);
}

CHANGE(many_ends, "qwen2", build_u32(b, "tokenizer.ggml.eos_token_id", 5);
       build_u32(b, "tokenizer.ggml.eot_token_id", 4); build_u32(b, "tokenizer.ggml.eom_token_id", 5);
       build_u32(b, "tokenizer.ggml.padding_token_id", 0); build_u32(b, "tokenizer.ggml.unknown_token_id", 1))

static void ends_of_text_are_collected(void **state) {
    (void)state;
    JsonDoc *doc = imported_file(many_ends, "generation_config.json");
    equals(json_root(doc), "{\"eos_token_id\": [5, 4], \"pad_token_id\": 0}");
    json_free(doc);
    doc = imported_file(smollm, "generation_config.json");
    equals(json_root(doc), "{\"bos_token_id\": 4, \"eos_token_id\": 5}");
    json_free(doc);
    doc = imported_file(llama_bpe, "generation_config.json");
    equals(json_root(doc), "{\"bos_token_id\": 4}");
    json_free(doc);
    doc = imported_file(many_ends, "tokenizer_config.json");
    equals(json_root(doc),
           "{\"eos_token\": \"</s>\", \"unk_token\": \"b\", \"pad_token\": \"a\", \"add_bos_token\": false, "
           "\"add_eos_token\": false, \"add_prefix_space\": false, \"clean_up_tokenization_spaces\": "
           "false, \"model_max_length\": 128, \"tokenizer_class\": \"PreTrainedTokenizerFast\"}");
    json_free(doc);
}

CHANGE(one_template, "gpt-2", build_text(b, "tokenizer.chat_template", "{{ \"x\" }}\n"))
CHANGE(named_templates, "gpt-2", build_text(b, "tokenizer.chat_template", "D");
       build_texts(b, "tokenizer.chat_templates", (const char *const[]){"tool_use", "absent"}, 2);
       build_text(b, "tokenizer.chat_template.tool_use", "T"))

static void templates_are_written_out(void **state) {
    (void)state;
    JsonDoc *doc = imported_file(one_template, "tokenizer_config.json");
    equals(json_get(json_root(doc), "chat_template"), "\"{{ \\\"x\\\" }}\\n\"");
    char *file = test_read(test_path(&test_folder, "out/chat_template.jinja"), NULL);
    assert_string_equal(file, "{{ \"x\" }}\n");
    free(file);
    json_free(doc);
    doc = imported_file(named_templates, "tokenizer_config.json");
    equals(json_get(json_root(doc), "chat_template"),
           "[{\"name\": \"default\", \"template\": \"D\"}, {\"name\": \"tool_use\", \"template\": \"T\"}]");
    assert_false(test_exists(test_path(&test_folder, "out/chat_template.jinja"))); /* it would hide the others */
    json_free(doc);
}

CHANGE(bad_pre, "llama-spm-2", )
CHANGE(bad_space, "gpt-2", build_bool(b, "tokenizer.ggml.add_space_prefix", true))
CHANGE(bad_template, "gpt-2", build_text(b, "tokenizer.chat_template", "\xFF"))

static void refuses(void (*change)(GgufBuild *), const char *says) {
    Error err = {""};
    assert_false(import_built(change, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_int_equal(test_entries(&test_folder), 1);
}

/* The whole metadata by hand, since a key can not be there twice. */
static void refuses_vocabulary(const char *model, const char *const *tokens, uint64_t n_tokens, const int32_t *types,
                               uint64_t n_types, const char *merge, const char *says) {
    GgufBuild b;
    Error err = {""};
    build_begin(&b);
    build_text(&b, "tokenizer.ggml.model", model);
    build_text(&b, "tokenizer.ggml.pre", "gpt-2");
    build_texts(&b, "tokenizer.ggml.tokens", tokens, n_tokens);
    build_i32s(&b, "tokenizer.ggml.token_type", types, n_types);
    build_texts(&b, "tokenizer.ggml.merges", &merge, 1);
    build_write(&b, &test_folder, "v.gguf");
    build_clear(&b);
    Gguf *g = gguf_open(test_path(&test_folder, "v.gguf"), &err);
    assert_non_null(g);
    GgufModel m = {.file = g, .size = {[SIZE_VOCAB] = 2}};
    Buffer out = {0};
    assert_false(gguf_tokenizer_json(&m, &out, &err));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    buffer_clear(&out);
    gguf_close(g);
}

static void other_vocabularies_are_refused(void **state) {
    (void)state;
    refuses(bad_pre, "its pre-tokeniser \"llama-spm-2\" is not known; known: gpt-2, smollm, llama-bpe");
    refuses(bad_space, "tokenizer.ggml.add_space_prefix");
    refuses(bad_template, "metadata tokenizer.chat_template is not UTF-8");
    static const char *const ab[] = {"a", "b", "c"}, *const broken[] = {"a", "\xC3"};
    static const int32_t types[] = {1, 1, 1};
    refuses_vocabulary("llama", ab, 2, types, 2, "a b", "has no score for each of its tokens");
    refuses_vocabulary("t5", ab, 2, types, 2, "a b", "has no score for each of its tokens");
    refuses_vocabulary("plamo2", ab, 2, types, 2, "a b", "its tokenizer is \"plamo2\", which");
    refuses_vocabulary("gpt2", ab, 3, types, 3, "a b", "has 3 tokens, but embeddings for 2");
    refuses_vocabulary("gpt2", ab, 2, types, 3, "a b", "token types that do not belong");
    refuses_vocabulary("gpt2", broken, 2, types, 2, "a b", "number 1 of its tokens is not UTF-8");
    refuses_vocabulary("gpt2", ab, 2, types, 2, "ab", "its merge \"ab\" is not two pieces");
    refuses_vocabulary("gpt2", ab, 2, types, 2, " ", "its merge \" \" is not two pieces");
}

static void the_result_tokenizes(void **state) {
    (void)state;
    Error err = {""};
    assert_true(import_gguf("tests/data/gguf/mixed.gguf", test_path(&test_folder, "out"), NULL, &err));
    Tokenizer *t = tokenizer_load(test_path(&test_folder, "out"), &err);
    if (!t) fail_msg("%s", err.text);
    IdList ids = {0};
    const char *text = "the the\xC3\xA9 an<tool><|end|>";
    assert_true(tokenizer_encode(t, text, strlen(text), ENCODE_SPECIAL, &ids, &err));
    /* <|begin|>, the, " the", two bytes, space, an, <tool>, <|end|> */
    const int32_t expected[] = {260, 257, 258, 0xC3, 0xA9, ' ', 259, 263, 261};
    assert_int_equal(ids.n, 9);
    for (size_t i = 0; i < 9; i++) assert_int_equal(ids.ids[i], expected[i]);
    assert_true(tokenizer_is_special(t, 261));
    assert_false(tokenizer_is_special(t, 263));
    id_list_clear(&ids);
    tokenizer_free(t);
}

static const char *pre_name;

static void any_pre(GgufBuild *b) {
    build_text(b, "tokenizer.ggml.pre", pre_name);
}

/* Two words and a space, which all of them keep apart in a vocabulary without " b". */
static void check_pre_tokenizer(const char *name) {
    Error err = {""};
    IdList ids = {0};
    pre_name = name;
    if (!import_built(any_pre, &err)) fail_msg("%s", err.text);
    Tokenizer *t = tokenizer_load(test_path(&test_folder, "out"), &err);
    if (!t || !tokenizer_encode(t, "ab b", 4, 0, &ids, &err)) fail_msg("%s: %s", name, err.text);
    const int32_t expected[] = {2, 3, 1}; /* ab, space, b */
    assert_int_equal(ids.n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ids.ids[i], expected[i]);
    id_list_clear(&ids);
    tokenizer_free(t);
}

static void every_pre_tokenizer_loads(void **state) {
    Buffer names = {0};
    int n = 0;
    (void)state;
    pre_tokenizer_names(&names);
    for (char *name = names.data, *end; name; name = end, n++) {
        end = strstr(name, ", ");
        if (end) {
            *end = 0;
            end += 2;
        }
        check_pre_tokenizer(name);
    }
    assert_true(n > 20);
    buffer_clear(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_vocabulary_without_bos, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(the_ends_are_added_as_the_file_says, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(ends_of_text_are_collected, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(templates_are_written_out, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(other_vocabularies_are_refused, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(the_result_tokenizes, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(every_pre_tokenizer_loads, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
