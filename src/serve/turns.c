/* A message is written when it is closed, since its parts come in any order: text, thoughts and calls each have their
 * place in it. */
#include "serve/turns.h"

#include <string.h>

void turns_clear(Turns *t) {
    buffer_clear(&t->out);
    buffer_clear(&t->text);
    buffer_clear(&t->reasoning);
    buffer_clear(&t->calls);
}

static void begin_message(Turns *t, const char *role) {
    buffer_printf(&t->out, "%s{\"role\": \"%s\", ", t->out.length > 0 ? ", " : "[", role);
}

void turns_close(Turns *t) {
    if (!t->role) return;
    begin_message(t, t->role);
    api_write_text(&t->out, "content", buffer_string(&t->text), t->text.length);
    if (t->reasoning.length > 0) {
        buffer_text(&t->out, ", ");
        api_write_text(&t->out, "reasoning_content", buffer_string(&t->reasoning), t->reasoning.length);
    }
    if (t->calls.length > 0) buffer_printf(&t->out, ", \"tool_calls\": [%s]", buffer_string(&t->calls));
    buffer_byte(&t->out, '}');
    if (t->text.failed || t->reasoning.failed || t->calls.failed) t->out.failed = true;
    buffer_reset(&t->text);
    buffer_reset(&t->reasoning);
    buffer_reset(&t->calls);
    t->role = NULL;
}

void turns_open(Turns *t, const char *role) {
    if (t->role && strcmp(t->role, role) == 0) return;
    turns_close(t);
    t->role = role;
}

void turns_text(Turns *t, const char *text, size_t n) {
    if (t->new_turn && t->text.length > 0) buffer_text(&t->text, "\n\n");
    t->new_turn = false;
    buffer_append(&t->text, text, n);
}

void turns_call(Turns *t, const JsonValue *id, const JsonValue *name, const char *arguments, size_t n) {
    buffer_text(&t->calls, t->calls.length ? ", {" : "{");
    api_write_text(&t->calls, "id", id->text, id->length);
    buffer_text(&t->calls, ", \"type\": \"function\", \"function\": {");
    api_write_text(&t->calls, "name", name->text, name->length);
    buffer_text(&t->calls, ", ");
    api_write_text(&t->calls, "arguments", arguments, n);
    buffer_text(&t->calls, "}}");
}

void turns_result(Turns *t, const JsonValue *id, const Buffer *text) {
    turns_close(t);
    begin_message(t, "tool");
    api_write_text(&t->out, "tool_call_id", id->text, id->length);
    buffer_text(&t->out, ", ");
    api_write_text(&t->out, "content", buffer_string(text), text->length);
    buffer_byte(&t->out, '}');
    if (text->failed) t->out.failed = true;
}

JsonDoc *turns_finish(Turns *t, ApiError *err) {
    turns_close(t);
    buffer_text(&t->out, t->out.length > 0 ? "]" : "[]");
    return api_parse_written(&t->out, err);
}
