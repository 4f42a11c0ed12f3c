/* The kernels that are written once for every instruction set, over 16 lanes. The including file has defined the lane
 * types
 *
 *     lf (16 floats), li (16 int32)
 *
 * and their operations (lf_add, li_load_i16, ...: see kernels_scalar.c, whose plain loops say what each one means).
 * Lanes are those of docs/arithmetic.md: lane j takes elements j, j + 16, ...; a lane without an element stays
 * untouched; the fold is (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1).
 *
 * No include guard and no includes on purpose: one inclusion per instruction set, inside its target region. */

/* exp(x) for x <= 0 or moderate; relative error below 2^-23.5 (tests/unit/math/ops.c). n = rint(x / ln 2), r = x - n ln
 * 2 in two steps, a polynomial of degree 6 (least maximum error on [-ln2/2, ln2/2]), then the power of two in two
 * factors so that the result rounds once into the denormals. NaN passes through. */
static inline lf exp_lanes(lf x) {
    lf c = lf_min(lf_set(89.0f), lf_max(lf_set(-104.0f), x)); /* min and max hand a NaN in the second operand on */
    lf n = lf_rint(lf_mul(c, lf_set(0x1.715476p+0f)));
    lf r = lf_fma(n, lf_set(-0x1.62e400p-1f), c);
    r = lf_fma(n, lf_set(-0x1.7f7d1cp-20f), r);
    lf p = lf_set(0x1.6a1a72p-10f);
    p = lf_fma(p, r, lf_set(0x1.123fc6p-7f));
    p = lf_fma(p, r, lf_set(0x1.555916p-5f));
    p = lf_fma(p, r, lf_set(0x1.55548ap-3f));
    p = lf_fma(p, r, lf_set(0x1.fffffcp-2f));
    p = lf_fma(p, r, lf_set(1.0f));
    p = lf_fma(p, r, lf_set(1.0f));
    li k = li_from_lf(n), half = li_sar1(k);
    li rest = li_sub(k, half);
    lf s1 = lf_bits(li_shl(li_add(half, li_set(127)), 23)), s2 = lf_bits(li_shl(li_add(rest, li_set(127)), 23));
    return lf_mul(lf_mul(p, s1), s2);
}

/* ---- activations to block fixed point ---- */

/* m as the bit pattern of the largest magnitude in x[0..n). */
static inline int32_t magnitude_bits(const float *x, int n) {
    li m = li_set(0), clear = li_set(0x7FFFFFFF);
    int i = 0;
    for (; i + 16 <= n; i += 16) m = li_max(m, li_and(li_bits(lf_load(x + i)), clear));
    int32_t best = li_fold_max(m);
    for (; i < n; i++) {
        int32_t bits;
        __builtin_memcpy(&bits, x + i, 4);
        bits &= 0x7FFFFFFF;
        if (bits > best) best = bits;
    }
    return best;
}

static inline float float_of_bits(int32_t bits) {
    float f;
    __builtin_memcpy(&f, &bits, 4);
    return f;
}

/* One group: X int16 out, and its step. False on a non-finite value. n is a multiple of 16. limit: 32512 or 127. */
static inline bool quantize_group(const float *x, int n, float limit, int16_t *out, QuantStep *step) {
    int32_t bits = magnitude_bits(x, n);
    float m = float_of_bits(bits);
    *step = (QuantStep){0};
    if (bits >= 0x7F800000 || m < 0x1p-100f) {
        for (int i = 0; i < n; i++) out[i] = 0;
        return bits < 0x7F800000;
    }
    lf factor = lf_set(limit / m);
    li total = li_set(0);
    for (int i = 0; i < n; i += 16) {
        li v = li_from_lf(lf_mul(lf_load(x + i), factor)); /* rounds half to even */
        total = li_add(total, v);
        li_store_i16(out + i, v);
    }
    step->a = m / limit;
    step->sum = li_fold_add(total);
    step->a_sum = step->a * (float)step->sum;
    return true;
}

static void quantize_row(const float *x, QuantRows *q, int row) {
    int16_t wide[128];
    float limit = q->bits == 16 ? 32512.0f : 127.0f;
    bool good = true;
    for (int g = 0; g < q->n_groups; g++) {
        good &= quantize_group(x + g * q->group, q->group, limit, wide, &q->steps[step_at(q, row, g)]);
        codes_place(q, row, wide, g * q->group, q->group);
    }
    for (int i = 0; i < 128; i++) wide[i] = 0;
    for (int k = q->cols; k < q->padded; k += 16) codes_place(q, row, wide, k, 16);
    q->bad[row] = !good;
}

static void quant_copy_row(QuantRows *to, int i, const QuantRows *from, int row) {
    codes_copy(to, i, from, row);
    for (int g = 0; g < to->n_groups; g++) to->steps[step_at(to, i, g)] = from->steps[step_at(from, row, g)];
}

/* ---- float linears: dot products over 16 lanes ---- */

static inline lf weight_lanes(WeightFormat format, const uint8_t *w, float scale) {
    switch (format) {
    case WEIGHT_F32: return lf_load_bytes(w);
    case WEIGHT_F16: return lf_load_f16(w);
    case WEIGHT_BF16: return lf_bits(li_shl(li_load_u16(w), 16));
    default: break;
    }
    /* E4M3 widened by moving its bits to a float's place; the power of two puts the exponent right, denormals too. */
    li b = li_load_u8(w), magnitude = li_and(b, li_set(0x7F));
    lf v = lf_mul(lf_bits(li_shl(magnitude, 20)), lf_set(0x1p120f));
    v = lf_bits(li_add(li_bits(v), li_shl(li_and(b, li_set(0x80)), 24)));
    v = lf_bits(li_select_equal(magnitude, li_set(0x7F), li_set(0x7FC00000), li_bits(v)));
    return lf_mul(v, lf_set(scale));
}

static inline int weight_bytes(WeightFormat format) {
    return format == WEIGHT_F32 ? 4 : format == WEIGHT_MXFP8 || format == WEIGHT_FP8 ? 1 : 2;
}

static inline float e8m0_scale(uint8_t b) {
    if (b == 255) return __builtin_nanf("");
    return float_of_bits(b ? (int32_t)b << 23 : 0x00400000);
}

/* The scale of output `out` at input k. */
static inline float weight_scale(const FloatJob *job, WeightFormat format, size_t out, int k) {
    const size_t cols = (size_t)job->cols, at = (size_t)k;
    float scale = 1.0f;
    if (format == WEIGHT_MXFP8) return e8m0_scale(job->scales[out * (cols / 32) + at / 32]);
    if (format == WEIGHT_FP8) __builtin_memcpy(&scale, job->scales + (out * ((cols + 127) / 128) + at / 128) * 4, 4);
    return scale;
}

/* The last n < 16 inputs: only lanes that have an element move. */
static inline lf tail_lanes(WeightFormat format, const uint8_t *w, float scale, const float *x, int n, lf acc) {
    uint8_t padded[64] = {0};
    __builtin_memcpy(padded, w, (size_t)(n * weight_bytes(format)));
    float wide[16], sums[16];
    lf_store(wide, weight_lanes(format, padded, scale));
    lf_store(sums, acc);
    for (int j = 0; j < n; j++) sums[j] = __builtin_fmaf(x[j], wide[j], sums[j]);
    return lf_load(sums);
}

/* The sums of a block, plus bias, to y: all at once where the instruction set can. */
static inline __attribute__((always_inline)) void fold_block(lf acc[FLOAT_ROWS][FLOAT_OUTS], int rows, int outs,
                                                             const float *bias, float *y, size_t stride) {
#ifdef LANES_FOLD_ROWS
    if (rows == FLOAT_ROWS && outs == FLOAT_OUTS) {
        lf_fold_rows(acc, bias, y, stride);
        return;
    }
#endif
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int o = 0; o < outs; o++) {
        float sum = lf_fold(acc[r][o]);
        y[(size_t)r * stride + (size_t)o] = bias ? sum + bias[o] : sum;
    }
}

/* Inputs [first, end) of `rows` rows by `outs` outputs, onto their sums so far; end is cols or a multiple of 16. */
static inline __attribute__((always_inline)) void float_sums(const FloatJob *job, WeightFormat format, int row, int out,
                                                             int rows, int outs, int first, int end,
                                                             lf acc[FLOAT_ROWS][FLOAT_OUTS]) {
    int bytes = weight_bytes(format), k = first, cols = job->cols;
    const uint8_t *w = job->weights + (size_t)out * (size_t)cols * (size_t)bytes;
    const float *x = job->x + (size_t)row * (size_t)cols;
    for (; k + 16 <= end; k += 16) {
        lf xs[FLOAT_ROWS];
        UNROLL for (int r = 0; r < rows; r++) xs[r] = lf_load(x + (size_t)r * (size_t)cols + k);
        UNROLL for (int o = 0; o < outs; o++) {
            size_t at = (size_t)o * (size_t)cols + (size_t)k;
            lf v = weight_lanes(format, w + at * (size_t)bytes, weight_scale(job, format, (size_t)(out + o), k));
            UNROLL for (int r = 0; r < rows; r++) acc[r][o] = lf_fma(xs[r], v, acc[r][o]);
        }
    }
    if (k < end)
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int o = 0; o < outs; o++) acc[r][o] = tail_lanes(
            format, w + ((size_t)o * (size_t)cols + (size_t)k) * (size_t)bytes,
            weight_scale(job, format, (size_t)(out + o), k), x + (size_t)r * (size_t)cols + k, cols - k, acc[r][o]);
}

enum {
    FLOAT_BLOCK_BYTES = 384 << 10, /* of rows that stay near while the outputs of a task go over them */
    WIDE_ROWS = 16,                /* from here on weights are widened once for all rows, and aligned, */
    WIDE_BYTES = 256 << 10,        /* this much at a time */
    NEAR_COLS = 768, /* inputs after which the next rows come: FLOAT_OUTS outputs of that many stay in the L1 cache */
    NEAR_ROWS = FLOAT_BLOCK_BYTES / 4 / NEAR_COLS, /* rows of a block with more inputs than that */
};

/* Inputs [first, end) of `rows` rows by `outs` outputs. Between the first and the last inputs the sums are in `kept`,
 * lanes and all: it is one running fma however it is cut. */
static inline __attribute__((always_inline)) void float_block(const FloatJob *job, WeightFormat format, int row,
                                                              int out, int rows, int outs, int first, int end,
                                                              float *kept) {
    lf acc[FLOAT_ROWS][FLOAT_OUTS];
    if (first == 0) {
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int o = 0; o < outs; o++) acc[r][o] = lf_set(0.0f);
    } else {
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int o = 0; o < outs; o++) acc[r][o] =
            lf_load(kept + (r * FLOAT_OUTS + o) * 16);
    }
    float_sums(job, format, row, out, rows, outs, first, end, acc);
    if (end == job->cols) {
        fold_block(acc, rows, outs, job->bias ? job->bias + out : NULL,
                   job->y + (size_t)row * job->y_stride + (size_t)out, job->y_stride);
        return;
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int o = 0; o < outs; o++)
        lf_store(kept + (r * FLOAT_OUTS + o) * 16, acc[r][o]);
}

/* Rows [first, end), NEAR_ROWS at most where a row has more than NEAR_COLS inputs, of FLOAT_OUTS outputs: FLOAT_ROWS at
 * a time, K innermost. */
static inline __attribute__((always_inline)) void float_outs(const FloatJob *job, WeightFormat format, int out,
                                                             int first, int end) {
    __attribute__((aligned(64))) float kept[NEAR_ROWS * FLOAT_OUTS * 16];
    bool cut = end - first > FLOAT_ROWS; /* else nothing comes back to these weights */
    for (int k = 0, k_end; k < job->cols; k = k_end) {
        k_end = cut && job->cols - k >= 2 * NEAR_COLS ? k + NEAR_COLS : job->cols;
        int row = first;
        float *at = kept;
        for (; row + FLOAT_ROWS <= end; row += FLOAT_ROWS, at += FLOAT_ROWS * FLOAT_OUTS * 16)
            float_block(job, format, row, out, FLOAT_ROWS, FLOAT_OUTS, k, k_end, at);
        for (; row < end; row++, at += FLOAT_OUTS * 16) float_block(job, format, row, out, 1, FLOAT_OUTS, k, k_end, at);
    }
}

/* Rows [first, end) of all outputs. */
static inline __attribute__((always_inline)) void float_rows(const FloatJob *job, WeightFormat format, int first,
                                                             int end) {
    int out = 0;
    float kept[16]; /* all inputs at once keep nothing, which gcc for arm64 does not see */
    for (; out + FLOAT_OUTS <= job->n_outputs; out += FLOAT_OUTS) float_outs(job, format, out, first, end);
    for (; out < job->n_outputs; out++)
        for (int row = first; row < end; row++) float_block(job, format, row, out, 1, 1, 0, job->cols, kept);
}

static inline __attribute__((always_inline)) void widen_weights(const FloatJob *job, WeightFormat format, int out,
                                                                int outs, float *wide) {
    int bytes = weight_bytes(format), cols = job->cols;
    for (int o = out; o < out + outs; o++) {
        const uint8_t *w = job->weights + (size_t)o * (size_t)cols * (size_t)bytes;
        for (int k = 0; k < cols; k += 16, wide += 16) {
            int n = cols - k < 16 ? cols - k : 16;
            uint8_t padded[64] = {0};
            float scale = weight_scale(job, format, (size_t)o, k);
            if (n == 16) {
                lf_store(wide, weight_lanes(format, w + (size_t)k * (size_t)bytes, scale));
                continue;
            }
            float last[16];
            __builtin_memcpy(padded, w + (size_t)k * (size_t)bytes, (size_t)(n * bytes));
            lf_store(last, weight_lanes(format, padded, scale));
            __builtin_memcpy(wide, last, (size_t)n * sizeof *wide);
            wide -= 16 - n;
        }
    }
}

static inline int rows_of_block(const FloatJob *job) {
    int rows = FLOAT_BLOCK_BYTES / 4 / job->cols / FLOAT_ROWS * FLOAT_ROWS;
    return rows < WIDE_ROWS ? WIDE_ROWS : rows;
}

/* All rows, a block of them at a time. */
static inline __attribute__((always_inline)) void float_blocks(const FloatJob *job, WeightFormat format) {
    int rows = rows_of_block(job);
    for (int row = 0, end; row < job->n_rows; row = end) {
        end = job->n_rows - row < rows ? job->n_rows : row + rows;
        float_rows(job, format, row, end);
    }
}

/* As many rows as make widening worth it. The widened weights serve all blocks of rows; where there is one block only,
 * they need not go further than the nearest cache. */
static inline __attribute__((always_inline)) void float_widened(const FloatJob *job, WeightFormat format) {
    __attribute__((aligned(64))) float wide[WIDE_BYTES / 4];
    int most = WIDE_BYTES / 4 / job->cols / FLOAT_OUTS * FLOAT_OUTS;
    if (job->n_rows <= rows_of_block(job)) most = FLOAT_OUTS;
    for (int out = 0; out < job->n_outputs; out += most) {
        int outs = job->n_outputs - out < most ? job->n_outputs - out : most;
        FloatJob near = *job;
        widen_weights(job, format, out, outs, wide);
        near.format = WEIGHT_F32;
        near.weights = (const uint8_t *)wide;
        near.scales = NULL;
        near.n_outputs = outs;
        near.bias = job->bias ? job->bias + out : NULL;
        near.y = job->y + out;
        float_blocks(&near, WEIGHT_F32);
    }
}

static inline __attribute__((always_inline)) void float_format(const FloatJob *job, WeightFormat format) {
    if (job->n_rows >= WIDE_ROWS && job->cols <= WIDE_BYTES / 4 / FLOAT_OUTS)
        float_widened(job, format);
    else
        float_blocks(job, format);
}

static void float_dots(const FloatJob *job) {
    switch (job->format) {
    case WEIGHT_F32: float_format(job, WEIGHT_F32); return;
    case WEIGHT_F16: float_format(job, WEIGHT_F16); return;
    case WEIGHT_BF16: float_format(job, WEIGHT_BF16); return;
    case WEIGHT_FP8: float_format(job, WEIGHT_FP8); return;
    default: float_format(job, WEIGHT_MXFP8); return;
    }
}

/* ---- row-wise operations ---- */

static float square_sum_row(const float *x, int n) {
    lf acc = lf_set(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        lf v = lf_load(x + i);
        acc = lf_fma(v, v, acc);
    }
    float lanes[16];
    lf_store(lanes, acc);
    for (int j = 0; i + j < n; j++) lanes[j] = __builtin_fmaf(x[i + j], x[i + j], lanes[j]);
    return lf_fold(lf_load(lanes));
}

static float sum_row(const float *x, int n) {
    lf acc = lf_set(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) acc = lf_add(acc, lf_load(x + i));
    float lanes[16];
    lf_store(lanes, acc);
    for (int j = 0; i + j < n; j++) lanes[j] += x[i + j];
    return lf_fold(lf_load(lanes));
}

static void rms_norm_row(const float *x, const float *weight, float eps, float *y, int n) {
    float r = 1.0f / __builtin_sqrtf(square_sum_row(x, n) / (float)n + eps);
    int i = 0;
    lf factor = lf_set(r);
    for (; i + 16 <= n; i += 16) {
        lf v = lf_mul(lf_load(x + i), factor);
        lf_store(y + i, weight ? lf_mul(v, lf_load(weight + i)) : v);
    }
    for (; i < n; i++) y[i] = weight ? x[i] * r * weight[i] : x[i] * r;
}

/* y = d / sqrt(mean(d^2) + eps) * weight + bias, d = x - mean(x); weight and bias NULL or [n]. */
static void layer_norm_row(const float *x, const float *weight, const float *bias, float eps, float *y, int n) {
    float mean = sum_row(x, n) / (float)n;
    for (int i = 0; i < n; i++) y[i] = x[i] - mean;
    lf factor = lf_set(1.0f / __builtin_sqrtf(square_sum_row(y, n) / (float)n + eps));
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        lf v = lf_mul(lf_load(y + i), factor);
        if (weight) v = lf_mul(v, lf_load(weight + i));
        lf_store(y + i, bias ? lf_add(v, lf_load(bias + i)) : v);
    }
    for (; i < n; i += 16) {
        float w[16] = {0}, b[16] = {0}, d[16] = {0};
        size_t rest = (size_t)(n - i < 16 ? n - i : 16) * sizeof *d;
        __builtin_memcpy(d, y + i, rest);
        lf v = lf_mul(lf_load(d), factor);
        if (weight) __builtin_memcpy(w, weight + i, rest), v = lf_mul(v, lf_load(w));
        if (bias) __builtin_memcpy(b, bias + i, rest), v = lf_add(v, lf_load(b));
        lf_store(d, v);
        __builtin_memcpy(y + i, d, rest);
    }
}

#include "math/kernels_elements.h"
#include "math/kernels_encode.h"
#include "math/kernels_recurrent.h"

static float maximum_row(const float *x, int n, float start) {
    lf m = lf_set(start);
    int i = 0;
    for (; i + 16 <= n; i += 16) m = lf_max(m, lf_load(x + i));
    float lanes[16];
    lf_store(lanes, m);
    float best = start;
    for (; i < n; i++) best = best > x[i] ? best : x[i];
    for (int j = 0; j < 16; j++) best = best > lanes[j] ? best : lanes[j];
    return best;
}

static bool all_finite_row(const float *x, int n) {
    return magnitude_bits(x, n) < 0x7F800000;
}

static float exp_sum_row(const float *x, float max, float *out, int n) {
    lf acc = lf_set(0.0f), m = lf_set(max);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        lf e = exp_lanes(lf_sub(lf_load(x + i), m));
        if (out) lf_store(out + i, e);
        acc = lf_add(acc, e);
    }
    float lanes[16];
    lf_store(lanes, acc);
    if (i < n) {
        float e[16] = {0};
        for (int j = 0; i + j < n; j++) e[j] = x[i + j] - max;
        lf_store(e, exp_lanes(lf_load(e)));
        for (int j = 0; i + j < n; j++) {
            lanes[j] += e[j];
            if (out) out[i + j] = e[j];
        }
    }
    return lf_fold(lf_load(lanes));
}

/* ---- attention ---- */

static float exp_block_row(float *x, float max, int first, int end) {
    lf acc = lf_set(0.0f), m = lf_set(max);
    int i = first / 16 * 16;
    for (; i < end; i += 16) {
        lf e = exp_lanes(lf_sub(lf_load(x + i), m));
        lf_store(x + i, e);
        if (i >= first && i + 16 <= end) {
            acc = lf_add(acc, e);
            continue;
        }
        float lanes[16];
        lf_store(lanes, acc);
        for (int j = 0; j < 16; j++)
            if (i + j >= first && i + j < end) lanes[j] += x[i + j];
        acc = lf_load(lanes);
    }
    return lf_fold(acc);
}

static bool kv_encode_row(KvFormat format, const float *x, int n, void *out, float *scale) {
    if (format == KV_I16 && n % 16 == 0) {
        QuantStep step;
        bool good = quantize_group(x, n, 32512.0f, out, &step);
        *scale = step.a;
        return good;
    }
    if (!all_finite_row(x, n)) return false;
    if (format == KV_F32) {
        __builtin_memcpy(out, x, (size_t)n * sizeof *x);
        return true;
    }
    float padded[16] = {0};
    int16_t wide[16];
    float a = 0, factor = 0;
    if (format == KV_I16) {
        float m = float_of_bits(magnitude_bits(x, n));
        if (m >= 0x1p-100f) a = m / 32512.0f, factor = 32512.0f / m;
        *scale = a;
    }
    for (int i = 0; i < n; i += 16) {
        int rest = n - i < 16 ? n - i : 16;
        __builtin_memcpy(padded, x + i, (size_t)rest * 4);
        lf v = lf_load(padded);
        switch (format) {
        case KV_F32: break; /* above */
        case KV_F16:
            lf_store_f16(wide, v);
            __builtin_memcpy((int16_t *)out + i, wide, (size_t)rest * 2);
            for (int j = 0; j < rest; j++)
                if ((wide[j] & 0x7C00) == 0x7C00) return false; /* past f16's range */
            break;
        case KV_BF16: { /* to nearest even, in integers */
            li b = li_bits(v), odd = li_and(li_shr(b, 16), li_set(1));
            li_store_i16(wide, li_sar16(li_add(li_add(b, li_set(0x7FFF)), odd)));
            __builtin_memcpy((int16_t *)out + i, wide, (size_t)rest * 2);
            break;
        }
        case KV_I16:
            li_store_i16(wide, li_from_lf(lf_mul(v, lf_set(factor))));
            __builtin_memcpy((int16_t *)out + i, wide, (size_t)rest * 2);
        }
    }
    return true;
}

static inline int kv_bytes(KvFormat format) {
    return format == KV_F32 ? 4 : 2;
}

static inline lf kv_lanes(KvFormat format, const uint8_t *p) {
    switch (format) {
    case KV_F32: return lf_load_bytes(p);
    case KV_F16: return lf_load_f16(p);
    case KV_BF16: return lf_bits(li_shl(li_load_u16(p), 16));
    default: return lf_from_li(li_load_i16(p));
    }
}

/* Asks for `n` bytes of what comes next. A page's keys are short runs in several places, which no prefetcher of a CPU
 * foresees: one row over 2,000 positions that are not in a cache (3 queries per key) took 8.0 ns per query and key, and
 * takes 4.2. */
static inline void fetch(const uint8_t *next, int n) {
    for (int i = 0; i < n; i += 64) __builtin_prefetch(next + i);
}

/* TALL_QUERIES: those of a block over one tile or vector of values, where there are more queries than SCORE_QUERIES or
 * VALUE_QUERIES; 0: blocks are of these widths always. No table has higher blocks than this: */
enum { MOST_QUERIES = 6 };
_Static_assert((int)SCORE_QUERIES <= MOST_QUERIES && (int)VALUE_QUERIES <= MOST_QUERIES &&
                   (int)TALL_QUERIES <= MOST_QUERIES,
               "a table's blocks of queries are too high");

/* `queries` queries by `tiles` tiles of 16 keys: one running fma per (query, key), head_dim ascending. */
static inline __attribute__((always_inline)) void score_block(const ScoreJob *job, KvFormat format, int query, int tile,
                                                              int queries, int tiles) {
    lf acc[MOST_QUERIES][SCORE_TILES];
    UNROLL for (int i = 0; i < queries; i++) UNROLL for (int t = 0; t < tiles; t++) acc[i][t] = lf_set(0.0f);
    int bytes = kv_bytes(format), dim = job->k_dim;
    const float *q[MOST_QUERIES];
    UNROLL for (int i = 0; i < queries; i++) q[i] = job->q[query + i];
    const uint8_t *keys = job->keys + (size_t)tile * (size_t)(dim * KV_TILE * bytes);
    for (int d = 0; d < dim; d++) {
        if (query == 0) fetch(job->next + (d * (KV_PAGE / KV_TILE) + tile) * KV_TILE * bytes, tiles * KV_TILE * bytes);
        lf k[SCORE_TILES];
        UNROLL for (int t = 0; t < tiles; t++) k[t] =
            kv_lanes(format, keys + (size_t)((t * dim + d) * KV_TILE * bytes));
        UNROLL for (int i = 0; i < queries; i++) {
            lf x = lf_set(q[i][d]);
            UNROLL for (int t = 0; t < tiles; t++) acc[i][t] = lf_fma(x, k[t], acc[i][t]);
        }
    }
    UNROLL for (int i = 0; i < queries; i++) UNROLL for (int t = 0; t < tiles; t++) {
        lf s = acc[i][t];
        if (format == KV_I16) s = lf_mul(s, lf_load(job->key_scale + (tile + t) * KV_TILE));
        lf_store(job->out[query + i] + (tile + t) * KV_TILE, lf_mul(s, lf_set(job->scale)));
    }
}

/* All queries against `tiles` tiles, `most` at a time. What is left of the last block goes as one of its own size: its
 * keys are widened once, and the more sums run side by side, the less each waits for its own. */
static inline __attribute__((always_inline)) void score_queries(const ScoreJob *job, KvFormat format, int tile,
                                                                int tiles, int most) {
    int query = 0;
    for (; query + most <= job->n_queries; query += most) score_block(job, format, query, tile, most, tiles);
    switch (job->n_queries - query) { /* `most` is a constant, and what it excludes is not compiled */
    case 5: most > 5 ? score_block(job, format, query, tile, 5, tiles) : (void)0; break;
    case 4: most > 4 ? score_block(job, format, query, tile, 4, tiles) : (void)0; break;
    case 3: most > 3 ? score_block(job, format, query, tile, 3, tiles) : (void)0; break;
    case 2: most > 2 ? score_block(job, format, query, tile, 2, tiles) : (void)0; break;
    case 1: score_block(job, format, query, tile, 1, tiles); break;
    }
}

static inline __attribute__((always_inline)) void score_format(const ScoreJob *job, KvFormat format) {
    int tile = job->first_tile;
    if (TALL_QUERIES > 0 && job->n_queries > SCORE_QUERIES) {
        for (; tile < job->end_tile; tile++) score_queries(job, format, tile, 1, TALL_QUERIES);
        return;
    }
    for (; tile + SCORE_TILES <= job->end_tile; tile += SCORE_TILES)
        score_queries(job, format, tile, SCORE_TILES, SCORE_QUERIES);
    for (; tile < job->end_tile; tile++) score_queries(job, format, tile, 1, SCORE_QUERIES);
}

static void score_tiles(const ScoreJob *job) {
    switch (job->format) {
    case KV_F32: score_format(job, KV_F32); return;
    case KV_F16: score_format(job, KV_F16); return;
    case KV_BF16: score_format(job, KV_BF16); return;
    case KV_I16: score_format(job, KV_I16); return;
    }
}

/* `queries` queries by `lanes` vectors of the value's dims, position by position. */
static inline __attribute__((always_inline)) void value_block(const ValueJob *job, KvFormat format, int query, int dim,
                                                              int queries, int lanes) {
    lf acc[MOST_QUERIES][VALUE_LANES];
    UNROLL for (int i = 0; i < queries; i++) UNROLL for (int l = 0; l < lanes; l++) acc[i][l] =
        lf_load(job->acc[query + i] + dim + l * 16);
    int bytes = kv_bytes(format);
    const uint8_t *v = job->values + (size_t)dim * (size_t)bytes;
    const float *weights[MOST_QUERIES];
    UNROLL for (int i = 0; i < queries; i++) weights[i] = job->weights[query + i];
    for (int p = job->first; p < job->end; p++) {
        if (query == 0) fetch(job->next + (size_t)(p * job->v_dim + dim) * (size_t)bytes, lanes * 16 * bytes);
        lf row[VALUE_LANES];
        UNROLL for (int l = 0; l < lanes; l++) row[l] =
            kv_lanes(format, v + ((size_t)p * (size_t)job->v_dim + (size_t)l * 16) * (size_t)bytes);
        UNROLL for (int i = 0; i < queries; i++) {
            lf weight = lf_set(weights[i][p]);
            UNROLL for (int l = 0; l < lanes; l++) acc[i][l] = lf_fma(weight, row[l], acc[i][l]);
        }
    }
    UNROLL for (int i = 0; i < queries; i++) UNROLL for (int l = 0; l < lanes; l++)
        lf_store(job->acc[query + i] + dim + l * 16, acc[i][l]);
}

/* Dims past the last whole vector, one by one. */
static void value_tail(const ValueJob *job, int query, int dim) {
    int bytes = kv_bytes(job->format);
    for (int p = job->first; p < job->end; p++) {
        uint8_t padded[64] = {0};
        float row[16];
        size_t at = ((size_t)p * (size_t)job->v_dim + (size_t)dim) * (size_t)bytes;
        __builtin_memcpy(padded, job->values + at, (size_t)((job->v_dim - dim) * bytes));
        lf_store(row, kv_lanes(job->format, padded));
        for (int d = dim; d < job->v_dim; d++)
            job->acc[query][d] = __builtin_fmaf(job->weights[query][p], row[d - dim], job->acc[query][d]);
    }
}

/* All queries by `lanes` vectors, `most` at a time; what is left of the last block as in score_queries. */
static inline __attribute__((always_inline)) void value_queries(const ValueJob *job, KvFormat format, int dim,
                                                                int lanes, int most) {
    int query = 0;
    for (; query + most <= job->n_queries; query += most) value_block(job, format, query, dim, most, lanes);
    switch (job->n_queries - query) {
    case 5: most > 5 ? value_block(job, format, query, dim, 5, lanes) : (void)0; break;
    case 4: most > 4 ? value_block(job, format, query, dim, 4, lanes) : (void)0; break;
    case 3: most > 3 ? value_block(job, format, query, dim, 3, lanes) : (void)0; break;
    case 2: most > 2 ? value_block(job, format, query, dim, 2, lanes) : (void)0; break;
    case 1: value_block(job, format, query, dim, 1, lanes); break;
    }
}

static inline __attribute__((always_inline)) void value_vectors(const ValueJob *job, KvFormat format, int whole) {
    int dim = 0;
    if (TALL_QUERIES > 0 && job->n_queries > VALUE_QUERIES) {
        for (; dim < whole; dim += 16) value_queries(job, format, dim, 1, TALL_QUERIES);
        return;
    }
    for (; dim + VALUE_LANES * 16 <= whole; dim += VALUE_LANES * 16)
        value_queries(job, format, dim, VALUE_LANES, VALUE_QUERIES);
    for (; dim < whole; dim += 16) value_queries(job, format, dim, 1, VALUE_QUERIES);
}

static inline __attribute__((always_inline)) void value_format(const ValueJob *job, KvFormat format) {
    int whole = job->v_dim / 16 * 16;
    value_vectors(job, format, whole);
    if (whole < job->v_dim)
        for (int query = 0; query < job->n_queries; query++) value_tail(job, query, whole);
}

/* The weight of an i16 value is rounded once, times its scale, before the fma: for the whole page at once, since it is
 * the same for every dim. */
static void value_scaled(const ValueJob *job) {
    float scaled[ATTEND_QUERIES][KV_PAGE];
    const float *weights[ATTEND_QUERIES];
    ValueJob whole = *job;
    whole.weights = weights;
    for (int i = 0; i < job->n_queries; i++) {
        weights[i] = scaled[i];
        for (int p = job->first / 16 * 16; p < job->end; p += 16)
            lf_store(scaled[i] + p, lf_mul(lf_load(job->weights[i] + p), lf_load(job->value_scale + p)));
    }
    value_format(&whole, KV_I16);
}

static void value_rows(const ValueJob *job) {
    switch (job->format) {
    case KV_F32: value_format(job, KV_F32); return;
    case KV_F16: value_format(job, KV_F16); return;
    case KV_BF16: value_format(job, KV_BF16); return;
    case KV_I16: value_scaled(job); return;
    }
}

#define KERNELS_BODY_FIELDS                                                                                       \
    .quantize = quantize_row, .quant_copy = quant_copy_row, .floats = float_dots, .rms_norm = rms_norm_row,       \
    .layer_norm = layer_norm_row, .add = add_row, .elements = elements_row, .maximum = maximum_row,               \
    .all_finite = all_finite_row, .exp_sum = exp_sum_row, .exp_block = exp_block_row, .kv_encode = kv_encode_row, \
    .scores = score_tiles, .values = value_rows, .outer_step = outer_step, .conv_step = conv_step,                \
    .scan_step = scan_step, .lru_step = lru_step, .wkv_step = wkv_step, .floats_read = floats_read_row,           \
    .encode = encode_groups
