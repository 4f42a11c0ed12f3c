/* lockstep template: needs only the template and tokenizer_config.json of the folder. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "file/store.h"

static void write_string_line(const Buffer *text) {
    Buffer out = {0};
    json_write_string(&out, buffer_string(text), text->length, false);
    buffer_byte(&out, '\n');
    output_buffer(&out);
    buffer_clear(&out);
}

/* The line's object holds the variables; what apply_chat_template passes besides is there too, unless the line says
 * otherwise. */
static bool render_line(const ChatTemplate *t, const char *text, size_t n, Buffer *out, Error *err) {
    JsonDoc *line = json_parse(text, n, 0, err);
    if (!line) return false;
    const JsonValue *v = json_root(line);
    TemplateInput in = {.more = v};
    JsonDoc *variables = v->type == JSON_OBJECT ? setup_variables(&in, err) : NULL;
    if (v->type != JSON_OBJECT) error_set(err, "the line is not a JSON object");
    bool ok = variables && template_render(t, json_root(variables), out, err);
    json_free(variables);
    json_free(line);
    return ok;
}

static bool template_line(void *context, const char *text, size_t n, Error *err) {
    const ChatTemplate *t = context;
    Buffer out = {0};
    Error line_error;
    if (render_line(t, text, n, &out, &line_error))
        write_string_line(&out);
    else
        output_error_line(&line_error);
    bool failed = out.failed;
    buffer_clear(&out);
    return !failed || error_memory(err, "the text");
}

static bool template_messages(const Args *args, const ChatTemplate *t, Error *err) {
    Buffer out = {0};
    JsonDoc *variables = setup_variables_flags(args, err);
    bool ok = variables && template_render(t, json_root(variables), &out, err);
    if (ok) {
        output_buffer(&out);
        output_line_end(&out);
    }
    json_free(variables);
    buffer_clear(&out);
    return ok;
}

int command_template(const Args *args) {
    Error err;
    Buffer folder = {0};
    ChatTemplate *t = NULL;
    const char *lines = args_text(args, FLAG_JSONL);
    if ((lines != NULL) + args_has(args, FLAG_MESSAGES) != 1)
        return wrong_usage(args->command, "give one of --messages and --jsonl");
    bool ok = store_resolve(args->positional[0], &folder, &err) && (t = template_load(folder.data, &err)) &&
              (lines ? input_lines(lines, template_line, t, &err) : template_messages(args, t, &err));
    template_free(t);
    buffer_clear(&folder);
    return ok ? 0 : complain(&err);
}
