/* Documents ranked by a query: what goes through an Embedder for them, and the order that comes of it. By a
 * cross-encoder a document is a pair with the query, and the pair's score counts; by an embedding model it is a text of
 * its own, and the cosine of its vector and the query's counts. */
#ifndef LOCKSTEP_ENGINE_RERANK_H
#define LOCKSTEP_ENGINE_RERANK_H

#include "engine/embed.h"

typedef struct Ranking {
    const Embedder *embedder;
    const char *prompt; /* before each document, of an embedding model; NULL: none */
    IdList query;       /* one side of every pair, of a cross-encoder */
    IdList ids, types;  /* of all inputs, one after the other; types empty: all 0 */
    EmbedInput *inputs; /* of an embedding model the query is the first */
    size_t n, capacity;
    int n_documents;
} Ranking;

/* Whether documents can be ranked by it: a model with several labels has no one score, and one whose pairs go through a
 * chat template is not known here. */
bool ranking_possible(const Embedder *e, Error *err);
/* Begins with the query, for a model by which that is possible. *n_cut: how many of its tokens an embedding model has
 * no room for; of a cross-encoder 0, as pairs are cut. After a failure the ranking must be cleared as well. */
bool ranking_begin(Ranking *r, const Embedder *e, const char *query, size_t n_query, size_t *n_cut, Error *err);
/* One more document. *n_cut: how many tokens of it, or of its pair, there was no room for. */
bool ranking_add(Ranking *r, const char *text, size_t n, size_t *n_cut, Error *err);
/* What embedder_run is to be given, r->n of them; after the last document, and valid until the ranking is cleared. */
const EmbedInput *ranking_inputs(Ranking *r);
void ranking_clear(Ranking *r);

typedef struct Ranked {
    int index; /* of the document */
    double score;
} Ranked;

/* values: what embedder_run gave. out [n_documents]: the best first; of equals, the one that came first. */
void ranking_sort(const Ranking *r, const float *values, Ranked *out);

#endif
