/* Matrices whose rows do not lie together: parts of fused projections, and tensors saved as [inputs, outputs]. They are
 * put in order once, at load, so that nothing after that needs to know. */
#include "math/format_rows.h"
#include "base/memory.h"
#include "math/kernel_table.h"

#include <math.h>
#include <string.h>

static int64_t source_row(const RowPick *p, int64_t i) {
    return p->from + i / p->take * p->period + i % p->take;
}

/* The chosen rows of one part of a source, `bytes` each, one after the other at `to`; returns where they begin. */
static const void *gather_part(const void *part, uint64_t bytes, const RowPick *p, uint8_t **to) {
    if (!part) return NULL;
    uint8_t *begin = *to;
    for (int64_t i = 0; i < p->rows; i++)
        memcpy(begin + (uint64_t)i * bytes, (const uint8_t *)part + (uint64_t)source_row(p, i) * bytes, bytes);
    *to += (uint64_t)p->rows * bytes;
    return begin;
}

static const void *skip_rows(const void *part, uint64_t bytes, int64_t rows) {
    return part ? (const uint8_t *)part + bytes * (uint64_t)rows : NULL;
}

bool weight_rows_pick(const WeightSource *from, const RowPick *p, WeightSource *out, void **copy, Error *err) {
    WeightRowBytes b;
    *copy = NULL;
    if (!weight_row_bytes(from, &b, err)) return false;
    WeightSource s = *from;
    s.rows = p->rows;
    if (p->take >= p->rows) { /* they lie together */
        s.codes = skip_rows(from->codes, b.codes, p->from);
        s.scales = skip_rows(from->scales, b.scales, p->from);
        s.biases = skip_rows(from->biases, b.scales, p->from);
        s.d = skip_rows(from->d, b.d, p->from);
        s.dmin = skip_rows(from->dmin, b.d, p->from);
        *out = s;
        return true;
    }
    uint8_t *to = mem_array((size_t)p->rows, (size_t)(b.codes + 2 * b.scales + 2 * b.d));
    if (!to) return error_memory(err, "rows of a fused weight");
    *copy = to;
    s.codes = gather_part(from->codes, b.codes, p, &to);
    s.scales = gather_part(from->scales, b.scales, p, &to);
    s.biases = gather_part(from->biases, b.scales, p, &to);
    s.d = gather_part(from->d, b.d, p, &to);
    s.dmin = gather_part(from->dmin, b.d, p, &to);
    *out = s;
    return true;
}

bool weight_is_float(const WeightSource *s) {
    return s->format == WEIGHT_F32 || s->format == WEIGHT_F16 || s->format == WEIGHT_BF16;
}

static void transpose_plain(const WeightSource *from, const RowPick *p, size_t size, uint8_t *to) {
    size_t inputs = (size_t)from->rows, there = (size_t)from->cols;
    for (int64_t i = 0; i < p->rows; i++) {
        const uint8_t *column = (const uint8_t *)from->codes + (size_t)source_row(p, i) * size;
        for (size_t k = 0; k < inputs; k++)
            memcpy(to + ((size_t)i * inputs + k) * size, column + k * there * size, size);
    }
}

static bool transpose_quantised(const WeightSource *from, const RowPick *p, float *to) {
    float *row = mem_array((size_t)from->cols, sizeof *row);
    for (int64_t k = 0; row && k < from->rows; k++) {
        weight_row(from, k, row);
        for (int64_t i = 0; i < p->rows; i++) to[i * from->rows + k] = row[source_row(p, i)];
    }
    mem_free(row);
    return row != NULL;
}

bool weight_columns_pick(const WeightSource *from, const RowPick *p, WeightSource *out, void **copy, Error *err) {
    bool plain = weight_is_float(from);
    size_t size = plain && from->format != WEIGHT_F32 ? 2 : 4;
    void *to = mem_array((size_t)p->rows * (size_t)from->rows, size);
    *copy = NULL;
    if (!to) return error_memory(err, "a transposed weight");
    if (plain) {
        transpose_plain(from, p, size, to);
    } else if (!transpose_quantised(from, p, to)) {
        mem_free(to);
        return error_memory(err, "a transposed weight");
    }
    *copy = to;
    *out =
        (WeightSource){.format = plain ? from->format : WEIGHT_F32, .rows = p->rows, .cols = from->rows, .codes = to};
    return true;
}

static void divide_by_length(float *row, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)row[i] * (double)row[i];
    float length = (float)sqrt(squares) + 1e-7f;
    for (int64_t i = 0; i < n; i++) row[i] /= length;
}

bool weight_unit_rows(const WeightSource *from, WeightSource *out, void **copy, Error *err) {
    KvFormat type = from->format == WEIGHT_F32 ? KV_F32 : from->format == WEIGHT_F16 ? KV_F16 : KV_BF16;
    size_t row_bytes = (size_t)from->cols * (from->format == WEIGHT_F32 ? 4 : 2);
    float *row = mem_array((size_t)from->cols, sizeof *row), unused;
    uint8_t *to = mem_array((size_t)from->rows, row_bytes);
    for (int64_t i = 0; row && to && i < from->rows; i++) {
        weight_row(from, i, row);
        divide_by_length(row, from->cols);
        if (!kernels()->kv_encode(type, row, (int)from->cols, to + (size_t)i * row_bytes, &unused)) /* not finite */
            memcpy(to + (size_t)i * row_bytes, (const uint8_t *)from->codes + (size_t)i * row_bytes, row_bytes);
    }
    mem_free(row);
    *copy = to;
    if (!row || !to) {
        mem_free(to);
        *copy = NULL;
        return error_memory(err, "a matrix of unit rows");
    }
    *out = *from;
    out->codes = to;
    return true;
}
