/* The definition: plain C on arrays of 16, for any machine. What the other instruction sets do, they do to the same
 * bytes as this file; its operations on lanes are also the documentation of theirs. */
#include "math/kernel_table.h"
#include "math/format_read.h"

#include <math.h>
#include <string.h>

typedef struct lf {
    float v[16];
} lf;
typedef struct li {
    int32_t v[16];
} li;

enum {
    FLOAT_ROWS = 2,
    FLOAT_OUTS = 2,
    SCORE_QUERIES = 2,
    SCORE_TILES = 2,
    VALUE_QUERIES = 2,
    VALUE_LANES = 2,
    TALL_QUERIES = 0,
};

#define LANES for (int j = 0; j < 16; j++)

static inline lf lf_set(float x) {
    lf r;
    LANES r.v[j] = x;
    return r;
}
static inline lf lf_load(const float *p) {
    lf r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
static inline lf lf_load_bytes(const uint8_t *p) {
    lf r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}
static inline lf lf_load_f16(const uint8_t *p) {
    lf r;
    LANES {
        uint16_t h;
        memcpy(&h, p + 2 * j, 2);
        r.v[j] = format_f16(h);
    }
    return r;
}
static inline void lf_store(float *p, lf a) {
    memcpy(p, a.v, sizeof a.v);
}

static inline void lf_store_f16(int16_t *p, lf a) {
    LANES {
        uint16_t h = format_to_f16(a.v[j]);
        memcpy(&p[j], &h, 2);
    }
}
static inline lf lf_add(lf a, lf b) {
    LANES a.v[j] += b.v[j];
    return a;
}
static inline lf lf_sub(lf a, lf b) {
    LANES a.v[j] -= b.v[j];
    return a;
}
static inline lf lf_mul(lf a, lf b) {
    LANES a.v[j] *= b.v[j];
    return a;
}
static inline lf lf_div(lf a, lf b) {
    LANES a.v[j] /= b.v[j];
    return a;
}
static inline lf lf_sqrt(lf a) {
    LANES a.v[j] = sqrtf(a.v[j]);
    return a;
}
static inline lf lf_fma(lf a, lf b, lf c) {
    LANES c.v[j] = fmaf(a.v[j], b.v[j], c.v[j]);
    return c;
}
/* The second operand when they are equal or unordered, as minps and maxps. */
static inline lf lf_min(lf a, lf b) {
    LANES b.v[j] = a.v[j] < b.v[j] ? a.v[j] : b.v[j];
    return b;
}
static inline lf lf_max(lf a, lf b) {
    LANES b.v[j] = a.v[j] > b.v[j] ? a.v[j] : b.v[j];
    return b;
}
/* yes where a < b, no where not or unordered. */
static inline lf lf_select_less(lf a, lf b, lf yes, lf no) {
    LANES no.v[j] = a.v[j] < b.v[j] ? yes.v[j] : no.v[j];
    return no;
}
static inline lf lf_rint(lf a) {
    LANES a.v[j] = rintf(a.v[j]);
    return a;
}
static inline lf lf_bits(li a) {
    lf r;
    memcpy(&r, &a, sizeof r);
    return r;
}
static inline li li_bits(lf a) {
    li r;
    memcpy(&r, &a, sizeof r);
    return r;
}
static inline lf lf_from_li(li a) {
    lf r;
    LANES r.v[j] = (float)a.v[j];
    return r;
}
/* Rounds half to even. Not a number or past int32: INT32_MIN, as cvtps2dq. */
static inline li li_from_lf(lf a) {
    li r;
    LANES r.v[j] = a.v[j] >= -0x1p31f && a.v[j] < 0x1p31f ? (int32_t)rintf(a.v[j]) : INT32_MIN;
    return r;
}
static inline float lf_fold(lf a) {
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) a.v[j] += a.v[j + half];
    return a.v[0];
}
static inline li li_set(int32_t x) {
    li r;
    LANES r.v[j] = x;
    return r;
}
static inline li li_add(li a, li b) {
    LANES a.v[j] = (int32_t)((uint32_t)a.v[j] + (uint32_t)b.v[j]);
    return a;
}
static inline li li_sub(li a, li b) {
    LANES a.v[j] = (int32_t)((uint32_t)a.v[j] - (uint32_t)b.v[j]);
    return a;
}
static inline li li_and(li a, li b) {
    LANES a.v[j] &= b.v[j];
    return a;
}
static inline li li_max(li a, li b) {
    LANES a.v[j] = a.v[j] > b.v[j] ? a.v[j] : b.v[j];
    return a;
}
static inline li li_shl(li a, int n) {
    LANES a.v[j] = (int32_t)((uint32_t)a.v[j] << n);
    return a;
}
static inline li li_shr(li a, int n) {
    LANES a.v[j] = (int32_t)((uint32_t)a.v[j] >> n);
    return a;
}
static inline li li_sar1(li a) {
    LANES a.v[j] >>= 1;
    return a;
}
static inline li li_sar16(li a) {
    LANES a.v[j] >>= 16;
    return a;
}
static inline li li_load_i16(const uint8_t *p) {
    li r;
    LANES {
        int16_t h;
        memcpy(&h, p + 2 * j, 2);
        r.v[j] = h;
    }
    return r;
}
static inline li li_load_u16(const uint8_t *p) {
    li r;
    LANES {
        uint16_t h;
        memcpy(&h, p + 2 * j, 2);
        r.v[j] = h;
    }
    return r;
}
static inline li li_load_u8(const uint8_t *p) {
    li r;
    LANES r.v[j] = p[j];
    return r;
}
static inline void li_store_i16(int16_t *p, li a) { /* values within int16 */
    LANES p[j] = (int16_t)a.v[j];
}
static inline li li_select_equal(li a, li b, li yes, li no) {
    LANES no.v[j] = a.v[j] == b.v[j] ? yes.v[j] : no.v[j];
    return no;
}
static inline int32_t li_fold_max(li a) {
    int32_t m = a.v[0];
    LANES if (a.v[j] > m) m = a.v[j];
    return m;
}
static inline int32_t li_fold_add(li a) {
    int32_t s = 0;
    LANES s += a.v[j];
    return s;
}

/* Codes in natural order. */
static inline void codes_place(QuantRows *q, int row, const int16_t *x, int k, int n) {
    uint8_t *codes = q->codes + (size_t)row * (size_t)q->padded * (size_t)q->bits / 8;
    if (q->bits == 16) {
        memcpy(codes + 2 * k, x, (size_t)n * 2);
        return;
    }
    for (int i = 0; i < n; i++) codes[k + i] = (uint8_t)(int8_t)x[i];
}

#include "math/rows_apart.h"

#include "math/kernels_body.h"

enum { ROWS_AT_ONCE = 16 };

/* The 16 dot products of one group: whole numbers, so their order is free. Four partial sums an output, in the layout
 * of the quads, are a loop that compilers turn into vectors of any machine. */
static void group_dot(const uint8_t *quads, const uint8_t *codes, int bits, int n, int32_t dot[TILE_ROWS]) {
    enum { QUADS = 4 * TILE_ROWS };
    int32_t part[QUADS] = {0};
    for (int k = 0; k < n; k += 4, quads += QUADS) {
        int16_t x[QUADS], four[4];
        if (bits == 16)
            memcpy(four, codes + 2 * k, sizeof four);
        else
            for (int j = 0; j < 4; j++) four[j] = (int8_t)codes[k + j];
        for (int i = 0; i < QUADS; i += 4) memcpy(x + i, four, sizeof four);
        for (int i = 0; i < QUADS; i++) part[i] += quads[i] * x[i];
    }
    for (int o = 0; o < TILE_ROWS; o++) dot[o] = part[4 * o] + part[4 * o + 1] + part[4 * o + 2] + part[4 * o + 3];
}

/* One tile times rows [from, to): per group an exact integer per output, then two fused operations, groups ascending. A
 * unit is unpacked once for all of the rows. */
static void tile_rows_dot(const TileJob *job, int tile, int from, int to) {
    const TileFormat *f = job->format;
    const QuantRows *x = job->x;
    const int groups_per_unit = f->unit / f->group;
    float acc[ROWS_AT_ONCE][TILE_ROWS] = {{0}}, scale[16 * TILE_ROWS], bias[16 * TILE_ROWS];
    for (int first = 0; first < x->n_groups; first += groups_per_unit) {
        const uint8_t *unit =
            job->tiles + (size_t)tile * job->tile_bytes + (size_t)(first / groups_per_unit * f->unit_bytes);
        int n = x->n_groups - first < groups_per_unit ? x->n_groups - first : groups_per_unit;
        uint8_t quads[256 * TILE_ROWS];
        int b = 0; /* a unit has one block at least */
        do tile_block_codes(f->storage, unit + b * f->block_bytes, quads + b * 512);
        while (++b < f->unit / TILE_BLOCK);
        tile_unit_scales(f, unit, n, scale, bias);
        for (int i = 0; i < (to - from) * n; i++) {
            int row = from + i / n, g = i % n;
            const QuantStep *step = &x->steps[step_at(x, row, first + g)];
            const uint8_t *codes =
                x->codes + ((size_t)row * (size_t)x->padded + (size_t)((first + g) * f->group)) * (size_t)x->bits / 8;
            int32_t dot[TILE_ROWS];
            group_dot(quads + g * f->group * TILE_ROWS, codes, x->bits, f->group, dot);
            float *sum = acc[row - from];
            for (int o = 0; o < TILE_ROWS; o++) {
                sum[o] = fmaf((float)(dot[o] - f->offset * step->sum), step->a * scale[g * TILE_ROWS + o], sum[o]);
                if (f->has_bias) sum[o] = fmaf(bias[g * TILE_ROWS + o], step->a_sum, sum[o]);
            }
        }
    }
    int outputs = job->n_outputs - tile * TILE_ROWS < TILE_ROWS ? job->n_outputs - tile * TILE_ROWS : TILE_ROWS;
    for (int row = from; row < to; row++)
        memcpy(job->y + (size_t)row * job->y_stride + tile * TILE_ROWS, acc[row - from],
               (size_t)outputs * sizeof **acc);
}

static void tile_rows(const TileJob *job) {
    int rows = job->x->n_rows;
    for (int tile = 0; tile < job->n_tiles; tile++)
        for (int row = 0; row < rows; row += ROWS_AT_ONCE)
            tile_rows_dot(job, tile, row, rows - row < ROWS_AT_ONCE ? rows : row + ROWS_AT_ONCE);
}

static bool supported(void) {
    return true;
}

const KernelTable kernels_scalar = {.name = "scalar", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};
