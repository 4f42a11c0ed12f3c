/* The AVX-512 kernels, written once for processors with and without VNNI: the including file has defined dot_quads(sum,
 * w, x), which adds to each 32-bit lane the dot product of four unsigned bytes of w and four signed bytes of x,
 * exactly.
 *
 * One vector is the 16 lanes. A quad of weights meets a broadcast quad of activations. A 16-bit activation is 256 * H +
 * L: a group's H products are summed first, shifted by 8, and L's added onto them, exactly. Few rows (decode) unpack
 * codes in registers as they stream by; more rows unpack a tile once to bytes and run blocks of rows over it.
 *
 * No include guard on purpose: one inclusion per table, inside its target region. */
#include <string.h>

typedef __m512 lf;
typedef __m512i li;

enum { FLOAT_ROWS = 4, FLOAT_OUTS = 4, SCORE_QUERIES = 4, SCORE_TILES = 4, VALUE_QUERIES = 4, VALUE_LANES = 4 };

#define lf_set _mm512_set1_ps
#define lf_load _mm512_loadu_ps
#define lf_store _mm512_storeu_ps
#define lf_add _mm512_add_ps
#define lf_sub _mm512_sub_ps
#define lf_mul _mm512_mul_ps
#define lf_div _mm512_div_ps
#define lf_fma _mm512_fmadd_ps
#define lf_min _mm512_min_ps
#define lf_max _mm512_max_ps
#define lf_bits _mm512_castsi512_ps
#define lf_from_li _mm512_cvtepi32_ps
#define li_bits _mm512_castps_si512
#define li_set _mm512_set1_epi32
#define li_add _mm512_add_epi32
#define li_sub _mm512_sub_epi32
#define li_and _mm512_and_si512
#define li_max _mm512_max_epi32
#define li_fold_max _mm512_reduce_max_epi32
#define li_fold_add _mm512_reduce_add_epi32
#define li_from_lf(a) _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define lf_rint(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define li_shl(a, n) _mm512_slli_epi32(a, n)
#define li_shr(a, n) _mm512_srli_epi32(a, n)
#define li_sar1(a) _mm512_srai_epi32(a, 1)
#define li_sar16(a) _mm512_srai_epi32(a, 16)

static inline lf lf_load_bytes(const uint8_t *p) {
    return _mm512_loadu_ps((const void *)p);
}
static inline lf lf_load_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
static inline void lf_store_f16(int16_t *p, lf a) {
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline li li_load_i16(const uint8_t *p) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)p));
}
static inline li li_load_u16(const uint8_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
}
static inline li li_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}
static inline void li_store_i16(int16_t *p, li a) {
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16(a));
}
static inline li li_select_equal(li a, li b, li yes, li no) {
    return _mm512_mask_blend_epi32(_mm512_cmpeq_epi32_mask(a, b), no, yes);
}
static inline float lf_fold(lf a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}

/* A row's codes: all H bytes, then all L bytes (16 bits); or the bytes (8 bits). */
static inline void codes_place(uint8_t *codes, const int16_t *x, int k, int n, int padded, int bits) {
    for (int i = 0; i < n; i += 16) {
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        if (bits == 16) {
            __m256i high =
                _mm256_srai_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(128)), 8); /* L = x - 256 H in -128..127 */
            _mm_storeu_si128((void *)(codes + k + i), _mm256_cvtepi16_epi8(high));
            _mm_storeu_si128((void *)(codes + padded + k + i), _mm256_cvtepi16_epi8(v));
        } else
            _mm_storeu_si128((void *)(codes + k + i), _mm256_cvtepi16_epi8(v));
    }
}

#include "math/kernels_body.h"

/* ---- tiles ---- */

static inline __m512i line_load(const uint8_t *p) {
    return _mm512_loadu_si512((const void *)p);
}

/* The 8 quads of a block of 32: see tile.h for the planes. */
static inline __attribute__((always_inline)) void block_unpack(TileStorage storage, const uint8_t *p, __m512i q[8]) {
    const __m512i m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(3), m1 = _mm512_set1_epi8(1);
    if (storage == TILE_8) {
        for (int i = 0; i < 8; i++) q[i] = line_load(p + 64 * i);
        return;
    }
    if (storage == TILE_2 || storage == TILE_3) {
        for (int i = 0; i < 2; i++) {
            __m512i line = line_load(p + 64 * i);
            q[4 * i] = _mm512_and_si512(line, m2);
            q[4 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(line, 2), m2);
            q[4 * i + 2] = _mm512_and_si512(_mm512_srli_epi16(line, 4), m2);
            q[4 * i + 3] = _mm512_and_si512(_mm512_srli_epi16(line, 6), m2);
        }
    } else {
        for (int i = 0; i < 4; i++) {
            __m512i line = line_load(p + 64 * i);
            q[2 * i] = _mm512_and_si512(line, m4);
            q[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(line, 4), m4);
        }
    }
    if (storage == TILE_FP4) {
        const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)tile_fp4_codes));
        for (int i = 0; i < 8; i++) q[i] = _mm512_shuffle_epi8(table, q[i]);
    }
    if (storage == TILE_3 || storage == TILE_5) { /* one more bit, at 2 or at 4 */
        int at = storage == TILE_3 ? 2 : 4;
        __m512i line = line_load(p + (storage == TILE_3 ? 128 : 256)), bit = _mm512_slli_epi16(m1, (unsigned)at);
        for (int i = 0; i < 8; i++) {
            __m512i moved =
                i < at ? _mm512_slli_epi16(line, (unsigned)(at - i)) : _mm512_srli_epi16(line, (unsigned)(i - at));
            q[i] = _mm512_or_si512(q[i], _mm512_and_si512(moved, bit));
        }
    }
    if (storage == TILE_6) { /* two more bits at 4 */
        for (int i = 0; i < 2; i++) {
            __m512i line = line_load(p + 256 + 64 * i), bits = _mm512_slli_epi16(m2, 4);
            q[4 * i] = _mm512_or_si512(q[4 * i], _mm512_and_si512(_mm512_slli_epi16(line, 4), bits));
            q[4 * i + 1] = _mm512_or_si512(q[4 * i + 1], _mm512_and_si512(_mm512_slli_epi16(line, 2), bits));
            q[4 * i + 2] = _mm512_or_si512(q[4 * i + 2], _mm512_and_si512(line, bits));
            q[4 * i + 3] = _mm512_or_si512(q[4 * i + 3], _mm512_and_si512(_mm512_srli_epi16(line, 2), bits));
        }
    }
}

/* Scale and bias of group g of a unit. */
static inline void group_scales(const TileFormat *f, const uint8_t *unit, int g, __m512 *scale, __m512 *bias) {
    const uint8_t *at = unit + f->unit_codes;
    int parts = f->has_bias ? 2 : 1;
    if (f->scale == TILE_SCALE_BF16) {
        const uint8_t *p = at + g * parts * 32;
        *scale = lf_bits(li_shl(li_load_u16(p), 16));
        *bias = f->has_bias ? lf_bits(li_shl(li_load_u16(p + 32), 16)) : _mm512_setzero_ps();
    } else if (f->scale == TILE_SCALE_F16) {
        const uint8_t *p = at + g * parts * 32;
        *scale = lf_load_f16(p);
        *bias = f->has_bias ? lf_load_f16(p + 32) : _mm512_setzero_ps();
    } else if (f->scale == TILE_SCALE_F32) {
        const uint8_t *p = at + g * parts * 64;
        *scale = lf_load_bytes(p);
        *bias = f->has_bias ? lf_load_bytes(p + 64) : _mm512_setzero_ps();
    } else {
        const uint8_t *p = at + parts * 32 + g * parts * 16;
        __m512i sub = f->signed_scales ? _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)) : li_load_u8(p);
        *scale = _mm512_mul_ps(lf_load_f16(at), lf_from_li(sub));
        *bias = _mm512_setzero_ps();
        if (f->has_bias) {
            __m512 product = _mm512_mul_ps(lf_load_f16(at + 32), lf_from_li(li_load_u8(p + 16)));
            *bias = lf_bits(_mm512_xor_si512(li_bits(product), li_set(INT32_MIN))); /* -(dmin * m), zero's sign too */
        }
    }
}

static inline int32_t quad_at(const uint8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

static inline void store_outputs(float *y, __m512 acc, int outputs) {
    _mm512_mask_storeu_ps(y, outputs >= 16 ? 0xFFFF : (__mmask16)((1u << outputs) - 1), acc);
}

/* The end of a group: I is exact, then the two fused operations of the definition. */
static inline __m512 group_add(__m512i dot, __m512 scale, __m512 bias, float a, float a_sum, bool has_bias,
                               __m512 acc) {
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(_mm512_set1_ps(a), scale), acc);
    return has_bias ? _mm512_fmadd_ps(bias, _mm512_set1_ps(a_sum), acc) : acc;
}

/* One tile times `rows` (1 to 3) rows, codes unpacked in registers. Four accumulators a row hide vpdpbusd's latency. */
static inline __attribute__((always_inline)) void tile_stream(const TileJob *job, TileStorage storage, int bits,
                                                              int tile, int row, int rows) {
    const TileFormat *f = job->format;
    const QuantRows *x = job->x;
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes;
    const int per_unit = f->unit / f->group, block_bytes = f->block_bytes, group = f->group;
    size_t row_bytes = (size_t)x->padded * (size_t)bits / 8;
    __m512 acc[3];
    for (int r = 0; r < rows; r++) acc[r] = _mm512_setzero_ps();
    int k = 0;
    for (int first = 0; first < x->n_groups; first += per_unit, unit += f->unit_bytes) {
        int n = x->n_groups - first < per_unit ? x->n_groups - first : per_unit;
        for (int g = 0; g < n;) {
            int step = group >= TILE_BLOCK ? 1 : 2; /* groups of 16 share a block */
            __m512i high[3][2], low[3][2];
            for (int r = 0; r < rows; r++) high[r][0] = high[r][1] = low[r][0] = low[r][1] = _mm512_setzero_si512();
            for (int b = 0; b < (group + TILE_BLOCK - 1) / TILE_BLOCK; b++) {
                __m512i q[8];
                block_unpack(storage, unit + (g * group / TILE_BLOCK + b) * block_bytes, q);
                for (int r = 0; r < rows; r++) {
                    const uint8_t *xs = x->codes + (size_t)(row + r) * row_bytes + k + b * TILE_BLOCK;
                    for (int i = 0; i < 8; i++) {
                        /* groups of 16: the first half of a block is one group, the second the next */
                        int which = step == 2 ? i / 4 : i % 2;
                        high[r][which] = dot_quads(high[r][which], q[i], li_set(quad_at(xs + 4 * i)));
                        if (bits == 16)
                            low[r][which] = dot_quads(low[r][which], q[i], li_set(quad_at(xs + x->padded + 4 * i)));
                    }
                }
            }
            for (int half = 0; half < step && g + half < n; half++) {
                __m512 scale, bias;
                group_scales(f, unit, g + half, &scale, &bias);
                for (int r = 0; r < rows; r++) {
                    size_t at = (size_t)(row + r) * (size_t)x->n_groups + (size_t)(first + g + half);
                    __m512i h = step == 2 ? high[r][half] : _mm512_add_epi32(high[r][0], high[r][1]);
                    __m512i l = step == 2 ? low[r][half] : _mm512_add_epi32(low[r][0], low[r][1]);
                    __m512i dot = bits == 16 ? _mm512_add_epi32(_mm512_slli_epi32(h, 8), l) : h;
                    if (f->offset) dot = _mm512_sub_epi32(dot, li_set(f->offset * x->sum[at]));
                    acc[r] = group_add(dot, scale, bias, x->a[at], x->a_sum[at], f->has_bias, acc[r]);
                }
            }
            g += step;
            k += step * group;
        }
    }
    for (int r = 0; r < rows; r++)
        store_outputs(job->y + (size_t)(row + r) * job->y_stride + tile * TILE_ROWS, acc[r],
                      job->n_outputs - tile * TILE_ROWS);
}

static inline __attribute__((always_inline)) void tile_stream_rows(const TileJob *job, TileStorage storage, int bits) {
    for (int tile = 0; tile < job->n_tiles; tile++) {
        if (job->x->n_rows == 1)
            tile_stream(job, storage, bits, tile, 0, 1);
        else if (job->x->n_rows == 2)
            tile_stream(job, storage, bits, tile, 0, 2);
        else
            tile_stream(job, storage, bits, tile, 0, 3);
    }
}

#define EACH_STORAGE(call)                \
    switch (storage) {                    \
    case TILE_2: call(TILE_2); break;     \
    case TILE_3: call(TILE_3); break;     \
    case TILE_4: call(TILE_4); break;     \
    case TILE_5: call(TILE_5); break;     \
    case TILE_6: call(TILE_6); break;     \
    case TILE_8: call(TILE_8); break;     \
    case TILE_FP4: call(TILE_FP4); break; \
    }

static void tiles_stream(const TileJob *job) {
    TileStorage storage = job->format->storage;
#define STREAM16(s) tile_stream_rows(job, s, 16)
#define STREAM8(s) tile_stream_rows(job, s, 8)
    if (job->x->bits == 16)
        EACH_STORAGE(STREAM16)
    else
        EACH_STORAGE(STREAM8)
}

/* A tile as bytes and f32 scales, for many rows: quads [padded / 4][64], scale and bias [n_groups][16]. */
typedef struct Panel {
    uint8_t *quads;
    float *scale, *bias;
} Panel;

static inline __attribute__((always_inline)) void panel_codes(const TileJob *job, TileStorage storage, int tile,
                                                              uint8_t *quads) {
    const TileFormat *f = job->format;
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes;
    for (int k = 0; k < job->x->cols; k += f->unit, unit += f->unit_bytes)
        for (int b = 0; b < f->unit / TILE_BLOCK; b++, quads += 512) {
            __m512i q[8];
            block_unpack(storage, unit + b * f->block_bytes, q);
            for (int i = 0; i < 8; i++) _mm512_storeu_si512((void *)(quads + 64 * i), q[i]);
        }
}

static void panel_unpack(const TileJob *job, int tile, const Panel *to) {
    const TileFormat *f = job->format;
    TileStorage storage = f->storage;
#define CODES(s) panel_codes(job, s, tile, to->quads)
    EACH_STORAGE(CODES)
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes;
    int per_unit = f->unit / f->group;
    for (int g = 0; g < job->x->n_groups; g++) {
        __m512 scale, bias;
        group_scales(f, unit + (size_t)(g / per_unit * f->unit_bytes), g % per_unit, &scale, &bias);
        _mm512_storeu_ps(to->scale + g * 16, scale);
        _mm512_storeu_ps(to->bias + g * 16, bias);
    }
}

enum { PANEL_TILES = 2, PANEL_ROWS = 6 };

/* `rows` rows by `tiles` tiles: integer and f32 accumulators stay in registers over all of K. */
static inline __attribute__((always_inline)) void panel_block(const TileJob *job, const Panel *panels, int bits,
                                                              int tile, int row, int rows, int tiles) {
    const QuantRows *x = job->x;
    const int quads = x->group / 4, offset = job->format->offset, has_bias = job->format->has_bias,
              n_groups = x->n_groups;
    const size_t row_bytes = (size_t)x->padded * (size_t)bits / 8;
    const uint8_t *codes = x->codes + (size_t)row * row_bytes;
    const uint8_t *w[PANEL_TILES];
    for (int t = 0; t < tiles; t++) w[t] = panels[t].quads;
    __m512 acc[PANEL_ROWS][PANEL_TILES];
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tiles; t++) acc[r][t] = _mm512_setzero_ps();
    for (int g = 0; g < n_groups; g++, codes += x->group) {
        __m512i dot[PANEL_ROWS][PANEL_TILES];
        for (int r = 0; r < rows; r++)
            for (int t = 0; t < tiles; t++) dot[r][t] = _mm512_setzero_si512();
        for (int part = 0; part < bits / 8; part++) {
            if (part)
                for (int r = 0; r < rows; r++)
                    for (int t = 0; t < tiles; t++) dot[r][t] = _mm512_slli_epi32(dot[r][t], 8);
            const uint8_t *xs = codes + (part ? x->padded : 0);
            for (int i = 0; i < quads; i++) {
                __m512i q[PANEL_TILES];
                for (int t = 0; t < tiles; t++) q[t] = line_load(w[t] + (size_t)(g * quads + i) * 64);
                for (int r = 0; r < rows; r++) {
                    __m512i v = li_set(quad_at(xs + (size_t)r * row_bytes + 4 * i));
                    for (int t = 0; t < tiles; t++) dot[r][t] = dot_quads(dot[r][t], q[t], v);
                }
            }
        }
        __m512 scale[PANEL_TILES], bias[PANEL_TILES];
        for (int t = 0; t < tiles; t++) {
            scale[t] = _mm512_loadu_ps(panels[t].scale + g * 16);
            bias[t] = _mm512_loadu_ps(panels[t].bias + g * 16);
        }
        for (int r = 0; r < rows; r++) {
            size_t at = (size_t)(row + r) * (size_t)n_groups + (size_t)g;
            for (int t = 0; t < tiles; t++) {
                if (offset) dot[r][t] = _mm512_sub_epi32(dot[r][t], li_set(offset * x->sum[at]));
                acc[r][t] = group_add(dot[r][t], scale[t], bias[t], x->a[at], x->a_sum[at], has_bias, acc[r][t]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tiles; t++)
            store_outputs(job->y + (size_t)(row + r) * job->y_stride + (tile + t) * TILE_ROWS, acc[r][t],
                          job->n_outputs - (tile + t) * TILE_ROWS);
}

static inline __attribute__((always_inline)) void panel_rows(const TileJob *job, const Panel *panels, int bits,
                                                             int tile, int tiles) {
    int row = 0, n = job->x->n_rows;
    for (; row + PANEL_ROWS <= n; row += PANEL_ROWS) panel_block(job, panels, bits, tile, row, PANEL_ROWS, tiles);
    for (; row + 2 <= n; row += 2) panel_block(job, panels, bits, tile, row, 2, tiles);
    for (; row < n; row++) panel_block(job, panels, bits, tile, row, 1, tiles);
}

static void tiles_panel(const TileJob *job) {
    Panel panels[PANEL_TILES];
    size_t codes = (size_t)(job->x->padded) * TILE_ROWS, scales = (size_t)job->x->n_groups * TILE_ROWS;
    uint8_t *p = job->scratch;
    for (int t = 0; t < PANEL_TILES; t++) {
        panels[t].quads = p;
        panels[t].scale = (float *)(void *)(p + codes);
        panels[t].bias = panels[t].scale + scales;
        p += codes + scales * 2 * sizeof(float);
    }
    for (int tile = 0; tile < job->n_tiles; tile += PANEL_TILES) {
        int tiles = job->n_tiles - tile < PANEL_TILES ? job->n_tiles - tile : PANEL_TILES;
        for (int t = 0; t < tiles; t++) panel_unpack(job, tile + t, &panels[t]);
        if (tiles == 2 && job->x->bits == 16)
            panel_rows(job, panels, 16, tile, 2);
        else if (tiles == 2)
            panel_rows(job, panels, 8, tile, 2);
        else
            panel_rows(job, panels, job->x->bits, tile, 1);
    }
}

static void tile_rows(const TileJob *job) {
    if (job->x->n_rows <= 3)
        tiles_stream(job);
    else
        tiles_panel(job);
}
