/* Answers taken apart: every form, every cut of the stream, and what is held back. The answers are those that the chat
 * templates of the models render (tests/differential/tool_calls.py compares all of them). */
#include "support/reply_log.h"
#include "support/shared_json.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},\"ok\":{\"type\":\"boolean\"},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"where\":{\"type\":\"object\",\"properties\":"
    "{\"q\":{\"type\":\"string\"}}}}}}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

static JsonDoc *tools;

typedef struct Case {
    const char *calls, *reasoning; /* names of forms; NULL: none */
    const char *answer, *expected;
    bool open; /* the prompt opened the block */
} Case;

static Reply *start(const Case *c, ReplyLog *log) {
    Error err;
    ReplyOptions o = {.calls = c->calls ? call_form_find(c->calls) : NULL,
                      .reasoning = c->reasoning ? reasoning_find(c->reasoning) : NULL,
                      .tools = json_root(tools),
                      .reasoning_is_open = c->open};
    assert_true(!c->calls || o.calls);
    assert_true(!c->reasoning || o.reasoning);
    Reply *r = reply_new(&o, reply_log_take, log, &err);
    assert_non_null(r);
    return r;
}

static void finish(Reply *r, ReplyLog *log, const char *expected) {
    Error err;
    assert_true(reply_finish(r, &err));
    reply_log_close(log);
    assert_string_equal(buffer_string(&log->text), expected);
    assert_false(log->wrong);
    assert_int_equal(reply_calls(r), log->n_calls);
    reply_free(r);
    buffer_clear(&log->text);
}

static void push(Reply *r, const char *text, size_t n) {
    Error err;
    assert_true(reply_push(r, text, n, &err));
}

/* The same events at the end, and the same ones at every place: what has been passed on after n bytes does not depend
 * on how they came. */
static void check(const Case *c) {
    size_t n = strlen(c->answer);
    ReplyLog log = {0}, bytes = {0};
    Reply *r = start(c, &log);
    push(r, c->answer, n);
    finish(r, &log, c->expected);
    Reply *by_bytes = start(c, &bytes);
    for (size_t cut = 0; cut < n; cut++) {
        log = (ReplyLog){0};
        r = start(c, &log);
        push(r, c->answer, cut);
        assert_string_equal(buffer_string(&log.text), buffer_string(&bytes.text));
        push(r, c->answer + cut, n - cut);
        finish(r, &log, c->expected);
        push(by_bytes, c->answer + cut, 1);
    }
    finish(by_bytes, &bytes, c->expected);
}

static void check_all(const Case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) check(&cases[i]);
}

#define CHECK(cases) check_all(cases, sizeof(cases) / sizeof *(cases))

#define OSLO "C(get_weather||{\"city\": \"Oslo\", \"days\": 2})"
#define NOW "C(now||{})"

static void json_in_tags(void **state) {
    (void)state;
    static const Case cases[] = {
        {.calls = "hermes",
         .answer = "Let me.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": "
                   "2}}\n</tool_call>\n"
                   "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
         .expected = "T(Let me.)" OSLO NOW},
        {.calls = "hermes", .answer = "<tool_call>{\"name\": \"now\"}", .expected = NOW}, /* the end token closed it */
        {.calls = "hermes",
         .answer = "<tool_call>{\"name\": \"now\"}\n</tool",
         .expected = NOW}, /* cut by the length */
        {.calls = "hermes",
         .answer = "<tool_call>{\"arguments\": \"{\\\"city\\\": \\\"Oslo\\\", \\\"days\\\": 2}\", \"name\": "
                   "\"get_weather\"}</tool_call>\nSo.",
         .expected = OSLO "T(\nSo.)"},
        {.calls = "hermes",
         .answer = "<tool_call>{\"type\": \"function\", \"id\": 7, \"function\": {\"name\": \"now\", \"parameters\": "
                   "null}}</tool_call>\n",
         .expected = NOW},
        {.calls = "hermes",
         .answer = "<tool_call>{\"name\": \"now\", \"arguments\": {\"x\": \"</tool_call>\"}}</tool_call>",
         .expected = "C(now||{\"x\": \"</tool_call>\"})"},
        {.calls = "nemotron",
         .answer = "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": 2}}, "
                   "{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
         .expected = OSLO NOW},
        {.calls = "tool-calls",
         .answer = "<tool_calls>\n{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"now\", \"arguments\": "
                   "{}}\n</tool_calls>",
         .expected = NOW NOW},
        {.calls = "granite", .answer = "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", .expected = NOW},
        {.calls = "functools",
         .answer = "Hm. functools[{\"name\": \"now\", \"arguments\": {}}]",
         .expected = "T(Hm.)" NOW},
        {.calls = "apertus",
         .answer =
             "So<|tools_prefix|>[{\"get_weather\": {\"city\": \"Oslo\", \"days\": 2}}, {\"now\": {}}]<|tools_suffix|>",
         .expected = "T(So)" OSLO NOW},
        {.calls = "cohere",
         .reasoning = "cohere",
         .open = true,
         .answer = "plan<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"now\", "
                   "\"parameters\": {}}\n]<|END_ACTION|>",
         .expected = "R(plan)C(now|0|{})"},
        {.calls = "cohere",
         .reasoning = "cohere",
         .answer = "<|START_THINKING|>plan<|END_THINKING|><|START_TEXT|>Hi.<|END_TEXT|>",
         .expected = "R(plan)T(Hi.)"},
        {.calls = "command-r",
         .answer = "Yes.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"now\",\n        \"parameters\": {}\n    "
                   "}\n]```",
         .expected = "T(Yes.)" NOW},
        {.calls = "gigachat",
         .answer = "Well.<|function_call|>{\"name\": \"now\", \"arguments\": {}}",
         .expected = "T(Well.)" NOW},
        {.calls = "gigachat-v3",
         .answer = "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"now\", \"arguments\": {}}",
         .expected = NOW},
    };
    CHECK(cases);
}

static void a_name_and_then_json(void **state) {
    (void)state;
    static const Case cases[] = {
        {.calls = "mistral",
         .answer = "Ok.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\", \"days\": 2}[TOOL_CALLS]now[ARGS]{}",
         .expected = "T(Ok.)" OSLO NOW},
        {.calls = "mistral", .answer = "[TOOL_CALLS]now[CALL_ID]abcdefgh1[ARGS]{}", .expected = "C(now|abcdefgh1|{})"},
        {.calls = "mistral",
         .answer = "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}, \"id\": \"a1\"}]",
         .expected = "C(now|a1|{})"},
        {.calls = "mistral",
         .reasoning = "mistral",
         .answer = "[THINK]so[/THINK]Hi[TOOL_CALLS]now{}",
         .expected = "R(so)T(Hi)" NOW},
        {.calls = "deepseek-v3",
         .reasoning = "think",
         .open = true,
         .answer =
             "hm\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
             "{\"city\": \"Oslo\", \"days\": "
             "2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```"
             "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         .expected = "R(hm)" OSLO NOW},
        {.calls = "deepseek-v3.1",
         .answer = "Go.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", "
                   "\"days\": 2}<｜tool▁call▁end｜>"
                   "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         .expected = "T(Go.)" OSLO NOW},
        {.calls = "kimi",
         .reasoning = "think",
         .answer = "<think>hm "
                   "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_"
                   "call_end|>"
                   "<|tool_call_begin|>now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
         .expected = "R(hm)C(now|functions.now:0|{})C(now|now:1|{})"}, /* a section ends the reasoning */
        {.calls = "solar",
         .reasoning = "solar",
         .answer = "<|think|>hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2<|tool_call:name|>now<|"
                   "tool_call:args|>{}"
                   "<|tool_call:end|><|calls|>",
         .expected = "R(hm)C(now|a1b2|{})"},
        {.calls = "solar",
         .reasoning = "solar",
         .answer = "<|think|>hm<|end|><|begin|>assistant<|content|>Hi <|x|> there<|end|>",
         .expected = "R(hm)T(Hi <|x|> there)"},
        {.calls = "function-tag", .answer = "See <function=now>{}</function>", .expected = "T(See)" NOW},
    };
    CHECK(cases);
}

static void arguments_as_elements(void **state) {
    (void)state;
    static const Case cases[] = {
        {.calls = "qwen-xml",
         .reasoning = "think",
         .answer = "<think>\nbecause\n</think>\n\nLet "
                   "me.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
                   "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</"
                   "function>\n</tool_call>",
         .expected = "R(because)T(Let me.)" OSLO NOW},
        {.calls = "qwen-xml", /* models leave the outer tag out */
         .answer = "<function=get_weather>\n<parameter=city>\n\n "
                   "1\n\n</parameter>\n<parameter=ok>True</parameter></function>",
         .expected = "C(get_weather||{\"city\": \"\\n 1\\n\", \"ok\": true})"},
        {.calls = "seed",
         .reasoning = "seed",
         .answer = "<seed:think>so</seed:think>\nHi\n<seed:tool_call>\n<function=get_weather>\n<parameter=where>{'q': "
                   "'a\"b'}</parameter>\n"
                   "<parameter=tags>['a', 'b']</parameter>\n</function>\n</seed:tool_call>",
         .expected = "R(so)T(Hi)C(get_weather||{\"where\": {\"q\": \"a\\\"b\"}, \"tags\": [\"a\", \"b\"]})"},
        {.calls = "glm",
         .reasoning = "think",
         .open = true,
         .answer = "why</think>On "
                   "it.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>days</arg_key>"
                   "<arg_value>2</arg_value></tool_call><tool_call>now</tool_call>",
         .expected = "R(why)T(On it.)" OSLO NOW},
        {.calls = "glm",
         .answer = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
                   "arg_key>\n<arg_value>2</arg_value>\n"
                   "</tool_call>",
         .expected = OSLO},
        {.calls = "hunyuan",
         .reasoning = "hunyuan",
         .answer = "<think:opensource></"
                   "think:opensource><tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n"
                   "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Oslo</arg_value:opensource>\n"
                   "<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>2</arg_value:opensource>\n</"
                   "tool_call:opensource>\n"
                   "<tool_call:opensource>now<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
         .expected = OSLO NOW},
        {.calls = "minimax-m2",
         .answer = "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Oslo</parameter>\n"
                   "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke "
                   "name=\"now\">\n</invoke>\n</minimax:tool_call>",
         .expected = OSLO NOW},
        {.calls = "minimax-m3",
         .reasoning = "minimax",
         .answer =
             "</mm:think>Hm.]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
             "name=\"get_weather\">]<]minimax[>[<city>Oslo]<]minimax[>[</city>"
             "]<]minimax[>[<where>]<]minimax[>[<q>1]<]minimax[>[</q>]<]minimax[>[</"
             "where>]<]minimax[>[<tags>]<]minimax[>[<item>2"
             "]<]minimax[>[</item>]<]minimax[>[<item>x]<]minimax[>[</item>]<]minimax[>[</tags>]<]minimax[>[</invoke>\n"
             "]<]minimax[>[<invoke name=\"now\">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
         .expected =
             "T(Hm.)C(get_weather||{\"city\": \"Oslo\", \"where\": {\"q\": \"1\"}, \"tags\": [\"2\", \"x\"]})" NOW},
        {.calls = "dsml",
         .reasoning = "think",
         .answer = "</think>So.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
                   "name=\"city\" string=\"true\">42"
                   "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" string=\"false\">[1, "
                   "null]</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
                   "<｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
         .expected = "T(So.)C(get_weather||{\"city\": \"42\", \"x\": [1, null]})" NOW},
        {.calls = "dsml",
         .answer = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
         .expected = NOW},
        {.calls = "atem",
         .reasoning = "recipient",
         .answer =
             " to=self<|message|>because<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
             "<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Oslo</atem:parameter>\n"
             "<atem:parameter "
             "name=\"days\">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant "
             "to=now<|message|>"
             "<atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls>",
         .expected = "R(because)" OSLO NOW},
        {.calls = "atem",
         .reasoning = "recipient",
         .answer = " to=user<|message|>Hi to=you",
         .expected = "T(Hi to=you)"},
        {.calls = "kimi-k3",
         .reasoning = "kimi-k3",
         .open = true,
         .answer = "hm<|close|>think<|sep|><|open|>response<|sep|>Hi.<|close|>response<|sep|><|open|>tools<|sep|><|"
                   "open|>call tool=\"get_weather\" "
                   "index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>Oslo<|close|>argument<|sep|>"
                   "<|open|>argument key=\"days\" type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>"
                   "<|open|>call tool=\"now\" "
                   "index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
         .expected = "R(hm)T(Hi.)" OSLO NOW},
        {.calls = "minicpm",
         .answer = "<function name=\"get_weather\"><param name=\"city\"><![CDATA[<b>\n&]]></param><param "
                   "name=\"days\">2</param></function>\n"
                   "<function name=\"now\"></function>",
         .expected = "C(get_weather||{\"city\": \"<b>\\n&\", \"days\": 2})" NOW},
    };
    CHECK(cases);
}

static void notations_of_their_own(void **state) {
    (void)state;
    static const Case cases[] = {
        {.calls = "gemma",
         .reasoning = "gemma",
         .answer = "<|channel>thought\nbecause\n<channel|><|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<"
                   "tool_call|>"
                   "<|tool_call>call:now{}<tool_call|><|tool_response>",
         .expected = "R(because)" OSLO NOW},
        {.calls = "gemma",
         .answer = "<|tool_call>call:get_weather{ok:true,none:None,tags:[<|\"|>a,}<|\"|>,1],where:{<|\"|>q "
                   "q<|\"|>:<|\"|>a\"b<|\"|>}}<tool_call|>",
         .expected = "C(get_weather||{\"ok\": true, \"none\": null, \"tags\": [\"a,}\", 1], \"where\": {\"q q\": "
                     "\"a\\\"b\"}})"},
        {.calls = "function-gemma",
         .answer = "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call>",
         .expected = OSLO},
        {.calls = "lfm2",
         .reasoning = "think",
         .answer = "<think>because</think>Let me.<|tool_call_start|>[get_weather(city='Oslo', days=2), "
                   "now()]<|tool_call_end|>",
         .expected = "R(because)T(Let me.)" OSLO NOW},
        {.calls = "lfm2",
         .answer = "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>",
         .expected = NOW},
        {.calls = "pythonic", .answer = "[get_weather(city=\"Oslo\", days=2), now()]", .expected = OSLO NOW},
        {.calls = "pythonic", .answer = "<|python_start|>[now()]<|python_end|>", .expected = NOW},
        {.calls = "pythonic", .answer = "[1, 2] is a list", .expected = "T([1, 2] is a list)"},
        {.calls = "pythonic", .answer = "[a link](http://x)", .expected = "T([a link](http://x))"},
        {.calls = "pythonic", .answer = "[print(1)]", .expected = "T([print(1)])"},
        {.calls = "pythonic", .answer = "[unknown()]", .expected = "T([unknown()])"},
        {.calls = "llama",
         .answer = "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", \"days\": 2}}",
         .expected = OSLO},
        {.calls = "llama",
         .answer = "{\"name\": \"now\"}; {\"name\": \"now\", \"parameters\": {}}",
         .expected = NOW NOW},
        {.calls = "llama", .answer = "<|python_tag|>get_weather.call(city=\"Oslo\", days=2)", .expected = OSLO},
        {.calls = "llama", .answer = "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", .expected = NOW},
        {.calls = "llama", .answer = "<|python_tag|>import os", .expected = "T(<|python_tag|>import os)"},
        {.calls = "llama",
         .answer = "{\"name\": \"Bob\", \"age\": 3}",
         .expected = "T({\"name\": \"Bob\", \"age\": 3})"},
        {.calls = "llama", .answer = "{\"age\": 3}", .expected = "T({\"age\": 3})"},
        {.calls = "llama", .answer = "So {\"name\": \"now\"}", .expected = "T(So {\"name\": \"now\"})"},
        {.calls = "functionary",
         .answer = "all\nHi >>> 1\n>>>get_weather\n{\"city\": \"Oslo\", \"days\": 2}>>>now\n{}",
         .expected = "T(Hi >>> 1)" OSLO NOW},
        {.calls = "functionary", .answer = "now\n{}", .expected = NOW},
        {.calls = "functionary", .answer = "é says\n{}", .expected = "T(é says\n{})"},
        {.calls = "harmony",
         .reasoning = "harmony",
         .answer = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant "
                   "to=functions.get_weather<|channel|>commentary json<|message|>"
                   "{\"city\": \"Oslo\", \"days\": 2}<|call|>",
         .expected = "R(hm)" OSLO},
        {.calls = "harmony",
         .reasoning = "harmony",
         .answer = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>First.<|"
                   "end|><|start|>assistant"
                   "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}",
         .expected = "R(hm)T(First.)" NOW},
        {.calls = "harmony",
         .reasoning = "harmony",
         .answer = " to=functions.now<|channel|>commentary json<|message|>{}",
         .expected = NOW},
        {.calls = "harmony",
         .reasoning = "harmony",
         .answer = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Hi to=all",
         .expected = "R(a)T(Hi to=all)"},
    };
    CHECK(cases);
}

/* cases.md, number 11; and what else can be wrong about a block. */
static void reasoning_is_told_from_text(void **state) {
    (void)state;
    static const Case cases[] = {
        {.reasoning = "think", .open = true, .answer = "add\n</think>\n\n6", .expected = "R(add)T(6)"},
        {.reasoning = "think", .answer = "6", .expected = "T(6)"},
        {.reasoning = "think", .answer = "<think>\nadd\n</think>\n\n6\n", .expected = "R(add)T(6\n)"},
        {.reasoning = "think", .answer = "\n<think>a</think><think>b</think>c", .expected = "R(ab)T(c)"},
        {.reasoning = "think", .answer = "</think>\n\n6", .expected = "T(6)"},
        {.reasoning = "think",
         .answer = "What does <think> mean? And </think>?",
         .expected = "T(What does <think> mean? And </think>?)"},
        {.reasoning = "think", .answer = "<thin", .expected = "T(<thin)"},
        {.reasoning = "think", .answer = "<think>cut off ", .expected = "R(cut off )"},
        {.reasoning = "think",
         .open = true,
         .answer = "a <think> b </ think> </think>c",
         .expected = "R(a <think> b </ think>)T(c)"},
        {.reasoning = "think", .answer = " \n hi \n ", .expected = "T( \n hi \n )"},
        {.reasoning = "think", .answer = " \n ", .expected = "T( \n )"},
        {.calls = "hermes",
         .reasoning = "think",
         .open = true,
         .answer =
             "try <tool_call>{\"name\": \"now\"}</tool_call>?</think>\n<tool_call>{\"name\": \"now\"}</tool_call>",
         .expected = "R(try <tool_call>{\"name\": \"now\"}</tool_call>?)" NOW},
        {.reasoning = "apriel",
         .open = true,
         .answer = "first\n[BEGIN FINAL RESPONSE]\n6\n[END FINAL RESPONSE]",
         .expected = "R(first)T(6)"},
        {.reasoning = "granite", .answer = "<think>a</think>\n<response>b</response>", .expected = "R(a)T(b)"},
    };
    CHECK(cases);
}

/* cases.md, number 12: two calls are two calls; reply_log_take checks their indexes. */
static void parallel_calls_are_numbered(void **state) {
    (void)state;
    static const Case c = {.calls = "hermes",
                           .answer = "<tool_call>{\"name\":\"lees\",\"arguments\":{\"pad\":\"a.txt\"}}</tool_call>\n"
                                     "<tool_call>{\"name\":\"lees\",\"arguments\":{\"pad\":\"b.txt\"}}</tool_call>",
                           .expected = "C(lees||{\"pad\":\"a.txt\"})C(lees||{\"pad\":\"b.txt\"})"};
    check(&c);
}

/* cases.md, number 13, and its kind. T(...) holds the answer, byte for byte. */
static void what_does_not_parse_is_text(void **state) {
    (void)state;
    static const char *const answers[][2] = {
        {"hermes", "<tool_call>{\"name\":\"zoek\",\"arguments\":{\"re\":\"\\d+\"}}</tool_call>"},
        {"hermes", "  <tool_call>\n"},
        {"hermes", "<tool_call>get_weather</tool_call>"},
        {"hermes", "a \n<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call> b"},
        {"hermes", "<tool_call>{\"name\": 1}</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"\"}</tool_call>"},
        {"hermes", "<tool_call>{\"arguments\": {}}</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": \"x\"}</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"now\"} and more</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1"},
        {"hermes", "<tool_call><tool_call><tool_call>x"},
        {"hermes", "<tool_call>[]</tool_call>"},
        {"hermes", "<tool_call>[1]</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": NaN}}</tool_call>"},
        {"mistral", "[TOOL_CALLS]now or later"},
        {"mistral", "[TOOL_CALLS]now[ARGS]now"},
        {"mistral", "[TOOL_CALLS][ARGS]{}"},
        {"mistral", "[TOOL_CALL]"},
        {"qwen-xml", "<tool_call>\n<function=now>\n<parameter=x>1"},
        {"qwen-xml", "<tool_call>\n<function=now>\n<parameter=x>1</parameter>\nbut"},
        {"qwen-xml", "<function=a b></function>"},
        {"glm", "<tool_call>now<arg_key></arg_key><arg_value>1</arg_value></tool_call>"},
        {"glm", "<tool_call></tool_call>"},
        {"gemma", "<|tool_call>call:now{a:}<tool_call|>"},
        {"gemma", "<|tool_call>call:now{a:<|\"|>b}<tool_call|>"},
        {"gemma", "<|tool_call>call:now{a:1"},
        {"lfm2", "<|tool_call_start|>[now(1)]<|tool_call_end|>"},
        {"lfm2", "<|tool_call_start|>[now(a=1, a=2)]<|tool_call_end|>"},
        {"lfm2", "<|tool_call_start|>[now(a=b)]<|tool_call_end|>"},
        {"lfm2", "<|tool_call_start|>now() later()<|tool_call_end"},
        {"kimi", "<|tool_calls_section_begin|><|tool_call_begin|>:0<|tool_call_argument_begin|>{}<|tool_call_end|>"},
        {"minimax-m3", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
                       "name=\"now\">]<]minimax[>[<a>1]<]minimax[>[</b>]<]minimax[>[</invoke>"},
        {"apertus", "<|tools_prefix|>[{\"a\": {}, \"b\": {}}]<|tools_suffix|>"},
        {"deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        char expected[512];
        snprintf(expected, sizeof expected, "T(%s)", answers[i][1]);
        Case c = {.calls = answers[i][0], .answer = answers[i][1], .expected = expected};
        check(&c);
    }
}

static void after_a_bad_call_the_next_one_counts(void **state) {
    (void)state;
    static const Case cases[] = {
        {.calls = "hermes",
         .answer = "<tool_call>{bad}</tool_call>\n<tool_call>{\"name\": \"now\"}</tool_call>",
         .expected = "T(<tool_call>{bad}</tool_call>)" NOW},
        {.calls = "hermes",
         .answer = "<tool_call>{\"name\": \"x\"}<tool_call>{\"name\": \"now\"}</tool_call>",
         .expected = "T(<tool_call>{\"name\": \"x\"})" NOW},
        {.calls = "hermes",
         .reasoning = "think",
         .open = true,
         .answer = "a</think>\n<tool_call>{} b</tool_call> <tool_call>{\"name\": \"now\"}</tool_call> c",
         .expected = "R(a)T(<tool_call>{} b</tool_call>)" NOW "T( c)"},
        {.calls = "kimi",
         .answer = "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|> oh",
         .expected = "C(now|functions.now:0|{})T( oh)"},
        {.calls = "deepseek-v3.1",
         .answer = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>\n<"
                   "｜tool▁call▁begin｜>now<｜tool▁sep｜>no",
         .expected = NOW "T(\n<｜tool▁call▁begin｜>now<｜tool▁sep｜>no)"},
    };
    CHECK(cases);
}

/* Pushes a piece and tells what it added to the log. */
static void push_adds(Reply *r, ReplyLog *log, const char *piece, const char *added) {
    size_t before = log->text.length;
    push(r, piece, strlen(piece));
    assert_string_equal(buffer_string(&log->text) + before, added);
}

static void no_more_is_held_back_than_may_become_a_mark(void **state) {
    (void)state;
    static const Case c = {.calls = "hermes", .reasoning = "think"};
    ReplyLog log = {0};
    Reply *r = start(&c, &log);
    push_adds(r, &log, "<th", "");
    push_adds(r, &log, "e", "T(<the");
    push_adds(r, &log, " cat \n", " cat");
    push_adds(r, &log, "<think>", " \n<think>"); /* in the middle it opens nothing */
    push_adds(r, &log, " <tool_", "");
    push_adds(r, &log, "box", " <tool_box");
    push_adds(r, &log, "\xc3", "");
    push_adds(r, &log, "\xa9", "\xc3\xa9");
    push_adds(r, &log, "<tool_call> ", "");
    push_adds(r, &log, "{\"name\": \"no", "");
    push_adds(r, &log, "w\"} ", "");
    push_adds(r, &log, "x", "<tool_call> {\"name\": \"now\"} x");
    push_adds(r, &log, "<tool_call>{\"name\": \"now\"}</tool_call", "");
    push_adds(r, &log, ">", ")" NOW);
    reply_free(r);
    buffer_clear(&log.text);
}

static void without_forms_all_is_text(void **state) {
    (void)state;
    static const Case c = {.answer = "<think> <tool_call>{\"name\": \"now\"}</tool_call>\n ",
                           .expected = "T(<think> <tool_call>{\"name\": \"now\"}</tool_call>\n )"};
    check(&c);
    ReplyLog log = {0};
    Reply *r = start(&c, &log);
    push_adds(r, &log, " \n", "T( \n"); /* nothing waits */
    push_adds(r, &log, "", "");
    finish(r, &log, "T( \n)");
}

/* An answer that could be a call for very long is read once: 4 MB in pieces of 7 bytes, and a call of many marks. */
static void long_answers_take_linear_time(void **state) {
    (void)state;
    enum { MARKS = 100000 };
    static const char head[] = "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"", tail[] = "\"}}</tool_call>";
    Case c = {.calls = "hermes"};
    ReplyLog log = {0};
    Reply *r = start(&c, &log);
    push(r, head, sizeof head - 1);
    for (int i = 0; i < 600000; i++) push(r, "<tool_c", 7);
    push(r, tail, sizeof tail - 1);
    assert_int_equal(log.n_calls, 1);
    assert_int_equal(log.text.length, 4200000 + strlen("C(now||{\"a\": \"\"})"));
    reply_free(r);
    buffer_clear(&log.text);
    log = (ReplyLog){0};
    r = start(&c, &log);
    Error err;
    for (int i = 0; i < MARKS; i++) push(r, "<tool_call>{\"a\": \"", 18);
    assert_true(reply_finish(r, &err));
    assert_int_equal(log.n_calls, 0);
    assert_int_equal(log.text.length, 2 + 18 * MARKS);
    reply_free(r);
    buffer_clear(&log.text);
}

static bool refuse(void *context, const ReplyEvent *event, Error *err) {
    (void)context;
    (void)event;
    return error_set(err, "the client has left");
}

static void a_sink_can_end_it(void **state) {
    (void)state;
    Error err = {""};
    ReplyOptions o = {0};
    Reply *r = reply_new(&o, refuse, NULL, &err);
    assert_false(reply_push(r, "x", 1, &err));
    assert_string_equal(err.text, "the client has left");
    reply_free(r);
}

static void running_out_of_memory_is_an_error(void **state) {
    (void)state;
    static const char *const answers[][3] = {
        {"glm",
         "Hi <tool_call>get_weather<arg_key>where</arg_key><arg_value>{'q': 'x'}</arg_value></tool_call>"
         "<tool_call>now</tool_call>",
         "T(Hi)C(get_weather||{\"where\": {\"q\": \"x\"}})" NOW},
        {"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": \"{}\", \"id\": \"a\"}</tool_call>", "C(now|a|{})"},
        {"lfm2", "<|tool_call_start|>[get_weather(city='Oslo'), now()]<|tool_call_end|>",
         "C(get_weather||{\"city\": \"Oslo\"})" NOW},
    };
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t nth = 1;; nth++) {
            Error err = {""};
            ReplyOptions o = {.calls = call_form_find(answers[i][0]), .tools = json_root(tools)};
            ReplyLog log = {0};
            mem_fail_after(nth);
            Reply *r = reply_new(&o, reply_log_take, &log, &err);
            bool ok = r && reply_push(r, answers[i][1], strlen(answers[i][1]), &err) && reply_finish(r, &err);
            mem_fail_after(0);
            bool whole = ok && !log.text.failed;
            reply_log_close(&log);
            if (whole) assert_string_equal(buffer_string(&log.text), answers[i][2]);
            if (!ok) assert_memory_equal(err.text, "out of memory", 13);
            reply_free(r);
            buffer_clear(&log.text);
            if (whole) break;
        }
    }
}

static void decoding_keeps_the_tokens_of_marks(void **state) {
    (void)state;
    const CallForm *kimi = call_form_find("kimi"), *dsml = call_form_find("dsml"), *mistral = call_form_find("mistral");
    const ReasoningForm *harmony = reasoning_find("harmony");
    assert_true(reply_needs(kimi, NULL, "<|tool_call_argument_begin|>", 28)); /* of a step, not a mark */
    assert_true(reply_needs(dsml, NULL, "｜DSML｜", strlen("｜DSML｜")));     /* a part of one */
    assert_true(reply_needs(mistral, NULL, "[CALL_ID]", 9));
    assert_true(reply_needs(NULL, harmony, "<|channel|>", 11));
    assert_false(reply_needs(kimi, harmony, "<|im_end|>", 10));
    assert_false(reply_needs(NULL, NULL, "<think>", 7));
    assert_false(reply_needs(kimi, harmony, "", 0));
}

static int make_tools(void **state) {
    return shared_json_parse(state, tools_text, &tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_in_tags),
        cmocka_unit_test(a_name_and_then_json),
        cmocka_unit_test(arguments_as_elements),
        cmocka_unit_test(notations_of_their_own),
        cmocka_unit_test(reasoning_is_told_from_text),
        cmocka_unit_test(parallel_calls_are_numbered),
        cmocka_unit_test(what_does_not_parse_is_text),
        cmocka_unit_test(after_a_bad_call_the_next_one_counts),
        cmocka_unit_test(no_more_is_held_back_than_may_become_a_mark),
        cmocka_unit_test(without_forms_all_is_text),
        cmocka_unit_test(long_answers_take_linear_time),
        cmocka_unit_test(a_sink_can_end_it),
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(decoding_keeps_the_tokens_of_marks),
    };
    return cmocka_run_group_tests(tests, make_tools, shared_json_free);
}
