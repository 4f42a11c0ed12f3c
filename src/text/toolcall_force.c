/* What stands around a call's name and arguments, for the forms whose arguments are JSON: one row each. */
#include "text/toolcall_force.h"
#include "text/grammar_build.h"
#include "text/toolcall_schema.h"

#include <string.h>

typedef struct CallFrame {
    const char *form;
    const char *begin;                   /* before all calls */
    const char *before, *middle, *after; /* of one: before its name, between name and arguments, after them */
    const char *between, *end;           /* between two calls; after all of them */
} CallFrame;

enum { MOST_CALLS = 16 }; /* in one answer: a model that likes one goes on for ever */

static const CallFrame frames[] = {
    {"hermes", "", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n", ""},
    {"mistral", "", "[TOOL_CALLS]", "[ARGS]", "", "", ""},
    {"deepseek-v3", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
     "\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>"},
    {"deepseek-v3.1", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "",
     "<｜tool▁calls▁end｜>"},
    {"harmony", "", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "", NULL, ""},
    {"llama", "", "{\"name\": \"", "\", \"parameters\": ", "}", "; ", ""},
    {"function-tag", "", "<function=", ">", "</function>", "\n", ""},
    {"functionary", "", ">>>", "\n", "", NULL, ""},
    {"cohere", "<|START_ACTION|>[", "{\"tool_call_id\": \"0\", \"tool_name\": \"", "\", \"parameters\": ", "}", NULL,
     "]<|END_ACTION|>"},
    {"nemotron", "<TOOLCALL>[", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]</TOOLCALL>"},
    {"tool-calls", "<tool_calls>[", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]</tool_calls>"},
    {"granite", "<|tool_call|>[", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]"},
    {"functools", " functools[", "{\"name\": \"", "\", \"arguments\": ", "}", ", ", "]"},
    {"apertus", "<|tools_prefix|>[", "{\"", "\": ", "}", ", ", "]<|tools_suffix|>"},
};

/* NULL: it has none of its own. */
static const CallFrame *frame_of(const CallForm *form) {
    for (size_t i = 0; form && i < sizeof frames / sizeof *frames; i++)
        if (strcmp(frames[i].form, form->name) == 0) return &frames[i];
    return NULL;
}

static uint32_t text_rule(Grammar *g, const char *text) {
    return grammar_text(g, text, strlen(text));
}

/* The schema to hold a call's arguments to; NULL: any object, as for one that allows more than objects. Only `strict`
 * promises that they fit: without it the model may call a tool whose schema a grammar can not keep, too. The schema is
 * tried by itself, so that what was read of it before it failed is not left in the grammar. */
static const JsonValue *schema_to_keep(const JsonValue *function) {
    const JsonValue *schema = json_get_set(function, "parameters");
    bool strict = false;
    if (!schema || schema_types((Schema){schema, schema}) != TYPE_OBJECT) return NULL;
    if (json_bool(json_get(function, "strict"), &strict) && strict) return schema;
    Grammar *alone = grammar_from_schema(schema, NULL);
    grammar_free(alone);
    return alone ? schema : NULL;
}

/* Adds the tool as one way to call. A name inside of JSON needs no escapes: tool_check has refused those that would. */
static bool put_tool(Grammar *g, const CallFrame *frame, const JsonValue *tool, uint32_t calls, Error *err) {
    const JsonValue *function = json_get(tool, "function"), *name = json_get(function, "name");
    uint32_t arguments, parts[5];
    if (!grammar_put_schema(g, schema_to_keep(function), &arguments, err))
        return error_prefix(err, "the parameters of %s", name->text);
    parts[0] = text_rule(g, frame->before);
    parts[1] = grammar_text(g, name->text, name->length);
    parts[2] = text_rule(g, frame->middle);
    parts[3] = arguments;
    parts[4] = text_rule(g, frame->after);
    grammar_alternative(g, calls);
    for (int i = 0; i < 5; i++) grammar_put_rule(g, parts[i]);
    grammar_end(g);
    return true;
}

static bool put_tools(Grammar *g, const CallFrame *frame, const JsonValue *tools, const char *name, uint32_t calls,
                      Error *err) {
    bool found = false;
    for (uint32_t i = 0; tools && i < tools->length; i++) {
        const JsonValue *tool = json_item(tools, i), *own = json_get(json_get(tool, "function"), "name");
        if (!json_string(own) || (name && !json_equals(own, name))) continue;
        found = true;
        if (!put_tool(g, frame, tool, calls, err)) return false;
    }
    return found || (name ? error_set(err, "there is no tool named '%s'", name) : error_set(err, "there are no tools"));
}

/* All that an answer of calls is. */
static bool put_calls(Grammar *g, const CallFrame *frame, const JsonValue *tools, const char *name, bool several,
                      uint32_t *rule, Error *err) {
    uint32_t call = grammar_rule(g);
    if (!put_tools(g, frame, tools, name, call, err)) return false;
    uint32_t more = grammar_empty(g);
    if (several && frame->between) {
        uint32_t next[2] = {text_rule(g, frame->between), call};
        more = grammar_repeat(g, grammar_sequence(g, next, 2), 0, MOST_CALLS - 1);
    }
    uint32_t parts[4] = {text_rule(g, frame->begin), call, more, text_rule(g, frame->end)};
    *rule = grammar_sequence(g, parts, 4);
    return true;
}

Grammar *call_grammar(const CallForm *form, const JsonValue *tools, const char *name, bool several,
                      const CallForm **reads, Error *err) {
    const CallFrame *own = frame_of(form), *frame = own ? own : &frames[0];
    Grammar *g = grammar_new();
    uint32_t calls;
    if (!g) {
        error_memory(err, "a grammar");
        return NULL;
    }
    if (!put_calls(g, frame, tools, name, several, &calls, err)) {
        grammar_free(g);
        return NULL;
    }
    *reads = call_form_find(frame->form);
    return grammar_finish(g, calls, err);
}

/* A mark of the form, and then anything: the inside is the model's business, as it is where no form is asked for. What
 * JSON may begin with is no mark here. */
static uint32_t put_marked(Grammar *g, const CallForm *form) {
    static const ByteSet every = {{~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}};
    uint32_t byte = grammar_rule(g), calls = grammar_rule(g);
    grammar_alternative(g, byte);
    grammar_put_set(g, &every);
    grammar_end(g);
    uint32_t rest = grammar_repeat(g, byte, 0, -1);
    for (const Mark *m = form->marks; m->text; m++) {
        if (m->role != MARK_CALL || strlen(m->text) < 2) continue;
        grammar_alternative(g, calls);
        grammar_put_text(g, m->text, strlen(m->text));
        grammar_put_rule(g, rest);
        grammar_end(g);
    }
    return calls;
}

Grammar *call_grammar_beside(Grammar *answer, const CallForm *form, const JsonValue *tools, bool several, Error *err) {
    const CallFrame *frame = frame_of(form);
    uint32_t ways[2] = {answer->root, 0};
    if (!frame) {
        ways[1] = put_marked(answer, form);
    } else if (!put_calls(answer, frame, tools, NULL, several, &ways[1], err)) {
        grammar_free(answer);
        return NULL;
    }
    return grammar_finish(answer, grammar_choice(answer, ways, 2), err);
}
