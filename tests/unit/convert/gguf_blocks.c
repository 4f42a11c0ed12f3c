/* The block decoder against the reference implementation's values (tests/data/gguf/blocks.bin) and hand-worked blocks,
 * bit by bit; half precision in both directions over its whole range. */
#include "convert/gguf_blocks.h"
#include "file/gguf.h"
#include "support/folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void rows_equal_the_reference(void **state) {
    (void)state;
    size_t n;
    char *file = test_read("tests/data/gguf/blocks.bin", &n), *p = file;
    int n_types = 0;
    for (; p < file + n; n_types++) {
        uint32_t head[3]; /* type, values, bytes */
        memcpy(head, p, sizeof head);
        const uint8_t *row = (const uint8_t *)p + sizeof head;
        const char *expected = p + sizeof head + head[2];
        float *out = malloc(head[1] * sizeof *out);
        assert_true(gguf_dequantize_row(head[0], row, head[1], out));
        for (uint32_t i = 0; i < head[1]; i++) {
            float value;
            memcpy(&value, expected + 4 * i, 4);
            if (head[0] == GGML_IQ1_S && value == 0 && out[i] == 0)
                continue; /* a sum here, a product there: the sign */
            if (memcmp(out + i, &value, 4) != 0)
                fail_msg("%s: value %u is %.9g", ggml_type_name(head[0]), i, (double)out[i]);
        }
        free(out);
        p += sizeof head + head[2] + head[1] * 4;
    }
    assert_int_equal(n_types, 24);
    free(file);
    assert_false(gguf_dequantize_row(40, NULL, 64, NULL)); /* NVFP4 */
    assert_false(gguf_dequantize_row(1000, NULL, 32, NULL));
}

static void from_hex(const char *hex, uint8_t *out) {
    for (unsigned v; sscanf(hex, "%2x", &v) == 1; hex += 2) *out++ = (uint8_t)v;
}

/* Neither is in the reference: a bit is a sign, two bits are -1, 0, 1 and 2. d is 0.5. */
static void q1_0_and_q2_0_by_hand(void **state) {
    (void)state;
    uint8_t block[18] = {0x00, 0x38, 0x01, 0x80, 0xE4};
    float out[128];
    assert_true(gguf_dequantize_row(GGML_Q1_0, block, 128, out));
    for (int i = 0; i < 128; i++) {
        bool set = i == 0 || i == 15 || i == 18 || (i >= 21 && i < 24);
        assert_true(out[i] == (set ? 0.5f : -0.5f));
    }
    assert_true(gguf_dequantize_row(GGML_Q2_0, block, 64, out));
    const float expected[12] = {0, -0.5f, -0.5f, -0.5f, -0.5f, -0.5f, -0.5f, 0.5f, -0.5f, 0, 0.5f, 1};
    for (int i = 0; i < 64; i++) assert_true(out[i] == (i < 12 ? expected[i] : -0.5f));
}

static void q4_1_by_hand(void **state) {
    (void)state;
    uint8_t block[20];
    float out[32], low[8] = {-1, 0, 1, 2, 3, 4, 5, 6}, middle[8] = {-0.5f, 0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f};
    from_hex("003800bc1032547698badcfe0f0f0f0f0f0f0f0f", block);
    assert_true(gguf_dequantize_row(GGML_Q4_1, block, 32, out));
    for (int i = 0; i < 8; i++) {
        assert_true(out[i] == low[i]);
        assert_true(out[8 + i] == 6.5f);
        assert_true(out[16 + i] == middle[i]);
        assert_true(out[24 + i] == -1.0f);
    }
}

static void q4_k_by_hand(void **state) {
    (void)state;
    uint8_t block[144];
    float out[256], expected[8] = {-2.25f, -2, -2.75f, -2, -12.75f, -0.5f, -5.75f, -0.5f};
    from_hex("00340038c1824304c586470821436587", block); /* d .25, dmin .5 */
    memset(block + 16, 0x21, 128);
    assert_true(gguf_dequantize_row(GGML_Q4_K, block, 256, out));
    for (int i = 0; i < 256; i++) assert_true(out[i] == expected[i / 32]);
}

static void q6_k_by_hand(void **state) {
    (void)state;
    uint8_t block[210];
    float out[256], expected[8] = {-22, 33, -6, 9, 5, -7.5f, 21, -31.5f};
    memset(block, 0x5A, 128);
    memset(block + 128, 0xE4, 64);
    for (int i = 0; i < 16; i++) block[192 + i] = i % 2 ? 0xFD : 2; /* -3 */
    block[208] = 0x00;
    block[209] = 0x38;
    assert_true(gguf_dequantize_row(GGML_Q6_K, block, 256, out));
    for (int i = 0; i < 256; i++) assert_true(out[i] == expected[i / 16 % 8]);
}

static void mxfp4_by_hand(void **state) {
    (void)state;
    static const float levels[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    uint8_t block[17] = {129}; /* 2^2 */
    float out[32];
    for (int i = 0; i < 16; i++) block[1 + i] = (uint8_t)(i | (15 - i) << 4);
    assert_true(gguf_dequantize_row(GGML_MXFP4, block, 32, out));
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == 4 * levels[i]);
        assert_true(out[16 + i] == 4 * levels[15 - i]);
    }
    block[0] = 0; /* 2^-127, below the normal numbers */
    assert_true(gguf_dequantize_row(GGML_MXFP4, block, 32, out));
    assert_true(out[2] == 0x1p-127f && out[1] == 0x1p-128f);
}

static void halves_go_both_ways(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = half_to_float((uint16_t)h);
        uint16_t back = half_from_float(f);
        if ((h & 0x7C00) == 0x7C00 && (h & 0x3FF)) {
            assert_true(isnan(f) && (back & 0x7C00) == 0x7C00 && (back & 0x3FF));
        } else {
            assert_int_equal(back, h);
            double magnitude =
                (h >> 10 & 31) ? ldexp(1024 + (h & 1023), (int)(h >> 10 & 31) - 25) : ldexp(h & 1023, -24);
            if ((h & 0x7C00) != 0x7C00) assert_true((double)f == (h & 0x8000 ? -magnitude : magnitude));
        }
    }
    assert_int_equal(half_from_float(65519.99f), 0x7BFF);
    assert_int_equal(half_from_float(65520.0f), 0x7C00);
    assert_int_equal(half_from_float(1.0f + 0x1p-11f), 0x3C00); /* half way: to even */
    assert_int_equal(half_from_float(1.0f + 0x1.8p-10f), 0x3C02);
    assert_int_equal(half_from_float(0x1p-25f), 0);
    assert_int_equal(half_from_float(0x1.8p-24f), 2);
    assert_int_equal(half_from_float(-0x1.000002p-25f), 0x8001);
}

static void codes_are_one_bit_stream(void **state) {
    (void)state;
    uint8_t codes[8] = {1, 2, 3, 4, 5, 6, 7, 0}, out[8];
    pack_codes(codes, 8, 3, out); /* bits 100 010 110 001 101 011 111 000, lowest first */
    assert_memory_equal(out, "\xD1\x58\x1F", 3);
    pack_codes(codes, 8, 4, out);
    assert_memory_equal(out, "\x21\x43\x65\x07", 4);
    pack_codes(codes, 8, 8, out);
    assert_memory_equal(out, codes, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_the_reference),
        cmocka_unit_test(q1_0_and_q2_0_by_hand),
        cmocka_unit_test(q4_1_by_hand),
        cmocka_unit_test(q4_k_by_hand),
        cmocka_unit_test(q6_k_by_hand),
        cmocka_unit_test(mxfp4_by_hand),
        cmocka_unit_test(halves_go_both_ways),
        cmocka_unit_test(codes_are_one_bit_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
