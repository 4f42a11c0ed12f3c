/* The forms come from the chat template, because that is what a checkpoint says about itself; a name on the command
 * line overrules it, `none` included. */
#include "cli/message.h"

#include <string.h>

bool message_take(void *context, const ReplyEvent *e, Error *err) {
    Message *m = context;
    switch (e->part) {
    case REPLY_TEXT: buffer_append(&m->text, e->text, e->length); break;
    case REPLY_REASONING: buffer_append(&m->reasoning, e->text, e->length); break;
    case REPLY_CALL:
        buffer_text(&m->calls, e->call > 0 ? ", {\"id\": " : "{\"id\": ");
        if (e->id_length > 0)
            json_write_string(&m->calls, e->id, e->id_length, false);
        else
            buffer_printf(&m->calls, "\"call_%d\"", e->call);
        buffer_text(&m->calls, ", \"type\": \"function\", \"function\": {\"name\": ");
        json_write_string(&m->calls, e->text, e->length, false);
        buffer_text(&m->calls, ", \"arguments\": ");
        break;
    case REPLY_ARGUMENTS: buffer_append(&m->arguments, e->text, e->length); break;
    case REPLY_CALL_END:
        json_write_string(&m->calls, buffer_string(&m->arguments), m->arguments.length, false);
        buffer_text(&m->calls, "}}");
        buffer_reset(&m->arguments);
        break;
    }
    bool failed = m->text.failed || m->reasoning.failed || m->calls.failed || m->arguments.failed;
    return !failed || error_memory(err, "the answer");
}

void message_clear(Message *m) {
    buffer_clear(&m->text);
    buffer_clear(&m->reasoning);
    buffer_clear(&m->calls);
    buffer_clear(&m->arguments);
}

void message_write(const Message *m, Buffer *out) {
    buffer_text(out, "{\"role\": \"assistant\", \"content\": ");
    json_write_string(out, buffer_string(&m->text), m->text.length, false);
    if (m->reasoning.length > 0) {
        buffer_text(out, ", \"reasoning_content\": ");
        json_write_string(out, buffer_string(&m->reasoning), m->reasoning.length, false);
    }
    if (m->calls.length > 0) buffer_printf(out, ", \"tool_calls\": [%s]", buffer_string(&m->calls));
    buffer_byte(out, '}');
}

bool message_read(const ReplyOptions *how, const char *text, size_t n, Message *out, Error *err) {
    Message m = {0};
    Reply *r = reply_new(how, message_take, &m, err);
    bool ok = r && reply_push(r, text, n, err) && reply_finish(r, err);
    reply_free(r);
    if (ok)
        *out = m;
    else
        message_clear(&m);
    return ok;
}
