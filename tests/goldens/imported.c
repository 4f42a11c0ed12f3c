/* An imported GGUF with every weight type against a NumPy llama over dequantised weights (gguf/make_golden.py), and its
 * exactness: K-quants, like the other integer formats, run on codes and scales, so nothing else in the suite tells
 * whether a model made of them is right. */
#include "convert/import_gguf.h"
#include "eval/check.h"
#include "eval/compare.h"
#include "eval/trace.h"
#include "math/kernels.h"
#include "support/tiny_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static TestFolder parent, folder;

static int setup(void **state) {
    Error err = {""};
    (void)state;
    test_folder_make(&parent);
    snprintf(folder.path, sizeof folder.path, "%.200s/mixed", parent.path);
    if (!import_gguf("tests/data/gguf/mixed.gguf", folder.path, NULL, &err)) fail_msg("%s", err.text);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_folder_remove(&parent);
    return 0;
}

static bool keep(void *context, int first, int n, const float *logits, Error *err) {
    float **next = context;
    size_t vocab = 264;
    (void)first, (void)err;
    memcpy(*next, logits, (size_t)n * vocab * sizeof *logits);
    *next += (size_t)n * vocab;
    return true;
}

static void every_weight_type_computes_what_its_dequantised_form_does(void **state) {
    static float ours[64 * 264], reference[64 * 264], *next = ours;
    static int32_t ids[64];
    ModelOptions settings = {.numeric = {KV_F32, 16}};
    TinyModel m;
    Error err = {""};
    (void)state;
    assert_true(kernels_select(NULL, NULL));
    Safetensors *golden = safetensors_open("tests/goldens/gguf/mixed.safetensors", &err);
    if (!golden || !tiny_open(&m, &folder, &settings, &err)) fail_msg("%s", err.text);
    const Tensor *list = safetensors_tensor(golden, 0), *logits = safetensors_tensor(golden, 1);
    int n = (int)list->shape[0];
    assert_int_equal(logits->shape[1], 264);
    memcpy(ids, list->data, list->bytes);
    memcpy(reference, logits->data, logits->bytes);
    TraceOptions o = {.ids = ids, .n_ids = n};
    if (!trace_run(m.model, &o, keep, &next, &err)) fail_msg("%s", err.text);
    CompareOptions limits = {0.5, 4e-3};
    CompareResult r = {.name = ""};
    compare_rows(reference, ours, n, 264, &limits, &r);
    printf("max_abs %.2e, decided %d of %d\n", r.max_abs, r.decided_rows, n);
    assert_true(r.within);
    assert_int_equal(r.decided_wrong, 0);
    safetensors_close(golden);
    tiny_close(&m);
}

static void every_weight_type_is_exact(void **state) {
    TinyModel m;
    CheckOptions o = {.every_width = true, .n_ids = 0};
    CheckReport report;
    ModelOptions settings = {.numeric = {KV_I16, 16}};
    Error err = {""};
    (void)state;
    if (!tiny_open(&m, &folder, &settings, &err)) fail_msg("%s", err.text);
    if (!check_run(m.model, &o, &report, &err)) fail_msg("%s", err.text);
    if (!report.exact) fail_msg("%s", report.difference);
    tiny_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_weight_type_computes_what_its_dequantised_form_does),
                                       cmocka_unit_test(every_weight_type_is_exact)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
