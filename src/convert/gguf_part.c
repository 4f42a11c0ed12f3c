/* Rows of parts, made from the mapped source in the row order of the checkpoint. A row is whole blocks, so undoing the
 * interleaving of q and k rows is only a matter of which row is read; the columns of value heads are moved block by
 * block. */
#include "convert/gguf_part.h"

#include <math.h>
#include <string.h>

DType gguf_float_dtype(uint32_t type) {
    return type == GGML_F32 ? DTYPE_F32 : type == GGML_F16 ? DTYPE_F16 : DTYPE_BF16;
}

/* ---- which row ---- */

/* Where value r of the heads of values stands in the source. */
static int64_t source_value(const Part *part, int64_t r) {
    int64_t head = r / part->value_dim, group = part->value_heads / part->key_heads;
    if (group < 1) return r; /* never: the model's sizes were checked */
    return (head % group * part->key_heads + head / group) * part->value_dim + r % part->value_dim;
}

/* Row r of the checkpoint stands in the file at: within a head, halves are interleaved. */
static int64_t source_row(const Part *part, int64_t r) {
    int64_t first = part->rows - part->value_heads * part->value_dim;
    if (part->value_heads && !part->columns) return r < first ? r : first + source_value(part, r - first);
    if (part->of) return part->first + r;
    int64_t each = part->turns ? part->rows / part->turns : 0;
    if (part->turns) return r / each * 2 * each + (part->second ? each : 0) + r % each;
    if (!part->heads) return r;
    int64_t size = part->rows / part->heads, half = size / 2, within = r % size;
    return r - within + within % half * 2 + within / half;
}

uint64_t part_source_row_bytes(const Part *part) {
    if (part->of) return part->source->bytes / (uint64_t)part->of;
    int64_t rows = part->turns ? 2 * part->rows : part->below ? part->rows / 2 : part->rows;
    return part->source->bytes / (uint64_t)rows;
}

/* ---- blocks ---- */

static bool half_is_finite(const uint8_t *p) {
    return (p[1] & 0x7C) != 0x7C;
}

static bool copy_half(const uint8_t *from, uint8_t *to) {
    to[0] = from[0];
    to[1] = from[1];
    return half_is_finite(from);
}

static bool put_half(float v, uint8_t *to) {
    uint16_t h = half_from_float(v);
    to[0] = (uint8_t)h;
    to[1] = (uint8_t)(h >> 8);
    return half_is_finite(to);
}

static bool bias_half(const BlockFormat *f, const uint8_t *block, uint8_t *out) {
    if (f->min_at >= 0) return copy_half(block + f->min_at, out);
    float d = half_to_float((uint16_t)(block[f->scale_at] | block[f->scale_at + 1] << 8));
    return put_half((float)-f->offset * d, out);
}

static bool groups_f32(const BlockFormat *f, const uint8_t *block, bool bias, uint8_t *out) {
    bool ok = true;
    for (int j = 0; j < f->values / f->group; j++) {
        float scale, min;
        block_scale(f, block, j, &scale, &min);
        float v = !bias ? scale : f->offset ? -((float)f->offset * scale) - min : -min;
        ok = ok && v - v == 0.0f;
        memcpy(out + 4 * j, &v, 4);
    }
    return ok;
}

/* The half of a block's scale or bias for each of its groups, which is one but where groups are shorter than blocks. */
static bool repeat_half(const BlockFormat *f, const uint8_t *block, bool bias, uint8_t *out) {
    bool ok = true;
    for (int j = 0; j < (f->sub_bytes ? 1 : f->values / f->group); j++)
        ok = (bias ? bias_half(f, block, out + 2 * j) : copy_half(block + f->scale_at, out + 2 * j)) && ok;
    return ok;
}

static bool float_block(const BlockFormat *f, const uint8_t *block, uint8_t *out) {
    float values[256];
    bool ok = true;
    gguf_dequantize_row(f->type, block, f->values, values);
    for (int i = 0; i < f->values; i++) ok = ok && isfinite(values[i]);
    memcpy(out, values, (size_t)f->values * sizeof *values);
    return ok;
}

static bool wide_block(const BlockFormat *f, const uint8_t *block, uint8_t *out) {
    float values[256];
    gguf_dequantize_row(f->type, block, f->values, values);
    for (int i = 0; i < f->values; i++)
        if (!put_half(values[i], out + 2 * i)) return false;
    return true;
}

static bool write_block(const Part *part, const uint8_t *block, uint8_t *out) {
    const BlockFormat *f = part->format;
    uint8_t codes[256];
    switch (part->kind) {
    case PART_CODES:
        f->codes(block, codes);
        pack_codes(codes, f->values, f->bits, out);
        return true;
    case PART_SCALE: return repeat_half(f, block, false, out);
    case PART_BIAS: return repeat_half(f, block, true, out);
    case PART_DMIN: return copy_half(block + f->min_at, out);
    case PART_SUB: memcpy(out, block + f->sub_at, (size_t)f->sub_bytes); return true;
    case PART_SCALE_F32: return groups_f32(f, block, false, out);
    case PART_BIAS_F32: return groups_f32(f, block, true, out);
    case PART_WIDE: return wide_block(f, block, out);
    case PART_FLOATS: return float_block(f, block, out);
    case PART_LEVEL: out[0] = block[f->scale_at]; return out[0] != 255; /* which is no number */
    default: /* the others have no blocks */ return false;
    }
}

/* ---- rows ---- */

/* The floats of a row changed one by one; NULL for one that has no log. */
static const uint8_t *make_changed(const Part *part, const uint8_t *from, uint8_t *row) {
    for (size_t i = 0; i < part->row_bytes / 4; i++) {
        float v;
        gguf_dequantize_row(part->source->type, from + i * dtype_bytes(gguf_float_dtype(part->source->type)), 1, &v);
        v = part->kind == PART_MINUS_ONE ? v - 1 : (float)log(-(double)v);
        if (!isfinite(v)) return NULL;
        memcpy(row + 4 * i, &v, 4);
    }
    return row;
}

/* A row of floats with the heads of its values in the checkpoint's order. */
static const uint8_t *turn_columns(const Part *part, const uint8_t *from, uint8_t *row) {
    size_t bytes = dtype_bytes(gguf_float_dtype(part->source->type));
    for (int64_t i = 0; i < part->source->shape[0]; i += part->value_dim)
        memcpy(row + (size_t)i * bytes, from + (size_t)source_value(part, i) * bytes, (size_t)part->value_dim * bytes);
    return row;
}

static bool make_blocks(const Part *part, const uint8_t *from, uint8_t *row) {
    int64_t n = part->source->shape[0] / part->format->values;
    size_t step = part->row_bytes / (size_t)n;
    for (int64_t i = 0; i < n; i++)
        if (!write_block(part, from + i * part->format->bytes, row + (size_t)i * step)) return false;
    return true;
}

/* The same with the heads of its values in the checkpoint's order: what a head becomes is whole bytes and groups. */
static bool make_turned_blocks(const Part *part, const uint8_t *from, uint8_t *row) {
    uint8_t *work = row + part->row_bytes;
    size_t head = part->row_bytes / (size_t)part->value_heads;
    if (!make_blocks(part, from, work)) return false;
    for (int64_t i = 0; i < part->value_heads; i++)
        memcpy(row + (size_t)i * head,
               work + (size_t)(source_value(part, i * part->value_dim) / part->value_dim) * head, head);
    return true;
}

const uint8_t *part_row(const Part *part, int64_t r, uint8_t *row) {
    if (!part->source) return memset(row, 0, part->row_bytes);
    const GgufTensor *t = part->source;
    if (part->below && r >= part->rows / 2) {
        t = part->below;
        r -= part->rows / 2;
    }
    const uint8_t *from = t->data + part_source_row_bytes(part) * (uint64_t)source_row(part, r);
    if (part->kind == PART_RAW) return part->columns ? turn_columns(part, from, row) : from;
    if (part->kind == PART_MINUS_ONE || part->kind == PART_LOG_OF_NEG) return make_changed(part, from, row);
    return (part->columns ? make_turned_blocks : make_blocks)(part, from, row) ? row : NULL;
}
