/* Chat templates of a folder, rendered as transformers' apply_chat_template does. Besides running Jinja that is: which
 * file holds the template, which special tokens are variables, and what happens to messages on the way in (members that
 * are null are dropped; the reasoning of a turn is known under each of its names). `continue_final_message` among the
 * variables is not given to the template but cuts its text where the last message ends, as in transformers. */
#define _GNU_SOURCE
#include "text/template.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "file/mapping.h"
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char CONTINUE_TAG[] = "CONTINUE_FINAL_MESSAGE_TAG ";
enum { TAG_LENGTH = sizeof CONTINUE_TAG - 1, MAX_TEMPLATE = 16 << 20 };

typedef struct SpecialToken {
    char *name, *text;
    size_t length;
} SpecialToken;

struct ChatTemplate {
    char *source, *tool_source; /* tool_source: used when tools are given; NULL when there is none */
    JinjaProgram *program, *tool_program;
    SpecialToken *tokens;
    size_t n_tokens, capacity;
};

/* ---- special tokens ---- */

static bool add_token(ChatTemplate *t, const char *name, const JsonValue *text, Error *err) {
    SpecialToken *token = NULL;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (strcmp(t->tokens[i].name, name) == 0) token = &t->tokens[i];
    if (!token) {
        SpecialToken *tokens = mem_room(t->tokens, t->n_tokens, &t->capacity, sizeof *tokens);
        if (!tokens) return error_memory(err, "special tokens");
        t->tokens = tokens;
    }
    char *copy = mem_string(text->text, text->length);
    if (!copy) return error_memory(err, "special tokens");
    if (token) {
        mem_free(token->text);
        token->text = copy;
    } else {
        char *label = mem_string(name, strlen(name));
        if (!label) {
            mem_free(copy);
            return error_memory(err, "special tokens");
        }
        token = &t->tokens[t->n_tokens++];
        *token = (SpecialToken){label, copy, 0};
    }
    token->length = text->length;
    return true;
}

/* A token is its text, or an object with the text as "content". */
static const JsonValue *token_text(const JsonValue *v) {
    if (v->type == JSON_STRING) return v;
    const JsonValue *content = json_get(v, "content");
    return content && content->type == JSON_STRING ? content : NULL;
}

/* Members that end in "_token", and those of extra_special_tokens when it is an object. */
static bool add_tokens(ChatTemplate *t, const JsonValue *config, bool all, Error *err) {
    for (uint32_t i = 0; config && config->type == JSON_OBJECT && i < config->length; i++) {
        const JsonMember *m = &config->members[i];
        const JsonValue *text = token_text(&m->value);
        bool is_token = all || (m->key_length > 6 && strcmp(m->key + m->key_length - 6, "_token") == 0);
        if (is_token && text && !add_token(t, m->key, text, err)) return false;
    }
    return true;
}

/* ---- finding the template ---- */

static bool path_of(char *out, size_t size, const char *folder, const char *file, Error *err) {
    int n = snprintf(out, size, "%s/%s", folder, file);
    return (n > 0 && (size_t)n < size) || error_set(err, "the path of %s is too long", file);
}

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static char *read_text(const char *path, Error *err) {
    Mapping m;
    if (!mapping_open(&m, path, err)) return NULL;
    char *text = NULL;
    if (m.size > MAX_TEMPLATE)
        error_set(err, "%s: a chat template of more than %d MB", path, MAX_TEMPLATE >> 20);
    else if (memchr(m.data, 0, m.size))
        error_set(err, "%s: holds NUL bytes, so it is no template", path);
    else if (!(text = mem_string((const char *)m.data, m.size)))
        error_memory(err, path);
    mapping_close(&m);
    return text;
}

static bool take_source(char **out, const JsonValue *v, Error *err) {
    if (*out) return true;
    *out = mem_string(v->text, v->length);
    return *out || error_memory(err, "the chat template");
}

/* The value of "chat_template": a string, a list of {name, template}, or an object of names. */
static bool take_templates(ChatTemplate *t, const JsonValue *v, const char *path, Error *err) {
    if (v->type == JSON_STRING) return take_source(&t->source, v, err);
    if (v->type != JSON_ARRAY && v->type != JSON_OBJECT)
        return error_set(err, "%s: \"chat_template\" must be a string or a list of named templates", path);
    for (uint32_t i = 0; i < v->length; i++) {
        const JsonValue *text = v->type == JSON_ARRAY ? json_get(&v->items[i], "template") : &v->members[i].value;
        const char *name = v->type == JSON_ARRAY ? json_string(json_get(&v->items[i], "name")) : v->members[i].key;
        if (!name || !text || text->type != JSON_STRING)
            return error_set(err, "%s: \"chat_template\" entry %u needs a name and a template", path, i);
        if (strcmp(name, "default") == 0 && !take_source(&t->source, text, err)) return false;
        if (strcmp(name, "tool_use") == 0 && !take_source(&t->tool_source, text, err)) return false;
    }
    if (t->source || t->tool_source) return true;
    return error_set(err, "%s: none of the %u chat templates is named \"default\"", path, v->length);
}

static bool find_file(ChatTemplate *t, const char *folder, Error *err) {
    char path[4096];
    if (!path_of(path, sizeof path, folder, "chat_template.jinja", err)) return false;
    if (is_file(path)) {
        if (!(t->source = read_text(path, err))) return false;
        if (!path_of(path, sizeof path, folder, "additional_chat_templates/tool_use.jinja", err)) return false;
        return !is_file(path) || (t->tool_source = read_text(path, err)) != NULL;
    }
    if (!path_of(path, sizeof path, folder, "chat_template.json", err)) return false;
    if (!is_file(path)) return true;
    JsonDoc *doc = json_parse_file(path, 0, err);
    if (!doc) return false;
    const JsonValue *v = json_get_set(json_root(doc), "chat_template");
    bool ok = v ? take_templates(t, v, path, err) : error_set(err, "%s: has no \"chat_template\"", path);
    json_free(doc);
    return ok;
}

/* special_tokens_map.json counts only beside a tokenizer_config.json of the old form. */
static bool read_tokens_map(ChatTemplate *t, const char *folder, Error *err) {
    char path[4096];
    if (!path_of(path, sizeof path, folder, "special_tokens_map.json", err)) return false;
    if (!is_file(path)) return true;
    JsonDoc *doc = json_parse_file(path, 0, err);
    bool ok = doc && add_tokens(t, json_root(doc), false, err);
    json_free(doc);
    return ok;
}

static bool read_config(ChatTemplate *t, const char *folder, Error *err) {
    char path[4096];
    if (!path_of(path, sizeof path, folder, "tokenizer_config.json", err)) return false;
    if (!is_file(path)) return read_tokens_map(t, folder, err);
    JsonDoc *doc = json_parse_file(path, 0, err);
    if (!doc) return false;
    const JsonValue *root = json_root(doc), *v = json_get_set(root, "chat_template");
    bool ok = add_tokens(t, root, false, err) && add_tokens(t, json_get(root, "extra_special_tokens"), true, err);
    if (ok && !json_get(root, "added_tokens_decoder")) ok = read_tokens_map(t, folder, err);
    if (ok && v && !t->source && !t->tool_source) ok = take_templates(t, v, path, err);
    json_free(doc);
    return ok;
}

static bool compile(JinjaProgram **out, const char *source, const char *folder, Error *err) {
    if (!source) return true;
    *out = jinja_compile(source, strlen(source), err);
    return *out || error_prefix(err, "%s: the chat template does not parse", folder);
}

ChatTemplate *template_load(const char *folder, Error *err) {
    ChatTemplate *t = mem_zeroed(1, sizeof *t);
    if (!t) return error_memory(err, "the chat template"), NULL;
    bool ok = find_file(t, folder, err) && read_config(t, folder, err);
    if (ok && !t->source && !t->tool_source)
        ok = error_set(err,
                       "%s: no chat template (no chat_template.jinja or chat_template.json, and no "
                       "\"chat_template\" in tokenizer_config.json)",
                       folder);
    if (ok && compile(&t->program, t->source, folder, err) && compile(&t->tool_program, t->tool_source, folder, err))
        return t;
    template_free(t);
    return NULL;
}

bool template_is_absent(const char *folder) {
    ChatTemplate *t = mem_zeroed(1, sizeof *t);
    bool absent = t && find_file(t, folder, NULL) && read_config(t, folder, NULL) && !t->source && !t->tool_source;
    template_free(t);
    return absent;
}

void template_free(ChatTemplate *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_tokens; i++) {
        mem_free(t->tokens[i].name);
        mem_free(t->tokens[i].text);
    }
    mem_free(t->tokens);
    mem_free(t->source);
    mem_free(t->tool_source);
    jinja_program_free(t->program);
    jinja_program_free(t->tool_program);
    mem_free(t);
}

const char *template_source(const ChatTemplate *t) {
    return t->source ? t->source : t->tool_source;
}

bool template_knows_tools(const ChatTemplate *t) {
    return t->tool_source || strstr(t->source, "tool") || strstr(t->source, "function");
}

/* ---- variables ---- */

static bool set_text(Run *run, Dict *d, const char *name, Value v) {
    Value key;
    return value_text_ref(run, name, strlen(name), &key) && value_dict_set(run, d, key, v);
}

/* One message: members that are null are left out, and reasoning is put under the names that templates read. */
static bool message_value(Run *run, const JsonValue *json, Value *out) {
    static const char *const NAMES[] = {"reasoning_content", "thinking", "reasoning"};
    const JsonValue *reasoning = NULL;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0] && !reasoning; i++) reasoning = json_get_set(json, NAMES[i]);
    Dict *d = value_dict_new(run, json->length + 2);
    Value v, thought = NONE;
    if (!d || (reasoning && !value_from_json(run, reasoning, &thought))) return false;
    if (reasoning && !set_text(run, d, "thinking", thought)) return false;
    for (uint32_t i = 0; i < json->length; i++) {
        const JsonMember *m = &json->members[i];
        Value key;
        if (m->value.type == JSON_NULL) continue;
        if (!value_text_ref(run, m->key, m->key_length, &key) || !value_from_json(run, &m->value, &v) ||
            !value_dict_set(run, d, key, v))
            return false;
    }
    if (reasoning && !set_text(run, d, "reasoning_content", thought)) return false;
    *out = (Value){.type = V_DICT, .dict = d};
    return true;
}

static bool messages_value(Run *run, const JsonValue *json, Value *out) {
    if (json->type != JSON_ARRAY) return run_fail(run, "messages must be a list");
    if (json->length == 0) return run_fail(run, "messages is empty: give at least one message");
    List *list = value_list_new(run, json->length);
    if (!list) return false;
    for (uint32_t i = 0; i < json->length; i++) {
        if (json->items[i].type != JSON_OBJECT) return run_fail(run, "messages[%u] must be an object", i);
        if (!message_value(run, &json->items[i], &list->items[i])) return false;
        list->n++;
    }
    *out = value_list(list);
    return true;
}

static bool add_variables(const ChatTemplate *t, Run *run, const JsonValue *variables, Dict *vars, Value *messages) {
    for (size_t i = 0; i < t->n_tokens; i++) {
        Value v;
        if (!value_text_ref(run, t->tokens[i].text, t->tokens[i].length, &v) ||
            !set_text(run, vars, t->tokens[i].name, v))
            return false;
    }
    if (!set_text(run, vars, "tools", NONE) || !set_text(run, vars, "documents", NONE) ||
        !set_text(run, vars, "add_generation_prompt", value_bool(false)))
        return false;
    for (uint32_t i = 0; i < variables->length; i++) {
        const JsonMember *m = &variables->members[i];
        bool is_messages = strcmp(m->key, "messages") == 0;
        Value key, v;
        if (strcmp(m->key, "continue_final_message") == 0) continue;
        if (!(is_messages ? messages_value(run, &m->value, &v) : value_from_json(run, &m->value, &v))) return false;
        if (is_messages) *messages = v;
        if (!value_text_ref(run, m->key, m->key_length, &key) || !value_dict_set(run, vars, key, v)) return false;
    }
    return true;
}

/* ---- continuing the last message ---- */

static size_t space_before(const char *s, size_t n) {
    size_t at = n;
    while (at > 0) {
        at--;
        if (((unsigned char)s[at] & 0xC0) != 0x80) break;
    }
    uint32_t code;
    return n && utf8_decode(s + at, n - at, &code) > 0 && (jinja_char_class(code) & CHAR_SPACE) ? n - at : 0;
}

static size_t strip_end(const char *s, size_t n) {
    for (size_t space; (space = space_before(s, n)); n -= space) continue;
    return n;
}

static size_t strip_start(const char *s, size_t n) {
    uint32_t code;
    size_t at = 0;
    for (int len; at < n && (len = utf8_decode(s + at, n - at, &code)) > 0 && (jinja_char_class(code) & CHAR_SPACE);)
        at += (size_t)len;
    return at;
}

static bool tagged(Run *run, Value text, Value *out) {
    Value tag;
    return value_text_ref(run, CONTINUE_TAG, TAG_LENGTH, &tag) && jinja_binary(run, T_ADD, text, tag, out);
}

/* Tags the last text part of a list of parts. */
static bool tag_parts(Run *run, Value *content, Value *final) {
    List *parts;
    if (!value_to_list(run, *content, &parts)) return false;
    for (size_t i = parts->n; i-- > 0;) {
        Value *part = &parts->items[i], text;
        if (part->type != V_DICT || !value_dict_text(part->dict, "text", 4, final)) continue;
        Dict *copy = value_dict_new(run, part->dict->n);
        if (!copy || final->type != V_STRING || !tagged(run, *final, &text)) break;
        for (uint32_t k = 0; k < part->dict->n; k++)
            if (!value_dict_set(run, copy, part->dict->keys[k], part->dict->values[k])) return false;
        if (!set_text(run, copy, "text", text)) return false;
        *part = (Value){.type = V_DICT, .dict = copy};
        *content = value_list(parts);
        return true;
    }
    return run_fail(run, "continue_final_message is set but the final message has no text to continue");
}

/* Every name under which the field to continue is known. */
static size_t fields_of(const char *field, const Dict *message, Value content, Run *run, const char *out[3]) {
    static const char *const NAMES[] = {"reasoning_content", "thinking", "reasoning"};
    size_t n = 0;
    bool reasoning = false;
    for (int i = 0; i < 3; i++) reasoning |= strcmp(field, NAMES[i]) == 0;
    if (!reasoning) out[n++] = field;
    for (int i = 0; reasoning && i < 3; i++) {
        Value v;
        bool equal;
        if (value_dict_text(message, NAMES[i], strlen(NAMES[i]), &v) && value_equal(run, v, content, &equal) && equal)
            out[n++] = NAMES[i];
    }
    return n;
}

static bool mark_end(const ChatTemplate *t, Run *run, Value messages, const char *field, const char *source,
                     Value *final) {
    (void)t;
    if (messages.type != V_LIST) return run_fail(run, "continue_final_message is set but there are no messages");
    Dict *last = messages.list->items[messages.list->n - 1].dict;
    Value content, text;
    if (!value_dict_text(last, field, strlen(field), &content))
        return run_fail(run, "continue_final_message is set but the final message has no \"%s\" to continue", field);
    const char *names[3];
    size_t n = fields_of(field, last, content, run, names);
    bool used = false;
    for (size_t i = 0; i < n; i++) used |= strstr(source, names[i]) != NULL;
    if (!used) return run_fail(run, "continue_final_message is \"%s\", which the chat template does not read", field);
    if (content.type == V_LIST) return tag_parts(run, &content, final) && set_text(run, last, field, content);
    *final = content;
    if (content.type != V_STRING) return run_fail(run, "continue_final_message needs a text to continue");
    for (size_t i = 0; i < n; i++)
        if (!tagged(run, content, &text) || !set_text(run, last, names[i], text)) return false;
    return true;
}

static const char *find_last(const char *text, size_t n, const char *what, size_t length) {
    for (size_t i = n >= length ? n - length + 1 : 0; i-- > 0;)
        if (memcmp(text + i, what, length) == 0) return text + i;
    return NULL;
}

/* Cuts the rendering at the tag. */
static bool cut_end(Run *run, Value final, Buffer *text) {
    const String *s = final.string;
    size_t from = strip_start(s->data, s->length), to = strip_end(s->data, s->length);
    const char *all = buffer_string(text);
    const char *tag = find_last(all, text->length, CONTINUE_TAG, TAG_LENGTH - 1);
    if (!tag || (from < to && !memmem(all, text->length, s->data + from, to - from)))
        return run_fail(run,
                        "continue_final_message is set but the final message does not appear in the rendered chat");
    size_t at = (size_t)(tag - all);
    bool whole = text->length - at >= TAG_LENGTH && tag[TAG_LENGTH - 1] == ' ';
    text->length = whole ? at : strip_end(all, at);
    text->data[text->length] = 0;
    return true;
}

/* ---- rendering ---- */

static bool render(const ChatTemplate *t, Run *run, const JsonValue *variables, const char *source, Buffer *text) {
    const JsonValue *mode = json_get(variables, "continue_final_message");
    const char *field = mode && mode->type == JSON_STRING                  ? mode->text
                        : mode && mode->type == JSON_BOOL && mode->boolean ? "content"
                                                                           : NULL;
    if (field && !*field) field = NULL;
    bool prompt = false;
    json_bool(json_get(variables, "add_generation_prompt"), &prompt);
    if (field && prompt) return run_fail(run, "continue_final_message and add_generation_prompt exclude each other");
    Dict *vars = jinja_variables(run);
    Value messages = {.type = V_MISSING}, final = NONE;
    if (!vars || !add_variables(t, run, variables, vars, &messages)) return false;
    if (field && !mark_end(t, run, messages, field, source, &final)) return false;
    return jinja_run(run, vars, text) && (!field || cut_end(run, final, text));
}

bool template_render(const ChatTemplate *t, const JsonValue *variables, Buffer *out, Error *err) {
    if (!variables || variables->type != JSON_OBJECT) return error_set(err, "template variables must be an object");
    const JsonValue *tools = json_get_set(variables, "tools");
    bool with_tools = t->tool_program && (tools || !t->program);
    if (with_tools && !tools)
        return error_set(err, "this checkpoint has a chat template for tool use only, and no tools are given");
    Run run;
    Buffer text = {0};
    jinja_run_begin(&run, with_tools ? t->tool_program : t->program, err);
    bool ok = render(t, &run, variables, with_tools ? t->tool_source : t->source, &text);
    jinja_run_end(&run);
    if (ok) buffer_append(out, buffer_string(&text), text.length);
    buffer_clear(&text);
    if (!ok) return error_prefix(err, "chat template");
    return !out->failed || error_memory(err, "the rendered chat");
}
