/* A template that says nothing of tools would drop them without a word, and the model could not know of them; so would
 * the calls and results of earlier turns. What is written here is what the grammar and the parser of such a model
 * expect. */
#include "serve/toolless.h"

#include <string.h>

static bool is_role(const JsonValue *message, const char *role) {
    return json_equals(json_get(message, "role"), role);
}

static bool has_calls(const JsonValue *message) {
    const JsonValue *calls = json_get_set(message, "tool_calls");
    return calls && calls->type == JSON_ARRAY && calls->length > 0;
}

static void describe_tools(const JsonValue *tools, Buffer *out) {
    buffer_text(out, "You can call tools. These are their signatures:\n<tools>\n");
    for (uint32_t i = 0; i < tools->length; i++) {
        json_write(out, json_item(tools, i), NULL);
        buffer_byte(out, '\n');
    }
    buffer_text(out, "</tools>\nTo call one, write its name and its arguments like this:\n<tool_call>\n"
                     "{\"name\": \"its name\", \"arguments\": {\"an argument\": \"its value\"}}\n</tool_call>\n"
                     "Results come inside of <tool_response></tool_response>.");
}

static void add_content(const JsonValue *message, Buffer *out) {
    const JsonValue *content = json_get(message, "content");
    if (json_string(content)) buffer_append(out, content->text, content->length);
}

/* Clients send arguments as a text; it is JSON as a rule. */
static void add_arguments(const JsonValue *v, Buffer *out) {
    JsonDoc *parsed = json_string(v) ? json_parse(v->text, v->length, 0, NULL) : NULL;
    if (parsed)
        buffer_append(out, v->text, v->length);
    else if (v && v->length > 0)
        json_write(out, v, NULL);
    else
        buffer_text(out, "{}");
    json_free(parsed);
}

static void add_calls(const JsonValue *calls, Buffer *out) {
    for (uint32_t i = 0; i < calls->length; i++) {
        const JsonValue *function = json_get(json_item(calls, i), "function"), *name = json_get(function, "name");
        buffer_text(out, out->length ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
        json_write_string(out, json_string(name) ? name->text : "", json_string(name) ? name->length : 0, false);
        buffer_text(out, ", \"arguments\": ");
        add_arguments(json_get(function, "arguments"), out);
        buffer_text(out, "}\n</tool_call>");
    }
}

static void write_message(Buffer *out, const char *role, const Buffer *text) {
    buffer_printf(out, "%s{\"role\": \"%s\", ", out->length > 1 ? ", " : "", role);
    api_write_text(out, "content", buffer_string(text), text->length);
    buffer_byte(out, '}');
    if (text->failed) out->failed = true;
}

/* Results that follow each other are one message, since many templates want the roles to take turns. Returns how many
 * there were. */
static uint32_t gather_results(const JsonValue *messages, uint32_t first, Buffer *text) {
    uint32_t n = 0;
    for (; first + n < messages->length && is_role(json_item(messages, first + n), "tool"); n++) {
        buffer_text(text, n ? "\n<tool_response>\n" : "<tool_response>\n");
        add_content(json_item(messages, first + n), text);
        buffer_text(text, "\n</tool_response>");
    }
    return n;
}

/* The message at i, with what else belongs to it: how many were taken. */
static uint32_t take_message(const JsonValue *messages, uint32_t i, Buffer *text, Buffer *out) {
    const JsonValue *m = json_item(messages, i);
    if (is_role(m, "tool")) {
        uint32_t n = gather_results(messages, i, text);
        write_message(out, "user", text);
        return n;
    }
    if (has_calls(m)) {
        add_content(m, text);
        add_calls(json_get(m, "tool_calls"), text);
        write_message(out, "assistant", text);
        return 1;
    }
    buffer_text(out, out->length > 1 ? ", " : "");
    json_write(out, m, NULL);
    return 1;
}

/* After what the system says, or before what the user does. */
static void tell_tools(const JsonValue *message, const JsonValue *tools, bool in_system, Buffer *text, Buffer *out) {
    if (in_system && message) {
        add_content(message, text);
        buffer_text(text, "\n\n");
    }
    describe_tools(tools, text);
    if (!in_system) {
        buffer_text(text, "\n\n");
        add_content(message, text);
    }
    write_message(out, in_system ? "system" : "user", text);
}

JsonDoc *toolless_messages(const JsonValue *messages, const JsonValue *tools, bool in_system, ApiError *err) {
    Buffer out = {0}, text = {0};
    bool told = false;
    buffer_byte(&out, '[');
    if (in_system && !is_role(json_item(messages, 0), "system")) {
        tell_tools(NULL, tools, true, &text, &out);
        told = true;
    }
    for (uint32_t i = 0; i < messages->length;) {
        const JsonValue *m = json_item(messages, i);
        buffer_reset(&text);
        if (told || !is_role(m, in_system ? "system" : "user")) {
            i += take_message(messages, i, &text, &out);
        } else {
            tell_tools(m, tools, in_system, &text, &out);
            told = true;
            i++;
        }
    }
    buffer_byte(&out, ']');
    JsonDoc *doc = api_parse_written(&out, err);
    buffer_clear(&out);
    buffer_clear(&text);
    return doc;
}
