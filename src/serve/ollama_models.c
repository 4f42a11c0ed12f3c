/* GET /api/tags, /api/ps and /api/version, POST /api/show: what Ollama's clients ask about models before they use one.
 * What would change the models there are is refused: a server writes nothing outside its cache folder. */
#include "base/version.h"
#include "serve/ollama.h"
#include "serve/routes.h"
#include "text/fim.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct ModelSize {
    uint64_t bytes, parameters;
    int bits; /* 0: not quantised */
    DType dtype;
} ModelSize;

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Packed weights count as many times as values of the checkpoint's usual width fit; scales are no parameters. */
static ModelSize model_size(const Checkpoint *c) {
    ModelSize size = {.dtype = DTYPE_COUNT};
    int64_t bits = 0;
    json_int(json_get(json_get(checkpoint_config(c), "quantization"), "bits"), &bits);
    size.bits = bits > 0 && bits <= 32 ? (int)bits : 0;
    for (int i = 0; i < checkpoint_count(c); i++) {
        const Tensor *t = checkpoint_tensor(c, i);
        uint64_t n = t->bytes / dtype_bytes(t->dtype);
        size.bytes += t->bytes;
        if (size.bits && (ends_in(t->name, ".scales") || ends_in(t->name, ".biases"))) continue;
        if (t->dtype == DTYPE_U32 && size.bits) n = n * 32 / (unsigned)size.bits;
        size.parameters += n;
        if (size.dtype == DTYPE_COUNT) size.dtype = t->dtype;
    }
    return size;
}

static void write_details(Buffer *out, const ServedModel *m) {
    ModelSize size = model_size(m->loaded.checkpoint);
    const char *family = model_family(m->loaded.model);
    buffer_text(out, "\"details\": {\"parent_model\": \"\", \"format\": \"safetensors\", ");
    api_write_text(out, "family", family, strlen(family));
    buffer_text(out, ", \"families\": [");
    json_write_string(out, family, strlen(family), false);
    if (size.parameters >= 1000000000)
        buffer_printf(out, "], \"parameter_size\": \"%.1fB\"", (double)size.parameters / 1e9);
    else
        buffer_printf(out, "], \"parameter_size\": \"%.2fM\"", (double)size.parameters / 1e6);
    if (size.bits)
        buffer_printf(out, ", \"quantization_level\": \"Q%d\"}", size.bits);
    else
        buffer_printf(out, ", \"quantization_level\": \"%s\"}",
                      size.dtype == DTYPE_COUNT ? "" : dtype_name(size.dtype));
}

/* Of a model that is not loaded there is nothing to tell but its name. */
static void write_model(Buffer *out, const ServedModel *m, bool running) {
    buffer_byte(out, '{');
    api_write_text(out, "name", m->name, strlen(m->name));
    buffer_text(out, ", ");
    api_write_text(out, "model", m->name, strlen(m->name));
    buffer_text(out, ", ");
    api_write_time(out, "modified_at", m->created, 0);
    if (m->state != MODEL_READY) {
        buffer_text(out, ", \"size\": 0, \"digest\": \"\", \"details\": {}}");
        return;
    }
    ModelSize size = model_size(m->loaded.checkpoint);
    buffer_printf(out, ", \"size\": %" PRIu64 ", \"digest\": \"%016" PRIx64 "\", ", size.bytes,
                  checkpoint_hash(m->loaded.checkpoint));
    if (running) {
        buffer_printf(out, "\"size_vram\": 0, \"context_length\": %d, ", model_context(m->loaded.model));
        api_write_time(out, "expires_at", m->created + (int64_t)100 * 365 * 86400, 0); /* it stays */
        buffer_text(out, ", ");
    }
    write_details(out, m);
    buffer_byte(out, '}');
}

static void reply_models(Exchange *x, Server *s, bool running) {
    Models *models = server_models(s);
    Buffer out = {0};
    buffer_text(&out, "{\"models\": [");
    for (int i = 0; i < models_count(models); i++) {
        const ServedModel *m = models_at(models, i);
        if (running && m->state != MODEL_READY) continue;
        buffer_text(&out, out.data[out.length - 1] == '[' ? "" : ", ");
        write_model(&out, m, running);
    }
    buffer_text(&out, "]}");
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
}

void ollama_tags(Exchange *x, void *context) {
    reply_models(x, context, false);
}

void ollama_ps(Exchange *x, void *context) {
    reply_models(x, context, true);
}

void ollama_version(Exchange *x, void *context) {
    (void)context;
    static const char version[] = "{\"version\": \"" LOCKSTEP_VERSION "\"}";
    exchange_reply(x, 200, "application/json", version, sizeof version - 1);
}

static void write_capabilities(Buffer *out, const ServedModel *m) {
    const Loaded *l = &m->loaded;
    buffer_printf(out, "\"capabilities\": [\"%s\"", served_task(m));
    if (m->forms.calls) buffer_text(out, ", \"tools\"");
    if (m->forms.reasoning) buffer_text(out, ", \"thinking\"");
    if (l->tokenizer && fim_form_of(l->tokenizer)) buffer_text(out, ", \"insert\"");
    buffer_byte(out, ']');
}

static void write_info(Buffer *out, const ServedModel *m) {
    const Model *model = m->loaded.model;
    const char *family = model_family(model);
    buffer_text(out, "\"model_info\": {");
    api_write_text(out, "general.architecture", family, strlen(family));
    buffer_printf(out,
                  ", \"general.parameter_count\": %" PRIu64 ", \"%s.context_length\": %d, \"%s.embedding_length\": %d, "
                  "\"%s.vocab_size\": %d}",
                  model_size(m->loaded.checkpoint).parameters, family, model_context(model), family,
                  model_hidden_size(model), family, model_vocab_size(model));
}

/* A parameter per line, as a Modelfile names them: what a request that says nothing about it gets. */
static void add_number(Buffer *out, const char *name, float value) {
    buffer_printf(out, "%s%-30s ", out->length ? "\n" : "", name);
    json_write_double(out, rint((double)value * 1e6) / 1e6); /* 0.7, not the float next to it */
}

static void add_stop(Buffer *out, const Tokenizer *tokenizer, int32_t id) {
    size_t n;
    const char *token = tokenizer_token(tokenizer, id, &n);
    if (!token) return;
    buffer_printf(out, "%s%-30s ", out->length ? "\n" : "", "stop");
    json_write_string(out, token, n, false);
}

static void write_parameters(Buffer *out, const Loaded *l) {
    const Sampling *s = &l->defaults.sampling;
    Buffer lines = {0};
    add_number(&lines, "temperature", s->temperature);
    if (s->top_k > 0) buffer_printf(&lines, "\n%-30s %d", "top_k", s->top_k);
    if (s->top_p < 1) add_number(&lines, "top_p", s->top_p);
    if (s->min_p > 0) add_number(&lines, "min_p", s->min_p);
    if (s->repetition_penalty != 1) add_number(&lines, "repeat_penalty", s->repetition_penalty);
    for (size_t i = 0; l->tokenizer && i < l->defaults.end_ids.n; i++)
        add_stop(&lines, l->tokenizer, l->defaults.end_ids.ids[i]);
    api_write_text(out, "parameters", buffer_string(&lines), lines.length);
    buffer_clear(&lines);
}

void ollama_show(Exchange *x, void *context) {
    ApiError err = {0};
    ServedModel *m = NULL;
    const JsonValue *body = api_body(x, &m, &err), *model = json_get_set(body, "model");
    const char *name = json_string(model ? model : json_get(body, "name"));
    if (!body || !ollama_model(context, name, &m, &err)) {
        api_fail(x, API_OLLAMA, &err);
        return;
    }
    Buffer out = {0};
    const char *template = m->loaded.chat_template ? template_source(m->loaded.chat_template) : "";
    buffer_text(&out, "{\"modelfile\": \"\", ");
    if (model_has_head(m->loaded.model)) {
        write_parameters(&out, &m->loaded);
        buffer_text(&out, ", ");
    }
    api_write_text(&out, "template", template, strlen(template));
    buffer_text(&out, ", ");
    api_write_time(&out, "modified_at", m->created, 0);
    buffer_text(&out, ", ");
    write_details(&out, m);
    buffer_text(&out, ", ");
    write_info(&out, m);
    buffer_text(&out, ", ");
    write_capabilities(&out, m);
    buffer_byte(&out, '}');
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
}

void ollama_manage(Exchange *x, void *context) {
    static const struct {
        const char *path, *instead;
    } ways[] = {
        {"/api/pull", "`lockstep pull NAME` fetches one, and `lockstep serve` is then started with it"},
        {"/api/create", "`lockstep import FILE.gguf -o DIR` and `lockstep quantize DIR -o DIR` make some"},
        {"/api/blobs/", "`lockstep import FILE.gguf -o DIR` takes files as they are"},
        {"/api/copy", "a model is a folder: copy it, and start `lockstep serve` with it"},
        {"/api/delete", "`lockstep rm NAME` removes one"},
        {"/api/push", "a model is a folder: upload it as one"},
    };
    const char *path = exchange_path(x), *instead = "";
    ApiError err;
    (void)context;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strncmp(path, ways[i].path, strlen(ways[i].path)) == 0) instead = ways[i].instead;
    api_refuse(&err, 403, NULL, "this server leaves models on disk as they are: %s", instead);
    api_fail(x, API_OLLAMA, &err);
}
