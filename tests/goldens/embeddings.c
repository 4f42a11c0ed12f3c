/* Every embedding golden against its reference (transformers 5.24.0, float32): the rows of both prompts within the
 * tolerance of golden.json, and the vector that its sentence-transformers files say with a cosine of at least 0.99999.
 * Then the same vectors from batches of many texts, in which no byte may differ. */
#include "engine/embed.h"
#include "eval/trace.h"
#include "math/kernels.h"
#include "support/golden.h"
#include "support/golden_import.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_IDS = 512, MAX_HIDDEN = 4096, PROMPTS = 2, BATCH = 23 };

static const char *const prompts[PROMPTS] = {"short", "long"};

typedef struct Rows {
    const Golden *golden;
    const char *name;
    double max_abs;
    int n;
} Rows;

static const float *reference(const Golden *g, const char *prompt, const char *what, float *out, size_t n) {
    char name[64];
    snprintf(name, sizeof name, "%s_%s", prompt, what);
    const Tensor *t = golden_tensor(g, name);
    assert_true(t->bytes >= n * sizeof *out);
    memcpy(out, t->data, n * sizeof *out);
    return out;
}

static bool compare_row(void *context, int first, int n, const float *rows, Error *err) {
    Rows *r = context;
    int hidden = model_hidden_size(r->golden->model);
    static float expected[MAX_IDS * MAX_HIDDEN / 64];
    (void)err;
    size_t end = (size_t)(first + n) * (size_t)hidden;
    assert_true(end <= sizeof expected / sizeof *expected);
    reference(r->golden, r->name, "hidden", expected, end);
    for (size_t i = 0; i < (size_t)n * (size_t)hidden; i++) {
        double off = fabs((double)rows[i] - (double)expected[(size_t)first * (size_t)hidden + i]);
        if (!(off <= golden_tolerance(r->golden)))
            fail_msg("%s: %s row %d is off by %g", r->golden->folder, r->name, first + (int)(i / (size_t)hidden), off);
        r->max_abs = off > r->max_abs ? off : r->max_abs;
    }
    r->n += n;
    return true;
}

static double cosine(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static Embedder *open_embedder(const Golden *g) {
    Error err = {""};
    Embedder *e = embedder_new(g->folder, g->model, NULL, &err);
    if (!e) fail_msg("%s: %s", g->folder, err.text);
    return e;
}

static void run(const Golden *g, Embedder *e, const EmbedInput *inputs, int n, float *out) {
    Error err = {""};
    if (!embedder_run(e, inputs, n, out, NULL, NULL, &err)) fail_msg("%s: %s", g->folder, err.text);
}

static void check_vector(const Golden *g, const char *prompt, const float *vector, int size) {
    float expected[MAX_HIDDEN];
    reference(g, prompt, "embedding", expected, (size_t)size);
    double near = cosine(vector, expected, size);
    if (!(near >= 0.99999)) fail_msg("%s: %s has the cosine %.8f", g->folder, prompt, near);
    for (int i = 0; i < size; i++) /* the length counts as well: normalised exactly when modules.json says so */
        if (!(fabs((double)vector[i] - (double)expected[i]) < 1e-3)) fail_msg("%s: %s value %d", g->folder, prompt, i);
}

static void check_golden(const char *folder) {
    Golden g;
    golden_open(&g, folder, KV_F32, 2);
    Embedder *e = open_embedder(&g);
    Rows rows = {.golden = &g};
    for (int p = 0; p < PROMPTS; p++) {
        int32_t ids[MAX_IDS];
        float vector[MAX_HIDDEN];
        Error err = {""};
        EmbedInput input = {ids, golden_ids(&g, "prompts", prompts[p], ids, 0, MAX_IDS), 0, NULL};
        TraceOptions o = {.ids = ids, .n_ids = input.n, .vectors = true};
        rows.name = prompts[p];
        if (!trace_run(g.model, &o, compare_row, &rows, &err)) fail_msg("%s: %s", g.folder, err.text);
        run(&g, e, &input, 1, vector);
        check_vector(&g, prompts[p], vector, embedder_size(e));
    }
    printf("%s: %d rows, max_abs %.2e (allowed %.0e)\n", folder, rows.n, rows.max_abs, golden_tolerance(&g));
    assert_true(rows.n > 0);
    embedder_free(e);
    golden_close(&g);
}

static void every_golden_is_within_its_tolerance(void **state) {
    static char folders[GOLDEN_MAX][256];
    int n = golden_list_embed(folders);
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    for (int i = 0; i < n; i++) check_golden(folders[i]);
}

/* From llama.cpp's own converter (gguf/make_architectures.py). XLM-RoBERTa is BERT there, with its positions shifted.
 */
static void encoders_in_gguf_files_are_the_same(void **state) {
    static const char *const names[] = {"bert-cls", "xlm_roberta", "nomic_bert", "embeddinggemma", "modernbert"};
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TestFolder parent;
        char folder[256];
        test_folder_make(&parent);
        golden_import(names[i], false, &parent, folder);
        check_golden(folder);
        test_folder_remove(&parent);
    }
}

/* Texts of every length from 1 on, so that steps end everywhere; each must be what it is alone. */
static void a_batch_changes_no_byte(void **state) {
    static char folders[GOLDEN_MAX][256];
    int n = golden_list_embed(folders);
    (void)state;
    for (int i = 0; i < n; i++) {
        Golden g;
        int32_t ids[MAX_IDS];
        EmbedInput inputs[BATCH];
        golden_open(&g, folders[i], KV_I16, 2);
        Embedder *e = open_embedder(&g);
        int n_ids = golden_ids(&g, "prompts", "long", ids, 0, MAX_IDS), size = embedder_size(e);
        float *batch = malloc(BATCH * (size_t)size * sizeof *batch), *alone = malloc((size_t)size * sizeof *alone);
        for (int t = 0; t < BATCH; t++) inputs[t] = (EmbedInput){ids + t % 7, 1 + (7 * t + 38) % (n_ids - 6), 0, NULL};
        for (const char *const *isa = kernels_available(); *isa; isa++) {
            assert_true(kernels_select(*isa, NULL));
            run(&g, e, inputs, BATCH, batch);
            assert_true(kernels_select("scalar", NULL));
            for (int t = 0; t < BATCH; t++) {
                run(&g, e, &inputs[t], 1, alone);
                if (memcmp(alone, batch + (size_t)t * (size_t)size, (size_t)size * sizeof *alone) != 0)
                    fail_msg("%s: text %d differs on %s", folders[i], t, *isa);
            }
        }
        free(batch);
        free(alone);
        embedder_free(e);
        golden_close(&g);
    }
}

int main(int argc, char **argv) {
    golden_choose(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_is_within_its_tolerance),
                                       cmocka_unit_test(encoders_in_gguf_files_are_the_same),
                                       cmocka_unit_test(a_batch_changes_no_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
