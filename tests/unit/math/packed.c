/* Published quantised forms: matrices of known codes, zeros and scales are packed here, field by field as each form's
 * documentation says, and must come back as exactly (code - zero) * scale, whichever tiles they went to. */
#include "math/packed.h"
#include "base/memory.h"
#include "math/linear.h"
#include "support/random.h"
#include "support/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 24, COLS = 128, MOST = ROWS * COLS };

/* A matrix and its packed form. */
typedef struct Case {
    int codes[ROWS][COLS], zeros[ROWS][COLS]; /* zeros: per group */
    float scales[ROWS][COLS];
    int32_t group_of[COLS];
    uint8_t packed[4 * MOST], packed_zeros[4 * MOST], packed_scales[4 * MOST];
    PackedSource source;
} Case;

static void put_bits(uint8_t *p, int64_t bit, int bits, unsigned value) {
    for (int i = 0; i < bits; i++)
        if (value >> i & 1) p[(bit + i) / 8] |= (uint8_t)(1u << ((bit + i) % 8));
}

static void put_word_bits(uint8_t *p, int64_t word, int shift, int bits, unsigned value) {
    put_bits(p + word * 4, shift, bits, value);
}

/* Random codes, groups and scales: f16 numbers as f32 unless `wide`. */
static Case *new_case(PackedCodes form, int bits, int group, bool wide) {
    Case *c = mem_zeroed(1, sizeof *c);
    int n_groups = COLS / group;
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < COLS; k++) c->codes[r][k] = random_below(1 << bits);
        for (int g = 0; g < n_groups; g++) {
            c->zeros[r][g] = random_below(1 << bits);
            uint32_t mantissa = random_u32() & (wide ? 0x7FFFFF : 0x7FE000), word = 0x3C000000 | mantissa;
            memcpy(&c->scales[r][g], &word, 4);
        }
    }
    for (int k = 0; k < COLS; k++) c->group_of[k] = k / group;
    c->source = (PackedSource){.form = form,
                               .bits = bits,
                               .rows = ROWS,
                               .cols = COLS,
                               .group = group,
                               .codes = c->packed,
                               .scales = c->packed_scales,
                               .zeros = c->packed_zeros,
                               .rows_per_scale = 1,
                               .row_stride = n_groups,
                               .group_stride = 1};
    for (int r = 0; r < ROWS; r++) memcpy(c->packed_scales + r * n_groups * 4, c->scales[r], (size_t)n_groups * 4);
    return c;
}

static void pack_columns(Case *c, int group, int plus) { /* GPTQ: streams along the inputs, zeros along the outputs */
    int bits = c->source.bits, zero_words = (ROWS * bits + 31) / 32;
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < COLS; k++)
            for (int i = 0; i < bits; i++) {
                int bit = k * bits + i;
                put_word_bits(c->packed, bit / 32 * ROWS + r, bit % 32, 1, (unsigned)c->codes[r][k] >> i & 1);
            }
        for (int g = 0; g < COLS / group; g++)
            put_bits(c->packed_zeros + g * zero_words * 4, r * bits, bits, (unsigned)(c->zeros[r][g] + plus));
    }
    c->source.zero_form = plus ? ZEROS_COLUMNS_LESS_ONE : ZEROS_COLUMNS;
}

static float expected(const Case *c, int row, int k) {
    int g = c->group_of[k];
    return (float)(c->codes[row][k] - c->zeros[row][g]) * c->scales[row][g];
}

/* Rows of the pick against expected values; the product of integer ones on every instruction set against the dot. */
static void check_rows(const Case *c, const RowPick *pick, WeightFormat format, const char *says) {
    Error err = {""};
    Pool *pool = pool_new(2, &err);
    WeightSource w;
    void *copy;
    char note[PACKED_NOTE];
    float row[COLS], mine[COLS];
    if (!packed_pick(&c->source, pick, pool, &w, &copy, note, &err)) fail_msg("%s", err.text);
    assert_int_equal(w.format, format);
    if (says ? !strstr(note, says) : note[0] != 0) fail_msg("the note is \"%s\"", note);
    Linear *linear = linear_new(&w, NULL, pool, &err);
    for (int i = 0; i < pick->rows; i++) {
        int from = (int)(pick->from + i / pick->take * pick->period + i % pick->take);
        weight_row(&w, i, row);
        linear_row(linear, i, mine);
        for (int k = 0; k < COLS; k++) assert_true(row[k] == expected(c, from, k) && mine[k] == row[k]);
    }
    linear_free(linear);
    mem_free(copy);
    pool_free(pool);
}

static const RowPick whole = {ROWS, 0, ROWS, 0}, interleaved = {ROWS / 2, 1, 1, 2}, part = {7, 9, 7, 0};

static void check_picks(const Case *c, WeightFormat format, const char *says) {
    check_rows(c, &whole, format, says);
    check_rows(c, &interleaved, format, says);
    check_rows(c, &part, format, says);
}

static void gptq_of_every_width(void **state) {
    static const int widths[] = {2, 3, 4, 8};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        Case *c = new_case(PACKED_COLUMNS, widths[i], 32, false);
        pack_columns(c, 32, 0);
        check_picks(c, WEIGHT_AFFINE, NULL);
        mem_free(c);
        c = new_case(PACKED_COLUMNS, widths[i], 16, false);
        pack_columns(c, 16, 0);
        check_picks(c, WEIGHT_F32, "groups of 16");
        mem_free(c);
        c = new_case(PACKED_COLUMNS, widths[i], COLS, false);
        for (int r = 0; r < ROWS; r++) c->zeros[r][0] = 1 << (widths[i] - 1);
        pack_columns(c, COLS, 0);
        check_picks(c, WEIGHT_SIGNED, NULL);
        mem_free(c);
    }
}

/* zero - 1 as AutoGPTQ saves it; a zero of 0 borrows from the fields above it. */
static void gptq_zeros_less_one(void **state) {
    (void)state;
    Case *c = new_case(PACKED_COLUMNS, 4, 64, false);
    for (int r = 0; r < ROWS; r++)
        for (int g = 0; g < 2; g++) c->zeros[r][g] = 1 + random_below(15);
    pack_columns(c, 64, -1);
    c->source.zero_form = ZEROS_COLUMNS_LESS_ONE;
    check_picks(c, WEIGHT_AFFINE, NULL);
    c->zeros[3][0] = 0, c->zeros[5][1] = 0; /* each in its word: less one field by field, with the borrow */
    memset(c->packed_zeros, 0, sizeof c->packed_zeros);
    pack_columns(c, 64, 0);
    for (int i = 0; i < 2 * ROWS / 8; i++) {
        uint32_t word;
        memcpy(&word, c->packed_zeros + 4 * i, 4);
        word -= 0x11111111;
        memcpy(c->packed_zeros + 4 * i, &word, 4);
    }
    c->source.zero_form = ZEROS_COLUMNS_LESS_ONE;
    check_picks(c, WEIGHT_AFFINE, NULL);
    mem_free(c);
}

static void shuffle_groups(Case *c) {
    for (int k = COLS - 1; k > 0; k--) {
        int j = random_below(k + 1), held = c->group_of[k];
        c->group_of[k] = c->group_of[j];
        c->group_of[j] = held;
    }
    c->source.group_of = c->group_of;
}

static void act_order_is_kept_as_an_order_of_inputs(void **state) {
    Error err = {""};
    (void)state;
    Case *c = new_case(PACKED_COLUMNS, 4, 32, false);
    shuffle_groups(c);
    pack_columns(c, 32, 0);
    check_picks(c, WEIGHT_AFFINE, NULL);
    int first = 0;
    while (c->group_of[first] == 0) first++;
    c->group_of[first] = 0; /* one group has an input too many now */
    check_picks(c, WEIGHT_F32, "not as many as the group size");
    c->group_of[first] = 4;
    WeightSource w;
    void *copy;
    char note[PACKED_NOTE];
    assert_false(packed_pick(&c->source, &whole, NULL, &w, &copy, note, &err));
    assert_non_null(strstr(err.text, "of group 4, and there are 4 groups"));
    mem_free(c);
}

/* y = W x in act-order: the same bytes on every instruction set, alone and among other jobs, whole or selected rows. */
static void products_in_act_order(void **state) {
    enum { N = 9 };
    static const int chosen[] = {7, 2, 3}, run[] = {3, 4, 5}; /* row 4 has an infinity */
    Error err = {""};
    Pool *pool = pool_new(2, &err);
    float *x = random_floats((size_t)N * COLS), y[N][ROWS], first[N][ROWS], some[3][ROWS], three[3][ROWS];
    (void)state;
    Case *c = new_case(PACKED_COLUMNS, 4, 32, false);
    shuffle_groups(c);
    pack_columns(c, 32, 0);
    WeightSource w;
    void *copy;
    char note[PACKED_NOTE];
    for (int i = 0; i < N * COLS; i++) x[i] = (float)(int32_t)random_u32() * 0x1p-31f;
    x[4 * COLS + 5] = -__builtin_inff();
    assert_true(packed_pick(&c->source, &whole, pool, &w, &copy, note, &err));
    Linear *linear = linear_new(&w, NULL, pool, &err);
    mem_free(copy);
    for (int t = n_kernel_tables - 1; t >= 0; t--) { /* scalar comes first */
        if (!kernel_tables[t]->supported()) continue;
        Arena arena;
        arena_init(&arena);
        kernels_use(kernel_tables[t]);
        Activations *a = activations_new(&arena, x, N, COLS, 16), *b = activations_select(&arena, a, chosen, 3);
        Activations *d = activations_select(&arena, a, run, 3);
        LinearJob jobs[] = {{linear, a, y[0]}, {linear, b, some[0]}, {linear, d, three[0]}};
        assert_true(linear_apply(jobs, 3, pool, &arena));
        for (int i = 0; i < 3; i++) {
            assert_true(activations_bad(d, i) == (run[i] == 4) && !activations_bad(b, i));
            if (run[i] != 4) assert_memory_equal(three[i], y[run[i]], sizeof three[i]);
        }
        for (int r = 0; r < N; r++) assert_int_equal(activations_bad(a, r), r == 4);
        for (int i = 0; i < 3; i++) assert_memory_equal(some[i], y[chosen[i]], sizeof some[i]);
        if (kernel_tables[t] == &kernels_scalar) memcpy(first, y, sizeof y);
        for (int r = 0; r < N; r++)
            if (r != 4) assert_memory_equal(first[r], y[r], sizeof y[r]);
        arena_clear(&arena);
    }
    for (int r = 0; r < ROWS; r++) {
        double dot = 0, size = 0;
        for (int k = 0; k < COLS; k++) dot += (double)expected(c, r, k) * (double)x[k], size += 0.5;
        assert_true(dot - (double)y[0][r] < size * 1e-5 && (double)y[0][r] - dot < size * 1e-5);
    }
    linear_free(linear);
    mem_free(c);
    mem_free(x);
    pool_free(pool);
}

static void awq(void **state) {
    static const int order[8] = {0, 2, 4, 6, 1, 3, 5, 7}; /* nibble p holds output order[p] */
    (void)state;
    Case *c = new_case(PACKED_AWQ, 4, 64, false);
    for (int word = 0; word < ROWS / 8; word++)
        for (int p = 0; p < 8; p++) {
            int r = word * 8 + order[p];
            for (int k = 0; k < COLS; k++)
                put_word_bits(c->packed, k * (ROWS / 8) + word, 4 * p, 4, (unsigned)c->codes[r][k]);
            for (int g = 0; g < 2; g++)
                put_word_bits(c->packed_zeros, g * (ROWS / 8) + word, 4 * p, 4, (unsigned)c->zeros[r][g]);
        }
    for (int r = 0; r < ROWS; r++) /* scales [groups, rows] */
        for (int g = 0; g < 2; g++) memcpy(c->packed_scales + (g * ROWS + r) * 4, &c->scales[r][g], 4);
    c->source.row_stride = 1, c->source.group_stride = ROWS;
    c->source.zero_form = ZEROS_AWQ;
    check_picks(c, WEIGHT_AFFINE, NULL);
    mem_free(c);
}

/* compressed-tensors: codes and zeros packed along rows, or as signed bytes. */
static void streams_along_rows(void **state) {
    static const int widths[] = {2, 4, 8};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int bits = widths[i];
        Case *c = new_case(PACKED_ROWS, bits, 32, false);
        c->source.words = COLS * bits / 32;
        for (int r = 0; r < ROWS; r++) {
            for (int k = 0; k < COLS; k++)
                put_bits(c->packed + r * c->source.words * 4, k * bits, bits, (unsigned)c->codes[r][k]);
            for (int g = 0; g < 4; g++)
                put_word_bits(c->packed_zeros, r * bits / 32 * 4 + g, r * bits % 32, bits, (unsigned)c->zeros[r][g]);
        }
        c->source.zero_form = ZEROS_ROWS;
        check_picks(c, WEIGHT_AFFINE, NULL);
        mem_free(c);
    }
}

static void signed_bytes(void **state) {
    (void)state;
    Case *c = new_case(PACKED_BYTES, 8, 64, true);
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < COLS; k++) c->packed[r * COLS + k] = (uint8_t)(c->codes[r][k] - 128);
        for (int g = 0; g < 2; g++) c->packed_zeros[r * 2 + g] = (uint8_t)(c->zeros[r][g] - 128);
    }
    c->source.zero_form = ZEROS_BYTES;
    check_rows(c, &whole, WEIGHT_F32, "zero points times f32 scales");
    for (int r = 0; r < ROWS; r++) c->zeros[r][0] = c->zeros[r][1] = 128;
    c->source.zero_form = ZEROS_NONE;
    check_picks(c, WEIGHT_SIGNED, NULL);
    mem_free(c);
}

static void ternary(void **state) {
    (void)state;
    Case *c = new_case(PACKED_TERNARY, 2, COLS, true);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < COLS; k++) {
            c->codes[r][k] = 1 + random_below(3);
            c->packed[r % (ROWS / 4) * COLS + k] |= (uint8_t)((c->codes[r][k] - 1) << (r / (ROWS / 4) * 2));
        }
    for (int r = 0; r < ROWS; r++) {
        c->zeros[r][0] = 2;
        c->scales[r][0] = 1 / 3.0f;
    }
    float three = 3;
    memcpy(c->packed_scales, &three, 4);
    c->source.row_stride = c->source.group_stride = 0;
    c->source.inverse = true;
    check_picks(c, WEIGHT_SIGNED, NULL);
    mem_free(c);
}

/* w = value of the code * scale, one rounding, in blocks of 8 rows by `group` inputs. */
static void check_floats(PackedCodes form, int group, WeightFormat format) {
    static const float fp4[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    Error err = {""};
    Pool *pool = pool_new(1, &err);
    WeightSource w;
    void *copy;
    char note[PACKED_NOTE];
    float row[COLS];
    Case *c = new_case(form, form == PACKED_FP8 ? 8 : 4, group, true);
    for (int i = 0; i < MOST; i++) c->packed[i] = (uint8_t)(random_u32() & 0xBF); /* no NaN */
    c->source.rows_per_scale = 8;
    for (int pass = 0; pass < 3; pass++) {
        const RowPick *pick = pass == 0 ? &whole : pass == 1 ? &interleaved : &part;
        assert_true(packed_pick(&c->source, pick, pool, &w, &copy, note, &err));
        assert_int_equal(w.format, format);
        assert_true((note[0] != 0) == (format == WEIGHT_F32));
        for (int i = 0; i < pick->rows; i++) {
            int r = (int)(pick->from + i / pick->take * pick->period + i % pick->take);
            weight_row(&w, i, row);
            for (int k = 0; k < COLS; k++) {
                uint8_t b = form == PACKED_FP8 ? c->packed[r * COLS + k]
                                               : (uint8_t)(c->packed[(r * COLS + k) / 2] >> (k % 2 * 4) & 15);
                int e = b >> 3 & 15, m = b & 7;
                float v = form == PACKED_FP4 ? fp4[b & 7]
                          : e                ? (float)(8 + m) * 0x1p-10f * (float)(1 << e)
                                             : (float)m * 0x1p-9f;
                if (form == PACKED_FP4 ? b & 8 : b & 128) v = -v;
                assert_true(row[k] == v * c->scales[r / 8][k / group]);
            }
        }
        mem_free(copy);
    }
    mem_free(c);
    pool_free(pool);
}

static void blocks_of_floats(void **state) {
    (void)state;
    check_floats(PACKED_FP8, 128, WEIGHT_FP8);
    check_floats(PACKED_FP8, 64, WEIGHT_F32);
    check_floats(PACKED_FP4, 16, WEIGHT_FP4);
    check_floats(PACKED_FP4, 32, WEIGHT_F32);
}

/* By hand: the mean magnitude of the two rows is 1.5, so 0.75 is half of it and rounds to even, to 0. */
static void floats_made_ternary(void **state) {
    static const float values[2][4] = {{0.75f, -0.75f, 1, -3}, {2, -0.5f, 4, 0}},
                       ternary[2][4] = {{0, 0, 1, -1}, {1, 0, 1, 0}};
    WeightSource floats = {.format = WEIGHT_F32, .rows = 2, .cols = 4, .codes = values}, w;
    RowPick rows = {2, 0, 2, 0};
    PackedSource packed;
    void *made, *copy;
    char note[PACKED_NOTE];
    float row[4];
    Error err = {""};
    Pool *pool = pool_new(1, &err);
    (void)state;
    assert_true(packed_ternarise(&floats, &packed, &made, &err));
    assert_true(packed_pick(&packed, &rows, pool, &w, &copy, note, &err));
    for (int r = 0; r < 2; r++) {
        weight_row(&w, r, row);
        for (int k = 0; k < 4; k++) assert_true(row[k] == ternary[r][k] * (1 / (1 / 1.5f)));
    }
    mem_free(copy);
    mem_free(made);
    float broken[8] = {[3] = __builtin_nanf("")};
    floats.codes = broken;
    assert_false(packed_ternarise(&floats, &packed, &made, &err));
    assert_non_null(strstr(err.text, "not finite"));
    pool_free(pool);
}

int main(void) {
    assert_true(kernels_select(NULL, NULL));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq_of_every_width),
        cmocka_unit_test(gptq_zeros_less_one),
        cmocka_unit_test(act_order_is_kept_as_an_order_of_inputs),
        cmocka_unit_test(products_in_act_order),
        cmocka_unit_test(awq),
        cmocka_unit_test(streams_along_rows),
        cmocka_unit_test(signed_bytes),
        cmocka_unit_test(ternary),
        cmocka_unit_test(blocks_of_floats),
        cmocka_unit_test(floats_made_ternary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
