/* The query of a cross-encoder is made into ids once, and is part of each pair; that of an embedding model is an input
 * like the documents. Prompts are those that the model's files have for the two: of an embedding model `query` and
 * `document` (or `passage`), of a cross-encoder the usual one, before the query. */
#include "engine/rerank.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* The prompt of the first of these names that the model has, else the usual one. */
static const char *prompt_of(const Embedder *e, const char *const *names) {
    const char *prompt = NULL;
    for (int i = 0; names[i]; i++)
        if (embed_plan_prompt(embedder_plan(e), names[i], &prompt, NULL)) return prompt;
    embed_plan_prompt(embedder_plan(e), NULL, &prompt, NULL);
    return prompt;
}

/* One more input, of the ids from `before` on. */
static bool add_input(Ranking *r, size_t before, int n_prompt, Error *err) {
    if (r->ids.n == before) return error_set(err, "the text has no tokens");
    EmbedInput *inputs = mem_room(r->inputs, r->n, &r->capacity, sizeof *inputs);
    if (!inputs) return error_memory(err, "the documents");
    r->inputs = inputs;
    inputs[r->n++] = (EmbedInput){.n = (int)(r->ids.n - before), .n_prompt = n_prompt};
    return true;
}

/* A text of its own, for an embedding model. */
static bool add_text(Ranking *r, const char *prompt, const char *text, size_t n, size_t *n_cut, Error *err) {
    size_t before = r->ids.n, n_whole;
    int n_prompt;
    if (!embedder_encode(r->embedder, prompt, text, n, &r->ids, &n_prompt, &n_whole, err)) return false;
    *n_cut = n_whole - (r->ids.n - before);
    return add_input(r, before, n_prompt, err);
}

bool ranking_possible(const Embedder *e, Error *err) {
    const EmbedPlan *p = embedder_plan(e);
    if (p->n_labels > 1)
        return error_set(err, "this model gives a score for each of %d labels: only one of one label ranks documents",
                         p->n_labels);
    return !p->by_template ||
           error_set(err,
                     "this cross-encoder has a chat template, through which sentence-transformers puts a pair: that "
                     "is not known here");
}

bool ranking_begin(Ranking *r, const Embedder *e, const char *query, size_t n_query, size_t *n_cut, Error *err) {
    static const char *const query_names[] = {"query", NULL}, *const document_names[] = {"document", "passage", NULL},
                             *const none[] = {NULL};
    *r = (Ranking){.embedder = e};
    *n_cut = 0;
    if (embedder_scores_pairs(e)) return embedder_encode_side(e, prompt_of(e, none), query, n_query, &r->query, err);
    r->prompt = prompt_of(e, document_names);
    return add_text(r, prompt_of(e, query_names), query, n_query, n_cut, err);
}

bool ranking_add(Ranking *r, const char *text, size_t n, size_t *n_cut, Error *err) {
    IdList side = {0};
    size_t before = r->ids.n;
    bool pairs = embedder_scores_pairs(r->embedder);
    bool ok = pairs ? embedder_encode_side(r->embedder, NULL, text, n, &side, err) &&
                          embedder_encode_pair(r->embedder, &r->query, &side, &r->ids, &r->types, n_cut, err) &&
                          add_input(r, before, 0, err)
                    : add_text(r, r->prompt, text, n, n_cut, err);
    id_list_clear(&side);
    r->n_documents += ok;
    return ok;
}

const EmbedInput *ranking_inputs(Ranking *r) {
    size_t at = 0;
    for (size_t i = 0; i < r->n; at += (size_t)r->inputs[i++].n) {
        r->inputs[i].ids = r->ids.ids + at;
        r->inputs[i].types = r->types.n ? r->types.ids + at : NULL;
    }
    return r->inputs;
}

void ranking_clear(Ranking *r) {
    id_list_clear(&r->query);
    id_list_clear(&r->ids);
    id_list_clear(&r->types);
    mem_free(r->inputs);
    *r = (Ranking){0};
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

static int compare(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

void ranking_sort(const Ranking *r, const float *values, Ranked *out) {
    int size = embedder_size(r->embedder);
    bool pairs = embedder_scores_pairs(r->embedder);
    for (int i = 0; i < r->n_documents; i++) {
        const float *document = values + ((size_t)i + !pairs) * (size_t)size;
        out[i] = (Ranked){i, pairs ? (double)*document : cosine(values, document, size)};
    }
    qsort(out, (size_t)r->n_documents, sizeof *out, compare);
}
