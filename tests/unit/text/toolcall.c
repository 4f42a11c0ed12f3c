/* The notations of values, and which form a template implies. tests/unit/text/reply.c runs whole answers. */
#include "text/toolcall.h"
#include "text/toolcall_python.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* The calls as text: name|id|arguments; "-" when the reader refuses. */
static void check_reader(CallReader *read, const char *text, const char *expected) {
    CallList calls = {0};
    Buffer shown = {0};
    bool ok = read(&calls, text, strlen(text), NULL);
    for (size_t i = 0; ok && i < calls.n; i++) {
        const Call *c = &calls.items[i];
        buffer_printf(&shown, "%s%s|%s|%s", i ? " " : "", buffer_string(&c->name), buffer_string(&c->id),
                      buffer_string(&c->arguments));
    }
    assert_string_equal(ok ? buffer_string(&shown) : "-", expected);
    buffer_clear(&shown);
    calls_clear(&calls);
}

static void check_python(const char *text, const char *expected) {
    Buffer out = {0};
    bool ok = python_value(text, strlen(text), &out);
    assert_string_equal(ok ? buffer_string(&out) : "-", expected);
    if (!ok) assert_int_equal(out.length, 0);
    buffer_clear(&out);
}

/* What json.dumps(ast.literal_eval(text), ensure_ascii=False) gives; "-" where that is an error, too, except where
 * noted. */
static void python_values_become_json(void **state) {
    (void)state;
    check_python("None", "null");
    check_python("true", "true"); /* JSON's words pass */
    check_python("-12", "-12");
    check_python("12345678901234567890123", "12345678901234567890123");
    check_python("1.", "1.0");
    check_python(".5", "0.5");
    check_python("-.5e-3", "-0.5e-3"); /* the same number, as it was written */
    check_python("007", "-");
    check_python("1.e", "-");
    check_python("1x", "-");
    check_python("--1", "-");
    check_python("'a\"b'", "\"a\\\"b\"");
    check_python("\"it's\"", "\"it's\"");
    check_python("'\\d \\n\\t\\\\ \\x41\\u00e9\\U0001F331\\''", "\"\\\\d \\n\\t\\\\ A\xc3\xa9\xf0\x9f\x8c\xb1'\"");
    check_python("'a\\\nb'", "\"ab\"");
    check_python("'''a'b\n\"'''", "\"a'b\\n\\\"\"");
    check_python("'a\nb'", "\"a\\nb\""); /* an error in Python; LFM2's template writes it */
    check_python("'\\ud800'", "-");
    check_python("'\\xg0'", "-");
    check_python("'open", "-");
    check_python("''", "\"\"");
    check_python("[1, 'a', (True, None), [], {}]", "[1, \"a\", [true, null], [], {}]");
    check_python("[1,]", "[1]");
    check_python("[,]", "-");
    check_python("[1 2]", "-");
    check_python("{'a': {'b': [1.5]}, \"c\" : False}", "{\"a\": {\"b\": [1.5]}, \"c\": false}");
    check_python("{1: 2}", "-"); /* JSON has no such key */
    check_python("{'a'}", "-");
    check_python("f()", "-");
    check_python("a", "-");
    check_python("", "-");
    check_python("1 ", "-");
    check_python("'\xff'", "-");
}

static void python_nesting_has_a_limit(void **state) {
    (void)state;
    char text[4001];
    memset(text, '[', 2000);
    memset(text + 2000, ']', 2000);
    text[4000] = 0;
    check_python(text, "-");
    text[2000 + 100] = 0;
    check_python(text + 1900, text + 1900);
}

static void python_calls(void **state) {
    (void)state;
    check_reader(read_python_calls, "[f(a=1, b='x'), g.h()]", "f||{\"a\": 1, \"b\": \"x\"} g.h||{}");
    check_reader(read_python_calls, " f( a = [1] , )\n g()", "f||{\"a\": [1]} g||{}");
    check_reader(read_python_calls, "f(); g()", "f||{} g||{}");
    check_reader(read_python_calls, "[f(),]", "f||{}");
    check_reader(read_python_calls, "[f() g()]", "-");
    check_reader(read_python_calls, "f()g()", "-");
    check_reader(read_python_calls, "[f()", "-");
    check_reader(read_python_calls, "[f()] g()", "-");
    check_reader(read_python_calls, "f(1)", "-");
    check_reader(read_python_calls, "f(a=1, a=2)", "-");
    check_reader(read_python_calls, "f(a=g())", "-");
    check_reader(read_python_calls, "f(1a=2)", "-");
    check_reader(read_python_calls, "1f()", "-");
    check_reader(read_python_calls, "[]", "-");
    check_reader(read_python_calls, "", "-");
    check_reader(read_python_tag, "brave_search.call(query=\"x\")", "brave_search||{\"query\": \"x\"}");
    check_reader(read_python_tag, "{\"name\": \"f\", \"parameters\": {}}", "f||{}");
    check_reader(read_python_tag, "print()", "-");
}

static void json_calls(void **state) {
    (void)state;
    check_reader(read_json_calls, "{\"name\": \"f\", \"arguments\": {\"a\": 1.50}}",
                 "f||{\"a\": 1.50}"); /* as written */
    check_reader(read_json_calls,
                 "[{\"name\": \"f\\u00e9\", \"id\": \"x\"}, {\"tool_name\": \"g\", \"tool_call_id\": \"0\"}]",
                 "f\xc3\xa9|x|{} g|0|{}");
    check_reader(read_json_calls, "{\"function\": \"f\", \"parameters\": {}} ; {\"name\": \"g\"}", "f||{} g||{}");
    check_reader(read_json_calls, "{\"name\": \"f\", \"arguments\": \"[1]\"}", "-");
    check_reader(read_json_calls, "{\"name\": \"f\", \"id\": {}}", "-");
    check_reader(read_json_calls, "{\"name\": \"f\"} x", "-");
    check_reader(read_json_calls, "{\"name\": \"\xff\"}", "-");
    check_reader(read_json_calls, "", "-");
    check_reader(read_keyed_calls, "[{\"f\": {\"a\": 1}}, {\"g\": {}}]", "f||{\"a\": 1} g||{}");
    check_reader(read_keyed_calls, "{\"f\": 1}", "-");
    check_reader(read_keyed_calls, "{}", "-");
}

/* The notations that fill in a call whose name is known. */
static void check_arguments(CallReader *read, const char *text, const char *expected) {
    CallList calls = {0};
    Call *call = calls_push(&calls);
    assert_non_null(call);
    bool ok = read(&calls, text, strlen(text), NULL);
    assert_string_equal(ok ? buffer_string(&call->arguments) : "-", expected);
    calls_clear(&calls);
    assert_false(read(&calls, text, strlen(text), NULL)); /* no call to fill in */
    calls_clear(&calls);
}

static void gemma_arguments(void **state) {
    (void)state;
    check_arguments(read_gemma_arguments, "}", "{}");
    check_arguments(read_gemma_arguments, "a:1,b:<|\"|>x, }\n<|\"|>, c : [ 1 , {d:false} ] }\n",
                    "{\"a\": 1, \"b\": \"x, }\\n\", \"c\": [1, {\"d\": false}]}");
    check_arguments(read_gemma_arguments, "a:two words}", "{\"a\": \"two words\"}");
    check_arguments(read_gemma_arguments, "a:1,}", "-");
    check_arguments(read_gemma_arguments, ":1}", "-");
    check_arguments(read_gemma_arguments, "a:1}}", "-");
    check_arguments(read_gemma_arguments, "a:1", "-");
    check_arguments(read_gemma_arguments, "a:[1}", "-");
    check_arguments(read_gemma_arguments, "a:<|\"|>\xff<|\"|>}", "-");
    check_arguments(read_function_gemma, "a:<escape><|\"|><escape>}", "{\"a\": \"<|\\\"|>\"}");
}

#define NS "]<]minimax[>["

static void nested_arguments(void **state) {
    (void)state;
    check_arguments(read_nested_arguments, "", "{}");
    check_arguments(read_nested_arguments,
                    NS "<a>" NS "<item>1" NS "</item>" NS "<item>" NS "<b>x" NS "</b>" NS "</item>" NS "</a>\n",
                    "{\"a\": [1, {\"b\": \"x\"}]}");
    check_arguments(read_nested_arguments, NS "<a>1" NS "</a>" NS "<b>" NS "</b>", "{\"a\": 1, \"b\": \"\"}");
    check_arguments(read_nested_arguments, NS "<a>1" NS "</b>", "-");
    check_arguments(read_nested_arguments, NS "<a>text" NS "<b>1" NS "</b>" NS "</a>", "-");
    check_arguments(read_nested_arguments, NS "<a>" NS "<item>1" NS "</item>" NS "<b>1" NS "</b>" NS "</a>", "-");
    check_arguments(read_nested_arguments, NS "<a>1", "-");
    check_arguments(read_nested_arguments, NS "</a>", "-");
    check_arguments(read_nested_arguments, NS "<>1" NS "</>", "-");
    check_arguments(read_nested_arguments, "x", "-");
}

static void deep_arguments_are_refused(void **state) {
    (void)state;
    Buffer gemma = {0}, nested = {0};
    buffer_text(&gemma, "a:");
    for (int i = 0; i < 5000; i++) {
        buffer_byte(&gemma, '[');
        buffer_text(&nested, NS "<a>");
    }
    check_arguments(read_gemma_arguments, buffer_string(&gemma), "-");
    check_arguments(read_nested_arguments, buffer_string(&nested), "-");
    buffer_clear(&gemma);
    buffer_clear(&nested);
}

/* What the templates of the models hold, cut to what tells. */
static void a_template_implies_a_form(void **state) {
    (void)state;
    static const char *const templates[][2] = {
        {"within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\"name\": <function-name>", "hermes"},
        {"<tool_call>\n<function=example>\n<parameter=a>", "qwen-xml"},
        {"<seed:tool_call>\n<function=example>\n<parameter=a>", "seed"},
        {"<tool_call>{function-name}\n<arg_key>{key}</arg_key>", "glm"},
        {"'<arg_key{}>'.format(HYTK) {%- set HYTK = ':opensource' %}", "hunyuan"},
        {"<minimax:tool_call>\n<invoke name=\"a\">\n<parameter name=\"b\">", "minimax-m2"},
        {"set ns_token = ']<]minimax[>['", "minimax-m3"},
        {"<atem:function_calls>", "atem"},
        {"set dsml_token = '｜DSML｜'", "dsml"},
        {"'<|open|>' + tag ... '<|sep|>'", "kimi-k3"},
        {"<function name=\"a\"><param name=\"b\">", "minicpm"},
        {"[AVAILABLE_TOOLS] ... [TOOL_CALLS]", "mistral"},
        {"<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + name + '\\n' + '```json'", "deepseek-v3"},
        {"<｜tool▁call▁begin｜>'+ name + '<｜tool▁sep｜>'", "deepseek-v3.1"},
        {"<|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>", "kimi"},
        {"<|tool_call:begin|>", "solar"},
        {"<|channel|>commentary ", "harmony"},
        {"<|tool_call>call:", "gemma"},
        {"<start_function_call>call:", "function-gemma"},
        {"<|tool_call_start|>[", "lfm2"},
        {"List of tools: <|tool_list_start|>[", "lfm2"},
        {"[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]", "pythonic"},
        {"Respond in the format {\"name\": function name, \"parameters\": dictionary", "llama"},
        {"<function=example_function_name>{\"example_name\": \"example_value\"}</function>", "function-tag"},
        {">>>all\\n", "functionary"},
        {"<|START_ACTION|>[", "cohere"},
        {"Write 'Action:' followed by ... \"tool_name\": title", "command-r"},
        {"<TOOLCALL>[", "nemotron"},
        {"<tool_calls>[{\"name\": <function-name-1>", "tool-calls"},
        {"respond only with <|tool_call|> followed by a JSON list", "granite"},
        {"functools[{\"name\"", "functools"},
        {"set tool_calls_token = '<|tools_prefix|>'", "apertus"},
        {"<|function_call|>", "gigachat"},
        {"'role': 'function call' ... <|role_sep|>", "gigachat-v3"},
    };
    bool reached[64] = {false};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        const CallForm *form = call_form_of_template(templates[i][0]);
        assert_non_null(form);
        assert_string_equal(form->name, templates[i][1]);
        assert_ptr_equal(form, call_form_find(templates[i][1]));
        for (int k = 0; call_form_at(k); k++) reached[k] |= call_form_at(k) == form;
    }
    for (int k = 0; call_form_at(k); k++) assert_true(reached[k]);
    assert_null(call_form_of_template("{{ messages[0].content }}"));
    assert_null(call_form_find("no such form"));
    assert_null(call_form_at(-1));
}

/* Every way through a form's steps ends: the last step is its only STEP_END, and each label is there. */
static void forms_are_well_made(void **state) {
    (void)state;
    for (int k = 0; call_form_at(k); k++) {
        for (const Mark *m = call_form_at(k)->marks; m->text; m++) {
            assert_true((m->role == MARK_CALL) == (m->steps != NULL));
            for (const Step *s = m->steps; s && s->op != STEP_END; s++) {
                bool jumps = s->op == STEP_GO || s->op == STEP_PEEK || (s->op == STEP_IF && s->to);
                const Step *label = m->steps;
                while (jumps && label->op != STEP_END && (label->op != STEP_LABEL || label->to != s->to)) label++;
                if (jumps) assert_int_equal(label->op, STEP_LABEL);
                bool reads = s->op == STEP_JSON || s->op == STEP_LIST || s->op == STEP_BODY;
                assert_true(reads == (s->read != NULL));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_values_become_json),
        cmocka_unit_test(python_nesting_has_a_limit),
        cmocka_unit_test(python_calls),
        cmocka_unit_test(json_calls),
        cmocka_unit_test(gemma_arguments),
        cmocka_unit_test(nested_arguments),
        cmocka_unit_test(deep_arguments_are_refused),
        cmocka_unit_test(a_template_implies_a_form),
        cmocka_unit_test(forms_are_well_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
