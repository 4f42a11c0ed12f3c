/* Every cross-encoder golden against its references: the ids and types of pairs against Python's tokenizers, logits
 * against transformers 5.24.0 in float32 within the tolerance of golden.json, scores against
 * sentence-transformers 6.2.0. Then the same scores from batches of many pairs, in which no byte may differ. */
#include "engine/embed.h"
#include "math/kernels.h"
#include "support/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TOKENS = 64, MAX_HIDDEN = 128, MAX_LABELS = 8, MAX_PAIRS = 64 };

/* A pair of golden.json. */
typedef struct Pair {
    const JsonValue *record;
    int32_t ids[MAX_TOKENS], types[MAX_TOKENS];
    int n;
} Pair;

typedef struct Opened {
    Golden golden;
    Tokenizer *tokenizer;
    Embedder *embedder;
    Pair pairs[MAX_PAIRS];
    int n_pairs;
} Opened;

static int read_ids(const JsonValue *list, int32_t *out) {
    assert_non_null(list);
    assert_true(list->length <= MAX_TOKENS);
    for (uint32_t i = 0; i < list->length; i++) {
        int64_t id;
        assert_true(json_int(json_item(list, i), &id));
        out[i] = (int32_t)id;
    }
    return (int)list->length;
}

static void open_golden(Opened *o, const char *folder, KvFormat kv) {
    Error err = {""};
    golden_open(&o->golden, folder, kv, 2);
    if (!(o->tokenizer = tokenizer_load(folder, &err))) fail_msg("%s: %s", folder, err.text);
    if (!(o->embedder = embedder_new(folder, o->golden.model, o->tokenizer, &err)))
        fail_msg("%s: %s", folder, err.text);
    assert_true(embedder_scores_pairs(o->embedder));
    const JsonValue *pairs = json_get(json_root(o->golden.meta), "pairs");
    assert_in_range(pairs->length, 20, MAX_PAIRS);
    o->n_pairs = (int)pairs->length;
    for (int i = 0; i < o->n_pairs; i++) {
        Pair *p = &o->pairs[i];
        p->record = json_item(pairs, (uint32_t)i);
        p->n = read_ids(json_get(p->record, "ids"), p->ids);
        assert_int_equal(read_ids(json_get(p->record, "types"), p->types), p->n);
    }
}

static void close_golden(Opened *o) {
    embedder_free(o->embedder);
    tokenizer_free(o->tokenizer);
    golden_close(&o->golden);
}

/* ---- ids ---- */

static void encode_side(const Opened *o, const JsonValue *text, IdList *ids) {
    Error err = {""};
    if (!embedder_encode_side(o->embedder, NULL, text->text, text->length, ids, &err)) fail_msg("%s", err.text);
}

static void check_ids(const Opened *o, const Pair *p) {
    IdList query = {0}, document = {0}, ids = {0}, types = {0};
    Error err = {""};
    size_t n_cut;
    int64_t cut;
    encode_side(o, json_get(p->record, "query"), &query);
    encode_side(o, json_get(p->record, "document"), &document);
    if (!embedder_encode_pair(o->embedder, &query, &document, &ids, &types, &n_cut, &err)) fail_msg("%s", err.text);
    assert_int_equal(ids.n, p->n);
    assert_int_equal(types.n, p->n);
    assert_memory_equal(ids.ids, p->ids, ids.n * sizeof *ids.ids);
    assert_memory_equal(types.ids, p->types, types.n * sizeof *types.ids);
    assert_true(json_int(json_get(p->record, "cut"), &cut));
    assert_int_equal(n_cut, cut);
    id_list_clear(&query);
    id_list_clear(&document);
    id_list_clear(&ids);
    id_list_clear(&types);
}

static void pairs_have_the_ids_of_the_reference(void **state) {
    static char folders[GOLDEN_MAX][256];
    static Opened o;
    int n = golden_list_rerank(folders), n_cut = 0;
    (void)state;
    for (int i = 0; i < n; i++) {
        open_golden(&o, folders[i], KV_F32);
        for (int j = 0; j < o.n_pairs; j++) {
            int64_t cut = 0;
            if (!json_get(o.pairs[j].record, "query")) continue;
            check_ids(&o, &o.pairs[j]);
            json_int(json_get(o.pairs[j].record, "cut"), &cut);
            n_cut += cut > 0;
        }
        close_golden(&o);
    }
    assert_true(n_cut > 0);
}

/* ---- logits ---- */

/* The rows of a pair as one step, pooled here, through the model's head. */
static void logits_of(Model *m, const Pair *p, float *out) {
    Row rows[MAX_TOKENS];
    RowFault faults[MAX_TOKENS];
    double pooled[MAX_HIDDEN] = {0};
    float vector[MAX_HIDDEN];
    const float *vectors;
    Error err = {""};
    int hidden = model_hidden_size(m);
    ClassifierPool pool = model_classifier_pool(m);
    State *state = state_new(model_state_shape(m), &err);
    assert_non_null(state);
    for (int i = 0; i < p->n; i++)
        rows[i] =
            (Row){.state = state, .position = i, .token = p->ids[i], .token_type = p->types[i], .wants_logits = true};
    if (!model_step_vectors(m, rows, p->n, &vectors, faults, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < p->n; i++)
        for (int d = 0; d < hidden; d++) {
            double x = (double)vectors[(size_t)i * (size_t)hidden + (size_t)d];
            if (pool == CLASSIFIER_MEAN) pooled[d] += x / p->n;
            if (i == (pool == CLASSIFIER_FIRST ? 0 : p->n - 1) && pool != CLASSIFIER_MEAN) pooled[d] = x;
        }
    for (int d = 0; d < hidden; d++) vector[d] = (float)pooled[d];
    if (!model_classify(m, vector, 1, out, &err)) fail_msg("%s", err.text);
    state_free(state);
}

static double expected_at(const JsonValue *list, int i) {
    double x = NAN;
    assert_true(json_number(json_item(list, (uint32_t)i), &x));
    return x;
}

static void run(const Opened *o, const EmbedInput *inputs, int n, float *out) {
    Error err = {""};
    if (!embedder_run(o->embedder, inputs, n, out, NULL, NULL, &err)) fail_msg("%s: %s", o->golden.folder, err.text);
}

static EmbedInput input_of(const Pair *p) {
    return (EmbedInput){.ids = p->ids, .n = p->n, .types = p->types};
}

/* How far the worst label is off. */
static double check_pair(const Opened *o, const Pair *p) {
    float logits[MAX_LABELS], scores[MAX_LABELS];
    const JsonValue *expected = json_get(p->record, "logits");
    EmbedInput input = input_of(p);
    double worst = 0, score;
    int labels = model_labels(o->golden.model);
    assert_int_equal(expected->length, labels);
    assert_int_equal(embedder_size(o->embedder), labels);
    logits_of(o->golden.model, p, logits);
    run(o, &input, 1, scores);
    for (int i = 0; i < labels; i++) {
        double off = fabs((double)logits[i] - expected_at(expected, i));
        if (!(off <= golden_tolerance(&o->golden))) fail_msg("%s: a logit is off by %g", o->golden.folder, off);
        worst = off > worst ? off : worst;
    }
    if (json_number(json_get(p->record, "score"), &score))
        assert_true(fabs((double)scores[0] - score) <= golden_tolerance(&o->golden));
    else if (labels > 1) /* no activation then */
        for (int i = 0; i < labels; i++) assert_true(fabs((double)scores[i] - (double)logits[i]) < 1e-6);
    return worst;
}

static void every_golden_is_within_its_tolerance(void **state) {
    static char folders[GOLDEN_MAX][256];
    static Opened o;
    int n = golden_list_rerank(folders);
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    for (int i = 0; i < n; i++) {
        double worst = 0;
        open_golden(&o, folders[i], KV_F32);
        for (int j = 0; j < o.n_pairs; j++) worst = fmax(worst, check_pair(&o, &o.pairs[j]));
        printf("%s: %d rows, max_abs %.2e (allowed %.0e)\n", folders[i], o.n_pairs, worst, golden_tolerance(&o.golden));
        close_golden(&o);
    }
}

/* ---- batches ---- */

static void a_batch_changes_no_byte(void **state) {
    static char folders[GOLDEN_MAX][256];
    static Opened o;
    int n = golden_list_rerank(folders);
    (void)state;
    for (int i = 0; i < n; i++) {
        EmbedInput inputs[MAX_PAIRS];
        float batch[MAX_PAIRS * MAX_LABELS], alone[MAX_LABELS];
        open_golden(&o, folders[i], KV_I16);
        size_t labels = (size_t)embedder_size(o.embedder);
        for (int j = 0; j < o.n_pairs; j++) inputs[j] = input_of(&o.pairs[j]);
        for (const char *const *isa = kernels_available(); *isa; isa++) {
            assert_true(kernels_select(*isa, NULL));
            run(&o, inputs, o.n_pairs, batch);
            assert_true(kernels_select("scalar", NULL));
            for (int j = 0; j < o.n_pairs; j++) {
                run(&o, &inputs[j], 1, alone);
                if (memcmp(alone, batch + (size_t)j * labels, labels * sizeof *alone) != 0)
                    fail_msg("%s: pair %d differs on %s", folders[i], j, *isa);
            }
        }
        close_golden(&o);
    }
}

int main(int argc, char **argv) {
    golden_choose(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_have_the_ids_of_the_reference),
                                       cmocka_unit_test(every_golden_is_within_its_tolerance),
                                       cmocka_unit_test(a_batch_changes_no_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
