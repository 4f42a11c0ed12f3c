/* The list is written anew and read again: so whatever a client sends, a template sees texts. */
#include "serve/messages.h"

#include <stdio.h>
#include <string.h>

static bool known_role(const char *role) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0) return true;
    return false;
}

static bool refuse_at(ApiError *err, uint32_t i, const char *what, const char *why) {
    char param[64];
    snprintf(param, sizeof param, "messages[%u]%s", i, what);
    return api_refuse(err, 400, param, "%s: %s", param, why);
}

/* A part of text, or of a refusal or thought that the client sends back. */
static const JsonValue *part_text(const JsonValue *part) {
    const JsonValue *type = json_get(part, "type");
    if (!type || json_equals(type, "text") || json_equals(type, "input_text") || json_equals(type, "output_text"))
        return json_get(part, "text");
    return json_equals(type, "refusal") ? json_get(part, "refusal") : NULL;
}

static bool join_parts(const JsonValue *parts, uint32_t i, Buffer *text, ApiError *err) {
    for (uint32_t k = 0; k < parts->length; k++) {
        const JsonValue *part = json_item(parts, k), *piece = part->type == JSON_STRING ? part : part_text(part);
        if (!piece || piece->type != JSON_STRING) {
            char where[32];
            snprintf(where, sizeof where, ".content[%u]", k);
            const char *type = json_string(json_get(part, "type"));
            char why[160];
            snprintf(why, sizeof why, "this model takes parts of text only%s%.60s%s", type ? ", not '" : "",
                     type ? type : "", type ? "'" : "");
            return refuse_at(err, i, where, why);
        }
        buffer_append(text, piece->text, piece->length);
    }
    return true;
}

static bool write_content(const JsonValue *message, uint32_t i, bool assistant, Buffer *out, ApiError *err) {
    const JsonValue *content = json_get_set(message, "content");
    Buffer text = {0};
    bool ok = true;
    if (!content && !assistant) return refuse_at(err, i, ".content", "it must be a text or a list of parts");
    if (content && content->type == JSON_ARRAY)
        ok = join_parts(content, i, &text, err);
    else if (content && content->type == JSON_STRING)
        buffer_append(&text, content->text, content->length);
    else if (content)
        ok = refuse_at(err, i, ".content", "it must be a text or a list of parts");
    if (ok) api_write_text(out, "content", buffer_string(&text), text.length);
    if (text.failed) out->failed = true;
    buffer_clear(&text);
    return ok;
}

static bool write_message(const JsonValue *message, uint32_t i, bool knows_developer, Buffer *out, ApiError *err) {
    const char *role = json_string(json_get(message, "role"));
    if (message->type != JSON_OBJECT) return refuse_at(err, i, "", "it must be an object");
    if (!role || !known_role(role))
        return refuse_at(err, i, ".role", "it must be system, developer, user, assistant or tool");
    if (strcmp(role, "developer") == 0 && !knows_developer) role = "system";
    if (strcmp(role, "function") == 0) role = "tool";
    buffer_printf(out, "%s{\"role\": \"%s\", ", i ? ", " : "", role);
    if (!write_content(message, i, strcmp(role, "assistant") == 0, out, err)) return false;
    for (uint32_t k = 0; k < message->length; k++) {
        const JsonMember *m = &message->members[k];
        if (strcmp(m->key, "role") == 0 || strcmp(m->key, "content") == 0 || m->value.type == JSON_NULL) continue;
        buffer_text(out, ", ");
        json_write_string(out, m->key, m->key_length, false);
        buffer_text(out, ": ");
        json_write(out, &m->value, NULL);
    }
    buffer_byte(out, '}');
    return true;
}

JsonDoc *messages_for_template(const JsonValue *messages, const ChatTemplate *t, ApiError *err) {
    Buffer out = {0};
    Error why = {""};
    JsonDoc *doc = NULL;
    bool ok = true, knows_developer = strstr(template_source(t), "developer") != NULL;
    if (!messages || messages->type != JSON_ARRAY || messages->length == 0) {
        api_refuse(err, 400, "messages", "'messages' must be a list of messages that is not empty");
        return NULL;
    }
    buffer_byte(&out, '[');
    for (uint32_t i = 0; ok && i < messages->length; i++)
        ok = write_message(json_item(messages, i), i, knows_developer, &out, err);
    buffer_byte(&out, ']');
    if (ok && (out.failed || !(doc = json_parse(out.data, out.length, 0, &why))))
        api_refuse(err, 500, NULL, "%s", out.failed ? "out of memory" : why.text);
    buffer_clear(&out);
    return doc;
}

const char *messages_prefill(const JsonValue *messages, size_t *n) {
    const JsonValue *last = messages->length ? json_item(messages, messages->length - 1) : NULL;
    const JsonValue *content = json_get(last, "content");
    if (!json_equals(json_get(last, "role"), "assistant") || json_get_set(last, "tool_calls")) return NULL;
    *n = content->length;
    return content->text;
}
