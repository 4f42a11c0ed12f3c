/* Turns are dropped whole, from the oldest on: a result without its call, or an answer without what it answers, is what
 * many templates refuse. How long a prompt is only its template can tell, so it is rendered for each length that is
 * tried; they are few, as the more turns are dropped the shorter it is. */
#include "serve/responses_fit.h"

#include <string.h>

static const JsonValue *role_at(const JsonValue *messages, uint32_t i) {
    return json_get(json_item(messages, i), "role");
}

/* How many of the first messages are the system's. */
static uint32_t count_system(const JsonValue *messages) {
    uint32_t n = 0;
    while (n < messages->length &&
           (json_equals(role_at(messages, n), "system") || json_equals(role_at(messages, n), "developer")))
        n++;
    return n;
}

/* Those of the system, and then from `first` on. */
static JsonDoc *messages_from(const JsonValue *messages, uint32_t first, ApiError *err) {
    uint32_t n_system = count_system(messages);
    Buffer out = {0};
    for (uint32_t i = 0; i < messages->length; i++) {
        if (i >= n_system && i < first) continue;
        buffer_text(&out, out.length ? ", " : "[");
        json_write(&out, json_item(messages, i), NULL);
    }
    buffer_text(&out, "]");
    JsonDoc *doc = api_parse_written(&out, err);
    buffer_clear(&out);
    return doc;
}

/* Whether the prompt of these messages leaves room for a token of an answer. */
static bool try_messages(const Converse *c, const JsonValue *messages, bool *fits, ApiError *err) {
    Converse trial = *c;
    trial.messages = messages;
    bool ok = converse_prompt(&trial, err);
    *fits = ok && trial.ids.n < (size_t)model_context(c->model->loaded.model);
    bool too_long = !ok && err->code && strcmp(err->code, "context_length_exceeded") == 0;
    converse_clear(&trial);
    return ok || too_long;
}

static bool try_from(const Converse *c, uint32_t first, bool *fits, ApiError *err) {
    JsonDoc *doc = messages_from(c->messages, first, err);
    bool ok = doc && try_messages(c, json_root(doc), fits, err);
    json_free(doc);
    return ok;
}

/* The messages of the user after the first, where a shorter conversation may begin. */
static bool list_starts(const JsonValue *messages, IdList *out, ApiError *err) {
    for (uint32_t i = count_system(messages) + 1; i < messages->length; i++)
        if (json_equals(role_at(messages, i), "user") && !id_list_push(out, (int32_t)i))
            return api_refuse(err, 500, NULL, "out of memory");
    return true;
}

/* The first of them from which the rest fits, else the last. */
static bool find_start(const Converse *c, const IdList *starts, uint32_t *first, ApiError *err) {
    size_t low = 0, high = starts->n - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        bool fits;
        if (!try_from(c, (uint32_t)starts->ids[middle], &fits, err)) return false;
        if (fits)
            high = middle;
        else
            low = middle + 1;
    }
    *first = (uint32_t)starts->ids[low];
    return true;
}

bool responses_fit(Converse *c, JsonDoc **messages, ApiError *err) {
    IdList starts = {0};
    uint32_t first;
    bool fits;
    if (!try_messages(c, c->messages, &fits, err)) return false;
    if (fits) return true;
    bool ok = list_starts(c->messages, &starts, err);
    if (ok && starts.n > 0 && (ok = find_start(c, &starts, &first, err))) {
        JsonDoc *rest = messages_from(c->messages, first, err);
        ok = rest != NULL;
        if (ok) {
            json_free(*messages);
            *messages = rest;
            c->messages = json_root(rest);
        }
    }
    id_list_clear(&starts);
    return ok;
}
