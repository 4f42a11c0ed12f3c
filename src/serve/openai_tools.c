/* Only what is kept is accepted: a choice of tools that nothing enforces would be a lie. */
#include "serve/openai_tools.h"
#include "text/toolcall_check.h"

#include <stdio.h>

/* Tools that others would run have their name beside the type, or inside what is called as the type is. */
static bool refuse_kind(const JsonValue *tool, const char *param, ApiError *err) {
    const char *kind = json_string(json_get(tool, "type")), *name = json_string(json_get(tool, "name"));
    if (kind && !name) name = json_string(json_get(json_get(tool, kind), "name"));
    return api_refuse(err, 400, param, "%s: tools of type '%.60s' (%.60s) are not supported, only functions", param,
                      kind ? kind : "?", name ? name : "without a name");
}

bool openai_check_tools(const JsonValue *tools, ApiError *err) {
    for (uint32_t i = 0; tools && i < tools->length; i++) {
        const JsonValue *tool = json_item(tools, i), *type = json_get(tool, "type");
        const JsonValue *function = json_get(tool, "function"), *name = json_get(function, "name");
        Error why = {""};
        char param[64];
        snprintf(param, sizeof param, "tools[%u]", i);
        if (type && !json_equals(type, "function")) return refuse_kind(tool, param, err);
        if (!json_string(name) || name->length == 0)
            return api_refuse(err, 400, param, "%s: it must have a function with a name", param);
        if (!tool_check(name, json_get(function, "parameters"), &why))
            return api_refuse(err, 400, param, "%s: %s", param, why.text);
    }
    return true;
}

static const JsonValue *find_tool(const JsonValue *tools, const JsonValue *name) {
    for (uint32_t i = 0; i < tools->length && json_string(name); i++)
        if (json_equals(json_get(json_get(json_item(tools, i), "function"), "name"), name->text))
            return json_item(tools, i);
    return NULL;
}

/* {"type": "function", "function": {"name": ...}}; in the responses API the name stands beside the type. */
static const JsonValue *name_of(const JsonValue *item) {
    const JsonValue *function = json_get(item, "function");
    return json_get(function ? function : item, "name");
}

/* Those of `tools` that `allowed` names, as a list of its own. */
static JsonDoc *allowed_tools(const JsonValue *tools, const JsonValue *allowed, ApiError *err) {
    Buffer out = {0};
    JsonDoc *doc = NULL;
    bool ok = true;
    buffer_byte(&out, '[');
    for (uint32_t i = 0; ok && i < allowed->length; i++) {
        const JsonValue *name = name_of(json_item(allowed, i)), *tool = find_tool(tools, name);
        buffer_text(&out, i ? ", " : "");
        if (tool)
            json_write(&out, tool, NULL);
        else
            ok = api_refuse(err, 400, "tool_choice", "'tool_choice' allows '%s', which is not among the tools",
                            json_string(name) ? name->text : "?");
    }
    buffer_byte(&out, ']');
    if (ok) doc = api_parse_written(&out, err);
    buffer_clear(&out);
    return doc;
}

/* A function, or {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, of which the responses API
 * has the inner members beside the type. */
static bool read_object(Converse *c, const JsonValue *choice, JsonDoc **allowed, ApiError *err) {
    const JsonValue *type = json_get(choice, "type"), *name = name_of(choice);
    const JsonValue *inner = json_get(choice, "allowed_tools"), *some = inner ? inner : choice;
    const JsonValue *mode = json_get_set(some, "mode");
    if (json_equals(type, "function") && json_string(name)) {
        c->must_call = c->one_call = true;
        c->must_name = name->text;
        return true;
    }
    if (!json_equals(type, "allowed_tools") || !json_item(json_get(some, "tools"), 0))
        return api_refuse(err, 400, "tool_choice",
                          "'tool_choice' must be none, auto, required, a function with its name, or allowed_tools");
    if (mode && !json_equals(mode, "auto") && !json_equals(mode, "required"))
        return api_refuse(err, 400, "tool_choice", "the mode of allowed_tools must be auto or required");
    if (!(*allowed = allowed_tools(c->tools, json_get(some, "tools"), err))) return false;
    c->tools = json_root(*allowed);
    c->must_call = json_equals(mode, "required");
    return true;
}

bool openai_choose_tools(Converse *c, const JsonValue *tools, JsonDoc **allowed, ApiError *err) {
    const JsonValue *choice = c->fields.tool_choice;
    if (!openai_check_tools(tools, err)) return false;
    c->tools = tools && tools->length > 0 ? tools : NULL;
    c->one_call = c->fields.parallel_tool_calls.set && !c->fields.parallel_tool_calls.value;
    if (!choice || json_equals(choice, "auto")) return true;
    if (json_equals(choice, "none")) {
        c->tools = NULL;
        return true;
    }
    bool required = json_equals(choice, "required");
    if (!c->tools && (required || choice->type == JSON_OBJECT))
        return api_refuse(err, 400, "tool_choice", "'tool_choice' asks for a call, but there are no 'tools'");
    if (choice->type == JSON_OBJECT) return read_object(c, choice, allowed, err);
    c->must_call = required;
    return required ||
           api_refuse(err, 400, "tool_choice", "'tool_choice' must be none, auto or required, or an object");
}
