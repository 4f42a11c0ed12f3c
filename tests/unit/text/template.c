/* Chat templates of a folder: where the text comes from, what a conversation looks like inside, and real checkpoints'
 * templates against transformers (tests/data/templates). */
#include "text/template.h"
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static ChatTemplate *load(const TestFolder *f) {
    Error err;
    ChatTemplate *t = template_load(f->path, &err);
    if (!t) fail_msg("%s", err.text);
    return t;
}

static bool render_json(const ChatTemplate *t, const char *variables, Buffer *out, Error *err) {
    JsonDoc *doc = json_parse(variables, strlen(variables), 0, err);
    if (!doc) fail_msg("%s: %s", variables, err->text);
    bool ok = template_render(t, json_root(doc), out, err);
    json_free(doc);
    return ok;
}

/* A folder with that template and special tokens, rendered once. */
static void expect(const char *source, const char *variables, const char *wanted) {
    TestFolder f;
    Buffer out = {0};
    Error err = {0};
    test_folder_make(&f);
    test_write_text(&f, "chat_template.jinja", source);
    test_write_text(&f, "tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}}");
    ChatTemplate *t = load(&f);
    if (!render_json(t, variables, &out, &err)) fail_msg("%s: %s", source, err.text);
    assert_string_equal(buffer_string(&out), wanted);
    buffer_clear(&out);
    template_free(t);
    test_folder_remove(&f);
}

static void expect_error(const char *source, const char *variables, const char *wanted) {
    TestFolder f;
    Buffer out = {0};
    Error err = {0};
    test_folder_make(&f);
    test_write_text(&f, "chat_template.jinja", source);
    ChatTemplate *t = load(&f);
    buffer_text(&out, "before");
    assert_false(render_json(t, variables, &out, &err));
    assert_string_equal(buffer_string(&out), "before");
    if (!strstr(err.text, wanted)) fail_msg("\"%s\" does not hold \"%s\"", err.text, wanted);
    buffer_clear(&out);
    template_free(t);
    test_folder_remove(&f);
}

/* ---- where a template comes from ---- */

#define ONE_MESSAGE "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}"
#define WITH_TOOLS "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tools\": [{}]}"

static void expect_rendering(const TestFolder *f, const char *variables, const char *wanted) {
    Buffer out = {0};
    Error err;
    ChatTemplate *t = load(f);
    if (!render_json(t, variables, &out, &err)) fail_msg("%s", err.text);
    assert_string_equal(buffer_string(&out), wanted);
    buffer_clear(&out);
    template_free(t);
}

static void the_jinja_file_comes_before_json_and_config(void **state) {
    (void)state;
    TestFolder f;
    test_folder_make(&f);
    test_write_text(&f, "tokenizer_config.json", "{\"chat_template\": \"config\", \"bos_token\": \"<s>\"}");
    expect_rendering(&f, ONE_MESSAGE, "config");
    test_write_text(&f, "chat_template.json", "{\"chat_template\": \"json {{ bos_token }}\"}");
    expect_rendering(&f, ONE_MESSAGE, "json <s>");
    test_write_text(&f, "chat_template.jinja", "jinja\n");
    expect_rendering(&f, ONE_MESSAGE, "jinja");
    ChatTemplate *t = load(&f);
    assert_string_equal(template_source(t), "jinja\n");
    template_free(t);
    test_folder_remove(&f);
}

static void a_named_list_has_one_for_tools(void **state) {
    (void)state;
    TestFolder f;
    test_folder_make(&f);
    test_write_text(
        &f, "tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"{% nosuch %}\"}, {\"name\": \"tool_use\", "
        "\"template\": \"tools\"}, {\"name\": \"default\", \"template\": \"plain\"}]}");
    expect_rendering(&f, ONE_MESSAGE, "plain");
    expect_rendering(&f, WITH_TOOLS, "tools");
    test_write_text(&f, "tokenizer_config.json", "{\"chat_template\": {\"default\": \"plain\"}}");
    expect_rendering(&f, WITH_TOOLS, "plain");
    test_folder_remove(&f);
}

static void special_tokens_are_variables(void **state) {
    (void)state;
    TestFolder f;
    test_folder_make(&f);
    test_write_text(&f, "chat_template.jinja",
                    "{{ bos_token }}{{ eos_token }}{{ image_token }}{{ pad_token }}{{ boi }}|");
    test_write_text(&f, "tokenizer_config.json",
                    "{\"bos_token\": \"<s>\", \"eos_token\": {\"__type\": \"AddedToken\", \"content\": \"</s>\"}, "
                    "\"image_token\": \"<img>\", \"pad_token\": null, \"extra_special_tokens\": {\"boi\": \"<boi>\"}, "
                    "\"add_bos_token\": true}");
    expect_rendering(&f, ONE_MESSAGE, "<s></s><img><boi>|");
    test_write_text(&f, "special_tokens_map.json", "{\"bos_token\": {\"content\": \"<old>\"}}");
    expect_rendering(&f, ONE_MESSAGE, "<old></s><img><boi>|");
    test_write_text(&f, "tokenizer_config.json", "{\"bos_token\": \"<s>\", \"added_tokens_decoder\": {}}");
    expect_rendering(&f, ONE_MESSAGE, "<s>|");
    expect_rendering(&f, "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"bos_token\": \"mine\"}", "mine|");
    test_folder_remove(&f);
}

static void expect_load_error(const TestFolder *f, const char *wanted) {
    Error err = {0};
    assert_null(template_load(f->path, &err));
    if (!strstr(err.text, wanted)) fail_msg("\"%s\" does not hold \"%s\"", err.text, wanted);
}

static void what_is_no_template_is_refused(void **state) {
    (void)state;
    TestFolder f;
    test_folder_make(&f);
    expect_load_error(&f, "no chat template");
    assert_true(template_is_absent(f.path));
    test_write_text(&f, "tokenizer_config.json", "{\"chat_template\": 5}");
    expect_load_error(&f, "must be a string");
    assert_false(template_is_absent(f.path));
    test_write_text(&f, "tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"x\"}]}");
    expect_load_error(&f, "none of the 1 chat templates is named \"default\"");
    test_write_text(&f, "tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\"}]}");
    expect_load_error(&f, "entry 0");
    test_write_text(&f, "tokenizer_config.json", "{\"chat_template\": \"a\\n{% if %}\"}");
    expect_load_error(&f, "line 2");
    assert_false(template_is_absent(f.path));
    test_write_text(&f, "chat_template.jinja", "{{ \xff }}");
    expect_load_error(&f, "UTF-8");
    test_write(&f, "chat_template.jinja", "a\0b", 3);
    expect_load_error(&f, "NUL");
    test_folder_remove(&f);
}

/* ---- what a template sees ---- */

static void absent_inputs_are_none(void **state) {
    (void)state;
    expect("{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ tools is defined }}{{ zzz is defined }}",
           ONE_MESSAGE, "NoneNoneFalseTrueFalse");
}

static void null_members_of_messages_are_dropped(void **state) {
    (void)state;
    expect("{% for m in messages %}{{ m.content }};{{ m }}{% endfor %}",
           "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"x\": null}]}]}",
           ";{'role': 'assistant', 'tool_calls': [{'x': None}]}");
}

static void reasoning_is_known_under_its_names(void **state) {
    (void)state;
    expect("{% for m in messages %}{{ m }}{% endfor %}",
           "{\"messages\": [{\"role\": \"assistant\", \"reasoning\": \"r\"}]}",
           "{'thinking': 'r', 'role': 'assistant', 'reasoning': 'r', 'reasoning_content': 'r'}");
    expect("{% for m in messages %}{{ m }}{% endfor %}",
           "{\"messages\": [{\"role\": \"assistant\", \"thinking\": \"t\", \"reasoning_content\": \"c\"}]}",
           "{'thinking': 't', 'role': 'assistant', 'reasoning_content': 'c'}");
}

static void bad_input_is_refused(void **state) {
    (void)state;
    expect_error("x", "{\"messages\": []}", "messages is empty");
    expect_error("x", "{\"messages\": {}}", "messages must be a list");
    expect_error("x", "{\"messages\": [5]}", "messages[0]");
    expect_error("a\n{{ messages[0].content + 1 }}", ONE_MESSAGE, "chat template: line 2, in messages[0].content + 1");
    expect_error("{{ raise_exception('only ' ~ messages|length) }}", ONE_MESSAGE, "only 1");
}

/* ---- cases.md ---- */

#define CASE7                                                                                                          \
    "\"v\": {\"naam\": \"Zo\xc3\xab <i>&'q'</i> \xf0\x9f\x8c\xb1\", \"n\": 2.0, \"ok\": true, \"leeg\": null, \"l\": " \
    "[]}}"

static void case_7_tojson(void **state) {
    (void)state;
    expect(
        "{{ v|tojson }}", "{" CASE7,
        "{\"naam\": \"Zo\xc3\xab <i>&'q'</i> \xf0\x9f\x8c\xb1\", \"n\": 2.0, \"ok\": true, \"leeg\": null, \"l\": []}");
    expect("{{ v|tojson(ensure_ascii=True) }}", "{" CASE7,
           "{\"naam\": \"Zo\\u00eb <i>&'q'</i> \\ud83c\\udf31\", \"n\": 2.0, \"ok\": true, \"leeg\": null, \"l\": []}");
    expect("{{ v|tojson(separators=(',', ':')) }}", "{" CASE7,
           "{\"naam\":\"Zo\xc3\xab <i>&'q'</i> \xf0\x9f\x8c\xb1\",\"n\":2.0,\"ok\":true,\"leeg\":null,\"l\":[]}");
    expect(
        "{{ v|tojson(sort_keys=True) }}", "{" CASE7,
        "{\"l\": [], \"leeg\": null, \"n\": 2.0, \"naam\": \"Zo\xc3\xab <i>&'q'</i> \xf0\x9f\x8c\xb1\", \"ok\": true}");
    expect("{{ {'l': []}|tojson(indent=2) }}", "{}", "{\n  \"l\": []\n}");
    expect("{{ [1e16, 1e-7, 0.1, 100.0, -0.0] | tojson }}", "{}", "[1e+16, 1e-07, 0.1, 100.0, -0.0]");
    expect("{{ x|tojson }}", "{\"x\": [1e16, 1E-7, 0.10, 100.0, -0.0, 1e400, NaN, 12345678901234567890123]}",
           "[1e+16, 1e-07, 0.1, 100.0, -0.0, Infinity, NaN, 12345678901234567890123]");
}

static void case_8_slices_and_loop_controls(void **state) {
    (void)state;
    expect("{{ 'qwerty'[4:1:-1] }}", "{}", "tre");
    expect("{{ [10,20,30,40][2:0:-1] }}", "{}", "[30, 20]");
    expect("{{ 'a\xc3\xb1"
           "b'[::-1] }}",
           "{}",
           "b\xc3\xb1"
           "a");
    expect("{{ xs[:-k] }}", "{\"xs\": [\"a\", \"b\", \"c\"], \"k\": 1}", "['a', 'b']");
    expect("{% for i in range(4, 0, -2) %}{{ i }};{% endfor %}", "{}", "4;2;");
    expect("{% for w in ws %}{% if w == 'halt' %}{% break %}{% endif %}{% if w|length < 2 %}{% continue %}{% endif %}"
           "<{{ w }}>{% endfor %}",
           "{\"ws\": [\"aa\", \"b\", \"cc\", \"halt\", \"dd\"]}", "<aa><cc>");
    expect("{% generation %}X{% endgeneration %}", "{}", "X");
}

static void case_9_arguments_as_mapping_or_text(void **state) {
    (void)state;
    static const char TEXT[] = "{\"c\": {\"arguments\": \"{\\\"stad\\\": \\\"Gent\\\", \\\"n\\\": 2}\"}}";
    static const char MAPPING[] = "{\"c\": {\"arguments\": {\"stad\": \"Gent\", \"n\": 2}}}";
    static const char LINES[] = "{% for k, v in c.arguments|items %}{{ k }}\xe2\x86\x92{{ v }}\n{% endfor %}";
    expect(LINES, MAPPING,
           "stad\xe2\x86\x92Gent\nn\xe2\x86\x92"
           "2\n");
    expect_error(LINES, TEXT, "Can only get item pairs from a mapping");
    expect("{{ '@@' + c.arguments + '@@' }}", TEXT, "@@{\"stad\": \"Gent\", \"n\": 2}@@");
    expect_error("{{ '@@' + c.arguments + '@@' }}", MAPPING, "can only concatenate str (not \"dict\") to str");
    expect("{{ c.arguments|tojson }}", MAPPING, "{\"stad\": \"Gent\", \"n\": 2}");
}

/* As a client of the chat API sends the call; "" expects an error. */
static void expect_chat(const char *source, const char *arguments, const char *wanted, const char *error) {
    TestFolder f;
    Buffer out = {0}, text = {0};
    Error err = {""};
    test_folder_make(&f);
    test_write_text(&f, "chat_template.jinja", source);
    ChatTemplate *t = load(&f);
    buffer_printf(&text, "{\"n\": [{}], \"messages\": [{}, {\"tool_calls\": [{\"function\": {\"arguments\": %s}}]}]}",
                  arguments);
    JsonDoc *doc = json_parse(text.data, text.length, 0, &err);
    assert_non_null(doc);
    bool ok = template_render_chat(t, json_root(doc), &out, &err);
    assert_int_equal(ok, *error == 0);
    assert_string_equal(buffer_string(&out), wanted);
    if (!ok && !strstr(err.text, error)) fail_msg("\"%s\" does not hold \"%s\"", err.text, error);
    json_free(doc);
    buffer_clear(&text);
    buffer_clear(&out);
    template_free(t);
    test_folder_remove(&f);
}

static void case_9_arguments_are_a_mapping_where_the_template_can_take_one(void **state) {
    (void)state;
    static const char TEXT[] = "\"{\\\"stad\\\": \\\"Gent\\\", \\\"n\\\": 2}\"";
#define ARGUMENTS "messages[1].tool_calls[0].function.arguments"
    expect_chat("{% for k, v in " ARGUMENTS "|items %}{{ k }}>{{ v }}\n{% endfor %}", TEXT, "stad>Gent\nn>2\n", "");
    expect_chat("{{ '@@' + " ARGUMENTS " + '@@' }}", TEXT, "@@{\"stad\": \"Gent\", \"n\": 2}@@", "");
    expect_chat("{{ " ARGUMENTS "|tojson }}", TEXT, "{\"stad\": \"Gent\", \"n\": 2}", "");
    expect_chat("{{ " ARGUMENTS "|tojson }}", "{\"a\": 1}", "{\"a\": 1}", "");
    expect_chat("{{ " ARGUMENTS "|tojson }}", "\"[1]\"", "\"[1]\"", ""); /* no object: the text as it is */
    expect_chat("{{ " ARGUMENTS "|tojson }}", "\"{1}\"", "\"{1}\"", "");
    expect_chat("{{ " ARGUMENTS ".x.y }}{{ n + 1 }}", TEXT, "",
                "'dict object' has no attribute 'x'"); /* the first error */
    expect_chat("{{ n|length }}{{ messages|length }}", TEXT, "12", "");
}

static void expect_parts(const char *source, const char *messages, const char *wanted, const char *error) {
    TestFolder f;
    Buffer out = {0}, text = {0};
    Error err = {""};
    test_folder_make(&f);
    test_write_text(&f, "chat_template.jinja", source);
    ChatTemplate *t = load(&f);
    buffer_printf(&text, "{\"messages\": %s}", messages);
    JsonDoc *doc = json_parse(text.data, text.length, 0, &err);
    assert_non_null(doc);
    assert_int_equal(template_render_chat(t, json_root(doc), &out, &err), *error == 0);
    assert_string_equal(buffer_string(&out), wanted);
    if (*error) assert_string_equal(err.text, error);
    json_free(doc);
    buffer_clear(&text);
    buffer_clear(&out);
    template_free(t);
    test_folder_remove(&f);
}

static void case_10_parts_are_one_text_unless_the_template_walks_them(void **state) {
    (void)state;
#define PART(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
#define AB "[{\"role\": \"user\", \"content\": [" PART("A") ", " PART("B") "]}]"
    static const char contents[] = "{% for m in messages %}{{ m.content }};{% endfor %}",
                      walked[] = "{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}";
    expect_parts(contents, AB, "AB;", "");
    expect_parts(contents, "[{\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}]", ";", "");
    expect_parts(contents, "[{\"role\": \"tool\", \"content\": [" PART("12") "]}]", "12;", "");
    expect_parts(contents, "[{\"role\": \"user\", \"content\": []}]", ";", "");
    expect_parts("{{ messages[0].content|trim }}", "[{\"content\": [" PART(" a") "," PART("b\\n") "]}]", "ab", "");
    expect_parts(walked, AB, "<A><B>", ""); /* characters have no text */
    expect_parts("{{ messages[0].content[0]['text'] + 'x' }}", AB, "Ax",
                 "");                                   /* fails on a text; prints one part only */
    expect_parts("{{ messages|length }}", AB, "1", ""); /* prints neither */
    expect_parts(contents, "[{\"content\": [" PART("A") ", {\"type\": \"image_url\", \"image_url\": {}}]}]", "",
                 "messages[0].content[1]: only parts of type \"text\" are read, not \"image_url\"");
    expect_parts(contents, "[{\"content\": \"a\"}, {\"content\": [{}]}]", "",
                 "messages[1].content[0] has no \"type\" that is a text");
    expect_parts(contents, "[{\"content\": [{\"type\": \"text\"}]}]", "", "messages[0].content[0] has no \"text\"");
}

static void case_6_begin_token_in_the_template(void **state) {
    (void)state;
    expect("{{ bos_token }}{{ messages[0].content }}", ONE_MESSAGE, "<s>hi");
}

/* ---- continue_final_message ---- */

#define CONTINUED(content) \
    "{\"messages\": [{\"role\": \"assistant\", \"content\": " content "}], \"continue_final_message\": true}"

static void the_last_message_is_left_open(void **state) {
    (void)state;
    expect("{% for m in messages %}<{{ m.content }}>{% endfor %}", CONTINUED("\"a b \""), "<a b ");
    expect("{% for m in messages %}<{{ m.content|trim }}>{% endfor %}", CONTINUED("\"a b \""), "<a b");
    expect("{% for m in messages %}<{{ m.content[0].text }}>{% endfor %}",
           CONTINUED("[{\"type\": \"text\", \"text\": \"x\"}]"), "<x");
    expect("{{ continue_final_message is defined }}{{ messages[0].content }}!", CONTINUED("\"a\""), "Falsea");
    expect_error("{{ 'content' }}", CONTINUED("\"a\""), "does not appear");
    expect_error("{{ messages[0].role }}", CONTINUED("\"a\""), "does not read");
    expect_error("{{ messages[0].content }}", CONTINUED("null"), "no \"content\" to continue");
    expect_error("{{ messages[0].content }}", CONTINUED("[{\"type\": \"image\"}]"), "no text");
    expect_error(
        "{{ messages[0].content }}",
        "{\"messages\": [{\"content\": \"a\"}], \"continue_final_message\": true, \"add_generation_prompt\": true}",
        "exclude each other");
}

/* ---- real checkpoints ---- */

static void write_folder(const TestFolder *f, const JsonValue *checkpoint) {
    const JsonValue *source = json_get(checkpoint, "chat_template");
    Buffer config = {0};
    json_write(&config, json_get(checkpoint, "tokens"), NULL);
    test_write(f, "chat_template.jinja", source->text, source->length);
    test_write(f, "tokenizer_config.json", config.data, config.length);
    buffer_clear(&config);
}

/* The oracle asked for a generation prompt where the conversation does not say. */
static void conversation_text(Buffer *out, const JsonValue *conversation) {
    buffer_text(out, "{\"add_generation_prompt\": true");
    for (uint32_t i = 0; i < conversation->length; i++) {
        buffer_printf(out, ", \"%s\": ", conversation->members[i].key);
        json_write(out, &conversation->members[i].value, NULL);
    }
    buffer_text(out, "}");
}

static int render_case(const ChatTemplate *t, const JsonValue *conversation, const JsonValue *c, const char *name) {
    Buffer variables = {0}, out = {0};
    Error err = {0};
    conversation_text(&variables, conversation);
    bool ok = render_json(t, variables.data, &out, &err);
    const char *wanted = json_string(json_get(c, "text"));
    bool same = ok ? wanted && strcmp(wanted, buffer_string(&out)) == 0 : wanted == NULL;
    if (!same) print_error("%s\n  wanted: %s\n  got:    %s\n", name, wanted, ok ? buffer_string(&out) : err.text);
    buffer_clear(&variables);
    buffer_clear(&out);
    return !same;
}

static void real_templates_render_as_in_transformers(void **state) {
    (void)state;
    Error err;
    JsonDoc *doc = json_parse_file("tests/data/templates/chat-cases.json", 0, &err);
    if (!doc) fail_msg("%s", err.text);
    const JsonValue *conversations = json_get(json_root(doc), "conversations"),
                    *all = json_get(json_root(doc), "rendered");
    int different = 0, total = 0;
    for (uint32_t i = 0; i < all->length; i++) {
        TestFolder f;
        const JsonValue *cases = json_get(&all->members[i].value, "cases");
        test_folder_make(&f);
        write_folder(&f, &all->members[i].value);
        ChatTemplate *t = load(&f);
        for (uint32_t k = 0; k < cases->length; k++, total++)
            different += render_case(t, json_get(conversations, cases->members[k].key), &cases->members[k].value,
                                     cases->members[k].key);
        template_free(t);
        test_folder_remove(&f);
    }
    json_free(doc);
    assert_int_equal(total, 72);
    assert_int_equal(different, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_jinja_file_comes_before_json_and_config),
        cmocka_unit_test(a_named_list_has_one_for_tools),
        cmocka_unit_test(special_tokens_are_variables),
        cmocka_unit_test(what_is_no_template_is_refused),
        cmocka_unit_test(absent_inputs_are_none),
        cmocka_unit_test(null_members_of_messages_are_dropped),
        cmocka_unit_test(reasoning_is_known_under_its_names),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(case_6_begin_token_in_the_template),
        cmocka_unit_test(case_7_tojson),
        cmocka_unit_test(case_8_slices_and_loop_controls),
        cmocka_unit_test(case_9_arguments_as_mapping_or_text),
        cmocka_unit_test(case_9_arguments_are_a_mapping_where_the_template_can_take_one),
        cmocka_unit_test(case_10_parts_are_one_text_unless_the_template_walks_them),
        cmocka_unit_test(the_last_message_is_left_open),
        cmocka_unit_test(real_templates_render_as_in_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
