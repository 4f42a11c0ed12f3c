/* POST /tokenize, /detokenize and /apply-template: what prompts are made of. The names of llama.cpp's server
 * ("content", "add_special", "with_pieces") and of vLLM's ("prompt", "add_special_tokens", "return_token_strs") are
 * both taken, and both keep their own usual: a "content" gets no special tokens unless asked for, a "prompt" does
 * unless refused. */
#include "base/utf8.h"
#include "serve/converse.h"
#include "serve/inputs.h"
#include "serve/openai_tools.h"
#include "serve/routes.h"

#include <string.h>

/* A request and what was made of it. */
typedef struct Tokens {
    Converse converse;
    JsonDoc *allowed;
    IdList ids;
    Buffer text;
} Tokens;

static void tokens_clear(Tokens *t) {
    converse_clear(&t->converse);
    json_free(t->allowed);
    id_list_clear(&t->ids);
    buffer_clear(&t->text);
}

static bool read_request(Tokens *t, Exchange *x, Server *s, ApiError *err) {
    const JsonValue *body = api_body(x, t, err);
    Fields *f = &t->converse.fields;
    if (!body || !fields_read(body, API_TOKENS, f, err) || !server_model(s, f->model, &t->converse.model, err))
        return false;
    t->converse.messages = f->messages;
    return t->converse.model->loaded.tokenizer ||
           api_refuse(err, 400, "model", "the model '%s' has no tokenizer", t->converse.model->name);
}

static bool read_messages(Tokens *t, ApiError *err) {
    return openai_choose_tools(&t->converse, t->converse.fields.tools, &t->allowed, err) &&
           converse_prompt(&t->converse, err);
}

/* ---- tokenize ---- */

static bool encode_text(Tokens *t, ApiError *err) {
    const Fields *f = &t->converse.fields;
    const JsonValue *text = f->content ? f->content : f->prompt;
    bool special = f->add_special.set ? f->add_special.value : !f->content;
    Error why = {""};
    if (!text || text->type != JSON_STRING)
        return api_refuse(err, 400, f->prompt ? "prompt" : "content",
                          "there must be a 'content' or a 'prompt', which is a text, or 'messages'");
    return tokenizer_encode(t->converse.model->loaded.tokenizer, text->text, text->length, special ? ENCODE_SPECIAL : 0,
                            &t->ids, &why) ||
           api_refuse_error(err, 400, f->content ? "content" : "prompt", &why);
}

/* A piece that is part of a character is a list of bytes. */
static void write_piece(const Tokenizer *t, int32_t id, Buffer *out) {
    Buffer bytes = {0};
    tokenizer_bytes(t, id, &bytes);
    if (utf8_valid(buffer_string(&bytes), bytes.length) == bytes.length) {
        json_write_string(out, buffer_string(&bytes), bytes.length, false);
    } else {
        buffer_byte(out, '[');
        for (size_t i = 0; i < bytes.length; i++)
            buffer_printf(out, "%s%d", i ? ", " : "", (unsigned char)bytes.data[i]);
        buffer_byte(out, ']');
    }
    if (bytes.failed) out->failed = true;
    buffer_clear(&bytes);
}

static void write_strings(const Tokenizer *t, const IdList *ids, Buffer *out) {
    buffer_text(out, ", \"token_strs\": [");
    for (size_t i = 0; i < ids->n; i++) {
        size_t n = 0;
        const char *token = tokenizer_token(t, ids->ids[i], &n);
        buffer_text(out, i ? ", " : "");
        json_write_string(out, token ? token : "", n, false);
    }
    buffer_byte(out, ']');
}

static void write_tokens(const Tokens *t, Buffer *out) {
    const Loaded *loaded = &t->converse.model->loaded;
    buffer_printf(out, "{\"count\": %zu, \"max_model_len\": %d, \"tokens\": [", t->ids.n, model_context(loaded->model));
    for (size_t i = 0; i < t->ids.n; i++) {
        const char *comma = i ? ", " : "";
        if (!t->converse.fields.with_pieces.value) {
            buffer_printf(out, "%s%d", comma, t->ids.ids[i]);
            continue;
        }
        buffer_printf(out, "%s{\"id\": %d, \"piece\": ", comma, t->ids.ids[i]);
        write_piece(loaded->tokenizer, t->ids.ids[i], out);
        buffer_byte(out, '}');
    }
    buffer_byte(out, ']');
    if (t->converse.fields.return_token_strs.value) write_strings(loaded->tokenizer, &t->ids, out);
    buffer_byte(out, '}');
}

static bool make_tokens(Tokens *t, Buffer *out, ApiError *err) {
    if (t->converse.fields.messages) {
        if (!read_messages(t, err)) return false;
        if (!id_list_append(&t->ids, t->converse.ids.ids, t->converse.ids.n))
            return api_refuse(err, 500, NULL, "out of memory");
    } else if (!encode_text(t, err)) {
        return false;
    }
    write_tokens(t, out);
    return true;
}

/* ---- detokenize ---- */

static bool make_text(Tokens *t, Buffer *out, ApiError *err) {
    const Loaded *loaded = &t->converse.model->loaded;
    const JsonValue *list = t->converse.fields.tokens;
    Error why = {""};
    if (!list) return api_refuse(err, 400, "tokens", "'tokens' must be a list of token ids");
    if (!inputs_read_ids(list, "tokens", model_vocab_size(loaded->model), &t->ids, err)) return false;
    if (!tokenizer_decode(loaded->tokenizer, t->ids.ids, t->ids.n, false, &t->text, &why))
        return api_refuse_error(err, 400, "tokens", &why);
    buffer_byte(out, '{');
    api_write_text(out, "content", buffer_string(&t->text), t->text.length);
    buffer_text(out, ", ");
    api_write_text(out, "prompt", buffer_string(&t->text), t->text.length);
    buffer_byte(out, '}');
    if (t->text.failed) out->failed = true;
    return true;
}

/* ---- apply-template ---- */

static bool make_prompt(Tokens *t, Buffer *out, ApiError *err) {
    Error why = {""};
    if (!read_messages(t, err)) return false;
    if (!template_render_chat(t->converse.model->loaded.chat_template, json_root(t->converse.variables), &t->text,
                              &why))
        return api_refuse_error(err, 400, "messages", &why);
    buffer_byte(out, '{');
    api_write_text(out, "prompt", buffer_string(&t->text), t->text.length);
    buffer_byte(out, '}');
    if (t->text.failed) out->failed = true;
    return true;
}

/* ---- handlers ---- */

static void answer(Exchange *x, Server *s, bool (*make)(Tokens *t, Buffer *out, ApiError *err)) {
    Tokens t = {0};
    Buffer out = {0};
    ApiError err = {0};
    if (read_request(&t, x, s, &err) && make(&t, &out, &err))
        exchange_reply_json(x, 200, &out);
    else
        api_fail(x, API_TOKENS, &err);
    tokens_clear(&t);
    buffer_clear(&out);
}

void tokenize(Exchange *x, void *context) {
    answer(x, context, make_tokens);
}

void detokenize(Exchange *x, void *context) {
    answer(x, context, make_text);
}

void apply_template(Exchange *x, void *context) {
    answer(x, context, make_prompt);
}
