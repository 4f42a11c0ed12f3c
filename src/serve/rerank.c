/* POST /v1/rerank, as Jina and Cohere have it: documents in the order of their nearness to a query. Nearness is the
 * cosine of the vectors of an embedding model. */
#include "base/memory.h"
#include "serve/fields.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include "serve/vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOCUMENTS = 2048 };

typedef struct Ranked {
    int index;
    double score;
} Ranked;

typedef struct Rerank {
    Exchange *exchange;
    ServedModel *model;
    Fields fields;
    VectorTexts texts; /* the query, then the documents */
    char id[40];
} Rerank;

static void rerank_free(void *context) {
    Rerank *r = context;
    vector_texts_clear(&r->texts);
    mem_free(r);
}

static double cosine(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* The nearer first; of equals, the one that came first. */
static int compare(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* A text, or an object with one. */
static const JsonValue *text_of(const JsonValue *document) {
    const JsonValue *text = document->type == JSON_OBJECT ? json_get(document, "text") : document;
    return text && text->type == JSON_STRING ? text : NULL;
}

static void write_result(const Rerank *r, const Ranked *ranked, Buffer *out) {
    buffer_printf(out, "{\"index\": %d, \"relevance_score\": ", ranked->index);
    json_write_double(out, ranked->score);
    if (r->fields.return_documents.value) {
        const JsonValue *text = text_of(json_item(r->fields.documents, (uint32_t)ranked->index));
        buffer_text(out, ", \"document\": {");
        api_write_text(out, "text", text->text, text->length);
        buffer_byte(out, '}');
    }
    buffer_byte(out, '}');
}

static void write_answer(const Rerank *r, const Ranked *ranked, Buffer *out) {
    const FieldInt *top = &r->fields.top_n;
    int n = r->texts.n - 1;
    if (top->set && top->value < n) n = (int)top->value;
    buffer_printf(out, "{\"id\": \"%s\", ", r->id);
    api_write_text(out, "model", r->model->name, strlen(r->model->name));
    buffer_printf(out, ", \"usage\": {\"prompt_tokens\": %zu, \"total_tokens\": %zu}, \"results\": [", r->texts.ids.n,
                  r->texts.ids.n);
    for (int i = 0; i < n; i++) {
        buffer_text(out, i ? ", " : "");
        write_result(r, &ranked[i], out);
    }
    buffer_text(out, "]}");
}

static void on_done(void *context, const float *vectors) {
    Rerank *r = context;
    Buffer out = {0};
    int n = r->texts.n - 1, size = embedder_size(r->model->embedder);
    Ranked *ranked = mem_array((size_t)n, sizeof *ranked);
    for (int i = 0; ranked && i < n; i++)
        ranked[i] = (Ranked){i, cosine(vectors, vectors + (size_t)(i + 1) * (size_t)size, size)};
    if (ranked) {
        qsort(ranked, (size_t)n, sizeof *ranked, compare);
        write_answer(r, ranked, &out);
    } else {
        out.failed = true;
    }
    exchange_reply_json(r->exchange, 200, &out);
    mem_free(ranked);
    buffer_clear(&out);
    rerank_free(r);
}

static void on_fail(void *context, const char *why) {
    Rerank *r = context;
    openai_fail_late(r->exchange, API_RERANK, why);
    rerank_free(r);
}

/* The prompt of that name where the model has one, else the usual one. */
static const char *prompt_of(const Rerank *r, const char *const *names) {
    const EmbedPlan *plan = embedder_plan(r->model->embedder);
    const char *prompt = NULL;
    for (int i = 0; names[i]; i++)
        if (embed_plan_prompt(plan, names[i], &prompt, NULL)) return prompt;
    embed_plan_prompt(plan, NULL, &prompt, NULL);
    return prompt;
}

static bool read_texts(Rerank *r, ApiError *err) {
    static const char *const query_names[] = {"query", NULL}, *const document_names[] = {"document", "passage", NULL};
    const JsonValue *documents = r->fields.documents;
    Input query = {.text = r->fields.query, .n_text = strlen(r->fields.query)};
    const char *prompt = prompt_of(r, document_names);
    if (!vector_texts_add(&r->texts, r->model, prompt_of(r, query_names), &query, "query", err)) return false;
    for (uint32_t i = 0; i < documents->length; i++) {
        const JsonValue *text = text_of(json_item(documents, i));
        char name[32];
        snprintf(name, sizeof name, "documents[%u]", i);
        if (!text) return api_refuse(err, 400, name, "'%s' must be a text, or an object with a text", name);
        Input document = {.text = text->text, .n_text = text->length};
        if (!vector_texts_add(&r->texts, r->model, prompt, &document, name, err)) return false;
    }
    return true;
}

static bool read_request(Rerank *r, Server *s, const JsonValue *body, ApiError *err) {
    Fields *f = &r->fields;
    if (!fields_read(body, API_RERANK, f, err) || !server_model(s, f->model, &r->model, err)) return false;
    if (!f->query) return api_refuse(err, 400, "query", "'query' is missing");
    if (!f->documents || f->documents->length == 0)
        return api_refuse(err, 400, "documents", "'documents' must be a list of texts that is not empty");
    if (f->documents->length > MAX_DOCUMENTS)
        return api_refuse(err, 400, "documents", "'documents' has %u items: at most %d", f->documents->length,
                          MAX_DOCUMENTS);
    openai_new_id(r->id, sizeof r->id, "rerank-");
    return vector_texts_new(&r->texts, r->model, (int)f->documents->length + 1, err) && read_texts(r, err);
}

void rerank(Exchange *x, void *context) {
    Server *s = context;
    ApiError err = {0};
    Rerank *r = mem_zeroed(1, sizeof *r);
    const JsonValue *body = api_body(x, r, &err);
    if (r) r->exchange = x;
    if (r && body && read_request(r, s, body, &err)) {
        VectorsOptions o = {.server = s,
                            .model = r->model,
                            .exchange = x,
                            .texts = &r->texts,
                            .done = on_done,
                            .fail = on_fail,
                            .left = rerank_free,
                            .context = r};
        if (vectors_start(&o, &err)) return;
    }
    if (r) rerank_free(r);
    api_fail(x, API_RERANK, &err);
}
