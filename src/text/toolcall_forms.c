/* Every form of tool call that lockstep knows, as data: the steps that read one, the marks at which it may begin, its
 * name on the command line, and what in a chat template tells of it. The interpreter is toolcall_steps.c. A new form is
 * a few lines here, and needs C only where its notation of values is new.
 *
 * Tokens and tags open a call anywhere. What ordinary text may begin with as well ({, [, a name) does so only where an
 * answer begins, and then the name must be that of a tool. */
#include "text/toolcall_forms.h"

#include <string.h>

static const Step hermes_steps[] = {
    {.op = STEP_TEXT, .text = "<tool_call>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "</tool_call>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step mistral_steps[] = {
    {.op = STEP_TEXT, .text = "[TOOL_CALLS]"},
    {.op = STEP_SPACE},
    {.op = STEP_PEEK, .text = "[{", .to = 'd'},
    {.op = STEP_NAME, .text = "[{"},
    {.op = STEP_IF, .text = "[CALL_ID]", .to = 'c'},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_IF, .text = "[ARGS]"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_CALL},
    {.op = STEP_GO, .to = 'e'},
    {.op = STEP_LABEL, .to = 'c'},
    {.op = STEP_ID, .text = "[{"},
    {.op = STEP_GO, .to = 'a'},
    {.op = STEP_LABEL, .to = 'd'},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_GO, .to = 'b'},
    {.op = STEP_LABEL, .to = 'e'},
    {.op = STEP_END},
};

static const Step deepseek_v3_steps[] = {
    {.op = STEP_IF, .text = "<｜tool▁calls▁begin｜>"},
    {.op = STEP_SPACE},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_TEXT, .text = "<｜tool▁call▁begin｜>"},
    {.op = STEP_IF, .text = "function"},
    {.op = STEP_TEXT, .text = "<｜tool▁sep｜>"},
    {.op = STEP_NAME, .text = ""},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "```json"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "```"},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<｜tool▁call▁end｜>"},
    {.op = STEP_CALL},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "<｜tool▁calls▁end｜>", .to = 'b'},
    {.op = STEP_GO, .to = 'a'},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_END},
};

static const Step deepseek_v31_steps[] = {
    {.op = STEP_IF, .text = "<｜tool▁calls▁begin｜>"},
    {.op = STEP_SPACE},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_TEXT, .text = "<｜tool▁call▁begin｜>"},
    {.op = STEP_NAME, .text = "<"},
    {.op = STEP_TEXT, .text = "<｜tool▁sep｜>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<｜tool▁call▁end｜>"},
    {.op = STEP_CALL},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "<｜tool▁calls▁end｜>", .to = 'b'},
    {.op = STEP_GO, .to = 'a'},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_END},
};

static const Step kimi_steps[] = {
    {.op = STEP_IF, .text = "<|tool_calls_section_begin|>"},
    {.op = STEP_SPACE},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_TEXT, .text = "<|tool_call_begin|>"},
    {.op = STEP_SPACE},
    {.op = STEP_ID_NAME, .text = "<"},
    {.op = STEP_SPACE},
    {.op = STEP_TEXT, .text = "<|tool_call_argument_begin|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|tool_call_end|>"},
    {.op = STEP_CALL},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "<|tool_calls_section_end|>", .to = 'b'},
    {.op = STEP_GO, .to = 'a'},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_END},
};

static const Step solar_steps[] = {
    {.op = STEP_IF, .text = "<|tool_calls|>"},
    {.op = STEP_SPACE},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_TEXT, .text = "<|tool_call:begin|>"},
    {.op = STEP_ID, .text = "<"},
    {.op = STEP_TEXT, .text = "<|tool_call:name|>"},
    {.op = STEP_NAME, .text = "<"},
    {.op = STEP_TEXT, .text = "<|tool_call:args|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|tool_call:end|>"},
    {.op = STEP_CALL},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "<|calls|>", .to = 'b'},
    {.op = STEP_GO, .to = 'a'},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_END},
};

static const Step harmony_steps[] = {
    {.op = STEP_IF, .text = "<|channel|>commentary", .to = 'a'},
    {.op = STEP_IF, .text = "<|channel|>analysis"},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_SPACE},
    {.op = STEP_TEXT, .text = "to="},
    {.op = STEP_IF, .text = "functions."},
    {.op = STEP_NAME, .text = "<"},
    {.op = STEP_PAST, .text = "<|message|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|call|>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step gemma_steps[] = {
    {.op = STEP_TEXT, .text = "<|tool_call>call:"},
    {.op = STEP_NAME, .text = "{"},
    {.op = STEP_TEXT, .text = "{"},
    {.op = STEP_BODY, .text = "<tool_call|>", .read = read_gemma_arguments},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step function_gemma_steps[] = {
    {.op = STEP_TEXT, .text = "<start_function_call>call:"},
    {.op = STEP_NAME, .text = "{"},
    {.op = STEP_TEXT, .text = "{"},
    {.op = STEP_BODY, .text = "<end_function_call>", .read = read_function_gemma},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step lfm2_steps[] = {
    {.op = STEP_TEXT, .text = "<|tool_call_start|>"},
    {.op = STEP_BODY, .text = "<|tool_call_end|>", .read = read_python_calls},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step pythonic_steps[] = {
    {.op = STEP_IF, .text = "<|python_start|>"},
    {.op = STEP_SPACE},
    {.op = STEP_LIST, .read = read_python_calls},
    {.op = STEP_CALL, .to = 1},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "<|python_end|>"},
    {.op = STEP_END},
};

static const Step llama_json_steps[] = {
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_HEAD, .text = "name|type|function|parameters"},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_CALL, .to = 1},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = ";"},
    {.op = STEP_SPACE},
    {.op = STEP_PEEK, .text = "{", .to = 'a'},
    {.op = STEP_END},
};

static const Step llama_tag_steps[] = {
    {.op = STEP_TEXT, .text = "<|python_tag|>"},
    {.op = STEP_BODY, .read = read_python_tag},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step function_tag_steps[] = {
    {.op = STEP_TEXT, .text = "<function="},
    {.op = STEP_NAME, .text = ">"},
    {.op = STEP_TEXT, .text = ">"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "</function>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step functionary_steps[] = {
    {.op = STEP_IF, .text = ">>>"},
    {.op = STEP_IF, .text = "all\n", .to = 'a'},
    {.op = STEP_NAME, .text = ""},
    {.op = STEP_TEXT, .text = "\n"},
    {.op = STEP_JSON, .read = read_json_arguments},
    {.op = STEP_CALL, .to = 1},
    {.op = STEP_GO, .to = 'b'},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_DROP},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_END},
};

static const Step cohere_steps[] = {
    {.op = STEP_TEXT, .text = "<|START_ACTION|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|END_ACTION|>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step command_r_steps[] = {
    {.op = STEP_TEXT, .text = "Action:"},
    {.op = STEP_SPACE},
    {.op = STEP_TEXT, .text = "```json"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "```"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step nemotron_steps[] = {
    {.op = STEP_TEXT, .text = "<TOOLCALL>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "</TOOLCALL>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step tool_calls_steps[] = {
    {.op = STEP_TEXT, .text = "<tool_calls>"},
    {.op = STEP_SPACE},
    {.op = STEP_LABEL, .to = 'a'},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_CALL},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "</tool_calls>", .to = 'b'},
    {.op = STEP_GO, .to = 'a'},
    {.op = STEP_LABEL, .to = 'b'},
    {.op = STEP_END},
};

static const Step granite_steps[] = {
    {.op = STEP_TEXT, .text = "<|tool_call|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_CALL},
    {.op = STEP_SPACE},
    {.op = STEP_IF, .text = "<|/tool_call|>"},
    {.op = STEP_END},
};

static const Step functools_steps[] = {
    {.op = STEP_TEXT, .text = "functools"},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step apertus_steps[] = {
    {.op = STEP_TEXT, .text = "<|tools_prefix|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_keyed_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|tools_suffix|>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step gigachat_steps[] = {
    {.op = STEP_TEXT, .text = "<|function_call|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|message_sep|>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Step gigachat_v3_steps[] = {
    {.op = STEP_IF, .text = "<|message_sep|>"},
    {.op = STEP_SPACE},
    {.op = STEP_TEXT, .text = "function call<|role_sep|>"},
    {.op = STEP_SPACE},
    {.op = STEP_JSON, .read = read_json_calls},
    {.op = STEP_SPACE},
    {.op = STEP_CLOSE, .text = "<|message_sep|>"},
    {.op = STEP_CALL},
    {.op = STEP_END},
};

static const Mark hermes_marks[] = {
    {"<tool_call>", MARK_CALL, false, hermes_steps},
    {0},
};
static const Mark qwen_xml_marks[] = {
    {"<tool_call>", MARK_CALL, false, qwen_xml_steps},
    {"<function=", MARK_CALL, false, qwen_xml_steps},
    {0},
};
static const Mark seed_marks[] = {
    {"<seed:tool_call>", MARK_CALL, false, seed_steps},
    {0},
};
static const Mark glm_marks[] = {
    {"<tool_call>", MARK_CALL, false, glm_steps},
    {0},
};
static const Mark hunyuan_marks[] = {
    {"<tool_calls:opensource>", MARK_CALL, false, hunyuan_steps},
    {"<tool_call:opensource>", MARK_CALL, false, hunyuan_steps},
    {0},
};
static const Mark minimax_m2_marks[] = {
    {"<minimax:tool_call>", MARK_CALL, false, minimax_m2_steps},
    {0},
};
static const Mark minimax_m3_marks[] = {
    {"]<]minimax[>[<tool_call>", MARK_CALL, false, minimax_m3_steps},
    {0},
};
static const Mark atem_marks[] = {
    {"<atem:function_calls>", MARK_CALL, false, atem_steps},
    {" to=", MARK_CALL, true, atem_steps},
    {0},
};
static const Mark dsml_marks[] = {
    {"<｜DSML｜function_calls>", MARK_CALL, false, dsml_steps},
    {"<｜DSML｜tool_calls>", MARK_CALL, false, dsml_steps},
    {0},
};
static const Mark kimi_k3_marks[] = {
    {"<|open|>tools<|sep|>", MARK_CALL, false, kimi_k3_steps},
    {0},
};
static const Mark minicpm_marks[] = {
    {"<function name=\"", MARK_CALL, false, minicpm_steps},
    {0},
};
static const Mark mistral_marks[] = {
    {"[TOOL_CALLS]", MARK_CALL, false, mistral_steps},
    {0},
};
static const Mark deepseek_v3_marks[] = {
    {"<｜tool▁calls▁begin｜>", MARK_CALL, false, deepseek_v3_steps},
    {"<｜tool▁call▁begin｜>", MARK_CALL, false, deepseek_v3_steps},
    {0},
};
static const Mark deepseek_v31_marks[] = {
    {"<｜tool▁calls▁begin｜>", MARK_CALL, false, deepseek_v31_steps},
    {"<｜tool▁call▁begin｜>", MARK_CALL, false, deepseek_v31_steps},
    {0},
};
static const Mark kimi_marks[] = {
    {"<|tool_calls_section_begin|>", MARK_CALL, false, kimi_steps},
    {"<|tool_call_begin|>", MARK_CALL, false, kimi_steps},
    {0},
};
static const Mark solar_marks[] = {
    {"<|tool_calls|>", MARK_CALL, false, solar_steps},
    {"<|tool_call:begin|>", MARK_CALL, false, solar_steps},
    {0},
};
static const Mark harmony_marks[] = {
    {"<|channel|>commentary to=", MARK_CALL, false, harmony_steps},
    {"<|channel|>analysis to=", MARK_CALL, false, harmony_steps},
    {" to=", MARK_CALL, true, harmony_steps},
    {0},
};
static const Mark gemma_marks[] = {
    {"<|tool_call>call:", MARK_CALL, false, gemma_steps},
    {"<|tool_response>", MARK_DROP, false, NULL},
    {0},
};
static const Mark function_gemma_marks[] = {
    {"<start_function_call>call:", MARK_CALL, false, function_gemma_steps},
    {0},
};
static const Mark lfm2_marks[] = {
    {"<|tool_call_start|>", MARK_CALL, false, lfm2_steps},
    {0},
};
static const Mark pythonic_marks[] = {
    {"<|python_start|>", MARK_CALL, false, pythonic_steps},
    {"[", MARK_CALL, true, pythonic_steps},
    {0},
};
static const Mark llama_marks[] = {
    {"{", MARK_CALL, true, llama_json_steps},
    {"<|python_tag|>", MARK_CALL, false, llama_tag_steps},
    {0},
};
static const Mark function_tag_marks[] = {
    {"<function=", MARK_CALL, false, function_tag_steps},
    {0},
};
static const Mark functionary_marks[] = {
    {">>>", MARK_CALL, false, functionary_steps},
    {"", MARK_CALL, true, functionary_steps},
    {0},
};
static const Mark cohere_marks[] = {
    {"<|START_ACTION|>", MARK_CALL, false, cohere_steps},
    {0},
};
static const Mark command_r_marks[] = {
    {"Action:", MARK_CALL, false, command_r_steps},
    {0},
};
static const Mark nemotron_marks[] = {
    {"<TOOLCALL>", MARK_CALL, false, nemotron_steps},
    {0},
};
static const Mark tool_calls_marks[] = {
    {"<tool_calls>", MARK_CALL, false, tool_calls_steps},
    {0},
};
static const Mark granite_marks[] = {
    {"<|tool_call|>", MARK_CALL, false, granite_steps},
    {0},
};
static const Mark functools_marks[] = {
    {"functools[", MARK_CALL, false, functools_steps},
    {0},
};
static const Mark apertus_marks[] = {
    {"<|tools_prefix|>", MARK_CALL, false, apertus_steps},
    {0},
};
static const Mark gigachat_marks[] = {
    {"<|function_call|>", MARK_CALL, false, gigachat_steps},
    {0},
};
static const Mark gigachat_v3_marks[] = {
    {"<|message_sep|>\n\nfunction call<|role_sep|>", MARK_CALL, false, gigachat_v3_steps},
    {"function call<|role_sep|>", MARK_CALL, true, gigachat_v3_steps},
    {0},
};

static const CallForm forms[] = {
    {"hermes", hermes_marks, false},
    {"qwen-xml", qwen_xml_marks, false},
    {"seed", seed_marks, false},
    {"glm", glm_marks, false},
    {"hunyuan", hunyuan_marks, false},
    {"minimax-m2", minimax_m2_marks, false},
    {"minimax-m3", minimax_m3_marks, true},
    {"atem", atem_marks, false},
    {"dsml", dsml_marks, true},
    {"kimi-k3", kimi_k3_marks, true},
    {"minicpm", minicpm_marks, false},
    {"mistral", mistral_marks, true},
    {"deepseek-v3", deepseek_v3_marks, true},
    {"deepseek-v3.1", deepseek_v31_marks, true},
    {"kimi", kimi_marks, true},
    {"solar", solar_marks, true},
    {"harmony", harmony_marks, true},
    {"gemma", gemma_marks, true},
    {"function-gemma", function_gemma_marks, false},
    {"lfm2", lfm2_marks, true},
    {"pythonic", pythonic_marks, false},
    {"llama", llama_marks, false},
    {"function-tag", function_tag_marks, false},
    {"functionary", functionary_marks, false},
    {"cohere", cohere_marks, true},
    {"command-r", command_r_marks, false},
    {"nemotron", nemotron_marks, false},
    {"tool-calls", tool_calls_marks, false},
    {"granite", granite_marks, false},
    {"functools", functools_marks, false},
    {"apertus", apertus_marks, true},
    {"gigachat", gigachat_marks, false},
    {"gigachat-v3", gigachat_v3_marks, false},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* What a template's text holds (both texts, where there are two), and the form that this means. The first rule that
 * fits counts: what is written in one family only stands before what several share. */
static const struct {
    const char *text, *other, *form;
} rules[] = {
    {"<|channel|>commentary", NULL, "harmony"},
    {"<atem:function_calls>", NULL, "atem"},
    {"<|tool_call>call:", NULL, "gemma"},
    {"<start_function_call>", NULL, "function-gemma"},
    {"[TOOL_CALLS]", NULL, "mistral"},
    {"｜DSML｜", NULL, "dsml"},
    {"<｜tool▁call▁begin｜>", "```json", "deepseek-v3"},
    {"<｜tool▁call▁begin｜>", NULL, "deepseek-v3.1"},
    {"<|tool_call_argument_begin|>", NULL, "kimi"},
    {"<|open|>", "<|sep|>", "kimi-k3"},
    {"]<]minimax[>[", NULL, "minimax-m3"},
    {"<minimax:tool_call>", NULL, "minimax-m2"},
    {"<arg_key{}>'.format", ":opensource", "hunyuan"},
    {"<arg_key:opensource>", NULL, "hunyuan"},
    {"<arg_key>", NULL, "glm"},
    {"<seed:tool_call>", NULL, "seed"},
    {"<function=", "<parameter=", "qwen-xml"},
    {"<function name=\"", "<param name=\"", "minicpm"},
    {"<function=", NULL, "function-tag"},
    {">>>all", NULL, "functionary"},
    {"<|tool_call_start|>", NULL, "lfm2"},
    {"<|tool_list_start|>", NULL, "lfm2"},
    {"List of tools: [", NULL, "lfm2"},
    {"<|START_ACTION|>", NULL, "cohere"},
    {"Action:", "\"tool_name\"", "command-r"},
    {"<TOOLCALL>", NULL, "nemotron"},
    {"<tool_calls>", NULL, "tool-calls"},
    {"<|tool_call|>", NULL, "granite"},
    {"functools[", NULL, "functools"},
    {"<|tools_prefix|>", NULL, "apertus"},
    {"<|function_call|>", NULL, "gigachat"},
    {"function call", "<|role_sep|>", "gigachat-v3"},
    {"<|tool_call:begin|>", NULL, "solar"},
    {"<tool_call>", NULL, "hermes"},
    {"(params_name1=params_value1", NULL, "pythonic"},
    {"{\"name\": function name", NULL, "llama"},
};

const CallForm *call_form_of_template(const char *source) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strstr(source, rules[i].text) && (!rules[i].other || strstr(source, rules[i].other)))
            return call_form_find(rules[i].form);
    return NULL;
}

const CallForm *call_form_find(const char *name) {
    for (int i = 0; i < N_FORMS; i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return NULL;
}

const CallForm *call_form_at(int i) {
    return i >= 0 && i < N_FORMS ? &forms[i] : NULL;
}
