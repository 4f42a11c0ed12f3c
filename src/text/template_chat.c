/* Tool calls in the history come from clients with their arguments as a text that holds JSON, as the chat API says.
 * Some templates walk over the arguments and need the mapping, others join them to text; nothing in a template tells
 * which. So the mapping goes first, and where the template fails on it, what the client sent. Neither is ever quoted
 * twice. */
#include "base/json_scan.h"
#include "text/template.h"

#include <string.h>

/* The members on the way to the arguments; "*" stands for each item of an array. */
static const char *const way[] = {"messages", "*", "tool_calls", "*", "function", "arguments"};
enum { WAY = sizeof way / sizeof *way };

static void write_open(Buffer *out, const JsonValue *v, int step, bool *changed);

static void write_item(Buffer *out, const JsonValue *v, int step, bool on_the_way, bool *changed) {
    if (on_the_way)
        write_open(out, v, step + 1, changed);
    else
        json_write(out, v, NULL);
}

/* Writes v, `step` members into the way, with the texts at its end opened. */
static void write_open(Buffer *out, const JsonValue *v, int step, bool *changed) {
    if (step == WAY) {
        bool mapping =
            v->type == JSON_STRING && v->length > 0 && v->text[0] == '{' && json_is_value(v->text, v->length);
        *changed |= mapping;
        if (mapping)
            buffer_append(out, v->text, v->length);
        else
            json_write(out, v, NULL);
    } else if (v->type == JSON_ARRAY && strcmp(way[step], "*") == 0) {
        for (uint32_t i = 0; i < v->length; i++) {
            buffer_text(out, i ? ", " : "[");
            write_item(out, &v->items[i], step, true, changed);
        }
        buffer_text(out, v->length ? "]" : "[]");
    } else if (v->type == JSON_OBJECT) {
        for (uint32_t i = 0; i < v->length; i++) {
            const JsonMember *m = &v->members[i];
            buffer_text(out, i ? ", " : "{");
            json_write_string(out, m->key, m->key_length, false);
            buffer_text(out, ": ");
            write_item(out, &m->value, step, strcmp(m->key, way[step]) == 0, changed);
        }
        buffer_text(out, v->length ? "}" : "{}");
    } else {
        json_write(out, v, NULL);
    }
}

bool template_render_chat(const ChatTemplate *t, const JsonValue *variables, Buffer *out, Error *err) {
    Buffer text = {0};
    bool changed = false;
    write_open(&text, variables, 0, &changed);
    if (text.failed) {
        buffer_clear(&text);
        return error_memory(err, "the messages");
    }
    JsonDoc *open = changed ? json_parse(text.data, text.length, 0, err) : NULL;
    bool ok = !changed ? template_render(t, variables, out, err)
                       : open && (template_render(t, json_root(open), out, err) ||
                                  template_render(t, variables, out, NULL)); /* both fail: the first error stays */
    json_free(open);
    buffer_clear(&text);
    return ok;
}
