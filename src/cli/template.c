/* lockstep template: needs only the template and tokenizer_config.json of the folder. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "file/store.h"

static void output_line(Buffer *line) {
    buffer_byte(line, '\n');
    output_buffer(line);
    buffer_clear(line);
}

static void write_string_line(const Buffer *text) {
    Buffer out = {0};
    json_write_string(&out, buffer_string(text), text->length, false);
    output_line(&out);
}

/* The line's object holds the variables; what apply_chat_template passes besides is there too, unless the line says
 * otherwise. */
static bool render_line(const ChatTemplate *t, const char *text, size_t n, Buffer *out, Error *err) {
    JsonDoc *line = json_parse(text, n, 0, err);
    if (!line) return false;
    const JsonValue *v = json_root(line);
    TemplateInput in = {.more = v};
    JsonDoc *variables = v->type == JSON_OBJECT ? dialog_variables(&in, err) : NULL;
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

/* ---- --replies ---- */

typedef struct Replies {
    const ReplyOptions *forms;
    const JsonValue *tools; /* --tools; a line's own go first */
} Replies;

static bool read_reply(const Replies *r, const JsonValue *line, Message *out, Error *err) {
    const JsonValue *reply = json_get(line, "reply"), *prompt = json_get(line, "prompt");
    const JsonValue *tools = json_get_set(line, "tools");
    if (!json_string(reply)) return error_set(err, "the line has no \"reply\" that is a text");
    ReplyOptions how = *r->forms;
    how.tools = tools ? tools : r->tools;
    how.reasoning_is_open = json_string(prompt) && reasoning_is_open(how.reasoning, prompt->text, prompt->length);
    return message_read(&how, reply->text, reply->length, out, err);
}

static bool reply_line(void *context, const char *text, size_t n, Error *err) {
    Error line_error;
    Buffer out = {0};
    Message m = {0};
    JsonDoc *line = json_parse(text, n, 0, &line_error);
    if (line && read_reply(context, json_root(line), &m, &line_error)) {
        message_write(&m, &out);
        output_line(&out);
    } else {
        output_error_line(&line_error);
    }
    bool failed = out.failed;
    json_free(line);
    message_clear(&m);
    return !failed || error_memory(err, "the message");
}

static bool template_replies(const Args *args, const ChatTemplate *t, Error *err) {
    ReplyOptions forms;
    JsonDoc *tools = NULL;
    if (!dialog_forms(args_text(args, FLAG_TOOL_PARSER), args_text(args, FLAG_REASONING_PARSER), t, &forms, err) ||
        !input_array("--tools", args_text(args, FLAG_TOOLS), &tools, err))
        return false;
    Replies r = {&forms, tools ? json_root(tools) : NULL};
    bool ok = input_lines(args_text(args, FLAG_REPLIES), reply_line, &r, err);
    json_free(tools);
    return ok;
}

static bool template_messages(const Args *args, const ChatTemplate *t, Error *err) {
    Buffer out = {0};
    JsonDoc *variables = setup_variables_flags(args, err);
    bool ok = variables && template_render_chat(t, json_root(variables), &out, err);
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
    bool replies = args_has(args, FLAG_REPLIES);
    if ((lines != NULL) + args_has(args, FLAG_MESSAGES) + replies != 1)
        return wrong_usage(args->command, "give one of --messages, --jsonl and --replies");
    bool ok = store_resolve(args->positional[0], &folder, &err) && (t = template_load(folder.data, &err)) &&
              (lines     ? input_lines(lines, template_line, t, &err)
               : replies ? template_replies(args, t, &err)
                         : template_messages(args, t, &err));
    template_free(t);
    buffer_clear(&folder);
    return ok ? 0 : complain(&err);
}
