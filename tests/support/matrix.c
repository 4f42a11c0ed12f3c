/* Random weight matrices: codes of all values, scales such that products stay modest. */
#include "support/matrix.h"
#include "base/memory.h"
#include "math/format_read.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

const MatrixCase matrix_cases[] = {
    {WEIGHT_AFFINE, 2, 64, SCALE_BF16}, {WEIGHT_AFFINE, 3, 32, SCALE_F16},  {WEIGHT_AFFINE, 4, 32, SCALE_F16},
    {WEIGHT_AFFINE, 4, 64, SCALE_BF16}, {WEIGHT_AFFINE, 4, 128, SCALE_F32}, {WEIGHT_AFFINE, 5, 64, SCALE_BF16},
    {WEIGHT_AFFINE, 6, 32, SCALE_BF16}, {WEIGHT_AFFINE, 8, 128, SCALE_F16}, {WEIGHT_AFFINE, 8, 32, SCALE_F32},
    {WEIGHT_MXFP4, 0, 0, SCALE_F32},    {WEIGHT_NVFP4, 0, 0, SCALE_F32},    {WEIGHT_Q2_K, 0, 0, SCALE_F32},
    {WEIGHT_Q3_K, 0, 0, SCALE_F32},     {WEIGHT_Q4_K, 0, 0, SCALE_F32},     {WEIGHT_Q5_K, 0, 0, SCALE_F32},
    {WEIGHT_Q6_K, 0, 0, SCALE_F32},     {WEIGHT_F32, 0, 0, SCALE_F32},      {WEIGHT_F16, 0, 0, SCALE_F32},
    {WEIGHT_BF16, 0, 0, SCALE_F32},     {WEIGHT_MXFP8, 0, 0, SCALE_F32},    {WEIGHT_SIGNED, 2, 64, SCALE_F32},
    {WEIGHT_SIGNED, 3, 32, SCALE_BF16}, {WEIGHT_SIGNED, 4, 128, SCALE_F16}, {WEIGHT_SIGNED, 8, 32, SCALE_BF16},
    {WEIGHT_SIGNED, 8, 128, SCALE_F32}, {WEIGHT_FP4, 0, 0, SCALE_F32},      {WEIGHT_FP8, 0, 0, SCALE_F32},
};
const int n_matrix_cases = sizeof matrix_cases / sizeof *matrix_cases;

int random_cols(const MatrixCase *c) {
    Matrix probe = {.source = {.format = c->format, .bits = c->bits, .group = c->group}};
    int step = format_is_k(c->format) ? 256 : format_group(&probe.source);
    if (c->format == WEIGHT_FP8) return 1 + random_below(400); /* the last group may be smaller */
    if (step == 0) return 1 + random_below(150);
    return step * (1 + random_below(step >= 128 ? 3 : 9));
}

static void put_u16(uint8_t *p, size_t i, uint16_t v) {
    memcpy(p + 2 * i, &v, 2);
}

Matrix random_matrix(const MatrixCase *c, int rows, int cols) {
    WeightFormat format = c->format;
    ScaleType type = c->type;
    Matrix m = {
        .source = {
            .format = format, .bits = c->bits, .group = c->group, .rows = rows, .cols = cols, .scale_type = type}};
    WeightRowBytes bytes;
    Error err;
    assert_true(weight_row_bytes(&m.source, &bytes, &err));
    size_t n_codes = (size_t)rows * bytes.codes, n_scales = (size_t)rows * bytes.scales, n_d = (size_t)rows * bytes.d;
    m.codes = mem_zeroed(n_codes + 64, 1);
    m.scales = mem_zeroed(n_scales + 64, 1);
    m.biases = mem_zeroed(n_scales + 64, 1);
    m.d = mem_zeroed(n_d + 64, 1);
    m.dmin = mem_zeroed(n_d + 64, 1);
    for (size_t i = 0; i < n_codes; i++) m.codes[i] = (uint8_t)random_u32();
    if (!format_is_integer(format)) { /* floats of modest size; E4M3 codes without NaN */
        for (size_t i = 0; i < n_codes / 4 && format == WEIGHT_F32; i++) {
            float f = random_float();
            memcpy(m.codes + 4 * i, &f, 4);
        }
        for (size_t i = 0; i < n_codes / 2 && format == WEIGHT_F16; i++)
            put_u16(m.codes, i, (uint16_t)(random_u32() & 0xBFFF));
        for (size_t i = 0; i < n_codes / 2 && format == WEIGHT_BF16; i++)
            put_u16(m.codes, i, (uint16_t)((random_u32() & 0x80FF) | 0x3F00));
        for (size_t i = 0; i < n_codes && (format == WEIGHT_MXFP8 || format == WEIGHT_FP8); i++)
            if ((m.codes[i] & 0x7F) == 0x7F) m.codes[i] = 0x12;
    }
    for (size_t i = 0; i < n_scales; i++) {
        m.scales[i] = (uint8_t)random_u32();
        if (format == WEIGHT_MXFP4 || format == WEIGHT_MXFP8) m.scales[i] = (uint8_t)(120 + random_below(12));
        if (format == WEIGHT_NVFP4) m.scales[i] = (uint8_t)random_below(0x7F);
    }
    bool own_type = format == WEIGHT_AFFINE || format == WEIGHT_SIGNED;
    if (format == WEIGHT_FP4 || format == WEIGHT_FP8 || (own_type && type == SCALE_F32))
        for (size_t i = 0; i < n_scales / 4; i++) {
            float s = random_float() * 0.01f, b = random_float() * 0.1f;
            memcpy(m.scales + 4 * i, &s, 4);
            memcpy(m.biases + 4 * i, &b, 4);
        }
    else if (own_type)
        for (size_t i = 0; i < n_scales / 2; i++) {
            uint16_t base = type == SCALE_F16 ? 0x2000 : 0x3C00;
            put_u16(m.scales, i, (uint16_t)(base + random_below(0x300)));
            put_u16(m.biases, i, (uint16_t)((base + random_below(0x300)) | 0x8000));
        }
    for (size_t i = 0; i < n_d / 2; i++) {
        put_u16(m.d, i, (uint16_t)(0x1000 + random_below(0x300)));
        put_u16(m.dmin, i, (uint16_t)(0x1000 + random_below(0x300)));
    }
    m.source.codes = m.codes, m.source.scales = m.scales, m.source.biases = m.biases;
    m.source.d = m.d, m.source.dmin = m.dmin;
    return m;
}

void matrix_clear(Matrix *m) {
    mem_free(m->codes);
    mem_free(m->scales);
    mem_free(m->biases);
    mem_free(m->d);
    mem_free(m->dmin);
}
