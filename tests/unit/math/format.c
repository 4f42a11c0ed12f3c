/* Rows and columns in another order: what interleaved and transposed checkpoints need. */
#include "math/format.h"
#include "base/memory.h"
#include "support/matrix.h"
#include "support/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_row_is(const WeightSource *a, int64_t row, const WeightSource *b, int64_t row_b) {
    float x[4096], y[4096];
    assert_true(a->cols == b->cols && a->cols <= 4096);
    weight_row(a, row, x);
    weight_row(b, row_b, y);
    assert_floats_equal(x, y, (size_t)a->cols, "row");
}

static void gathered_rows_are_the_named_ones(void **state) {
    (void)state;
    for (int i = 0; i < n_matrix_cases; i++) {
        Matrix m = random_matrix(&matrix_cases[i], 40, random_cols(&matrix_cases[i]));
        WeightSource out;
        void *owned;
        /* 3 of every 8 from row 2: 2 3 4 10 11 12 18 19 20 26 27 28 34 */
        assert_true(weight_rows_gather(&m.source, 2, 3, 8, 13, &out, &owned, NULL));
        assert_non_null(owned);
        assert_int_equal(out.rows, 13);
        for (int r = 0; r < 13; r++) assert_row_is(&out, r, &m.source, 2 + r / 3 * 8 + r % 3);
        mem_free(owned);
        /* consecutive rows, said in three ways */
        for (int way = 0; way < 3; way++) {
            int take = way == 0 ? 5 : way == 1 ? 12 : 1;
            assert_true(weight_rows_gather(&m.source, 7, take, way == 1 ? 20 : take, 12, &out, &owned, NULL));
            assert_null(owned);
            for (int r = 0; r < 12; r++) assert_row_is(&out, r, &m.source, 7 + r);
        }
        matrix_clear(&m);
    }
}

static void columns_become_rows(void **state) {
    (void)state;
    enum { INPUTS = 70, OUTPUTS = 90 };
    static const MatrixCase floats[] = {
        {WEIGHT_F32, 0, 0, SCALE_F32}, {WEIGHT_F16, 0, 0, SCALE_F32}, {WEIGHT_BF16, 0, 0, SCALE_F32}};
    for (int i = 0; i < 3; i++) {
        Matrix m = random_matrix(&floats[i], INPUTS, OUTPUTS); /* [inputs, outputs] */
        WeightSource out;
        void *owned;
        assert_true(weight_transpose(&m.source, 1, 1, 2, OUTPUTS / 2, &out, &owned, NULL)); /* the odd columns */
        assert_true(out.rows == OUTPUTS / 2 && out.cols == INPUTS && out.format == floats[i].format);
        for (int k = 0; k < INPUTS; k++) {
            float line[OUTPUTS], row[INPUTS];
            weight_row(&m.source, k, line);
            for (int r = 0; r < OUTPUTS / 2; r++) {
                weight_row(&out, r, row);
                assert_memory_equal(&row[k], &line[2 * r + 1], 4);
            }
        }
        mem_free(owned);
        matrix_clear(&m);
    }
}

static void slices_outside_are_refused(void **state) {
    (void)state;
    float w[12] = {0};
    WeightSource s = {.format = WEIGHT_F32, .rows = 4, .cols = 3, .codes = w}, out;
    static const int64_t wrong[][4] = {{-1, 1, 1, 1}, {0, 0, 1, 1},        {0, 2, 1, 2},         {0, 1, 1, 5},
                                       {1, 1, 1, 4},  {4, 1, 1, 1},        {0, 1, INT64_MAX, 2}, {1, 2, 3, 4},
                                       {0, 1, 1, 0},  {INT64_MAX, 1, 1, 1}};
    void *owned;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Error err;
        const int64_t *a = wrong[i];
        assert_false(weight_rows_gather(&s, a[0], a[1], a[2], a[3], &out, &owned, &err));
        assert_non_null(strstr(err.text, "does not fit"));
    }
    assert_false(weight_transpose(&s, 0, 1, 1, 4, &out, &owned, NULL)); /* three columns */
    Error err;
    s.format = WEIGHT_MXFP4;
    assert_false(weight_transpose(&s, 0, 1, 1, 3, &out, &owned, &err));
    assert_string_equal(err.text, "a matrix stored [inputs, outputs] must be f32, f16 or bf16, not mxfp4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathered_rows_are_the_named_ones),
        cmocka_unit_test(columns_become_rows),
        cmocka_unit_test(slices_outside_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
