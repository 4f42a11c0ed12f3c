/* The way of a conversation to ids, and what is needed to take the answer apart.
 *
 * The forms of tool calls and reasoning come from the chat template, because that is what a checkpoint says about
 * itself; a name overrules it, `none` included. */
#include "engine/dialog.h"

#include <string.h>

static void list_names(const char *(*name_at)(int i), Buffer *out) {
    for (int i = 0; name_at(i); i++) buffer_printf(out, ", %s", name_at(i));
}

static const char *call_name(int i) {
    const CallForm *f = call_form_at(i);
    return f ? f->name : NULL;
}

static const char *reasoning_name(int i) {
    const ReasoningForm *f = reasoning_at(i);
    return f ? f->name : NULL;
}

static bool unknown_form(const char *flag, const char *name, const char *(*name_at)(int i), Error *err) {
    Buffer names = {0};
    list_names(name_at, &names);
    error_set(err, "%s %s: it must be one of auto, none%s", flag, name, buffer_string(&names));
    buffer_clear(&names);
    return false;
}

bool dialog_forms(const char *calls, const char *reasoning, const ChatTemplate *t, ReplyOptions *out, Error *err) {
    const char *source = template_source(t);
    ReplyOptions o = {0};
    if (!calls || strcmp(calls, "auto") == 0)
        o.calls = call_form_of_template(source);
    else if (strcmp(calls, "none") != 0 && !(o.calls = call_form_find(calls)))
        return unknown_form("--tool-parser", calls, call_name, err);
    if (!reasoning || strcmp(reasoning, "auto") == 0)
        o.reasoning = reasoning_of_template(source);
    else if (strcmp(reasoning, "none") != 0 && !(o.reasoning = reasoning_find(reasoning)))
        return unknown_form("--reasoning-parser", reasoning, reasoning_name, err);
    *out = o;
    return true;
}

bool dialog_kept_ids(const Tokenizer *t, const ReplyOptions *forms, IdList *out, Error *err) {
    for (int32_t id = 0; id < tokenizer_size(t); id++) {
        size_t n;
        const char *token = tokenizer_is_special(t, id) ? tokenizer_token(t, id, &n) : NULL;
        if (token && reply_needs(forms->calls, forms->reasoning, token, n) && !id_list_push(out, id))
            return error_memory(err, "the answer");
    }
    return true;
}

static void write_member(Buffer *out, const char *key, const JsonValue *v) {
    buffer_printf(out, "%s\"%s\": ", out->length > 1 ? ", " : "", key);
    if (v)
        json_write(out, v, NULL);
    else
        buffer_text(out, "null");
}

/* The object is written and read again: a tree of values from several documents has no one owner otherwise. */
JsonDoc *dialog_variables(const TemplateInput *in, Error *err) {
    Buffer text = {0};
    JsonDoc *doc = NULL;
    buffer_text(&text, "{");
    write_member(&text, "messages", in->messages);
    write_member(&text, "tools", in->tools);
    write_member(&text, "documents", NULL);
    buffer_printf(&text, ", \"add_generation_prompt\": %s", in->generation_prompt ? "true" : "false");
    for (uint32_t i = 0; in->more && i < in->more->length; i++) {
        const JsonMember *m = &in->more->members[i];
        buffer_text(&text, ", ");
        json_write_string(&text, m->key, m->key_length, false);
        buffer_text(&text, ": ");
        json_write(&text, &m->value, NULL);
    }
    buffer_text(&text, "}");
    if (text.failed)
        error_memory(err, "the messages");
    else
        doc = json_parse(text.data, text.length, 0, err);
    buffer_clear(&text);
    return doc;
}

bool dialog_ids(const Loaded *loaded, const JsonValue *variables, ReplyOptions *reply, IdList *out, Error *err) {
    Buffer text = {0};
    bool ok = template_render_chat(loaded->chat_template, variables, &text, err);
    if (ok && text.failed) ok = error_memory(err, "the prompt");
    ok = ok && tokenizer_encode(loaded->tokenizer, buffer_string(&text), text.length, 0, out, err);
    if (reply) {
        reply->reasoning_is_open = reasoning_is_open(reply->reasoning, buffer_string(&text), text.length);
        reply->reasoning_is_closed = reasoning_is_closed(reply->reasoning, buffer_string(&text), text.length);
    }
    buffer_clear(&text);
    return ok;
}
