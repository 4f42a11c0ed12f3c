/* Documents ranked by a query: pairs through a cross-encoder, whose scores are those of its golden; and what is left to
 * clear when a text is no text. */
#include "engine/rerank.h"
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 4 };

static const char folder[] = "tests/goldens/rerank/xlm_roberta", query[] = "what do cats eat";

typedef struct Opened {
    Golden golden;
    Tokenizer *tokenizer;
    Embedder *embedder;
} Opened;

static void open_golden(Opened *o, const char *path) {
    Error err = {""};
    golden_open(&o->golden, path, KV_F32, 2);
    o->tokenizer = tokenizer_load(path, &err);
    o->embedder = o->tokenizer ? embedder_new(path, o->golden.model, o->tokenizer, &err) : NULL;
    if (!o->embedder) fail_msg("%s", err.text);
}

static void close_golden(Opened *o) {
    embedder_free(o->embedder);
    tokenizer_free(o->tokenizer);
    golden_close(&o->golden);
}

/* The golden's score of the query and this document. */
static double score_of(const Golden *g, const char *document) {
    const JsonValue *pairs = json_get(json_root(g->meta), "pairs");
    double score = NAN;
    for (uint32_t i = 0; i < pairs->length; i++) {
        const JsonValue *pair = json_item(pairs, i);
        if (json_equals(json_get(pair, "query"), query) && json_equals(json_get(pair, "document"), document))
            json_number(json_get(pair, "score"), &score);
    }
    assert_true(isfinite(score));
    return score;
}

static void the_best_come_first_and_of_equals_the_earlier(void **state) {
    static const char *const documents[N] = {"The sky is blue today.", "Cats eat fish, and sometimes a mouse.",
                                             "Fish swim in the sea", "Cats eat fish, and sometimes a mouse."};
    Opened o;
    Ranking r;
    Ranked ranked[N];
    float values[N];
    Error err = {""};
    size_t n_cut;
    (void)state;
    open_golden(&o, folder);
    assert_true(ranking_possible(o.embedder, &err));
    if (!ranking_begin(&r, o.embedder, query, strlen(query), &n_cut, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < N; i++)
        if (!ranking_add(&r, documents[i], strlen(documents[i]), &n_cut, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.n, N);
    assert_int_equal(r.n_documents, N);
    if (!embedder_run(o.embedder, ranking_inputs(&r), N, values, NULL, NULL, &err)) fail_msg("%s", err.text);
    ranking_sort(&r, values, ranked);
    for (int i = 0; i < N; i++) {
        assert_true(fabs(ranked[i].score - score_of(&o.golden, documents[ranked[i].index])) < 1e-5);
        if (i) assert_true(ranked[i].score <= ranked[i - 1].score);
        if (ranked[i].index == 3) assert_true(i > 0 && ranked[i - 1].index == 1); /* the same text */
    }
    ranking_clear(&r);
    close_golden(&o);
}

static void what_fails_can_be_cleared(void **state) {
    Opened o;
    Ranking r;
    Error err = {""};
    size_t n_cut;
    (void)state;
    open_golden(&o, folder);
    assert_false(ranking_begin(&r, o.embedder, "\xFF", 1, &n_cut, &err));
    assert_non_null(strstr(err.text, "not valid UTF-8"));
    ranking_clear(&r);
    assert_true(ranking_begin(&r, o.embedder, query, strlen(query), &n_cut, &err));
    assert_true(ranking_add(&r, "a", 1, &n_cut, &err));
    assert_false(ranking_add(&r, "a\xFF", 2, &n_cut, &err));
    assert_int_equal(r.n_documents, 1);
    ranking_clear(&r);
    close_golden(&o);
    open_golden(&o, "tests/goldens/rerank/bert-labels");
    assert_false(ranking_possible(o.embedder, &err));
    assert_string_equal(err.text,
                        "this model gives a score for each of 3 labels: only one of one label ranks documents");
    close_golden(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_come_first_and_of_equals_the_earlier),
                                       cmocka_unit_test(what_fails_can_be_cleared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
