/* Every architecture that import knows, from a GGUF file to logits. The files were made by llama.cpp's own converter
 * from checkpoints whose logits transformers computed (gguf/make_architectures.py), so that names, permutations, norm
 * offsets, the order of experts and everything that the converter keeps or leaves out are somebody else's word. */
#define _GNU_SOURCE
#include "eval/check.h"
#include "math/kernels.h"
#include "support/golden_compare.h"
#include "support/golden_import.h"
#include "support/tiny_llama.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Names of the folders in tests/goldens/gguf. */
static int list_names(char names[GOLDEN_MAX][100]) {
    int n = 0;
    DIR *dir = opendir("tests/goldens/gguf");
    for (struct dirent *e; dir && (e = readdir(dir)) && n < GOLDEN_MAX;)
        if (e->d_type == DT_DIR && e->d_name[0] != '.') snprintf(names[n++], 100, "%.99s", e->d_name);
    if (dir) closedir(dir);
    qsort(names, (size_t)n, sizeof names[0], compare_names);
    return n;
}

static void check(const char *name, bool mlx) {
    TestFolder parent;
    GoldenWorst worst;
    char folder[256];
    test_folder_make(&parent);
    golden_import(name, mlx, &parent, folder);
    golden_compare(folder, &worst);
    printf("%s: %d rows, max_abs %.2e (allowed %.0e)\n", name, worst.rows, worst.max_abs, worst.tolerance);
    assert_true(worst.rows > 0);
    test_folder_remove(&parent);
}

static void every_architecture_computes_what_its_checkpoint_does(void **state) {
    static char names[GOLDEN_MAX][100];
    int n = list_names(names);
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        if (!golden_import_embeds(names[i])) check(names[i], false); /* encoders: embeddings.c */
}

/* Without super-blocks: other codes and scales, and value heads turned that super-blocks span. */
static void the_forms_of_mlx_compute_the_same(void **state) {
    static const char *const names[] = {"qwen3_5-tiled", "qwen3_5-quantised", "qwen3_moe-quantised",
                                        "qwen3-iq",      "phi-older",         "bitnet"};
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check(names[i], true);
}

/* Experts in super-blocks and in MXFP4, a stack of each, and value heads in the order of the file, alone and in steps
 * of every width. */
static void quantised_imports_are_exact(void **state) {
    static const char *const names[] = {"qwen3_moe-quantised", "gpt_oss-mxfp4", "qwen3_5-tiled"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TestFolder parent;
        TinyModel m;
        CheckReport report;
        CheckOptions o = {.every_width = true};
        ModelOptions settings = {.numeric = {KV_I16, 16}};
        Error err = {""};
        char path[256];
        test_folder_make(&parent);
        golden_import(names[i], false, &parent, path);
        TestFolder folder = {.path = ""};
        snprintf(folder.path, sizeof folder.path, "%.200s", path);
        if (!tiny_open(&m, &folder, &settings, &err)) fail_msg("%s", err.text);
        if (!check_run(m.model, &o, &report, &err)) fail_msg("%s", err.text);
        if (!report.exact) fail_msg("%s: %s", names[i], report.difference);
        tiny_close(&m);
        test_folder_remove(&parent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture_computes_what_its_checkpoint_does),
                                       cmocka_unit_test(the_forms_of_mlx_compute_the_same),
                                       cmocka_unit_test(quantised_imports_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
