/* POST /v1/embeddings, and Ollama's /api/embed and /api/embeddings, which differ in form only: a vector of each text,
 * or of the one text. A text that is too long is refused, never cut: the client would not know. */
#include "base/base64.h"
#include "base/memory.h"
#include "serve/fields.h"
#include "serve/ollama.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include "serve/vectors.h"

#include <stdio.h>
#include <string.h>

enum { MAX_INPUTS = 2048 };

typedef enum EmbeddingsForm { FORM_OPENAI, FORM_OLLAMA, FORM_OLLAMA_SINGLE } EmbeddingsForm;

typedef struct Embeddings {
    Exchange *exchange;
    ServedModel *model;
    Fields fields;
    Inputs inputs;
    VectorTexts texts;
    int size; /* values of a vector that are sent */
    bool base64;
    EmbeddingsForm form;
} Embeddings;

static void embeddings_free(void *context) {
    Embeddings *e = context;
    inputs_clear(&e->inputs);
    vector_texts_clear(&e->texts);
    mem_free(e);
}

/* The bytes are those of the machine, which is little-endian wherever lockstep runs, as clients expect. */
static void write_vector(const float *v, int n, bool base64, Buffer *out) {
    buffer_text(out, base64 ? "\"" : "[");
    if (base64) base64_append(out, v, (size_t)n * sizeof *v);
    for (int i = 0; i < n && !base64; i++) buffer_printf(out, "%s%.9g", i ? ", " : "", (double)v[i]);
    buffer_text(out, base64 ? "\"" : "]");
}

static Api api_of(EmbeddingsForm form) {
    return form == FORM_OPENAI ? API_EMBEDDINGS : API_OLLAMA;
}

static void write_end(Embeddings *e, Buffer *out) {
    if (e->form == FORM_OLLAMA_SINGLE) {
        buffer_byte(out, '}');
        return;
    }
    buffer_text(out, "], ");
    api_write_text(out, "model", e->model->name, strlen(e->model->name));
    if (e->form == FORM_OLLAMA)
        buffer_printf(out, ", \"prompt_eval_count\": %zu}", e->texts.ids.n);
    else
        buffer_printf(out, ", \"usage\": {\"prompt_tokens\": %zu, \"total_tokens\": %zu}}", e->texts.ids.n,
                      e->texts.ids.n);
}

static void on_done(void *context, const float *vectors) {
    Embeddings *e = context;
    Buffer out = {0};
    int size = embedder_size(e->model->embedder);
    static const char *const begins[] = {"{\"object\": \"list\", \"data\": [", "{\"embeddings\": [",
                                         "{\"embedding\": "};
    bool bare = e->form != FORM_OPENAI;
    float *cut = mem_array((size_t)e->size, sizeof *cut);
    buffer_text(&out, begins[e->form]);
    for (int i = 0; cut && i < e->texts.n; i++) {
        const float *v = vectors + (size_t)i * (size_t)size;
        if (e->size < size) pooling_unit(v, cut, e->size);
        buffer_text(&out, i ? ", " : "");
        if (!bare) buffer_printf(&out, "{\"object\": \"embedding\", \"index\": %d, \"embedding\": ", i);
        write_vector(e->size < size ? cut : v, e->size, e->base64, &out);
        if (!bare) buffer_byte(&out, '}');
    }
    write_end(e, &out);
    if (!cut) out.failed = true;
    exchange_reply_json(e->exchange, 200, &out);
    mem_free(cut);
    buffer_clear(&out);
    embeddings_free(e);
}

static void on_fail(void *context, const char *why) {
    Embeddings *e = context;
    openai_fail_late(e->exchange, api_of(e->form), why);
    embeddings_free(e);
}

static bool read_form(Embeddings *e, ApiError *err) {
    const Fields *f = &e->fields;
    const EmbedPlan *plan = embedder_plan(e->model->embedder);
    Error why = {""};
    e->size = f->dimensions.set ? (int)f->dimensions.value : plan->size;
    if (!matryoshka_allows(&plan->cuts, plan->size, e->size, &why))
        return api_refuse(err, 400, "dimensions", "'dimensions': %s", why.text);
    e->base64 = f->encoding_format && strcmp(f->encoding_format, "base64") == 0;
    return !f->encoding_format || e->base64 || strcmp(f->encoding_format, "float") == 0 ||
           api_refuse(err, 400, "encoding_format", "'encoding_format' must be float or base64");
}

static bool read_texts(Embeddings *e, ApiError *err) {
    const char *prompt;
    Error why = {""};
    if (!embed_plan_prompt(embedder_plan(e->model->embedder), e->fields.prompt_name, &prompt, &why))
        return api_refuse_error(err, 400, "prompt_name", &why);
    for (int i = 0; i < e->inputs.n; i++) {
        char name[32];
        snprintf(name, sizeof name,
                 e->form == FORM_OLLAMA_SINGLE ? "prompt"
                 : e->inputs.n > 1             ? "input[%d]"
                                               : "input",
                 i);
        if (!vector_texts_add(&e->texts, e->model, prompt, &e->inputs.items[i], name, err)) return false;
    }
    return true;
}

/* The one text of the old form is the prompt, and the options are of no interest. */
static bool read_inputs(Embeddings *e, ApiError *err) {
    const Fields *f = &e->fields;
    int vocab = model_vocab_size(e->model->loaded.model);
    if (e->form != FORM_OLLAMA_SINGLE) return inputs_read(f->input, "input", MAX_INPUTS, vocab, &e->inputs, err);
    if (f->prompt && f->prompt->type != JSON_STRING)
        return api_refuse(err, 400, "prompt", "'prompt' must be a string: /api/embed takes several");
    return inputs_read(f->prompt, "prompt", 1, vocab, &e->inputs, err);
}

static bool read_request(Embeddings *e, Server *s, const JsonValue *body, ApiError *err) {
    Fields *f = &e->fields;
    if (!fields_read(body, e->form == FORM_OLLAMA_SINGLE ? API_OLLAMA : API_EMBEDDINGS, f, err)) return false;
    bool found =
        e->form == FORM_OPENAI ? server_model(s, f->model, &e->model, err) : ollama_model(s, f->model, &e->model, err);
    return found && read_inputs(e, err) && vector_texts_new(&e->texts, e->model, e->inputs.n, err) &&
           read_form(e, err) && read_texts(e, err);
}

static void answer(Exchange *x, Server *s, EmbeddingsForm form) {
    ApiError err = {0};
    Embeddings *e = mem_zeroed(1, sizeof *e);
    const JsonValue *body = api_body(x, e, &err);
    if (e) e->exchange = x;
    if (e) e->form = form;
    if (e && body && read_request(e, s, body, &err)) {
        VectorsOptions o = {.server = s,
                            .model = e->model,
                            .exchange = x,
                            .inputs = vector_texts_inputs(&e->texts),
                            .n = e->texts.n,
                            .done = on_done,
                            .fail = on_fail,
                            .left = embeddings_free,
                            .context = e};
        if (vectors_start(&o, &err)) return;
    }
    if (e) embeddings_free(e);
    api_fail(x, api_of(form), &err);
}

void openai_embeddings(Exchange *x, void *context) {
    answer(x, context, FORM_OPENAI);
}

void ollama_embed(Exchange *x, void *context) {
    answer(x, context, FORM_OLLAMA);
}

void ollama_embeddings(Exchange *x, void *context) {
    answer(x, context, FORM_OLLAMA_SINGLE);
}
