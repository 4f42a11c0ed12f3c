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
    if (!(chat.cache = prefix_cache_new(model_state_shape(loaded->model), mem_available() / 4, err))) goto fail;
    if (kwargs) {
        chat.more = json_parse(kwargs, strlen(kwargs), 0, err);
        if (!chat.more || json_root(chat.more)->type != JSON_OBJECT) {
            if (chat.more) error_set(err, "it must be a JSON object");
            error_prefix(err, "--kwargs");
            goto fail;
        }
    }
    if (!chat_set_system(&chat, args_text(args, FLAG_SYSTEM), err)) goto fail;
    if (!dialog_forms(args_text(args, FLAG_TOOL_PARSER), args_text(args, FLAG_REASONING_PARSER), loaded->chat_template,
                      &chat.how, err))
        goto fail;
    chat.how.calls = NULL;
    if (!dialog_kept_ids(loaded->tokenizer, &chat.how, &chat.kept, err)) goto fail;
    chat.flags.request.kept_ids = chat.kept.ids;
    chat.flags.request.n_kept_ids = (int)chat.kept.n;
    *c = chat;
    return true;
fail:
    chat_clear(&chat);
    return false;
}

static void turn_clear(ChatTurn *t) {
    mem_free(t->text);
    mem_free(t->reasoning);
}

static void turns_cut(Chat *c, size_t n) {
    while (c->n_turns > n) turn_clear(&c->turns[--c->n_turns]);
}

void chat_clear(Chat *c) {
    turns_cut(c, 0);
    mem_free(c->turns);
    mem_free(c->system);
    json_free(c->more);
    id_list_clear(&c->kept);
    prefix_cache_free(c->cache);
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
    c->turns[c->n_turns++] = (ChatTurn){.role = role, .text = copy, .length = n};
    return true;
}

static void write_message(Buffer *out, const ChatTurn *t) {
    buffer_printf(out, "%s{\"role\": \"%s\", \"content\": ", out->length > 1 ? ", " : "", t->role);
    json_write_string(out, t->text, t->length, false);
    if (t->n_reasoning > 0) {
        buffer_text(out, ", \"reasoning_content\": ");
        json_write_string(out, t->reasoning, t->n_reasoning, false);
    }
    buffer_byte(out, '}');
}

static JsonDoc *chat_variables(const Chat *c, Error *err) {
    Buffer text = {0};
    JsonDoc *messages = NULL, *variables = NULL;
    buffer_byte(&text, '[');
    ChatTurn system = {.role = "system", .text = c->system, .length = c->system ? strlen(c->system) : 0};
    if (c->system) write_message(&text, &system);
    for (size_t i = 0; i < c->n_turns; i++) write_message(&text, &c->turns[i]);
    buffer_byte(&text, ']');
    if (text.failed)
        error_memory(err, "the messages");
    else
        messages = json_parse(text.data, text.length, 0, err);
    if (messages) {
        TemplateInput in = {
            .messages = json_root(messages), .more = c->more ? json_root(c->more) : NULL, .generation_prompt = true};
        variables = dialog_variables(&in, err);
    }
    json_free(messages);
    buffer_clear(&text);
    return variables;
}

/* An answer on its way: the engine's text goes through `reply`, which tells the person and fills `message`. */
typedef struct Answer {
    Reply *reply;
    Message message;
    ChatSink *sink;
    void *context;
    bool stopped;
    Error error;
    bool failed;
} Answer;

static bool answer_part(void *context, const ReplyEvent *e, Error *err) {
    Answer *a = context;
    if (!message_take(&a->message, e, err)) return false;
    if (!a->sink(a->context, e->part == REPLY_REASONING, e->text, e->length)) a->stopped = true;
    return true;
}

static bool answer_text(void *context, const char *text, size_t n) {
    Answer *a = context;
    if (!a->failed && !reply_push(a->reply, text, n, &a->error)) a->failed = true;
    return !a->failed && !a->stopped && a->sink(a->context, false, "", 0);
}

static bool answer_begin(Answer *a, const ReplyOptions *how, Error *err) {
    return (a->reply = reply_new(how, answer_part, a, err)) != NULL;
}

/* The rest of the answer, and the turn that it is. */
static bool answer_end(Chat *c, Answer *a, Error *err) {
    if (a->failed) return error_set(err, "%s", a->error.text);
    if (!reply_finish(a->reply, err)) return false;
    const Buffer *text = &a->message.text, *reasoning = &a->message.reasoning;
    char *thought = mem_string(buffer_string(reasoning), reasoning->length);
    if (!thought) return error_memory(err, "the conversation");
    if (!turn_push(c, "assistant", buffer_string(text), text->length, err)) {
        mem_free(thought);
        return false;
    }
    ChatTurn *turn = &c->turns[c->n_turns - 1];
    turn->reasoning = thought;
    turn->n_reasoning = reasoning->length;
    return true;
}

/* The last turn is a question: answers it and adds the answer. */
static bool chat_answer(Chat *c, ChatSink *sink, void *context, Generation *out, Error *err) {
    IdList ids = {0};
    ReplyOptions how = c->how;
    Answer a = {.sink = sink, .context = context};
    JsonDoc *variables = chat_variables(c, err);
    bool ok = variables && dialog_ids(c->loaded, json_root(variables), &how, &ids, err) && answer_begin(&a, &how, err);
    if (ok) {
        Request request = c->flags.request;
        request.prompt = ids.ids;
        request.n_prompt = (int)ids.n;
        request.sampling.choice = c->choice;
        ok = generate(c->loaded->model, c->loaded->tokenizer, c->cache, &request, answer_text, &a, out, err);
    }
    if (ok && !answer_end(c, &a, err)) {
        generation_clear(out);
        ok = false;
    }
    reply_free(a.reply);
    message_clear(&a.message);
    json_free(variables);
    id_list_clear(&ids);
    return ok;
}

bool chat_ask(Chat *c, const char *text, size_t n, ChatSink *sink, void *context, Generation *out, Error *err) {
    size_t before = c->n_turns;
    uint32_t choice = c->choice;
    if (!turn_push(c, "user", text, n, err)) return false;
    c->choice = 0;
    if (chat_answer(c, sink, context, out, err)) return true;
    c->choice = choice;
    turns_cut(c, before);
    return false;
}

bool chat_ask_again(Chat *c, ChatSink *sink, void *context, Generation *out, Error *err) {
    if (c->n_turns == 0) return error_set(err, "there is no answer to write again");
    ChatTurn dropped = c->turns[--c->n_turns]; /* kept at hand until the new answer is there */
    c->choice++;
    if (chat_answer(c, sink, context, out, err)) {
        turn_clear(&dropped);
        return true;
    }
    c->choice--;
    c->turns[c->n_turns++] = dropped;
    return false;
}
