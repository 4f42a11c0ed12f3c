/* AVX-512 with VNNI: one vector is the 16 lanes, and vpdpbusd takes quads of unsigned weights against broadcast quads
 * of signed activations. A 16-bit activation is 256 * H + L: a group's H products are summed and shifted by 8, and L's
 * added onto them, exactly. Few rows (decode) unpack codes in registers as they stream by; more rows unpack a tile once
 * to bytes and run blocks of rows over it. Which of the two runs changes nothing but the time. */
#if defined(__x86_64__)
#include "math/kernel_table.h"

#include "math/isa_begin_avx512vnni.h"

#include "math/lanes_avx512.h"

/* Up to STREAM_MOST rows are streamed: one pass over the tiles for every band of them. */
enum { STREAM_MOST = 48 };

static inline bool rows_streamed(const QuantRows *x) {
    return x->n_rows <= STREAM_MOST;
}

/* Many rows: one after the other, all H bytes and then all L bytes. */
static inline size_t wide_codes_at(const QuantRows *x, int row, int block) {
    return (size_t)row * (size_t)x->padded * (size_t)x->bits / 8 + (size_t)block * TILE_BLOCK;
}

static inline size_t wide_low_codes(const QuantRows *x, int row) {
    (void)row;
    return (size_t)x->padded;
}

static inline size_t wide_step_at(const QuantRows *x, int row, int group) {
    return (size_t)row * (size_t)x->n_groups + (size_t)group;
}

#include "math/codes_avx512.h"

#include "math/kernels_body.h"

#include "math/panel_avx512.h"

/* ---- tiles ---- */

static inline int32_t quad_at(const uint8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

enum { STREAM_TILES = 2 };

/* What a run over STREAM_TILES neighbouring tiles needs; where the last tile has no neighbour, it is its own and is not
 * stored. */
typedef struct Stream {
    const TileJob *job;
    const uint8_t *units[STREAM_TILES];
    int tile, row;
    int rows; /* of the band */
} Stream;

static inline void stream_store(const Stream *s, int r, int t, __m512 acc) {
    const TileJob *job = s->job;
    int first = (s->tile + t) * TILE_ROWS;
    if (first < job->n_outputs)
        store_outputs(job->y + (size_t)(s->row + r) * job->y_stride + first, acc, job->n_outputs - first);
}

/* How far ahead of unit `index` to prefetch: past a tile's end comes the next pair's tile, one tile further on. */
static inline size_t stream_ahead(const Stream *s, int index) {
    size_t at = (size_t)index * (size_t)s->job->format->unit_bytes + PREFETCH_BYTES;
    return at < s->job->tile_bytes ? PREFETCH_BYTES : PREFETCH_BYTES + s->job->tile_bytes;
}

/* One half (H, L, or the codes of 8 bits) of `rows` rows times two tiles over quads [from, to) of n_blocks blocks,
 * added to the sums. An activation quad is broadcast once for both tiles. */
static inline __attribute__((always_inline)) void
stream_half(TileStorage storage, const uint8_t *const blocks[STREAM_TILES], int n_blocks, int block_bytes, int from,
            int to, const uint8_t *codes, size_t step, int bits, int rows, __m512i dot[BAND][STREAM_TILES]) {
    for (int b = 0; b < n_blocks; b++, codes += step) {
        UNROLL for (int i = from; i < to; i++) {
            __m512i q[STREAM_TILES];
            UNROLL for (int t = 0; t < STREAM_TILES; t++) q[t] = quad_unpack(storage, blocks[t] + b * block_bytes, i);
            UNROLL for (int r = 0; r < rows; r++) {
                __m512i v = li_set(quad_at(codes + r * TILE_BLOCK * bits / 8 + 4 * i));
                UNROLL for (int t = 0; t < STREAM_TILES; t++) dot[r][t] = _mm512_dpbusd_epi32(dot[r][t], q[t], v);
            }
        }
    }
}

/* The integer sums of one row or two: H and L at once, since two chains of vpdpbusd alone would wait for its latency.
 */
static inline __attribute__((always_inline)) void
stream_dots_of_few(TileStorage storage, const uint8_t *const blocks[STREAM_TILES], int n_blocks, int block_bytes,
                   int from, int to, const uint8_t *codes, size_t step, int rows, __m512i dot[BAND][STREAM_TILES]) {
    __m512i low[2][STREAM_TILES];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < STREAM_TILES; t++) low[r][t] = _mm512_setzero_si512();
    }
    for (int b = 0; b < n_blocks; b++, codes += step) {
        UNROLL for (int i = from; i < to; i++) {
            __m512i q[STREAM_TILES];
            UNROLL for (int t = 0; t < STREAM_TILES; t++) q[t] = quad_unpack(storage, blocks[t] + b * block_bytes, i);
            UNROLL for (int r = 0; r < rows; r++) {
                __m512i h = li_set(quad_at(codes + r * TILE_BLOCK * 2 + 4 * i)),
                        l = li_set(quad_at(codes + r * TILE_BLOCK * 2 + TILE_BLOCK + 4 * i));
                UNROLL for (int t = 0; t < STREAM_TILES; t++) {
                    dot[r][t] = _mm512_dpbusd_epi32(dot[r][t], q[t], h);
                    low[r][t] = _mm512_dpbusd_epi32(low[r][t], q[t], l);
                }
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < STREAM_TILES; t++) dot[r][t] =
            _mm512_add_epi32(_mm512_slli_epi32(dot[r][t], 8), low[r][t]);
    }
}

/* The integer sums of a group. Several rows go first with H and then with L: the sums of both would not fit the
 * registers. */
static inline __attribute__((always_inline)) void
stream_dots(TileStorage storage, const uint8_t *const blocks[STREAM_TILES], int n_blocks, int block_bytes, int from,
            int to, const uint8_t *codes, size_t step, int bits, int rows, __m512i dot[BAND][STREAM_TILES]) {
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < STREAM_TILES; t++) dot[r][t] = _mm512_setzero_si512();
    }
    if (bits == 16 && rows <= 2) {
        stream_dots_of_few(storage, blocks, n_blocks, block_bytes, from, to, codes, step, rows, dot);
        return;
    }
    for (int half = 0;; half++, codes += TILE_BLOCK) {
        stream_half(storage, blocks, n_blocks, block_bytes, from, to, codes, step, bits, rows, dot);
        if (bits == 8 || half) return;
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int t = 0; t < STREAM_TILES; t++) dot[r][t] = _mm512_slli_epi32(dot[r][t], 8);
        }
    }
}

/* The f32 sums of a band. */
typedef struct Sums {
    __m512 of[BAND][STREAM_TILES];
} Sums;

static inline __attribute__((always_inline)) void stream_add(const __m512 scale[STREAM_TILES],
                                                             const __m512 bias[STREAM_TILES], const QuantStep *steps,
                                                             bool has_bias, int rows, __m512i dot[BAND][STREAM_TILES],
                                                             Sums *acc) {
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < STREAM_TILES; t++) acc->of[r][t] =
            group_add(_mm512_cvtepi32_ps(dot[r][t]), scale[t], bias[t], &steps[r], has_bias, acc->of[r][t]);
    }
}

/* The two fused operations for group g of each unit. */
static inline __attribute__((always_inline)) void stream_group_end(const Stream *s, const Super super[STREAM_TILES],
                                                                   int unit_group, const QuantStep *steps, int rows,
                                                                   __m512i dot[BAND][STREAM_TILES], Sums *acc) {
    const TileFormat *f = s->job->format;
    __m512 scale[STREAM_TILES], bias[STREAM_TILES];
    UNROLL for (int t = 0; t < STREAM_TILES; t++)
        group_scales(f, &super[t], s->units[t], unit_group, &scale[t], &bias[t]);
    if (f->offset) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int t = 0; t < STREAM_TILES; t++) dot[r][t] =
                _mm512_sub_epi32(dot[r][t], li_set(f->offset * steps[r].sum));
        }
    }
    if (f->has_bias)
        stream_add(scale, bias, steps, true, rows, dot, acc);
    else
        stream_add(scale, bias, steps, false, rows, dot, acc);
    /* The sums of a whole band stay in memory between groups: in registers they would push out the dot products. */
    if (rows == BAND) __asm__("" : "+m"(*acc));
}

/* One unit. `narrow`: groups of 16, where the halves of a block are two groups. */
static inline __attribute__((always_inline)) void stream_unit(const Stream *s, TileStorage storage, int bits, int rows,
                                                              bool narrow, int index, const uint8_t *codes,
                                                              const QuantStep *steps, Sums *acc) {
    const TileFormat *f = s->job->format;
    const QuantRows *x = s->job->x;
    const int per_unit = f->unit / f->group, first = index * per_unit, block_bytes = f->block_bytes;
    const int n = x->n_groups - first < per_unit ? x->n_groups - first : per_unit;
    const int n_blocks = narrow ? 1 : f->group / TILE_BLOCK, pace = narrow ? 2 : 1;
    const size_t ahead = stream_ahead(s, index), next = (size_t)(s->rows * TILE_BLOCK * bits / 8);
    Super super[STREAM_TILES];
    UNROLL for (int t = 0; t < STREAM_TILES; t++) super[t] = unit_super(f, s->units[t]);
    for (int g = 0, at = 0; g < n;
         g += pace, at += n_blocks * block_bytes, codes += (size_t)n_blocks * next, steps += pace * s->rows) {
        const uint8_t *const blocks[STREAM_TILES] = {s->units[0] + at, s->units[1] + at};
        /* here and not in a function: gcc takes one that only prefetches for one without effect, and drops the call */
        for (int line = 0; line < n_blocks * block_bytes; line += 64) {
            UNROLL for (int t = 0; t < STREAM_TILES; t++)
                _mm_prefetch((const char *)(blocks[t] + line + ahead), _MM_HINT_T0);
        }
        __m512i dot[BAND][STREAM_TILES];
        stream_dots(storage, blocks, n_blocks, block_bytes, 0, narrow ? 4 : 8, codes, next, bits, rows, dot);
        stream_group_end(s, super, g, steps, rows, dot, acc);
        if (!narrow || g + 1 >= n) continue;
        stream_dots(storage, blocks, 1, block_bytes, 4, 8, codes, next, bits, rows, dot);
        stream_group_end(s, super, g + 1, steps + s->rows, rows, dot, acc);
    }
}

/* Two tiles times `rows` rows of a band, codes unpacked in registers. */
static inline __attribute__((always_inline)) void stream_rows(Stream s, TileStorage storage, int bits, int rows,
                                                              bool narrow) {
    const TileFormat *f = s.job->format;
    const QuantRows *x = s.job->x;
    if (rows == BAND) s.rows = BAND; /* a constant: distances in the band are */
    const uint8_t *codes = x->codes + codes_at(x, s.row, 0);
    const QuantStep *steps = x->steps + step_at(x, s.row, 0);
    const int unit_codes = s.rows * f->unit * bits / 8, unit_steps = s.rows * (f->unit / f->group);
    Sums acc;
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < STREAM_TILES; t++) acc.of[r][t] = _mm512_setzero_ps();
    }
    for (int k = 0, index = 0; k < x->cols; k += f->unit, index++, codes += unit_codes, steps += unit_steps) {
        stream_unit(&s, storage, bits, rows, narrow, index, codes, steps, &acc);
        UNROLL for (int t = 0; t < STREAM_TILES; t++) s.units[t] += f->unit_bytes;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < STREAM_TILES; t++) stream_store(&s, r, t, acc.of[r][t]);
    }
}

/* Formats with groups of 16 are few: only their storages get the narrow form. */
static inline bool storage_may_be_narrow(TileStorage storage) {
    return storage == TILE_2 || storage == TILE_3 || storage == TILE_6 || storage == TILE_FP4;
}

static inline __attribute__((always_inline)) void stream_storage(TileStorage storage, const Stream *s, int bits,
                                                                 int rows) {
    if (storage_may_be_narrow(storage) && s->job->format->group < TILE_BLOCK)
        stream_rows(*s, storage, bits, rows, true);
    else
        stream_rows(*s, storage, bits, rows, false);
}

/* A function for each width and height, not inlined: all in one would share a frame, and gcc would spill what a loop
 * needs for what lies around the others. */
typedef void StreamRows(const Stream *s);
#define STREAM_ROWS(name, bits, rows)                                        \
    static __attribute__((noinline)) void name(const Stream *s) {            \
        EACH_STORAGE(s->job->format->storage, stream_storage, s, bits, rows) \
    }
STREAM_ROWS(stream_row_16, 16, 1)
STREAM_ROWS(stream_two_16, 16, 2)
STREAM_ROWS(stream_four_16, 16, 4)
STREAM_ROWS(stream_band_16, 16, BAND)
STREAM_ROWS(stream_row_8, 8, 1)
STREAM_ROWS(stream_two_8, 8, 2)
STREAM_ROWS(stream_four_8, 8, 4)
STREAM_ROWS(stream_band_8, 8, BAND)

static void tiles_stream(const TileJob *job) {
    const bool wide = job->x->bits == 16;
    StreamRows *row = wide ? stream_row_16 : stream_row_8, *two = wide ? stream_two_16 : stream_two_8,
               *four = wide ? stream_four_16 : stream_four_8, *band = wide ? stream_band_16 : stream_band_8;
    for (int tile = 0; tile < job->n_tiles; tile += STREAM_TILES) {
        Stream s = {.job = job, .tile = tile};
        s.units[0] = s.units[1] = job->tiles + (size_t)tile * job->tile_bytes;
        if (tile + 1 < job->n_tiles) s.units[1] += job->tile_bytes;
        for (int done; s.row < job->x->n_rows; s.row += done) {
            s.rows = band_rows(job->x, s.row);
            int left = s.rows - s.row % BAND;
            done = s.rows == BAND ? BAND : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            (done == BAND ? band : done == 4 ? four : done == 2 ? two : row)(&s);
        }
    }
}

enum { PANEL_TILES = 2, PANEL_ROWS = 6 };

/* `rows` rows by `tiles` tiles: integer and f32 accumulators stay in registers over all of K. */
static inline __attribute__((always_inline)) void panel_block(const TileJob *job, const Panel *panels, int tile,
                                                              int row, int rows, int tiles) {
    const QuantRows *x = job->x;
    const int bits = x->bits, quads = x->group / 4, offset = job->format->offset, has_bias = job->format->has_bias,
              n_groups = x->n_groups;
    const size_t row_bytes = (size_t)x->padded * (size_t)bits / 8;
    const uint8_t *codes = x->codes + (size_t)row * row_bytes;
    const QuantStep *steps = x->steps + step_at(x, row, 0);
    const uint8_t *w[PANEL_TILES];
    UNROLL for (int t = 0; t < tiles; t++) w[t] = panels[t].quads;
    __m512 acc[PANEL_ROWS][PANEL_TILES];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < tiles; t++) acc[r][t] = _mm512_setzero_ps();
    for (int g = 0; g < n_groups; g++, codes += x->group) {
        __m512i dot[PANEL_ROWS][PANEL_TILES];
        UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < tiles; t++) dot[r][t] = _mm512_setzero_si512();
        for (int part = 0; part < bits / 8; part++) {
            if (part)
                UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < tiles; t++) dot[r][t] =
                    _mm512_slli_epi32(dot[r][t], 8);
            const uint8_t *xs = codes + (part ? x->padded : 0);
            for (int i = 0; i < quads; i++) {
                __m512i q[PANEL_TILES];
                UNROLL for (int t = 0; t < tiles; t++) q[t] = line_load(w[t] + (size_t)(g * quads + i) * 64);
                UNROLL for (int r = 0; r < rows; r++) {
                    __m512i v = li_set(quad_at(xs + (size_t)r * row_bytes + 4 * i));
                    UNROLL for (int t = 0; t < tiles; t++) dot[r][t] = _mm512_dpbusd_epi32(dot[r][t], q[t], v);
                }
            }
        }
        __m512 scale[PANEL_TILES], bias[PANEL_TILES];
        UNROLL for (int t = 0; t < tiles; t++) {
            scale[t] = _mm512_loadu_ps(panels[t].scale + g * 16);
            bias[t] = _mm512_loadu_ps(panels[t].bias + g * 16);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            const QuantStep *step = &steps[(size_t)r * (size_t)n_groups + (size_t)g];
            UNROLL for (int t = 0; t < tiles; t++) {
                if (offset) dot[r][t] = _mm512_sub_epi32(dot[r][t], li_set(offset * step->sum));
                acc[r][t] = group_add(_mm512_cvtepi32_ps(dot[r][t]), scale[t], bias[t], step, has_bias, acc[r][t]);
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int t = 0; t < tiles; t++)
        store_outputs(job->y + (size_t)(row + r) * job->y_stride + (tile + t) * TILE_ROWS, acc[r][t],
                      job->n_outputs - (tile + t) * TILE_ROWS);
}

static inline __attribute__((always_inline)) void panel_rows(const TileJob *job, const Panel *panels, int tile,
                                                             int tiles) {
    for (int row = 0, rows; row < job->x->n_rows; row += rows) {
        rows = block_height(job->x->n_rows - row, PANEL_ROWS);
        switch (rows) {
        case 6: panel_block(job, panels, tile, row, 6, tiles); break;
        case 5: panel_block(job, panels, tile, row, 5, tiles); break;
        case 4: panel_block(job, panels, tile, row, 4, tiles); break;
        case 3: panel_block(job, panels, tile, row, 3, tiles); break;
        case 2: panel_block(job, panels, tile, row, 2, tiles); break;
        case 1: panel_block(job, panels, tile, row, 1, tiles); break;
        }
    }
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
        for (int t = 0; t < tiles; t++) panel_unpack(job, tile + t, 0, &panels[t]);
        if (tiles == 2)
            panel_rows(job, panels, tile, 2);
        else
            panel_rows(job, panels, tile, 1);
    }
}

static void tile_rows(const TileJob *job) {
    if (rows_streamed(job->x))
        tiles_stream(job);
    else
        tiles_panel(job);
}

static bool supported(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

const KernelTable kernels_avx512 = {.name = "avx512", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};

#include "math/isa_end.h"
#else
typedef int kernels_avx512_is_for_x86; /* an empty translation unit is not C */
#endif
