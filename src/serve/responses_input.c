/* An item is a message, a call, its output, or what the model thought; calls and thoughts become part of the
 * assistant's message that they stand beside. Whatever else there is (images, files, searches) is refused and never
 * left out. */
#include "serve/responses_input.h"
#include "serve/openai.h"
#include "serve/turns.h"
#include "text/toolcall_check.h"

#include <stdio.h>
#include <string.h>

enum { PLACE = 96 };

/* ---- parts of content ---- */

/* Where a part has its text; NULL: it is of another kind. */
static const char *text_key(const JsonValue *part) {
    static const char *const texts[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text"};
    const JsonValue *type = json_get(part, "type");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (json_equals(type, texts[i])) return "text";
    return json_equals(type, "refusal") ? "refusal" : NULL;
}

static bool refuse_part(ApiError *err, const char *where, const JsonValue *part) {
    const char *type = json_string(json_get(part, "type")), *key = text_key(part);
    if (key) return api_refuse(err, 400, where, "%s: '%s' must be a string", where, key);
    return api_refuse(err, 400, where, "%s: parts of type '%.60s' are not supported here: this server reads text",
                      where, type ? type : "?");
}

/* A text, or a list of parts of text, which are joined with nothing between. */
static bool join_text(const JsonValue *content, const char *where, Buffer *out, ApiError *err) {
    if (content && content->type == JSON_STRING) {
        buffer_append(out, content->text, content->length);
        return true;
    }
    if (!content || content->type != JSON_ARRAY)
        return api_refuse(err, 400, where, "%s: it must be a text or a list of parts", where);
    for (uint32_t i = 0; i < content->length; i++) {
        const JsonValue *part = json_item(content, i);
        const char *key = text_key(part);
        const JsonValue *text = key ? json_get(part, key) : NULL;
        char place[PLACE];
        snprintf(place, sizeof place, "%s[%u]", where, i);
        if (!text || text->type != JSON_STRING) return refuse_part(err, place, part);
        buffer_append(out, text->text, text->length);
    }
    return true;
}

static const JsonValue *item_string(const JsonValue *item, const char *key, const char *where, ApiError *err) {
    const JsonValue *v = json_get(item, key);
    if (v && v->type == JSON_STRING) return v;
    api_refuse(err, 400, where, "%s: '%s' must be a string", where, key);
    return NULL;
}

/* ---- items ---- */

static const char *role_of(const JsonValue *item) {
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (json_equals(json_get(item, "role"), roles[i])) return roles[i];
    return NULL;
}

/* Messages stay apart, but for two: what the assistant says after thinking, and what the system says after the
 * instructions, since many templates take one system message only. */
static bool take_message(Turns *t, const JsonValue *item, const char *where, ApiError *err) {
    const char *role = role_of(item);
    char place[PLACE];
    Buffer text = {0};
    snprintf(place, sizeof place, "%s.role", where);
    if (!role) return api_refuse(err, 400, place, "%s: it must be user, assistant, system or developer", place);
    snprintf(place, sizeof place, "%s.content", where);
    bool ok = join_text(json_get_set(item, "content"), place, &text, err);
    if (ok) {
        bool instructs = strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
        bool thought = strcmp(role, "assistant") == 0 && t->text.length == 0 && t->calls.length == 0;
        bool joins = t->role && (instructs ? strcmp(t->role, "system") == 0 : thought);
        if (!joins) turns_close(t);
        turns_open(t, joins && instructs ? "system" : role);
        t->new_turn = true;
        turns_text(t, buffer_string(&text), text.length);
    }
    if (text.failed) t->out.failed = true;
    buffer_clear(&text);
    return ok;
}

static bool take_call(Turns *t, const JsonValue *item, const char *where, ApiError *err) {
    const JsonValue *id = item_string(item, "call_id", where, err);
    const JsonValue *name = id ? item_string(item, "name", where, err) : NULL;
    const JsonValue *arguments = name ? item_string(item, "arguments", where, err) : NULL;
    if (!arguments) return false;
    turns_open(t, "assistant");
    turns_call(t, id, name, arguments->text, arguments->length);
    return true;
}

static bool take_output(Turns *t, const JsonValue *item, const char *where, ApiError *err) {
    const JsonValue *id = item_string(item, "call_id", where, err);
    char place[PLACE];
    Buffer text = {0};
    snprintf(place, sizeof place, "%s.output", where);
    bool ok = id && join_text(json_get_set(item, "output"), place, &text, err);
    if (ok) turns_result(t, id, &text);
    buffer_clear(&text);
    return ok;
}

/* A summary is not what the model thought, so only the text itself is shown to it again. */
static bool take_reasoning(Turns *t, const JsonValue *item, const char *where, ApiError *err) {
    const JsonValue *content = json_get_set(item, "content");
    char place[PLACE];
    snprintf(place, sizeof place, "%s.content", where);
    if (!content) return true;
    if (t->role && (t->text.length > 0 || t->calls.length > 0)) turns_close(t);
    turns_open(t, "assistant");
    return join_text(content, place, &t->reasoning, err);
}

typedef struct ItemKind {
    const char *type, *id; /* what its ids begin with */
    bool (*take)(Turns *t, const JsonValue *item, const char *where, ApiError *err);
} ItemKind;

static const ItemKind kinds[] = {
    {"message", "msg_", take_message},
    {"function_call", "fc_", take_call},
    {"function_call_output", "fc_", take_output},
    {"reasoning", "rs_", take_reasoning},
};

/* A message may leave its type away. */
static const ItemKind *kind_of(const JsonValue *item) {
    const JsonValue *type = json_get_set(item, "type");
    if (!type && json_get(item, "role")) return &kinds[0];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (json_equals(type, kinds[i].type)) return &kinds[i];
    return NULL;
}

/* As it is kept: with a type, an id, a status, and content in parts. */
static void write_item(const JsonValue *item, const ItemKind *kind, Buffer *out) {
    const JsonValue *content = json_get(item, "content");
    bool plain = content && content->type == JSON_STRING;
    char id[40];
    openai_new_id(id, sizeof id, kind->id);
    buffer_printf(out, "%s{\"type\": \"%s\"", out->length ? ", " : "", kind->type);
    if (!json_get_set(item, "id")) buffer_printf(out, ", \"id\": \"%s\"", id);
    if (!json_get_set(item, "status")) buffer_text(out, ", \"status\": \"completed\"");
    for (uint32_t i = 0; i < item->length; i++) {
        const JsonMember *m = &item->members[i];
        if (strcmp(m->key, "type") == 0 || m->value.type == JSON_NULL || (plain && &m->value == content)) continue;
        buffer_text(out, ", ");
        json_write_string(out, m->key, m->key_length, false);
        buffer_text(out, ": ");
        json_write(out, &m->value, NULL);
    }
    if (plain) {
        bool said = json_equals(json_get(item, "role"), "assistant");
        buffer_printf(out, ", \"content\": [{\"type\": \"%s\", ", said ? "output_text" : "input_text");
        api_write_text(out, "text", content->text, content->length);
        buffer_text(out, said ? ", \"annotations\": []}]" : "}]");
    }
    buffer_byte(out, '}');
}

static bool take_item(Turns *t, const JsonValue *item, const char *where, Buffer *items, ApiError *err) {
    const char *type = json_string(json_get(item, "type"));
    const ItemKind *kind = kind_of(item);
    if (item->type != JSON_OBJECT) return api_refuse(err, 400, where, "%s: it must be an object", where);
    if (!kind)
        return api_refuse(err, 400, where, "%s: items of type '%.60s' are not supported here", where,
                          type ? type : "?");
    if (!kind->take(t, item, where, err)) return false;
    write_item(item, kind, items);
    return true;
}

static bool take_items(Turns *t, const JsonValue *list, const char *name, Buffer *items, ApiError *err) {
    for (uint32_t i = 0; list && i < list->length; i++) {
        char place[PLACE];
        snprintf(place, sizeof place, "%s[%u]", name, i);
        if (!take_item(t, json_item(list, i), place, items, err)) return false;
    }
    return true;
}

/* A text is what the user says. */
static bool take_text(Turns *t, const JsonValue *text, Buffer *items, ApiError *err) {
    Buffer out = {0};
    buffer_text(&out, "[{\"role\": \"user\", ");
    api_write_text(&out, "content", text->text, text->length);
    buffer_text(&out, "}]");
    JsonDoc *doc = api_parse_written(&out, err);
    bool ok = doc && take_items(t, json_root(doc), "input", items, err);
    json_free(doc);
    buffer_clear(&out);
    return ok;
}

JsonDoc *responses_messages(const ResponsesInput *in, Buffer *items, ApiError *err) {
    Turns t = {0};
    JsonDoc *doc = NULL;
    if (!in->input || (in->input->type == JSON_ARRAY && in->input->length == 0 && !in->history)) {
        api_refuse(err, 400, "input", "'input' must be a text, or a list of items that is not empty");
        return NULL;
    }
    if (in->instructions && *in->instructions) {
        turns_open(&t, "system");
        turns_text(&t, in->instructions, strlen(in->instructions));
    }
    bool ok = take_items(&t, in->history, "previous_response_id", items, err) &&
              (in->input->type == JSON_STRING ? take_text(&t, in->input, items, err)
                                              : take_items(&t, in->input, "input", items, err));
    if (ok) doc = turns_finish(&t, err);
    turns_clear(&t);
    return doc;
}

/* ---- tools ---- */

static bool take_tool(Buffer *out, const JsonValue *tool, uint32_t i, ApiError *err) {
    const JsonValue *type = json_get(tool, "type"), *name = json_get(tool, "name");
    static const char *const members[] = {"description", "parameters", "strict"};
    const char *kind = json_string(type), *label = json_string(name);
    Error why = {""};
    char place[PLACE];
    snprintf(place, sizeof place, "tools[%u]", i);
    if (!json_equals(type, "function"))
        return api_refuse(err, 400, place, "%s: tools of type '%.60s' (%.60s) are not supported, only functions", place,
                          kind ? kind : "?", label ? label : "without a name");
    if (!label || name->length == 0) return api_refuse(err, 400, place, "%s: it must have a name", place);
    if (!tool_check(name, json_get(tool, "parameters"), &why))
        return api_refuse(err, 400, place, "%s: %s", place, why.text);
    buffer_printf(out, "%s{\"type\": \"function\", \"function\": {", i ? ", " : "");
    api_write_text(out, "name", name->text, name->length);
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        const JsonValue *v = json_get_set(tool, members[k]);
        if (!v) continue;
        buffer_printf(out, ", \"%s\": ", members[k]);
        json_write(out, v, NULL);
    }
    buffer_text(out, "}}");
    return true;
}

JsonDoc *responses_tools(const JsonValue *tools, ApiError *err) {
    return api_rewrite_list(tools, take_tool, err);
}
