/* Rows and columns taken out of larger matrices, against the definition of their format. */
#include "math/format_rows.h"
#include "base/memory.h"
#include "math/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void rows_that_lie_together_are_only_pointed_at(void **state) {
    static const float values[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    WeightSource from = {.format = WEIGHT_F32, .rows = 4, .cols = 2, .codes = values}, out;
    RowPick pick = {.rows = 2, .from = 1, .take = 2};
    void *copy;
    (void)state;
    assert_true(weight_rows_pick(&from, &pick, &out, &copy, NULL));
    assert_null(copy);
    assert_ptr_equal(out.codes, values[1]);
    assert_int_equal(out.rows, 2);
}

static void interleaved_rows_are_gathered(void **state) {
    static const float values[6][1] = {{0}, {1}, {2}, {3}, {4}, {5}};
    WeightSource from = {.format = WEIGHT_F32, .rows = 6, .cols = 1, .codes = values}, out;
    RowPick pick = {.rows = 4, .from = 1, .take = 2, .period = 3}; /* rows 1 2, 4 5 */
    static const float expected[] = {1, 2, 4, 5};
    void *copy;
    (void)state;
    assert_true(weight_rows_pick(&from, &pick, &out, &copy, NULL));
    for (int i = 0; i < 4; i++) {
        float row;
        weight_row(&out, i, &row);
        assert_true(row == expected[i]);
    }
    mem_free(copy);
}

/* Codes, scales and biases move together. */
static void quantised_rows_keep_their_scales(void **state) {
    enum { ROWS = 6, COLS = 64 };
    static uint8_t codes[ROWS][COLS];
    static float scales[ROWS], biases[ROWS], expected[COLS], found[COLS];
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLS; c++) codes[r][c] = (uint8_t)(r * 37 + c);
        scales[r] = 0.5f + (float)r;
        biases[r] = -3.0f * (float)r;
    }
    WeightSource from = {.format = WEIGHT_AFFINE,
                         .bits = 8,
                         .group = 64,
                         .rows = ROWS,
                         .cols = COLS,
                         .codes = codes,
                         .scales = scales,
                         .biases = biases,
                         .scale_type = SCALE_F32},
                 out;
    RowPick pick = {.rows = 3, .from = 1, .take = 1, .period = 2}; /* rows 1, 3, 5 */
    void *copy;
    (void)state;
    assert_true(weight_rows_pick(&from, &pick, &out, &copy, NULL));
    for (int i = 0; i < 3; i++) {
        weight_row(&from, 1 + 2 * i, expected);
        weight_row(&out, i, found);
        assert_memory_equal(expected, found, sizeof found);
    }
    mem_free(copy);
}

static void columns_become_rows(void **state) {
    static const uint16_t values[2][3] = {{0x3F80, 0x4000, 0x4040}, {0x4080, 0x40A0, 0x40C0}}; /* bf16 1 2 3, 4 5 6 */
    WeightSource from = {.format = WEIGHT_BF16, .rows = 2, .cols = 3, .codes = values}, out;
    RowPick pick = {.rows = 2, .from = 0, .take = 1, .period = 2}; /* columns 0 and 2 */
    static const float expected[2][2] = {{1, 4}, {3, 6}};
    void *copy;
    (void)state;
    assert_true(weight_columns_pick(&from, &pick, &out, &copy, NULL));
    assert_int_equal(out.cols, 2);
    for (int i = 0; i < 2; i++) {
        float row[2];
        weight_row(&out, i, row);
        assert_memory_equal(row, expected[i], sizeof row);
    }
    mem_free(copy);
}

/* q * scale + bias of column c, row by row. */
static void quantised_columns_become_floats(void **state) {
    static uint8_t codes[2][32];
    static const float scales[2] = {0.5f, 2}, biases[2] = {1, -1};
    codes[0][3] = 10;
    codes[1][3] = 7;
    WeightSource from = {.format = WEIGHT_AFFINE,
                         .bits = 8,
                         .group = 32,
                         .rows = 2,
                         .cols = 32,
                         .codes = codes,
                         .scales = scales,
                         .biases = biases,
                         .scale_type = SCALE_F32},
                 out;
    RowPick pick = {.rows = 1, .from = 3, .take = 1};
    float row[2];
    void *copy;
    (void)state;
    assert_true(weight_columns_pick(&from, &pick, &out, &copy, NULL));
    weight_row(&out, 0, row);
    assert_true(row[0] == 6 && row[1] == 13);
    mem_free(copy);
}

/* 3, 4 has the length 5; bf16 holds 0.6 and 0.8 as 0.6015625 and 0.80078125. A row that is not finite stays. */
static void rows_become_unit_rows_of_their_type(void **state) {
    static const uint16_t values[2][2] = {{0x4040, 0x4080}, {0x7F80, 0x3F80}};
    static const float expected[2] = {0.6015625f, 0.80078125f};
    WeightSource from = {.format = WEIGHT_BF16, .rows = 2, .cols = 2, .codes = values}, out;
    float row[2];
    void *copy;
    (void)state;
    assert_true(weight_unit_rows(&from, &out, &copy, NULL));
    weight_row(&out, 0, row);
    assert_memory_equal(row, expected, sizeof row);
    assert_memory_equal((const uint16_t *)out.codes + 2, values[1], 4);
    mem_free(copy);
}

int main(void) {
    kernels_select(NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_lie_together_are_only_pointed_at),
        cmocka_unit_test(interleaved_rows_are_gathered),
        cmocka_unit_test(quantised_rows_keep_their_scales),
        cmocka_unit_test(columns_become_rows),
        cmocka_unit_test(quantised_columns_become_floats),
        cmocka_unit_test(rows_become_unit_rows_of_their_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
