/* compare: counts and sizes of differences, worked by hand, and which tensors of two files belong together. */
#include "eval/compare.h"
#include "file/safetensors.h"
#include "support/folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void differences_are_measured_and_decided_rows_counted(void **state) {
    static const float a[] = {5, 1, 0, /* decided: gap 4 */ 1, 1.5f, 0, /* gap 0.5 */ 0, 0, 3 /* gap 3 */};
    static const float b[] = {5, 1, 0.25f, 1.5f, 1.25f, 0, 3.5f, 0, 3};
    CompareOptions o = {2.0, 0.5};
    CompareResult r = {.name = "logits"};
    (void)state;
    compare_rows(a, b, 3, 3, &o, &r);
    assert_true(r.max_abs == 3.5);
    assert_int_equal(r.worst_row, 2);
    assert_int_equal(r.first_over, 2);
    assert_true(r.mean_abs == (0.25 + 0.5 + 0.25 + 3.5) / 9);
    assert_int_equal(r.top1_same, 1);
    assert_int_equal(r.decided_rows, 2);
    assert_int_equal(r.decided_wrong, 1);
    assert_false(r.within);
    assert_false(r.identical);

    o.tol = 3.5;
    compare_rows(a, b, 3, 3, &o, &r);
    assert_true(r.within);
    assert_int_equal(r.first_over, -1);
    compare_rows(a, a, 3, 3, &o, &r);
    assert_true(r.identical && r.within && r.max_abs == 0 && r.top1_same == 3);
}

static void values_that_are_not_finite_never_pass(void **state) {
    static const float a[] = {1, 2, 3, 4};
    const float b[] = {1, 2, NAN, INFINITY};
    CompareOptions o = {2.0, 1e9};
    CompareResult r = {.name = ""};
    (void)state;
    compare_rows(a, b, 2, 2, &o, &r);
    assert_int_equal(r.non_finite, 2);
    assert_false(r.within);
    assert_int_equal(r.first_over, 1);
}

static void zeros_of_two_signs_are_equal_but_not_identical(void **state) {
    static const float a[] = {0.0f, 1}, b[] = {-0.0f, 1};
    CompareOptions o = {2.0, 0};
    CompareResult r = {.name = ""};
    (void)state;
    compare_rows(a, b, 1, 2, &o, &r);
    assert_true(r.within);
    assert_false(r.identical);
}

static const char *write_file(const char *file, const char *name, int rows, const float *values) {
    Tensor t = {.name = name, .dtype = DTYPE_F32, .n_dims = 2, .shape = {rows, 2}};
    const char *path = test_path(&test_folder, file);
    SafetensorsWriter *w = safetensors_create(path, &t, 1, NULL);
    assert_non_null(w);
    assert_true(safetensors_write(w, values, (size_t)rows * 2 * sizeof *values, NULL));
    assert_true(safetensors_finish(w, NULL));
    return path;
}

static void a_trace_is_compared_with_the_prompt_of_its_length(void **state) {
    static const float values[] = {1, 2, 3, 4, 5, 6};
    CompareOptions o = {2.0, 1e-3};
    CompareResult r[COMPARE_MAX];
    Buffer text = {0};
    Error err = {""};
    int n = 0;
    (void)state;
    const char *trace = write_file("trace", "logits", 3, values), *golden = write_file("golden", "short", 3, values);
    assert_true(compare_files(golden, trace, &o, r, &n, &err));
    assert_int_equal(n, 1);
    assert_string_equal(r[0].name, "short");
    assert_true(r[0].identical);
    assert_true(compare_files(trace, golden, &o, r, &n, &err));
    assert_string_equal(r[0].name, "logits");
    compare_describe(r, n, &text);
    assert_string_equal(buffer_string(&text),
                        "logits: 3 rows, max_abs 0.000e+00 (position 0) mean_abs 0.000e+00 top1 3/3 decided 0"
                        " disagree_at_decided 0 ok, identical bytes\n");
    buffer_clear(&text);

    const char *longer = write_file("longer", "logits", 2, values);
    assert_false(compare_files(trace, longer, &o, r, &n, &err));
    assert_non_null(strstr(err.text, "has shape [2, 2], in"));
    assert_false(compare_files(golden, longer, &o, r, &n, &err));
    assert_non_null(strstr(err.text, "no tensor of logits in common"));
    assert_false(compare_files(golden, test_path(&test_folder, "absent"), &o, r, &n, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_measured_and_decided_rows_counted),
        cmocka_unit_test(values_that_are_not_finite_never_pass),
        cmocka_unit_test(zeros_of_two_signs_are_equal_but_not_identical),
        cmocka_unit_test(a_trace_is_compared_with_the_prompt_of_its_length),
    };
    return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
