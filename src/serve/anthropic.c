/* A turn is a list of blocks there and one message here, except that each result of a tool becomes a message. What can
 * not be shown to a model that reads text (images, documents) is refused and never left out, but for thoughts that only
 * their author can read. */
#include "serve/anthropic.h"
#include "serve/turns.h"
#include "text/toolcall_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLACE = 96 };

/* ---- blocks ---- */

static bool refuse_at(ApiError *err, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool refuse_at(ApiError *err, const char *where, const char *format, ...) {
    char why[300];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return api_refuse(err, 400, where, "%s", why);
}

static bool refuse_kind(ApiError *err, const char *where, const JsonValue *block) {
    const char *type = json_string(json_get(block, "type"));
    if (!type) return refuse_at(err, where, "it must be a block with a type");
    return refuse_at(err, where, "blocks of type '%.60s' are not supported here: this server reads text", type);
}

static const JsonValue *block_string(const JsonValue *block, const char *key, const char *where, ApiError *err) {
    const JsonValue *v = json_get(block, key);
    if (v && v->type == JSON_STRING) return v;
    refuse_at(err, where, "'%s' must be a string", key);
    return NULL;
}

/* A text, or a list of blocks of text, which are joined with nothing between. */
static bool join_text(const JsonValue *content, const char *where, Buffer *out, ApiError *err) {
    if (content->type == JSON_STRING) {
        buffer_append(out, content->text, content->length);
        return true;
    }
    if (content->type != JSON_ARRAY) return refuse_at(err, where, "it must be a string or a list of blocks");
    for (uint32_t i = 0; i < content->length; i++) {
        const JsonValue *block = json_item(content, i);
        char place[PLACE];
        snprintf(place, sizeof place, "%s[%u]", where, i);
        if (!json_equals(json_get(block, "type"), "text")) return refuse_kind(err, place, block);
        const JsonValue *text = block_string(block, "text", place, err);
        if (!text) return false;
        buffer_append(out, text->text, text->length);
    }
    return true;
}

static bool take_text(Turns *t, const JsonValue *block, const char *where, ApiError *err) {
    const JsonValue *text = block_string(block, "text", where, err);
    if (text) turns_text(t, text->text, text->length);
    return text != NULL;
}

static bool take_thinking(Turns *t, const JsonValue *block, const char *where, ApiError *err) {
    const JsonValue *thinking = block_string(block, "thinking", where, err);
    if (thinking) buffer_append(&t->reasoning, thinking->text, thinking->length);
    return thinking != NULL;
}

static bool take_redacted(Turns *t, const JsonValue *block, const char *where, ApiError *err) {
    (void)t, (void)block, (void)where, (void)err;
    return true;
}

static bool take_call(Turns *t, const JsonValue *block, const char *where, ApiError *err) {
    const JsonValue *id = block_string(block, "id", where, err), *input = json_get(block, "input");
    const JsonValue *name = id ? block_string(block, "name", where, err) : NULL;
    if (!name) return false;
    if (!input || input->type != JSON_OBJECT) return refuse_at(err, where, "'input' must be an object");
    Buffer arguments = {0};
    json_write(&arguments, input, NULL);
    turns_call(t, id, name, buffer_string(&arguments), arguments.length);
    if (arguments.failed) t->calls.failed = true;
    buffer_clear(&arguments);
    return true;
}

/* Templates have no place for "it failed", and the model must know it all the same. */
static bool take_result(Turns *t, const JsonValue *block, const char *where, ApiError *err) {
    const JsonValue *id = block_string(block, "tool_use_id", where, err), *content = json_get_set(block, "content");
    bool failed = false;
    char place[PLACE];
    Buffer text = {0};
    if (!id) return false;
    json_bool(json_get(block, "is_error"), &failed);
    if (failed) buffer_text(&text, "Error: ");
    snprintf(place, sizeof place, "%s.content", where);
    bool ok = !content || join_text(content, place, &text, err);
    if (ok) turns_result(t, id, &text);
    buffer_clear(&text);
    return ok;
}

typedef struct BlockKind {
    const char *type, *role; /* role: whose turns have it; NULL: all */
    bool (*take)(Turns *t, const JsonValue *block, const char *where, ApiError *err);
} BlockKind;

static const BlockKind kinds[] = {
    {"text", NULL, take_text},
    {"tool_result", "user", take_result},
    {"tool_use", "assistant", take_call},
    {"thinking", "assistant", take_thinking},
    {"redacted_thinking", "assistant", take_redacted},
};

static bool take_block(Turns *t, const char *role, const JsonValue *block, const char *where, ApiError *err) {
    const JsonValue *type = json_get(block, "type");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const BlockKind *k = &kinds[i];
        if (!json_equals(type, k->type)) continue;
        if (k->role && strcmp(k->role, role) != 0)
            return refuse_at(err, where, "blocks of type '%s' belong to turns of the %s", k->type, k->role);
        if (k->take != take_result) turns_open(t, role);
        return k->take(t, block, where, err);
    }
    return refuse_kind(err, where, block);
}

/* ---- turns ---- */

static const char *known_role(const JsonValue *role) {
    static const char *const roles[] = {"user", "assistant", "system"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (json_equals(role, roles[i])) return roles[i];
    return NULL;
}

static bool take_turn(Turns *t, const JsonValue *message, uint32_t i, ApiError *err) {
    const JsonValue *content = json_get(message, "content");
    const char *role = known_role(json_get(message, "role"));
    char place[PLACE];
    bool ok = true;
    snprintf(place, sizeof place, "messages[%u].role", i);
    if (!role) return refuse_at(err, place, "it must be user or assistant");
    snprintf(place, sizeof place, "messages[%u].content", i);
    t->new_turn = true;
    if (content && content->type == JSON_STRING) {
        turns_open(t, role);
        turns_text(t, content->text, content->length);
        return true;
    }
    if (!content || content->type != JSON_ARRAY)
        return refuse_at(err, place, "it must be a string or a list of blocks");
    if (content->length == 0) turns_open(t, role);
    for (uint32_t k = 0; ok && k < content->length; k++) {
        snprintf(place, sizeof place, "messages[%u].content[%u]", i, k);
        ok = take_block(t, role, json_item(content, k), place, err);
    }
    return ok;
}

JsonDoc *anthropic_messages(const JsonValue *system, const JsonValue *messages, ApiError *err) {
    Turns t = {0};
    bool ok = true;
    JsonDoc *doc = NULL;
    if (!messages || messages->length == 0) {
        api_refuse(err, 400, "messages", "it must be a list of messages that is not empty");
        return NULL;
    }
    if (system) {
        t.role = "system";
        ok = join_text(system, "system", &t.text, err);
        if (t.text.length == 0) t.role = NULL;
    }
    for (uint32_t i = 0; ok && i < messages->length; i++) ok = take_turn(&t, json_item(messages, i), i, err);
    if (ok) doc = turns_finish(&t, err);
    turns_clear(&t);
    return doc;
}

/* ---- tools ---- */

static bool take_tool(Buffer *out, const JsonValue *tool, uint32_t i, ApiError *err) {
    const JsonValue *type = json_get_set(tool, "type"), *description = json_get_set(tool, "description");
    const JsonValue *name = json_get(tool, "name"), *schema = json_get(tool, "input_schema");
    const char *kind = json_string(type), *label = json_string(name);
    Error why = {""};
    char place[PLACE];
    snprintf(place, sizeof place, "tools[%u]", i);
    if (type && !json_equals(type, "custom"))
        return refuse_at(err, place, "tools of type '%.60s' (%.60s) are not supported, only tools with an input_schema",
                         kind ? kind : "?", label ? label : "without a name");
    if (!label || name->length == 0) return refuse_at(err, place, "'name' must be a string that is not empty");
    if (!schema || schema->type != JSON_OBJECT) return refuse_at(err, place, "'input_schema' must be an object");
    if (!tool_check(name, schema, &why)) return refuse_at(err, place, "%s", why.text);
    buffer_printf(out, "%s{\"type\": \"function\", \"function\": {", i ? ", " : "");
    api_write_text(out, "name", name->text, name->length);
    if (json_string(description)) {
        buffer_text(out, ", ");
        api_write_text(out, "description", description->text, description->length);
    }
    buffer_text(out, ", \"parameters\": ");
    json_write(out, schema, NULL);
    buffer_text(out, "}}");
    return true;
}

JsonDoc *anthropic_tools(const JsonValue *tools, ApiError *err) {
    return api_rewrite_list(tools, take_tool, err);
}
