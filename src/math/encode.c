/* Rows into codes: the instruction set gives the codes of a row as 16-bit numbers, with the scales as floats, and this
 * file lays them down as MLX does: codes as a little-endian bit stream along the row, scales and biases in the number
 * format of the values. */
#include "math/encode.h"
#include "math/encode_scale.h"
#include "math/format_read.h"
#include "math/kernel_table.h"

#include <math.h>
#include <string.h>

size_t scale_type_bytes(ScaleType type) {
    return type == SCALE_F32 ? 4 : 2;
}

float float_at(ScaleType type, const uint8_t *bytes, int64_t i) {
    float f;
    uint16_t h;
    if (type == SCALE_F32) {
        memcpy(&f, bytes + 4 * i, 4);
        return f;
    }
    memcpy(&h, bytes + 2 * i, 2);
    return type == SCALE_F16 ? format_f16(h) : format_bf16(h);
}

static void float_put(ScaleType type, float x, uint8_t *bytes, int64_t i) {
    uint32_t b;
    memcpy(&b, &x, 4);
    if (type == SCALE_F32) {
        memcpy(bytes + 4 * i, &b, 4);
        return;
    }
    uint16_t h;
    if (type == SCALE_F16)
        h = format_to_f16(x);
    else if ((b & 0x7FFFFFFF) > 0x7F800000)
        h = 0x7FC0;
    else
        h = (uint16_t)((b + 0x7FFF + (b >> 16 & 1)) >> 16);
    memcpy(bytes + 2 * i, &h, 2);
}

void floats_read(ScaleType type, const uint8_t *bytes, int64_t n, float *out) {
    kernels()->floats_read(type, bytes, n, out);
}

void floats_write(ScaleType type, const float *x, int64_t n, uint8_t *bytes) {
    for (int64_t i = 0; i < n; i++) float_put(type, x[i], bytes, i);
}

void floats_round(ScaleType type, float *x, int64_t n) {
    uint8_t bytes[4];
    for (int64_t i = 0; i < n && type != SCALE_F32; i++) {
        float_put(type, x[i], bytes, 0);
        x[i] = float_at(type, bytes, 0);
    }
}

/* ---- scales ---- */

float affine_scale(float low, float high, float bins, float *bias) {
    bool low_is_edge = fabsf(low) > fabsf(high);
    float scale = (high - low) / bins;
    if (scale < AFFINE_LEAST_SCALE) scale = AFFINE_LEAST_SCALE;
    if (!low_is_edge) scale = -scale;
    float edge = low_is_edge ? low : high, steps = rintf(edge / scale);
    *bias = 0;
    if (steps == 0) return scale;
    *bias = edge;
    return edge / steps;
}

static uint8_t e4m3_code(float x) { /* x >= 0; half to even, at most 448 */
    uint32_t b;
    if (!(x < 448.0f)) return 126;
    if (x < 0x1p-6f) return (uint8_t)rintf(x * 0x1p9f);
    memcpy(&b, &x, 4);
    return (uint8_t)((b + (b >> 20 & 1) + 0x7FFFF - (120u << 23)) >> 20);
}

float minifloat_scale(WeightFormat format, ScaleType type, float most, uint8_t *code) {
    float scale = most / (format == WEIGHT_MXFP8 ? 448.0f : 6.0f);
    floats_round(type, &scale, 1);
    if (format == WEIGHT_NVFP4) {
        *code = e4m3_code(scale);
        return format_e4m3(*code);
    }
    int exponent = 0; /* of the least power of two that is no smaller: values never pass the largest code */
    if (scale > 0 && isfinite(scale) && frexpf(scale, &exponent) == 0.5f) exponent--;
    *code = (uint8_t)(exponent + 127);
    return ldexpf(1.0f, exponent);
}

/* ---- rows ---- */

static WeightSource form_source(const EncodeForm *f) {
    return (WeightSource){
        .format = f->format, .bits = f->bits, .group = f->group, .rows = 1, .cols = f->cols, .scale_type = f->type};
}

bool encode_row_bytes(const EncodeForm *form, EncodeBytes *out, Error *err) {
    WeightSource source = form_source(form);
    WeightRowBytes row;
    if (!weight_row_bytes(&source, &row, err)) return false;
    uint64_t groups = (uint64_t)form->cols / (unsigned)format_group(&source);
    bool affine = form->format == WEIGHT_AFFINE;
    *out = (EncodeBytes){row.codes, row.scales, affine ? row.scales : 0,
                         groups * 2 * sizeof(float) + (size_t)form->cols * sizeof(int16_t)};
    return true;
}

/* Four codes, each in 16 bits of a word, side by side in its low bits. */
static inline uint64_t squeeze(const int16_t *codes, int bits) {
    uint64_t w;
    memcpy(&w, codes, 8);
    w = (w & 0x0000FFFF0000FFFFu) | (w >> (16 - bits) & (0x0000FFFF0000FFFFu << bits));
    return (w & 0xFFFFFFFF) | w >> (32 - 2 * bits);
}

static inline void pack_with(const int16_t *codes, int64_t n, const int bits, uint8_t *out) {
    for (int64_t i = 0; i < n; i += 8, out += bits) {
        uint64_t w = squeeze(codes + i, bits) | squeeze(codes + i + 4, bits) << 4 * bits;
        memcpy(out, &w, (size_t)bits);
    }
}

static void pack_row(const int16_t *codes, int64_t n, int bits, uint8_t *out) {
    switch (bits) { /* constants, so that the shifts are */
    case 2: pack_with(codes, n, 2, out); break;
    case 3: pack_with(codes, n, 3, out); break;
    case 4: pack_with(codes, n, 4, out); break;
    case 5: pack_with(codes, n, 5, out); break;
    case 6: pack_with(codes, n, 6, out); break;
    default: pack_with(codes, n, 8, out); break;
    }
}

void encode_row(const EncodeForm *form, const float *x, uint8_t *codes, uint8_t *scales, uint8_t *biases,
                void *scratch) {
    WeightSource source = form_source(form);
    int group = format_group(&source), n_groups = (int)(form->cols / group);
    float *floats = scratch;
    EncodeJob job = {.format = form->format,
                     .type = form->type,
                     .bits = format_bits(&source),
                     .group = group,
                     .n_groups = n_groups,
                     .x = x,
                     .scales = floats,
                     .biases = floats + n_groups,
                     .scale_codes = scales,
                     .codes = (int16_t *)(floats + 2 * (size_t)n_groups)};
    kernels()->encode(&job);
    pack_row(job.codes, form->cols, job.bits, codes);
    if (form->format != WEIGHT_AFFINE) return;
    floats_write(form->type, job.scales, n_groups, scales);
    floats_write(form->type, job.biases, n_groups, biases);
}
