/* Anthropic's forms in, the chat API's out. */
#include "serve/anthropic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static JsonDoc *parse(const char *text) {
    Error err = {""};
    JsonDoc *doc = json_parse(text, strlen(text), 0, &err);
    if (!doc) fail_msg("%s", err.text);
    return doc;
}

static JsonDoc *translate(const JsonValue *request, ApiError *err) {
    return anthropic_messages(json_get(request, "system"), json_get(request, "messages"), err);
}

static void gives(const char *request, const char *messages) {
    ApiError err = {0};
    Buffer text = {0};
    JsonDoc *in = parse(request), *out = translate(json_root(in), &err);
    if (!out) fail_msg("%s: %s", err.param, err.message.text);
    json_write(&text, json_root(out), NULL);
    assert_string_equal(buffer_string(&text), messages);
    buffer_clear(&text);
    json_free(out);
    json_free(in);
}

static void refuses(const char *request, const char *param, const char *part) {
    ApiError err = {0};
    JsonDoc *in = parse(request);
    assert_null(translate(json_root(in), &err));
    assert_int_equal(err.status, 400);
    assert_string_equal(err.param, param);
    if (!strstr(err.message.text, part)) fail_msg("'%s' is not in: %s", part, err.message.text);
    json_free(in);
}

static void texts(void **state) {
    (void)state;
    gives("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}", "[{\"role\": \"user\", \"content\": \"hi\"}]");
    gives("{\"system\": [{\"type\": \"text\", \"text\": \"be \", \"cache_control\": {\"type\": \"ephemeral\"}}, "
          "{\"type\": \"text\", \"text\": \"brief\"}], \"messages\": [{\"role\": \"user\", \"content\": "
          "[{\"type\": \"text\", \"text\": \"A\"}, {\"type\": \"text\", \"text\": \"B\"}]}]}",
          "[{\"role\": \"system\", \"content\": \"be brief\"}, {\"role\": \"user\", \"content\": \"AB\"}]");
    gives("{\"messages\": [{\"role\": \"user\", \"content\": \"A\"}, {\"role\": \"user\", \"content\": \"B\"}, "
          "{\"role\": \"assistant\", \"content\": \"C\"}]}",
          "[{\"role\": \"user\", \"content\": \"A\\n\\nB\"}, {\"role\": \"assistant\", \"content\": \"C\"}]");
}

static void calls_and_results(void **state) {
    (void)state;
    gives(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": ["
        "{\"type\": \"thinking\", \"thinking\": \"hm\", \"signature\": \"x\"}, "
        "{\"type\": \"redacted_thinking\", \"data\": \"zzz\"}, {\"type\": \"text\", \"text\": \"let me\"}, "
        "{\"type\": \"tool_use\", \"id\": \"a\", \"name\": \"f\", \"input\": {\"n\": 1}}, "
        "{\"type\": \"tool_use\", \"id\": \"b\", \"name\": \"g\", \"input\": {}}]}, "
        "{\"role\": \"user\", \"content\": ["
        "{\"type\": \"tool_result\", \"tool_use_id\": \"a\", \"content\": \"one\"}, "
        "{\"type\": \"tool_result\", \"tool_use_id\": \"b\", \"is_error\": true, \"content\": "
        "[{\"type\": \"text\", \"text\": \"no \"}, {\"type\": \"text\", \"text\": \"g\"}]}, "
        "{\"type\": \"tool_result\", \"tool_use_id\": \"c\"}, {\"type\": \"text\", \"text\": \"go on\"}]}]}",
        "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"let me\", "
        "\"reasoning_content\": \"hm\", \"tool_calls\": [{\"id\": \"a\", \"type\": \"function\", \"function\": "
        "{\"name\": \"f\", \"arguments\": \"{\\\"n\\\": 1}\"}}, {\"id\": \"b\", \"type\": \"function\", \"function\": "
        "{\"name\": \"g\", \"arguments\": \"{}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": "
        "\"one\"}, {\"role\": \"tool\", \"tool_call_id\": \"b\", \"content\": \"Error: no g\"}, {\"role\": \"tool\", "
        "\"tool_call_id\": \"c\", \"content\": \"\"}, {\"role\": \"user\", \"content\": \"go on\"}]");
}

static void what_is_refused(void **state) {
    (void)state;
    refuses("{\"messages\": []}", "messages", "not empty");
    refuses("{\"messages\": [1]}", "messages[0].role", "user or assistant");
    refuses("{\"messages\": [{\"role\": \"user\"}]}", "messages[0].content", "list of blocks");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
            "\"image\", \"source\": {}}]}]}",
            "messages[0].content[1]", "'image'");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"a\", "
            "\"content\": [{\"type\": \"image\"}]}]}]}",
            "messages[0].content[0].content[0]", "'image'");
    refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"tool_use\"}]}]}", "messages[0].content[0]",
            "turns of the assistant");
    refuses("{\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", \"id\": \"a\", "
            "\"name\": \"f\", \"input\": \"{}\"}]}]}",
            "messages[0].content[0]", "'input' must be an object");
    refuses("{\"system\": [{\"type\": \"image\"}], \"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
            "system[0]", "'image'");
}

static void tools(void **state) {
    (void)state;
    ApiError err = {0};
    Buffer text = {0};
    JsonDoc *in = parse("[{\"name\": \"f\", \"description\": \"d\", \"input_schema\": {\"type\": \"object\"}, "
                        "\"cache_control\": {\"type\": \"ephemeral\"}}]");
    JsonDoc *out = anthropic_tools(json_root(in), &err);
    assert_non_null(out);
    json_write(&text, json_root(out), NULL);
    assert_string_equal(buffer_string(&text), "[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                                              "\"description\": \"d\", \"parameters\": {\"type\": \"object\"}}}]");
    buffer_clear(&text);
    json_free(out);
    json_free(in);
    in = parse("[{\"type\": \"web_search_20250305\", \"name\": \"web_search\"}]");
    assert_null(anthropic_tools(json_root(in), &err));
    assert_string_equal(err.param, "tools[0]");
    assert_non_null(strstr(err.message.text, "'web_search_20250305' (web_search)"));
    json_free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(calls_and_results),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
