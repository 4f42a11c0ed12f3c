/* Small answers about the server itself: whether it lives, and which models it has. */
#include "math/kernels.h"
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
                  ", \"owned_by\": \"lockstep\", \"lifecycle\": \"active\", ",
                  m->created);
    api_write_text(out, "display_name", m->name, strlen(m->name));
    buffer_text(out, ", ");
    api_write_time(out, "created_at", m->created, 0);
    buffer_printf(out, ", \"tasks\": [\"%s\"%s]", served_task(m), m->chats ? ", \"chat\"" : "");
    bool ready = m->state == MODEL_READY;
    if (ready) {
        int context = model_context(m->loaded.model);
        buffer_printf(out, ", \"max_model_len\": %d, \"max_input_tokens\": %d", context, context);
    }
    buffer_printf(out, ", \"loaded\": %s}", ready ? "true" : "false");
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

/* null where the probe was not run on what is loaded. */
static void write_check(Buffer *out, const ServedModel *m, const ServedCheck *check) {
    if (!check || check->checkpoint != checkpoint_hash(m->loaded.checkpoint)) {
        buffer_text(out, "], \"check\": null}");
        return;
    }
    buffer_printf(out, "], \"check\": {\"exact\": %s, \"runs\": %d, \"difference\": ", check->exact ? "true" : "false",
                  check->runs);
    if (check->exact)
        buffer_text(out, "null");
    else
        json_write_string(out, check->difference, strlen(check->difference), false);
    buffer_text(out, "}}");
}

/* Exactly what may change a byte of an answer. Nothing limits the width of a step, so there are no limits to tell. */
static void write_exactness(Buffer *out, const ServedModel *m, const LoadOptions *load, const ServedCheck *check) {
    const NumericSettings *numeric = model_numeric(m->loaded.model);
    buffer_byte(out, '{');
    api_write_text(out, "id", m->name, strlen(m->name));
    buffer_printf(out,
                  ", \"checkpoint\": \"%016" PRIx64 "\", \"kv\": \"%s\", \"activations\": %d, \"isa\": \"%s\", "
                  "\"threads\": %d, \"width_limit\": null, \"ignored_config\": [",
                  checkpoint_hash(m->loaded.checkpoint), kv_format_name(numeric->kv), numeric->activation_bits,
                  kernels_name(), pool_threads(m->loaded.pool));
    for (int i = 0; i < load->options.n_ignore_config; i++) {
        const char *key = load->options.ignore_config[i];
        buffer_text(out, i ? ", " : "");
        json_write_string(out, key, strlen(key), false);
    }
    write_check(out, m, check);
}

void exactness(Exchange *x, void *context) {
    Models *models = server_models(context);
    const ServeOptions *options = server_options(context);
    Buffer out = {0};
    bool first = true;
    buffer_text(
        &out, "{\"promise\": \"logits depend on the checkpoint, kv, activations and the prefix, and on nothing else\", "
              "\"verify\": \"lockstep check MODEL\", \"models\": [");
    for (int i = 0; i < models_count(models); i++) {
        if (models_at(models, i)->state != MODEL_READY) continue;
        buffer_text(&out, first ? "" : ", ");
        write_exactness(&out, models_at(models, i), &options->load, options->checks ? &options->checks[i] : NULL);
        first = false;
    }
    buffer_text(&out, "]}");
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
}
