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

/* Where a part has its text: one of text, or of a refusal that the client sends back. NULL: it is of another kind. */
static const char *text_key(const JsonValue *part) {
    static const char *const texts[] = {"text", "input_text", "output_text"};
    const JsonValue *type = json_get(part, "type");
    if (part->type == JSON_OBJECT && !type) return "text";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (json_equals(type, texts[i])) return "text";
    return json_equals(type, "refusal") ? "refusal" : NULL;
}

static bool refuse_part(ApiError *err, uint32_t i, uint32_t k, const JsonValue *part) {
    const char *type = json_string(json_get(part, "type")), *key = text_key(part);
    char where[32], why[160];
    snprintf(where, sizeof where, ".content[%u]", k);
    if (key)
        snprintf(why, sizeof why, "'%s' must be a string", key);
    else
        snprintf(why, sizeof why, "this model takes parts of text only%s%.60s%s", type ? ", not '" : "",
                 type ? type : "", type ? "'" : "");
    return refuse_at(err, i, where, why);
}

static bool join_parts(const JsonValue *parts, uint32_t i, Buffer *text, ApiError *err) {
    for (uint32_t k = 0; k < parts->length; k++) {
        const JsonValue *part = json_item(parts, k), *piece = part;
        const char *key = text_key(part);
        if (part->type != JSON_STRING) piece = key ? json_get(part, key) : NULL;
        if (!json_string(piece)) return refuse_part(err, i, k, part);
        buffer_append(text, piece->text, piece->length);
    }
    return true;
}

/* A template would pass over what is no list of calls, and the model would not know of it. Some templates know a call
 * without a "function" around it. */
static bool check_calls(const JsonValue *calls, uint32_t i, ApiError *err) {
    if (!calls) return true;
    if (calls->type != JSON_ARRAY) return refuse_at(err, i, ".tool_calls", "it must be a list of calls");
    for (uint32_t k = 0; k < calls->length; k++) {
        const JsonValue *call = json_item(calls, k), *function = json_get(call, "function");
        char where[32];
        snprintf(where, sizeof where, ".tool_calls[%u]", k);
        if (!json_string(json_get(function ? function : call, "name")))
            return refuse_at(err, i, where, "it must have a function with a name");
    }
    return true;
}

/* To most templates an empty list of calls is none, to some it is an answer without text. */
static bool is_left_out(const JsonMember *m) {
    bool no_calls = strcmp(m->key, "tool_calls") == 0 && m->value.length == 0;
    return strcmp(m->key, "role") == 0 || strcmp(m->key, "content") == 0 || m->value.type == JSON_NULL || no_calls;
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
    if (!write_content(message, i, strcmp(role, "assistant") == 0, out, err) ||
        !check_calls(json_get_set(message, "tool_calls"), i, err))
        return false;
    for (uint32_t k = 0; k < message->length; k++) {
        const JsonMember *m = &message->members[k];
        if (is_left_out(m)) continue;
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
    const JsonValue *content = json_get(last, "content"), *calls = json_get_set(last, "tool_calls");
    if (!json_equals(json_get(last, "role"), "assistant") || (calls && calls->length > 0)) return NULL;
    *n = content->length;
    return content->text;
}
