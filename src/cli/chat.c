/* Every turn renders the whole conversation anew, as the template wants it, and the prefix then finds out how much of
 * that the model has read already. Nothing is ever dropped to make room: a conversation that no longer fits is refused
 * with both numbers, and the person decides. */
#include "cli/chat.h"
#include "base/memory.h"

#include <string.h>

bool chat_init(Chat *c, const Loaded *loaded, const Args *args, Error *err) {
    Chat chat = {.loaded = loaded, .args = args};
    const char *kwargs = args_text(args, FLAG_KWARGS);
    if (!setup_request(args, loaded, &loaded->defaults.sampling, &chat.flags, err)) return false;
    if (kwargs) {
        chat.more = json_parse(kwargs, strlen(kwargs), 0, err);
        if (!chat.more || json_root(chat.more)->type != JSON_OBJECT) {
            if (chat.more) error_set(err, "it must be a JSON object");
            error_prefix(err, "--kwargs");
            goto fail;
        }
    }
    if (!chat_set_system(&chat, args_text(args, FLAG_SYSTEM), err)) goto fail;
    *c = chat;
    return true;
fail:
    chat_clear(&chat);
    return false;
}

static void turns_cut(Chat *c, size_t n) {
    while (c->n_turns > n) mem_free(c->turns[--c->n_turns].text);
}

void chat_clear(Chat *c) {
    turns_cut(c, 0);
    mem_free(c->turns);
    mem_free(c->system);
    json_free(c->more);
    prefix_clear(&c->prefix);
    setup_request_clear(&c->flags);
    *c = (Chat){0};
}

bool chat_set_system(Chat *c, const char *text, Error *err) {
    char *copy = NULL;
    if (text && *text && !(copy = mem_string(text, strlen(text)))) return error_memory(err, "the system prompt");
    mem_free(c->system);
    c->system = copy;
    return true;
}

void chat_forget(Chat *c) {
    turns_cut(c, 0);
    c->choice = 0;
}

static bool turn_push(Chat *c, const char *role, const char *text, size_t n, Error *err) {
    if (c->n_turns == c->capacity) {
        ChatTurn *turns = mem_resize(c->turns, c->capacity * 2 + 8, sizeof *turns);
        if (!turns) return error_memory(err, "the conversation");
        c->turns = turns;
        c->capacity = c->capacity * 2 + 8;
    }
    char *copy = mem_string(text, n);
    if (!copy) return error_memory(err, "the conversation");
    c->turns[c->n_turns++] = (ChatTurn){role, copy, n};
    return true;
}

static void write_message(Buffer *out, const char *role, const char *text, size_t n) {
    buffer_printf(out, "%s{\"role\": \"%s\", \"content\": ", out->length > 1 ? ", " : "", role);
    json_write_string(out, text, n, false);
    buffer_byte(out, '}');
}

static JsonDoc *chat_variables(const Chat *c, Error *err) {
    Buffer text = {0};
    JsonDoc *messages = NULL, *variables = NULL;
    buffer_byte(&text, '[');
    if (c->system) write_message(&text, "system", c->system, strlen(c->system));
    for (size_t i = 0; i < c->n_turns; i++)
        write_message(&text, c->turns[i].role, c->turns[i].text, c->turns[i].length);
    buffer_byte(&text, ']');
    if (text.failed)
        error_memory(err, "the messages");
    else
        messages = json_parse(text.data, text.length, 0, err);
    if (messages) {
        TemplateInput in = {
            .messages = json_root(messages), .more = c->more ? json_root(c->more) : NULL, .generation_prompt = true};
        variables = setup_variables(&in, err);
    }
    json_free(messages);
    buffer_clear(&text);
    return variables;
}

/* The last turn is a question: answers it and adds the answer. */
static bool chat_answer(Chat *c, GenerateSink *sink, void *context, Generation *out, Error *err) {
    IdList ids = {0};
    JsonDoc *variables = chat_variables(c, err);
    bool ok = variables && setup_chat_ids(c->loaded, json_root(variables), &ids, err);
    if (ok) {
        Request request = c->flags.request;
        request.prompt = ids.ids;
        request.n_prompt = (int)ids.n;
        request.sampling.choice = c->choice;
        ok = generate(c->loaded->model, c->loaded->tokenizer, &c->prefix, &request, sink, context, out, err);
    }
    if (ok && !turn_push(c, "assistant", buffer_string(&out->text), out->text.length, err)) {
        generation_clear(out);
        ok = false;
    }
    json_free(variables);
    id_list_clear(&ids);
    return ok;
}

bool chat_ask(Chat *c, const char *text, size_t n, GenerateSink *sink, void *context, Generation *out, Error *err) {
    size_t before = c->n_turns;
    uint32_t choice = c->choice;
    if (!turn_push(c, "user", text, n, err)) return false;
    c->choice = 0;
    if (chat_answer(c, sink, context, out, err)) return true;
    c->choice = choice;
    turns_cut(c, before);
    return false;
}

bool chat_ask_again(Chat *c, GenerateSink *sink, void *context, Generation *out, Error *err) {
    if (c->n_turns == 0) return error_set(err, "there is no answer to write again");
    ChatTurn dropped = c->turns[--c->n_turns]; /* kept at hand until the new answer is there */
    c->choice++;
    if (chat_answer(c, sink, context, out, err)) {
        mem_free(dropped.text);
        return true;
    }
    c->choice--;
    c->turns[c->n_turns++] = dropped;
    return false;
}
