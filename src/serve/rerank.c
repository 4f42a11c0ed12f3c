/* POST /v1/rerank, as Jina and Cohere have it: documents in the order of their relevance to a query, which is a
 * cross-encoder's score of the two, or the cosine of an embedding model's vectors. */
#include "base/memory.h"
#include "engine/rerank.h"
#include "serve/fields.h"
#include "serve/openai.h"
#include "serve/routes.h"
#include "serve/vectors.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DOCUMENTS = 2048 };

typedef struct Rerank {
    Exchange *exchange;
    ServedModel *model;
    Fields fields;
    Ranking ranking;
    size_t *n_cut; /* of each document, by a cross-encoder */
    char id[40];
} Rerank;

static void rerank_free(void *context) {
    Rerank *r = context;
    ranking_clear(&r->ranking);
    mem_free(r->n_cut);
    mem_free(r);
}

/* A text, or an object with one. */
static const JsonValue *text_of(const JsonValue *document) {
    const JsonValue *text = document->type == JSON_OBJECT ? json_get(document, "text") : document;
    return text && text->type == JSON_STRING ? text : NULL;
}

static void write_result(const Rerank *r, const Ranked *ranked, Buffer *out) {
    buffer_printf(out, "{\"index\": %d, \"relevance_score\": ", ranked->index);
    json_write_double(out, ranked->score);
    if (r->n_cut[ranked->index]) buffer_printf(out, ", \"truncated_tokens\": %zu", r->n_cut[ranked->index]);
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
    int n = r->ranking.n_documents;
    if (top->set && top->value < n) n = (int)top->value;
    buffer_printf(out, "{\"id\": \"%s\", ", r->id);
    api_write_text(out, "model", r->model->name, strlen(r->model->name));
    buffer_printf(out, ", \"usage\": {\"prompt_tokens\": %zu, \"total_tokens\": %zu}, \"results\": [", r->ranking.ids.n,
                  r->ranking.ids.n);
    for (int i = 0; i < n; i++) {
        buffer_text(out, i ? ", " : "");
        write_result(r, &ranked[i], out);
    }
    buffer_text(out, "]}");
}

static void on_done(void *context, const float *values) {
    Rerank *r = context;
    Buffer out = {0};
    Ranked *ranked = mem_array((size_t)r->ranking.n_documents, sizeof *ranked);
    if (ranked) {
        ranking_sort(&r->ranking, values, ranked);
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

/* An embedding model reads a text whole or not at all; a cross-encoder's pair is cut, and the answer says by how much.
 */
static bool check_length(const Rerank *r, const char *name, size_t n_cut, ApiError *err) {
    size_t most = (size_t)embedder_max_tokens(r->model->embedder);
    if (n_cut == 0 || embedder_scores_pairs(r->model->embedder)) return true;
    return vectors_refuse_length(err, name, most + n_cut, most);
}

static bool read_query(Rerank *r, ApiError *err) {
    const char *query = r->fields.query;
    Error why = {""};
    size_t n_cut;
    if (!*query) return api_refuse(err, 400, "query", "'query' is empty");
    if (!ranking_begin(&r->ranking, r->model->embedder, query, strlen(query), &n_cut, &why))
        return api_refuse_error(err, 400, "query", &why);
    return check_length(r, "query", n_cut, err);
}

static bool read_document(Rerank *r, uint32_t i, ApiError *err) {
    const JsonValue *text = text_of(json_item(r->fields.documents, i));
    Error why = {""};
    char name[32];
    snprintf(name, sizeof name, "documents[%u]", i);
    if (!text) return api_refuse(err, 400, name, "'%s' must be a text, or an object with a text", name);
    if (text->length == 0) return api_refuse(err, 400, name, "'%s' is empty", name);
    if (!ranking_add(&r->ranking, text->text, text->length, &r->n_cut[i], &why))
        return api_refuse_error(err, 400, name, &why);
    return check_length(r, name, r->n_cut[i], err);
}

static bool read_texts(Rerank *r, ApiError *err) {
    Error why = {""};
    if (!r->model->embedder) return api_refuse_error(err, 400, "model", &r->model->no_embedder);
    if (!ranking_possible(r->model->embedder, &why)) return api_refuse_error(err, 400, "model", &why);
    if (!(r->n_cut = mem_zeroed(r->fields.documents->length, sizeof *r->n_cut)))
        return api_refuse(err, 500, NULL, "out of memory");
    if (!read_query(r, err)) return false;
    for (uint32_t i = 0; i < r->fields.documents->length; i++)
        if (!read_document(r, i, err)) return false;
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
    return read_texts(r, err);
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
                            .inputs = ranking_inputs(&r->ranking),
                            .n = (int)r->ranking.n,
                            .done = on_done,
                            .fail = on_fail,
                            .left = rerank_free,
                            .context = r};
        if (vectors_start(&o, &err)) return;
    }
    if (r) rerank_free(r);
    api_fail(x, API_RERANK, &err);
}
