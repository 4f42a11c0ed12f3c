/* Every architecture that import knows, from a GGUF file to logits. The files were made by llama.cpp's own converter
 * from checkpoints whose logits transformers computed (gguf/make_architectures.py), so that names, permutations, norm
 * offsets, the order of experts and everything that the converter keeps or leaves out are somebody else's word. */
#define _GNU_SOURCE
#include "convert/import_gguf.h"
#include "math/kernels.h"
#include "support/folder.h"
#include "support/golden_compare.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The reference lies beside the GGUF file, or is that of the checkpoint it was made from. */
static void bring_reference(const char *name, const char *file, const char *folder) {
    char own[300], shared[300], here[400], link[300];
    snprintf(own, sizeof own, "tests/goldens/gguf/%s/%s", name, file);
    snprintf(shared, sizeof shared, "tests/goldens/hf/%s/%s", name, file);
    snprintf(link, sizeof link, "%.200s/%s", folder, file);
    char *whole = realpath(access(own, R_OK) == 0 ? own : shared, NULL);
    if (!whole) fail_msg("%s: there is no %s", name, file);
    snprintf(here, sizeof here, "%s", whole);
    free(whole);
    if (symlink(here, link) != 0) fail_msg("%s cannot be made", link);
}

static void check(const char *name) {
    TestFolder parent;
    GoldenWorst worst;
    Error err = {""};
    char gguf[300], folder[300];
    test_folder_make(&parent);
    snprintf(gguf, sizeof gguf, "tests/goldens/gguf/%s/model.gguf", name);
    snprintf(folder, sizeof folder, "%.200s/%s", parent.path, name);
    if (!import_gguf(gguf, folder, NULL, &err)) fail_msg("%s", err.text);
    bring_reference(name, "golden.json", folder);
    bring_reference(name, "golden.safetensors", folder);
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
    for (int i = 0; i < n; i++) check(names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture_computes_what_its_checkpoint_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
