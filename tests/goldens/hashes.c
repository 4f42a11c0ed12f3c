/* Recorded bytes: a hash over all logits (of encoders: vectors) of every golden, and of a run of 600 positions over the
 * tiny llama (past the 512 positions of an attention block, across pages and a window), with the default settings, on
 * every instruction set of this machine. What docs/arithmetic.md promises holds between machines, compilers and
 * versions only if these never change by accident; a deliberate change of the arithmetic records them anew:
 * build/tests/goldens/hashes --record. */
#include "engine/score.h"
#include "eval/trace.h"
#include "math/kernels.h"
#include "support/fresh.h"
#include "support/golden.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IDS = 24, LONG_IDS = 600, MAX_LINES = 600 };
static const char file_name[] = "tests/goldens/hashes.txt";

typedef struct Line {
    char name[256];
    uint64_t hash;
} Line;

static Line lines[MAX_LINES];
static int n_lines;

typedef struct Chain {
    uint64_t hash;
    size_t values;
} Chain;

/* A hash of the hashes of all rows, in position order. */
static bool add_rows(void *context, int first, int n, const float *logits, Error *err) {
    Chain *c = context;
    (void)first, (void)err;
    for (int i = 0; i < n; i++) c->hash = c->hash * 31 + logits_hash(logits + (size_t)i * c->values, c->values);
    return true;
}

static uint64_t hash_of(Model *m, const int32_t *ids, int n) {
    TraceOptions o = {.ids = ids, .n_ids = n < model_context(m) ? n : model_context(m)};
    Chain chain = {0, (size_t)trace_values(m, &o)};
    Error err = {""};
    if (!trace_run(m, &o, add_rows, &chain, &err)) fail_msg("%s", err.text);
    return chain.hash;
}

static uint64_t recorded(const char *name) {
    for (int i = 0; i < n_lines; i++)
        if (strcmp(lines[i].name, name) == 0) return lines[i].hash;
    fail_msg("%s: has no hash of %s", file_name, name);
    return 0;
}

static void read_lines(void) {
    FILE *in = fopen(file_name, "r");
    if (!in) fail_msg("%s cannot be read: run the tests from the root of the source tree", file_name);
    for (n_lines = 0;
         n_lines < MAX_LINES && fscanf(in, "%16" SCNx64 " %255s", &lines[n_lines].hash, lines[n_lines].name) == 2;)
        n_lines++;
    fclose(in);
}

/* The models one after the other: what is done with each. */
typedef void Visit(const char *name, Model *m, const int32_t *ids, int n);

static void visit_tiny(Visit *visit) {
    static int32_t ids[LONG_IDS];
    ModelOptions o = {.numeric = {KV_I16, 16}};
    TinyLlama t = {.head = TINY_HEAD_OWN,
                   .config = ", \"layer_types\": [\"full_attention\", \"sliding_attention\"], \"sliding_window\": 70"};
    TinyModel m;
    fresh_ids(ids, LONG_IDS);
    tiny_make(&m, &t, &o);
    visit("tiny-600", m.model, ids, LONG_IDS);
    tiny_close(&m);
}

static void visit_goldens(Visit *visit, char folders[GOLDEN_MAX][256], int n) {
    for (int i = 0; i < n; i++) {
        Golden g;
        int32_t ids[IDS];
        golden_open(&g, folders[i], KV_I16, 2);
        int n_ids = golden_ids(&g, "prompts", "long", ids, 0, IDS);
        visit(folders[i] + strlen("tests/goldens/"), g.model, ids, n_ids);
        golden_close(&g);
    }
}

static void visit_all(Visit *visit) {
    static char folders[GOLDEN_MAX][256];
    visit_goldens(visit, folders, golden_list(folders));
    visit_goldens(visit, folders, golden_list_embed(folders));
    visit_tiny(visit);
}

static void check_model(const char *name, Model *m, const int32_t *ids, int n) {
    for (const char *const *isa = kernels_available(); *isa; isa++) {
        assert_true(kernels_select(*isa, NULL));
        uint64_t hash = hash_of(m, ids, n);
        if (hash != recorded(name))
            fail_msg("%s, %s: the logits hash to %016" PRIx64 ", recorded is %016" PRIx64, name, *isa, hash,
                     recorded(name));
    }
}

static void the_bytes_are_those_recorded(void **state) {
    (void)state;
    printf("instruction sets:");
    for (const char *const *isa = kernels_available(); *isa; isa++) printf(" %s", *isa);
    printf("\n");
    read_lines();
    assert_true(n_lines > 20);
    visit_all(check_model);
}

static FILE *out;

static void record_model(const char *name, Model *m, const int32_t *ids, int n) {
    kernels_select("scalar", NULL);
    fprintf(out, "%016" PRIx64 " %s\n", hash_of(m, ids, n), name);
}

static void record(void **state) {
    (void)state;
    out = fopen(file_name, "w");
    assert_non_null(out);
    visit_all(record_model);
    fclose(out);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bytes_are_those_recorded)};
    const struct CMUnitTest recording[] = {cmocka_unit_test(record)};
    if (argc > 1 && strcmp(argv[1], "--record") == 0) return cmocka_run_group_tests(recording, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
