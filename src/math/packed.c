/* Published forms become rows of codes, scales and biases. Codes are unpacked to bytes, a strip of rows by a stretch of
 * inputs at a time, whatever their order in the file, and put together again as the stream that tile.c reads.
 *
 * Nothing is lost on the way: a code is moved, a scale keeps its type, and a zero point becomes the bias -zero * scale
 * where that product is a number of the bias's type exactly; otherwise the weights become f32, which is what the form
 * itself means by them. */
#include "math/packed.h"
#include "base/memory.h"
#include "math/format_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STRIP_ROWS = 64, STRETCH = 256 };

typedef struct Pick {
    const PackedSource *from;
    const RowPick *rows;
    const int32_t *group_of; /* [cols]; NULL: input / group */
    const int32_t *order;    /* [cols]: the input of column k; NULL: they are in order */
    WeightSource *out;
    uint8_t *codes, *scales, *biases; /* what `out` points to, to be filled */
    uint64_t code_bytes;              /* of a row */
    int64_t groups;                   /* of a row of `out` */
} Pick;

static int64_t source_row(const RowPick *p, int64_t i) {
    return p->from + i / p->take * p->period + i % p->take;
}

static uint32_t read_word(const void *p, int64_t i) {
    uint32_t v;
    memcpy(&v, (const uint8_t *)p + i * 4, 4);
    return v;
}

/* The code at `bit` of a stream whose words lie `stride` apart from word `first` on. */
static unsigned stream_code(const void *p, int64_t first, int64_t stride, int64_t bit, int bits) {
    unsigned shift = (unsigned)(bit % 32);
    uint64_t window = read_word(p, first + bit / 32 * stride);
    if ((int)shift + bits > 32) window |= (uint64_t)read_word(p, first + (bit / 32 + 1) * stride) << 32;
    return (unsigned)(window >> shift) & ((1u << bits) - 1);
}

static unsigned awq_code(uint32_t word, int64_t output) {
    static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* which nibble holds the output */
    return word >> (4 * place[output % 8]) & 15;
}

/* ---- scales and zeros ---- */

static float read_float(const void *p, PackedScale type, int64_t i) {
    uint16_t half;
    float f;
    switch (type) {
    case PACKED_F16: memcpy(&half, (const uint8_t *)p + i * 2, 2); return format_f16(half);
    case PACKED_BF16: memcpy(&half, (const uint8_t *)p + i * 2, 2); return format_bf16(half);
    case PACKED_E4M3: return format_e4m3(((const uint8_t *)p)[i]);
    case PACKED_E8M0: return format_e8m0(((const uint8_t *)p)[i]);
    case PACKED_F32: break;
    }
    memcpy(&f, (const uint8_t *)p + i * 4, 4);
    return f;
}

static int64_t scale_index(const PackedSource *s, int64_t row, int64_t group) {
    return row / s->rows_per_scale * s->row_stride + group * s->group_stride;
}

static float scale_at(const PackedSource *s, int64_t row, int64_t group) {
    float scale = read_float(s->scales, s->scale_type, scale_index(s, row, group));
    if (s->inverse) scale = 1.0f / scale;
    return s->divisor != 0 ? scale / s->divisor : scale;
}

/* AutoGPTQ saves zero - 1, a zero of 0 wrapping around: gptqmodel, which transformers runs, adds a one to every field
 * of the packed word as a whole, carries included, except for 3 bits, where it adds field by field. */
static int less_one_zero(const PackedSource *s, int64_t row, int64_t first) {
    static const uint32_t ones[9] = {[2] = 0x55555555, [4] = 0x11111111, [8] = 0x01010101};
    int bits = s->bits, mask = (1 << bits) - 1;
    if (ones[bits] == 0) return (int)(stream_code(s->zeros, first, 1, row * bits, bits) + 1) & mask;
    return (int)((read_word(s->zeros, first + row * bits / 32) + ones[bits]) >> (row * bits % 32)) & mask;
}

/* What codes are counted from. */
static int zero_at(const PackedSource *s, int64_t row, int64_t group) {
    int64_t n_groups = (s->cols + s->group - 1) / s->group, words = (s->rows * s->bits + 31) / 32;
    switch (s->zero_form) {
    case ZEROS_COLUMNS: return (int)stream_code(s->zeros, group * words, 1, row * s->bits, s->bits);
    case ZEROS_COLUMNS_LESS_ONE: return less_one_zero(s, row, group * words);
    case ZEROS_AWQ: return (int)awq_code(read_word(s->zeros, group * (s->rows / 8) + row / 8), row);
    case ZEROS_ROWS: return (int)stream_code(s->zeros, group, n_groups, row * s->bits, s->bits);
    case ZEROS_BYTES: return ((const int8_t *)s->zeros)[scale_index(s, row, group)] + (1 << (s->bits - 1));
    case ZEROS_NONE: break;
    }
    return 1 << (s->bits - 1);
}

static int64_t group_at(const Pick *p, int64_t input) {
    return p->group_of ? p->group_of[input] : input / p->from->group;
}

/* ---- codes ---- */

typedef struct Codes {
    uint8_t of[STRIP_ROWS][STRETCH];
} Codes;

static inline __attribute__((always_inline)) uint8_t code_at(const PackedSource *s, PackedCodes form, int64_t row,
                                                             int64_t input) {
    const uint8_t *bytes = s->codes;
    int64_t quarter = s->rows / 4;
    switch (form) {
    case PACKED_ROWS: return (uint8_t)stream_code(bytes, row * s->words, 1, input * s->bits, s->bits);
    case PACKED_COLUMNS: return (uint8_t)stream_code(bytes, row, s->rows, input * s->bits, s->bits);
    case PACKED_AWQ: return (uint8_t)awq_code(read_word(bytes, input * (s->rows / 8) + row / 8), row);
    case PACKED_BYTES: return bytes[row * s->cols + input] ^ 0x80;
    case PACKED_TERNARY: /* -1, 0, 1 as 1, 2, 3: what signed codes of two bits are */
        return (uint8_t)((bytes[row % quarter * s->cols + input] >> (row / quarter * 2) & 3) + 1) & 3;
    case PACKED_FP4: return bytes[(row * s->cols + input) / 2] >> (input % 2 * 4) & 15;
    case PACKED_FP8: break;
    }
    return bytes[row * s->cols + input];
}

/* Codes of inputs [k, k + n) of picked rows [first, first + rows): inputs outermost, since that is how most of the
 * forms that are not row-major lie. */
static inline __attribute__((always_inline)) void read_form(const Pick *p, PackedCodes form, const int64_t *from,
                                                            int rows, int64_t k, int n, Codes *codes) {
    for (int i = 0; i < n; i++) {
        int64_t input = p->order ? p->order[k + i] : k + i;
        for (int r = 0; r < rows; r++) codes->of[r][i] = code_at(p->from, form, from[r], input);
    }
}

static void read_codes(const Pick *p, int64_t first, int rows, int64_t k, int n, Codes *codes) {
    int64_t from[STRIP_ROWS];
    for (int r = 0; r < rows; r++) from[r] = source_row(p->rows, first + r);
    switch (p->from->form) {
    case PACKED_ROWS: read_form(p, PACKED_ROWS, from, rows, k, n, codes); break;
    case PACKED_COLUMNS: read_form(p, PACKED_COLUMNS, from, rows, k, n, codes); break;
    case PACKED_AWQ: read_form(p, PACKED_AWQ, from, rows, k, n, codes); break;
    case PACKED_BYTES: read_form(p, PACKED_BYTES, from, rows, k, n, codes); break;
    case PACKED_TERNARY: read_form(p, PACKED_TERNARY, from, rows, k, n, codes); break;
    case PACKED_FP4: read_form(p, PACKED_FP4, from, rows, k, n, codes); break;
    case PACKED_FP8: read_form(p, PACKED_FP8, from, rows, k, n, codes); break;
    }
}

/* n codes, a multiple of 8, as a stream of bits; `to` takes n * bits / 8 bytes. */
static void write_stream(const uint8_t *codes, int n, int bits, uint8_t *to) {
    uint32_t window = 0;
    int held = 0;
    for (int i = 0; i < n; i++) {
        window |= (uint32_t)codes[i] << held;
        for (held += bits; held >= 8; held -= 8, window >>= 8) *to++ = (uint8_t)window;
    }
}

static void write_floats(const Pick *p, int64_t row, const uint8_t *codes, int64_t k, int n, float *to) {
    const PackedSource *s = p->from;
    for (int i = 0; i < n; i++) {
        int64_t group = group_at(p, k + i);
        float scale = scale_at(s, row, group);
        if (s->form == PACKED_FP8)
            to[i] = format_e4m3(codes[i]) * scale;
        else if (s->form == PACKED_FP4)
            to[i] = format_fp4_halves[codes[i]] * (scale * 0.5f);
        else
            to[i] = (float)((int)codes[i] - zero_at(s, row, group)) * scale;
    }
}

static void write_float_row(const Pick *p, int64_t i, const uint8_t *codes, int64_t k, int n) {
    float values[STRETCH];
    write_floats(p, source_row(p->rows, i), codes, k, n, values);
    memcpy(p->codes + (uint64_t)i * p->code_bytes + (uint64_t)k * 4, values, (size_t)n * 4);
}

static void put_scale(uint8_t *to, int64_t i, ScaleType type, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (type == SCALE_F32)
        memcpy(to + i * 4, &bits, 4);
    else {
        uint16_t half = type == SCALE_BF16 ? (uint16_t)(bits >> 16) : format_to_f16(value);
        memcpy(to + i * 2, &half, 2);
    }
}

/* Scales, and biases, of one row of `out`. */
static void write_scales(const Pick *p, int64_t i) {
    const WeightSource *w = p->out;
    int64_t row = source_row(p->rows, i), group = w->cols / p->groups;
    ScaleType type = w->format == WEIGHT_FP4 || w->format == WEIGHT_FP8 ? SCALE_F32 : w->scale_type;
    if (w->format == WEIGHT_FP8) group = 128;
    for (int64_t g = 0; g < p->groups; g++) {
        int64_t input = p->order ? p->order[g * group] : g * group, of = group_at(p, input);
        float scale = scale_at(p->from, row, of);
        put_scale(p->scales, i * p->groups + g, type, scale);
        if (p->biases) put_scale(p->biases, i * p->groups + g, type, -((float)zero_at(p->from, row, of) * scale));
    }
}

static void pick_task(void *context, int task, int thread) {
    const Pick *p = context;
    Codes codes;
    int64_t first = (int64_t)task * STRIP_ROWS, left = p->out->rows - first;
    int rows = left < STRIP_ROWS ? (int)left : STRIP_ROWS, bits = format_bits(p->out);
    (void)thread;
    for (int64_t k = 0; p->codes && k < p->out->cols; k += STRETCH) {
        int n = p->out->cols - k < STRETCH ? (int)(p->out->cols - k) : STRETCH;
        read_codes(p, first, rows, k, n, &codes);
        for (int r = 0; r < rows; r++) {
            if (p->out->format == WEIGHT_F32)
                write_float_row(p, first + r, codes.of[r], k, n);
            else
                write_stream(codes.of[r], n, bits,
                             p->codes + (uint64_t)(first + r) * p->code_bytes + (uint64_t)(k * bits / 8));
        }
    }
    for (int r = 0; p->scales && r < rows; r++) write_scales(p, first + r);
}

/* ---- which format ---- */

/* Whether a float is a number of the type exactly. */
static bool is_of_type(float value, ScaleType type) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (type == SCALE_F32) return true;
    return type == SCALE_BF16 ? (bits & 0xFFFF) == 0 : format_f16(format_to_f16(value)) == value;
}

/* What the zeros of the picked rows allow. */
typedef struct Zeros {
    bool centred;  /* all are 2^(bits - 1) */
    bool exact[3]; /* of each ScaleType: every scale and -zero * scale is a number of it */
} Zeros;

static Zeros look_at_zeros(const Pick *p) {
    const PackedSource *s = p->from;
    int64_t n_groups = (s->cols + s->group - 1) / s->group;
    Zeros z = {true, {true, true, true}};
    for (int64_t i = 0; i < p->rows->rows; i++)
        for (int64_t g = 0; g < n_groups; g++) {
            int64_t row = source_row(p->rows, i);
            float scale = scale_at(s, row, g), bias = (float)zero_at(s, row, g) * scale;
            z.centred = z.centred && zero_at(s, row, g) == 1 << (s->bits - 1);
            z.exact[SCALE_F32] = z.exact[SCALE_F32] && (double)bias == (double)zero_at(s, row, g) * (double)scale;
            for (int t = SCALE_F16; t <= SCALE_BF16; t++)
                z.exact[t] = z.exact[t] && is_of_type(scale, (ScaleType)t) && is_of_type(bias, (ScaleType)t);
        }
    return z;
}

/* The largest group of tiles that no boundary of scales cuts; 0: none. */
static int tile_group(const PackedSource *s) {
    for (int group = 128; group >= 32; group /= 2)
        if (s->cols % group == 0 && (s->group >= s->cols || s->group % group == 0)) return group;
    return 0;
}

static ScaleType own_type(const PackedSource *s) {
    if (s->inverse || s->divisor != 0) return SCALE_F32;
    return s->scale_type == PACKED_F16 ? SCALE_F16 : s->scale_type == PACKED_BF16 ? SCALE_BF16 : SCALE_F32;
}

/* Integer codes: signed where all zeros are the middle, affine where biases are exact; else f32, with a note. */
static void choose_integer(const Pick *p, WeightSource *w, char note[PACKED_NOTE]) {
    const PackedSource *s = p->from;
    int group = tile_group(s);
    w->format = WEIGHT_F32;
    if (s->group_of && !p->order)
        snprintf(note, PACKED_NOTE, "inputs of a group are not as many as the group size");
    else if (group == 0)
        snprintf(note, PACKED_NOTE, "groups of %lld among %lld inputs are no multiple of 32", (long long)s->group,
                 (long long)s->cols);
    if (note[0]) return;
    Zeros z = look_at_zeros(p);
    ScaleType type = own_type(s);
    if (!z.centred && !z.exact[type]) type = SCALE_F32;
    if (!z.centred && !z.exact[type])
        snprintf(note, PACKED_NOTE, "zero points times f32 scales are not exact");
    else
        *w = (WeightSource){.format = z.centred ? WEIGHT_SIGNED : WEIGHT_AFFINE,
                            .bits = s->bits,
                            .group = group,
                            .rows = w->rows,
                            .cols = w->cols,
                            .scale_type = type};
}

static void choose_format(const Pick *p, WeightSource *w, char note[PACKED_NOTE]) {
    const PackedSource *s = p->from;
    if (s->form == PACKED_FP8) {
        w->format = s->group >= s->cols || s->group % 128 == 0 ? WEIGHT_FP8 : WEIGHT_F32;
    } else if (s->form == PACKED_FP4) {
        w->format = s->group == 16 && s->cols % 16 == 0 ? WEIGHT_FP4 : WEIGHT_F32;
    } else {
        choose_integer(p, w, note);
        return;
    }
    if (w->format == WEIGHT_F32)
        snprintf(note, PACKED_NOTE, "groups of %lld inputs are none of %s", (long long)s->group,
                 s->form == PACKED_FP8 ? "128" : "16");
}

/* ---- groups in any order ---- */

/* Of codes in act-order: the groups as aligned i32, checked, and which of them lie where. */
static bool read_groups(const PackedSource *s, int32_t **group_of, Error *err) {
    int64_t n_groups = (s->cols + s->group - 1) / s->group;
    int32_t *groups = mem_array((size_t)s->cols, sizeof *groups);
    if (!groups) return error_memory(err, "groups of inputs");
    memcpy(groups, s->group_of, (size_t)s->cols * sizeof *groups);
    for (int64_t k = 0; k < s->cols; k++)
        if (groups[k] < 0 || groups[k] >= n_groups) {
            error_set(err, "input %lld is said to be of group %d, and there are %lld groups", (long long)k,
                      (int)groups[k], (long long)n_groups);
            mem_free(groups);
            return false;
        }
    *group_of = groups;
    return true;
}

/* Column k of whole groups, each as large as it should be, becomes input (*order)[k]; NULL when some group is not. */
static bool order_groups(const PackedSource *s, const int32_t *group_of, int32_t **order, Error *err) {
    int64_t n_groups = (s->cols + s->group - 1) / s->group;
    int64_t *next = mem_array((size_t)n_groups, sizeof *next);
    int32_t *inputs = mem_array((size_t)s->cols, sizeof *inputs);
    bool ok = next && inputs, whole = ok;
    for (int64_t g = 0; ok && g < n_groups; g++) next[g] = g * s->group;
    for (int64_t k = 0; whole && k < s->cols; k++) {
        int64_t g = group_of[k], end = (g + 1) * s->group < s->cols ? (g + 1) * s->group : s->cols;
        whole = next[g] < end; /* as many as that in every group, since they are all the inputs there are */
        if (whole) inputs[next[g]++] = (int32_t)k;
    }
    mem_free(next);
    if (!whole) {
        mem_free(inputs);
        inputs = NULL;
    }
    *order = inputs;
    return ok || error_memory(err, "groups of inputs");
}

static bool in_plain_order(const PackedSource *s, const int32_t *group_of) {
    for (int64_t k = 0; k < s->cols; k++)
        if (group_of[k] != k / s->group) return false;
    return true;
}

/* ---- the whole ---- */

/* Memory for what `out` will point to, as one block. */
static bool allocate(Pick *p, void **copy, Error *err) {
    WeightSource *w = p->out;
    WeightRowBytes bytes;
    bool together = p->rows->take >= p->rows->rows, borrowed = w->format == WEIGHT_FP8 && together;
    if (!weight_row_bytes(w, &bytes, err)) return false;
    bool biased = w->format == WEIGHT_AFFINE;
    uint64_t rows = (uint64_t)w->rows, order = p->order ? (uint64_t)w->cols * 4 : 0, size;
    uint64_t codes = borrowed ? 0 : bytes.codes, each = codes + bytes.scales * (biased ? 2 : 1);
    uint8_t *block =
        mem_product(rows, each, &size) && size < SIZE_MAX - order ? mem_array((size_t)(size + order), 1) : NULL;
    if (!block) return error_memory(err, "a quantised weight");
    *copy = block;
    if (order) {
        memcpy(block, p->order, (size_t)order);
        w->order = (const int32_t *)(void *)block;
        block += order;
    }
    p->scales = bytes.scales ? block : NULL; /* first, so that f32 ones are aligned */
    p->biases = biased ? block + rows * bytes.scales : NULL;
    p->codes = borrowed ? NULL : block + rows * (each - codes);
    p->code_bytes = bytes.codes;
    p->groups = bytes.scales
                    ? (int64_t)bytes.scales /
                          (w->format == WEIGHT_FP4 || w->format == WEIGHT_FP8 || w->scale_type == SCALE_F32 ? 4 : 2)
                    : 1;
    w->scales = p->scales;
    w->biases = p->biases;
    w->codes = borrowed ? (const uint8_t *)p->from->codes + (uint64_t)p->rows->from * bytes.codes : p->codes;
    return true;
}

bool packed_pick(const PackedSource *from, const RowPick *pick, Pool *pool, WeightSource *out, void **copy,
                 char note[PACKED_NOTE], Error *err) {
    WeightSource w = {.rows = pick->rows, .cols = from->cols};
    Pick p = {.from = from, .rows = pick, .out = &w};
    int32_t *group_of = NULL, *order = NULL;
    *copy = NULL;
    note[0] = 0;
    if (from->group_of && !read_groups(from, &group_of, err)) return false;
    PackedSource plain = *from;
    if (group_of && in_plain_order(from, group_of)) {
        plain.group_of = NULL;
        p.from = &plain;
        mem_free(group_of);
        group_of = NULL;
    }
    p.group_of = group_of;
    bool ok = !group_of || order_groups(from, group_of, &order, err);
    if (ok) {
        p.order = order;
        choose_format(&p, &w, note);
        if (w.format == WEIGHT_F32) p.order = NULL;
    }
    ok = ok && allocate(&p, copy, err);
    if (ok) pool_run(pool, pick_task, &p, (int)((w.rows + STRIP_ROWS - 1) / STRIP_ROWS));
    mem_free(group_of);
    mem_free(order);
    if (ok) *out = w;
    return ok;
}

/* ---- floats to ternary codes ---- */

/* The sum is taken in double: a mean that differs in its last bits from another program's changes no code but by an
 * accident of rounding. */
static bool mean_magnitude(const WeightSource *floats, float *row, float *mean) {
    double sum = 0;
    for (int64_t r = 0; r < floats->rows; r++) {
        weight_row(floats, r, row);
        for (int64_t k = 0; k < floats->cols; k++) sum += fabs((double)row[k]);
    }
    *mean = (float)(sum / ((double)floats->rows * (double)floats->cols));
    return isfinite(*mean);
}

/* Two bits each: 1, 2, 3 for -1, 0, 1. */
static void write_ternary(const float *row, int64_t n, float factor, uint32_t *words) {
    for (int64_t k = 0; k < n; k++) {
        float v = rintf(row[k] * factor);
        uint32_t code = v < 0 ? 1 : v > 0 ? 3 : 2;
        words[k / 16] |= code << (k % 16 * 2);
    }
}

bool packed_ternarise(const WeightSource *floats, PackedSource *out, void **made, Error *err) {
    int64_t words = (floats->cols + 15) / 16;
    float *row = mem_array((size_t)floats->cols, sizeof *row), mean;
    uint32_t *block = NULL;
    uint64_t size;
    *made = NULL;
    if (mem_product((uint64_t)floats->rows, (uint64_t)words, &size)) block = mem_zeroed((size_t)size + 1, 4);
    bool memory = row && block, finite = memory && mean_magnitude(floats, row, &mean);
    if (finite) {
        float factor = 1.0f / (mean < 1e-5f ? 1e-5f : mean);
        memcpy(block, &factor, 4); /* the scale, by which codes are divided */
        for (int64_t r = 0; r < floats->rows; r++) {
            weight_row(floats, r, row);
            write_ternary(row, floats->cols, factor, block + 1 + r * words);
        }
        *out = (PackedSource){.form = PACKED_ROWS,
                              .bits = 2,
                              .rows = floats->rows,
                              .cols = floats->cols,
                              .words = words,
                              .group = floats->cols,
                              .codes = block + 1,
                              .scales = block,
                              .rows_per_scale = 1,
                              .inverse = true};
        *made = block;
    }
    mem_free(row);
    if (!finite) mem_free(block);
    if (!memory) return error_memory(err, "ternary weights");
    return finite || error_set(err, "a weight that is not finite");
}
