/* Weights into codes: equal to what mlx wrote for the same values (tests/data/encode, made by
 * tests/differential/quantize.py --values), one group worked by hand, and every instruction set against scalar. */
#include "math/encode.h"
#include "base/memory.h"
#include "file/safetensors.h"
#include "support/random.h"
#include "support/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char fixture[] = "tests/data/encode/mlx.safetensors";

typedef struct Case {
    const char *mode;
    WeightFormat format;
    int bits, group;
} Case;

static const Case cases[] = {
    {"affine", WEIGHT_AFFINE, 2, 32}, {"affine", WEIGHT_AFFINE, 2, 64}, {"affine", WEIGHT_AFFINE, 2, 128},
    {"affine", WEIGHT_AFFINE, 3, 32}, {"affine", WEIGHT_AFFINE, 3, 64}, {"affine", WEIGHT_AFFINE, 3, 128},
    {"affine", WEIGHT_AFFINE, 4, 32}, {"affine", WEIGHT_AFFINE, 4, 64}, {"affine", WEIGHT_AFFINE, 4, 128},
    {"affine", WEIGHT_AFFINE, 5, 32}, {"affine", WEIGHT_AFFINE, 5, 64}, {"affine", WEIGHT_AFFINE, 5, 128},
    {"affine", WEIGHT_AFFINE, 6, 32}, {"affine", WEIGHT_AFFINE, 6, 64}, {"affine", WEIGHT_AFFINE, 6, 128},
    {"affine", WEIGHT_AFFINE, 8, 32}, {"affine", WEIGHT_AFFINE, 8, 64}, {"affine", WEIGHT_AFFINE, 8, 128},
    {"mxfp4", WEIGHT_MXFP4, 4, 32},   {"nvfp4", WEIGHT_NVFP4, 4, 16},   {"mxfp8", WEIGHT_MXFP8, 8, 32}};
enum { N_CASES = sizeof cases / sizeof *cases };

static const struct {
    const char *name;
    ScaleType type;
} types[] = {{"float32", SCALE_F32}, {"float16", SCALE_F16}, {"bfloat16", SCALE_BF16}};

static const Tensor *find(const Safetensors *s, const char *name) {
    for (int i = 0; i < safetensors_count(s); i++)
        if (strcmp(safetensors_tensor(s, i)->name, name) == 0) return safetensors_tensor(s, i);
    fail_msg("%s: has no tensor %s", fixture, name);
    return NULL;
}

static const uint8_t *part(const Safetensors *s, const char *type, const Case *c, const char *name, uint64_t bytes) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s.%d.%d.%s", type, c->mode, c->bits, c->group, name);
    const Tensor *t = find(s, full);
    assert_int_equal(t->bytes, bytes);
    return t->data;
}

static void check_rows(const Safetensors *s, int type, const Case *c, const char *table) {
    char name[64];
    snprintf(name, sizeof name, "%s.values", types[type].name);
    const Tensor *values = find(s, name);
    int64_t rows = values->shape[0], cols = values->shape[1];
    EncodeForm form = {c->format, c->bits, c->group, cols, types[type].type};
    EncodeBytes n;
    Error err = {""};
    if (!encode_row_bytes(&form, &n, &err)) fail_msg("%s", err.text);
    float *x = mem_aligned((size_t)cols, sizeof *x);
    uint8_t *out = mem_array(n.codes + n.scales + n.biases, 1);
    void *scratch = mem_aligned(n.scratch, 1);
    const uint8_t *codes = part(s, types[type].name, c, "weight", n.codes * (uint64_t)rows);
    const uint8_t *scales = part(s, types[type].name, c, "scales", n.scales * (uint64_t)rows);
    const uint8_t *biases = n.biases ? part(s, types[type].name, c, "biases", n.biases * (uint64_t)rows) : NULL;
    for (int64_t r = 0; r < rows; r++) {
        uint64_t at = (uint64_t)r;
        floats_read(form.type, values->data + at * (uint64_t)cols * scale_type_bytes(form.type), cols, x);
        encode_row(&form, x, out, out + n.codes, out + n.codes + n.scales, scratch);
        if (memcmp(out, codes + at * n.codes, n.codes) != 0 ||
            memcmp(out + n.codes, scales + at * n.scales, n.scales) != 0 ||
            (biases && memcmp(out + n.codes + n.scales, biases + at * n.biases, n.biases) != 0))
            fail_msg("%s %s %d bits, groups of %d, %s: row %d is not mlx's", table, c->mode, c->bits, c->group,
                     types[type].name, (int)r);
    }
    mem_free(x);
    mem_free(out);
    mem_free(scratch);
}

static void codes_scales_and_biases_are_those_of_mlx(void **state) {
    (void)state;
    Error err = {""};
    Safetensors *s = safetensors_open(fixture, &err);
    if (!s) fail_msg("%s (run the tests from the root of the source tree)", err.text);
    for (int t = 0; t < n_kernel_tables; t++) {
        if (!kernel_tables[t]->supported()) continue;
        kernels_use(kernel_tables[t]);
        for (int type = 0; type < 3; type++)
            for (int i = 0; i < N_CASES; i++) check_rows(s, type, &cases[i], kernel_tables[t]->name);
    }
    safetensors_close(s);
}

/* 0 .. 15 in steps of 1, twice: the edge is the larger end, 15, so codes count down from it by a scale of -1. */
static void a_group_worked_by_hand(void **state) {
    (void)state;
    EncodeForm form = {WEIGHT_AFFINE, 4, 32, 32, SCALE_F32};
    float x[32], scale, bias, scratch[64];
    uint8_t codes[16];
    for (int i = 0; i < 32; i++) x[i] = (float)(i % 16);
    encode_row(&form, x, codes, (uint8_t *)&scale, (uint8_t *)&bias, scratch);
    assert_true(scale == -1.0f && bias == 15.0f);
    for (int i = 0; i < 16; i++) assert_int_equal(codes[i], (15 - 2 * i % 16) | (14 - 2 * i % 16) << 4);
}

/* Scales of 16 groups are made together, those left over one by one: a long row, and the same in pieces of 128. */
static void groups_do_not_see_each_other(void **state) {
    (void)state;
    enum { COLS = 128 * 19, BYTES = 16384 };
    static uint8_t whole[BYTES], pieces[BYTES];
    static float x[COLS], scratch[BYTES];
    for (int i = 0; i < N_CASES; i++)
        for (int t = 0; t < n_kernel_tables; t++) {
            if (!kernel_tables[t]->supported()) continue;
            kernels_use(kernel_tables[t]);
            for (int k = 0; k < COLS; k++) x[k] = k / 256 % 3 == 2 ? 0.0f : random_float();
            EncodeForm form = {cases[i].format, cases[i].bits, cases[i].group, COLS, SCALE_F32}, piece = form;
            EncodeBytes n, m;
            piece.cols = 128;
            assert_true(encode_row_bytes(&form, &n, NULL) && encode_row_bytes(&piece, &m, NULL));
            assert_true(n.scratch <= sizeof scratch && n.codes + n.scales + n.biases <= BYTES);
            encode_row(&form, x, whole, whole + n.codes, whole + n.codes + n.scales, scratch);
            for (uint64_t k = 0; k < COLS / 128; k++)
                encode_row(&piece, x + 128 * k, pieces + k * m.codes, pieces + n.codes + k * m.scales,
                           pieces + n.codes + n.scales + k * m.biases, scratch);
            assert_memory_equal(whole, pieces, n.codes + n.scales + n.biases);
        }
}

static void every_instruction_set_gives_the_bytes_of_scalar(void **state) {
    (void)state;
    enum { COLS = 256, ROWS = 40, BYTES = 4096 };
    static uint8_t want[BYTES], got[BYTES];
    static float x[COLS], scratch[BYTES];
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < COLS; i++) x[i] = random_float();
        for (int i = 0; i < N_CASES; i++)
            for (int type = 0; type < 3; type++) {
                EncodeForm form = {cases[i].format, cases[i].bits, cases[i].group, COLS, types[type].type};
                EncodeBytes n;
                floats_round(form.type, x, COLS);
                assert_true(encode_row_bytes(&form, &n, NULL));
                assert_true(n.scratch <= sizeof scratch);
                kernels_use(&kernels_scalar);
                encode_row(&form, x, want, want + n.codes, want + n.codes + n.scales, scratch);
                for (int t = 0; t < n_kernel_tables; t++) {
                    if (!kernel_tables[t]->supported()) continue;
                    kernels_use(kernel_tables[t]);
                    encode_row(&form, x, got, got + n.codes, got + n.codes + n.scales, scratch);
                    assert_memory_equal(got, want, n.codes + n.scales + n.biases);
                }
            }
    }
}

/* Odd lengths, unaligned bytes, and back. */
static void floats_are_read_and_written_as_their_formats_say(void **state) {
    (void)state;
    enum { N = 37 };
    static uint8_t bytes[4 * N + 1], back[4 * N + 1];
    static float x[N];
    for (int type = 0; type < 3; type++) {
        size_t size = scale_type_bytes(types[type].type);
        for (int i = 0; i < N; i++) x[i] = random_float();
        floats_write(types[type].type, x, N, bytes + 1);
        for (int t = 0; t < n_kernel_tables; t++) {
            if (!kernel_tables[t]->supported()) continue;
            kernels_use(kernel_tables[t]);
            floats_read(types[type].type, bytes + 1, N, x);
            floats_write(types[type].type, x, N, back + 1);
            assert_memory_equal(bytes + 1, back + 1, size * N);
        }
    }
    float x2[3] = {1.00390625f, 65520.0f, -1e-9f}; /* a tie in bf16; past f16; below its denormals */
    floats_round(SCALE_BF16, x2, 1);
    floats_round(SCALE_F16, x2 + 1, 2);
    assert_true(x2[0] == 1.0f && x2[1] > 1e38f && x2[2] == 0.0f);
}

static void lengths_that_do_not_divide_are_refused(void **state) {
    (void)state;
    EncodeBytes n;
    Error err;
    assert_false(encode_row_bytes(&(EncodeForm){WEIGHT_AFFINE, 4, 64, 96, SCALE_F32}, &n, &err));
    assert_string_equal(err.text, "96 inputs do not divide into groups of 64");
    assert_false(encode_row_bytes(&(EncodeForm){WEIGHT_AFFINE, 7, 64, 64, SCALE_F32}, &n, &err));
    assert_false(encode_row_bytes(&(EncodeForm){WEIGHT_NVFP4, 4, 16, 24, SCALE_F32}, &n, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_scales_and_biases_are_those_of_mlx),
        cmocka_unit_test(a_group_worked_by_hand),
        cmocka_unit_test(groups_do_not_see_each_other),
        cmocka_unit_test(every_instruction_set_gives_the_bytes_of_scalar),
        cmocka_unit_test(floats_are_read_and_written_as_their_formats_say),
        cmocka_unit_test(lengths_that_do_not_divide_are_refused),
    };
    tables_print();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
