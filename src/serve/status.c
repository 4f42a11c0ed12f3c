/* Small answers about the server itself: whether it lives, and which models it has. */
#include "serve/routes.h"

#include <inttypes.h>
#include <string.h>

void health(Exchange *x, void *context) {
    (void)context;
    static const char ok[] = "{\"status\": \"ok\"}";
    exchange_reply(x, 200, "application/json", ok, sizeof ok - 1);
}

/* Both OpenAI's shape and Anthropic's. */
static void write_model(Buffer *out, const ServedModel *m) {
    buffer_byte(out, '{');
    api_write_text(out, "id", m->name, strlen(m->name));
    buffer_printf(out,
                  ", \"object\": \"model\", \"type\": \"model\", \"created\": %" PRId64
                  ", \"owned_by\": \"lockstep\", \"max_model_len\": %d, ",
                  m->created, model_context(m->loaded.model));
    api_write_text(out, "display_name", m->name, strlen(m->name));
    buffer_text(out, ", ");
    api_write_time(out, "created_at", m->created, 0);
    buffer_printf(out, ", \"max_input_tokens\": %d}", model_context(m->loaded.model));
}

void list_models(Exchange *x, void *context) {
    Models *models = server_models(context);
    Buffer out = {0};
    buffer_text(&out, "{\"object\": \"list\", \"data\": [");
    for (int i = 0; i < models_count(models); i++) {
        buffer_text(&out, i ? ", " : "");
        write_model(&out, models_at(models, i));
    }
    buffer_text(&out, "], \"has_more\": false, ");
    api_write_text(&out, "first_id", models_at(models, 0)->name, strlen(models_at(models, 0)->name));
    const char *last = models_at(models, models_count(models) - 1)->name;
    buffer_text(&out, ", ");
    api_write_text(&out, "last_id", last, strlen(last));
    buffer_byte(&out, '}');
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
}

void get_model(Exchange *x, void *context) {
    ApiError err;
    const char *name = exchange_tail(x);
    Models *models = server_models(context);
    for (int i = 0; i < models_count(models); i++) {
        if (strcmp(models_at(models, i)->name, name) != 0) continue;
        Buffer out = {0};
        write_model(&out, models_at(models, i));
        exchange_reply_json(x, 200, &out);
        buffer_clear(&out);
        return;
    }
    api_refuse(&err, 404, "model", "there is no model '%s' here", name);
    err.code = "model_not_found";
    api_fail(x, API_CHAT, &err);
}
