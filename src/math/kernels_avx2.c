/* AVX2 with FMA and F16C, for the many processors without AVX-512: 16 lanes are two vectors, and there is no byte dot
 * product that is wide enough.
 *
 * 16-bit activations: vpmaddwd meets 16-bit pairs of codes, (k0, k2) and (k1, k3) of a quad, with activations stored in
 * that order; sums of two products fit int32. 8-bit activations: vpmaddubsw meets quads of unsigned bytes, and its
 * 16-bit sums are widened before they can overflow; codes of 8 bits would overflow at once and go as pairs.
 *
 * Few rows unpack a tile in registers, since they wait for memory. For many a chunk of a tile is unpacked once into the
 * L1 cache, and all rows, whose codes lie chunk by chunk for that, run over it: their sums go on in the outputs.
 *
 * Over a chunk, pairs are multiplied as in Winograd's inner product (IEEE Transactions on Computers C-17, 1968):
 *
 *     (x0 + w1) * (x1 + w0) = x0 * w0 + x1 * w1 + x0 * x1 + w0 * w1
 *
 * The last two depend on the row or on the output alone and are taken away group by group; integers wrap, so the sum is
 * exact. Half of the multiplications become additions of 16 bits: as many instructions, but vpmaddwd has two ports and
 * additions have four. x + w fits int16, since |x| <= 32512 and |w| <= 255. */
#if defined(__x86_64__)
#include "math/kernel_table.h"

#include "math/isa_begin_avx2.h"

#include "math/lanes_avx2.h"

enum {
    CHUNK = 512,      /* inputs that are unpacked at a time: 16 KB of pairs */
    STREAM_ROWS = 4,  /* rows that a tile is unpacked for in registers, */
    STREAM_MOST = 12, /* and rows that come one such block after the other */
    PANEL_ROWS = 4,   /* rows of a block over an unpacked chunk: sums and codes leave four vectors */
    CHUNK_ROWS = 256, /* rows whose codes of a chunk stay in the L2 cache meanwhile */
    MOST_GROUPS = CHUNK / 16,
};

/* ---- codes and steps of activations, chunk by chunk ---- */

/* Inputs, and groups, of the chunk that begins with this one. */
static inline int chunk_width(const QuantRows *x, int first) {
    return x->padded - first < CHUNK ? x->padded - first : CHUNK;
}

static inline int chunk_groups(const QuantRows *x, int first_group) {
    const int left = x->n_groups - first_group, most = CHUNK / x->group;
    return left < most ? left : most;
}

static inline size_t codes_at(const QuantRows *x, int row, int k) {
    int first = k / CHUNK * CHUNK;
    size_t at = (size_t)first * (size_t)x->n_rows + (size_t)row * (size_t)chunk_width(x, first) + (size_t)(k - first);
    return at * (size_t)x->bits / 8;
}

static inline size_t step_at(const QuantRows *x, int row, int group) {
    const int most = CHUNK / x->group, first = group / most * most;
    return (size_t)first * (size_t)x->n_rows + (size_t)(row * chunk_groups(x, first) + group - first);
}

/* The sum of x[2 i] * x[2 i + 1], modulo 2^32. n is a multiple of 16. */
static inline int32_t paired_sum(const int16_t *x, int n) {
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 16) {
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(v, 16), 16), odd = _mm256_srai_epi32(v, 16);
        sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(even, odd));
    }
    return li_fold_add((li){sum, _mm256_setzero_si256()});
}

/* 16 bits: (k0, k2, k1, k3) of each quad. quantize_row comes once for each group, whose step it has made, and then with
 * the padding: so this is where the step gets its paired sum. */
static inline void codes_place(QuantRows *q, int row, const int16_t *x, int k, int n) {
    if (k < q->cols) q->steps[step_at(q, row, k / q->group)].paired = paired_sum(x, n);
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0, 1, 4, 5, 2, 3, 6, 7,
                                           8, 9, 12, 13, 10, 11, 14, 15);
    for (int i = 0; i < n; i += 16) {
        uint8_t *to = q->codes + codes_at(q, row, k + i);
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        if (q->bits == 16)
            _mm256_storeu_si256((void *)to, _mm256_shuffle_epi8(v, order));
        else
            _mm_storeu_si128((void *)to, _mm_packs_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    }
}

static inline void codes_copy(QuantRows *to, int i, const QuantRows *from, int row) {
    for (int k = 0; k < to->padded; k += CHUNK) {
        size_t bytes = (size_t)(chunk_width(to, k) * to->bits / 8);
        memcpy(to->codes + codes_at(to, i, k), from->codes + codes_at(from, row, k), bytes);
    }
}

#include "math/kernels_body.h"

#include "math/tile_loops.h"

/* ---- quads of codes: 16 outputs in two vectors, the first 8 and the last 8 ---- */

typedef struct Bytes {
    __m256i of[2];
} Bytes;

typedef struct Pairs {
    __m256i even[2], odd[2]; /* (k0, k2) and (k1, k3) as 16 bits each */
} Pairs;

static inline __m256i vector_load(const uint8_t *p) {
    return _mm256_loadu_si256((const void *)p);
}

/* Moved right by n bits, left if n is negative; neighbours come along. n is a constant after inlining. */
static inline __m256i moved(__m256i x, int n) {
    return n < 0 ? _mm256_slli_epi16(x, -n) : _mm256_srli_epi16(x, n);
}

/* Quad i of a block of 32: see tile.h for the planes. `storage` and i are constants after inlining. */
static inline __attribute__((always_inline)) Bytes quad_bytes(TileStorage storage, const uint8_t *p, int i) {
    Bytes q;
    UNROLL for (int h = 0; h < 2; h++) {
        const uint8_t *at = p + 32 * h;
        if (storage == TILE_8) {
            q.of[h] = vector_load(at + 64 * i);
            continue;
        }
        if (storage == TILE_2 || storage == TILE_3)
            q.of[h] = _mm256_and_si256(moved(vector_load(at + i / 4 * 64), i % 4 * 2), _mm256_set1_epi8(3));
        else
            q.of[h] = _mm256_and_si256(moved(vector_load(at + i / 2 * 64), i % 2 * 4), _mm256_set1_epi8(15));
        __m256i more = _mm256_setzero_si256();
        if (storage == TILE_FP4)
            q.of[h] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)tile_fp4_codes)),
                                          q.of[h]);
        if (storage == TILE_3) more = _mm256_and_si256(moved(vector_load(at + 128), i - 2), _mm256_set1_epi8(4));
        if (storage == TILE_5) more = _mm256_and_si256(moved(vector_load(at + 256), i - 4), _mm256_set1_epi8(16));
        if (storage == TILE_6)
            more = _mm256_and_si256(moved(vector_load(at + 256 + i / 4 * 64), i % 4 * 2 - 4), _mm256_set1_epi8(48));
        q.of[h] = _mm256_or_si256(q.of[h], more);
    }
    return q;
}

static inline Pairs pairs_of(Bytes q) {
    Pairs w;
    UNROLL for (int h = 0; h < 2; h++) {
        w.even[h] = _mm256_and_si256(q.of[h], _mm256_set1_epi16(255));
        w.odd[h] = _mm256_srli_epi16(q.of[h], 8);
    }
    return w;
}

/* The same quad as pairs; 2 and 4 bits come out of a line at once. */
static inline __attribute__((always_inline)) Pairs quad_pairs(TileStorage storage, const uint8_t *p, int i) {
    if (storage != TILE_2 && storage != TILE_4) return pairs_of(quad_bytes(storage, p, i));
    const int bits = storage == TILE_2 ? 2 : 4, per_line = 8 / bits, shift = i % per_line * bits;
    const __m256i mask = _mm256_set1_epi16((short)((1 << bits) - 1));
    Pairs w;
    UNROLL for (int h = 0; h < 2; h++) {
        __m256i line = vector_load(p + i / per_line * 64 + 32 * h);
        w.even[h] = _mm256_and_si256(moved(line, shift), mask);
        w.odd[h] = moved(line, shift + 8);
        if (shift + 8 + bits < 16) w.odd[h] = _mm256_and_si256(w.odd[h], mask);
    }
    return w;
}

static inline __m256i broadcast_32(const uint8_t *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* Sums that gcc must not take apart: it would multiply everything first and keep the products in memory. */
static inline __m256i settled(__m256i x) {
    __asm__("" : "+x"(x));
    return x;
}

/* Such a sum of 32 bits, in its own register besides: over a chunk gcc would keep the old one as well and copy. */
static inline __m256i sum_add(__m256i sum, __m256i product) {
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(product));
    return sum;
}

static inline li pairs_add(li dot, const Pairs *w, __m256i even, __m256i odd) {
    dot.a = sum_add(dot.a, _mm256_madd_epi16(w->even[0], even));
    dot.b = sum_add(dot.b, _mm256_madd_epi16(w->even[1], even));
    dot.a = sum_add(dot.a, _mm256_madd_epi16(w->odd[0], odd));
    dot.b = sum_add(dot.b, _mm256_madd_epi16(w->odd[1], odd));
    return dot;
}

/* The pairs of a quad of activations, for every output. */
static inline __attribute__((always_inline)) void row_pairs(const uint8_t *x, int bits, __m256i *even, __m256i *odd) {
    *even = broadcast_32(x);
    if (bits == 16) {
        *odd = broadcast_32(x + 4);
        return;
    }
    *odd = _mm256_srai_epi16(*even, 8);
    *even = _mm256_srai_epi16(_mm256_slli_epi16(*even, 8), 8);
}

/* One quad of pairs times that of `rows` rows, onto their sums. */
static inline __attribute__((always_inline)) void pairs_dots(const Pairs *w, int bits, const uint8_t *codes,
                                                             size_t row_bytes, int rows, li *dot) {
    UNROLL for (int r = 0; r < rows; r++) {
        __m256i even, odd;
        row_pairs(codes + (size_t)r * row_bytes, bits, &even, &odd);
        dot[r] = pairs_add(dot[r], w, even, odd);
    }
}

/* Quads of unsigned bytes whose 16-bit sums with 8-bit activations cannot overflow: 2 * 127 * (the largest code) each.
 * 1: not even one can be relied on. */
static inline int quads_per_sum(TileStorage storage) {
    return storage == TILE_8 ? 1 : storage == TILE_6 ? 2 : storage == TILE_5 || storage == TILE_FP4 ? 4 : 8;
}

static inline bool multiplies_bytes(TileStorage storage, int bits) {
    return bits == 8 && storage != TILE_8;
}

/* One quad of bytes onto the 16-bit sums of `rows` rows, or as their beginning. */
static inline __attribute__((always_inline)) void bytes_dots(const Bytes *w, const uint8_t *codes, size_t row_bytes,
                                                             int rows, bool begins, Bytes *sums) {
    UNROLL for (int r = 0; r < rows; r++) {
        __m256i x = broadcast_32(codes + (size_t)r * row_bytes);
        UNROLL for (int h = 0; h < 2; h++) {
            __m256i products = _mm256_maddubs_epi16(w->of[h], x);
            sums[r].of[h] = begins ? products : settled(_mm256_add_epi16(sums[r].of[h], products));
        }
    }
}

static inline __attribute__((always_inline)) void sums_widen(const Bytes *sums, int rows, bool begins, li *dot) {
    const __m256i ones = _mm256_set1_epi16(1);
    UNROLL for (int r = 0; r < rows; r++) {
        li wide = {_mm256_madd_epi16(sums[r].of[0], ones), _mm256_madd_epi16(sums[r].of[1], ones)};
        dot[r] = begins ? wide : li_add(dot[r], wide);
    }
}

/* ---- outputs ---- */

/* Sums so far of one row and tile, of which `outputs` exist, and back. */
static inline lf outputs_load(const float *y, int outputs) {
    if (outputs >= TILE_ROWS) return lf_load(y);
    float all[TILE_ROWS] = {0};
    memcpy(all, y, (size_t)outputs * sizeof *y);
    return lf_load(all);
}

static inline void outputs_store(float *y, lf acc, int outputs) {
    if (outputs >= TILE_ROWS) {
        lf_store(y, acc);
        return;
    }
    float all[TILE_ROWS];
    lf_store(all, acc);
    memcpy(y, all, (size_t)outputs * sizeof *y);
}

static inline int outputs_of(const TileJob *job, int tile) {
    int left = job->n_outputs - tile * TILE_ROWS;
    return left < TILE_ROWS ? left : TILE_ROWS;
}

/* ---- few rows: a tile unpacked in registers ---- */

/* Quads [first, end) of a block times those of `rows` rows. */
static inline __attribute__((always_inline)) void stream_block(TileStorage storage, const uint8_t *block, int first,
                                                               int end, const uint8_t *codes, size_t row_bytes,
                                                               int bits, int rows, li *dot) {
    Bytes sums[STREAM_ROWS];
    UNROLL for (int i = first; i < end; i++) {
        const uint8_t *x = codes + (i - first) * 4 * bits / 8;
        if (!multiplies_bytes(storage, bits)) {
            Pairs w = quad_pairs(storage, block, i);
            pairs_dots(&w, bits, x, row_bytes, rows, dot);
            continue;
        }
        Bytes w = quad_bytes(storage, block, i);
        const int run = quads_per_sum(storage);
        bytes_dots(&w, x, row_bytes, rows, (i - first) % run == 0, sums);
        if ((i - first) % run == run - 1 || i == end - 1) sums_widen(sums, rows, false, dot);
    }
}

/* Group g of a unit; groups of 16 are the halves of a block. */
static inline __attribute__((always_inline)) void stream_group(const TileFormat *f, TileStorage storage,
                                                               const uint8_t *unit, int g, const uint8_t *codes,
                                                               size_t row_bytes, int bits, int rows, li *dot) {
    if (f->group < TILE_BLOCK) {
        const uint8_t *block = unit + g / 2 * f->block_bytes;
        if (g % 2 == 0)
            stream_block(storage, block, 0, 4, codes, row_bytes, bits, rows, dot);
        else
            stream_block(storage, block, 4, 8, codes, row_bytes, bits, rows, dot);
        return;
    }
    const uint8_t *block = unit + g * (f->group / TILE_BLOCK) * f->block_bytes;
    for (int k = 0; k < f->group; k += TILE_BLOCK, block += f->block_bytes, codes += TILE_BLOCK * bits / 8) {
        for (int line = 0; line < f->block_bytes; line += 64)
            _mm_prefetch((const char *)(block + line + PREFETCH_BYTES), _MM_HINT_T0);
        stream_block(storage, block, 0, 8, codes, row_bytes, bits, rows, dot);
    }
}

/* The rows of a block over a chunk: where their codes and steps begin, and how far the next row's are. */
typedef struct ChunkRows {
    const uint8_t *codes;
    const QuantStep *steps;
    size_t row_bytes;
    int n_groups; /* steps of a row */
} ChunkRows;

static inline ChunkRows chunk_rows(const QuantRows *x, int row, int first) {
    return (ChunkRows){.codes = x->codes + codes_at(x, row, first),
                       .steps = x->steps + step_at(x, row, first / x->group),
                       .row_bytes = (size_t)(chunk_width(x, first) * x->bits / 8),
                       .n_groups = chunk_groups(x, first / x->group)};
}

/* One unit of a tile times `rows` rows. */
static inline __attribute__((always_inline)) void stream_unit(const TileFormat *f, TileStorage storage,
                                                              const uint8_t *unit, int n_groups, const ChunkRows *x,
                                                              int bits, int rows, lf *acc) {
    const Super super = unit_super(f, unit);
    const uint8_t *codes = x->codes;
    for (int g = 0; g < n_groups; g++, codes += f->group * bits / 8) {
        li dot[STREAM_ROWS];
        UNROLL for (int r = 0; r < rows; r++) dot[r] =
            li_set(f->offset ? -f->offset * x->steps[r * x->n_groups + g].sum : 0);
        stream_group(f, storage, unit, g, codes, x->row_bytes, bits, rows, dot);
        lf scale, bias;
        group_scales(f, &super, unit, g, &scale, &bias);
        UNROLL for (int r = 0; r < rows; r++) acc[r] =
            group_add(lf_from_li(dot[r]), scale, bias, &x->steps[r * x->n_groups + g], f->has_bias, acc[r]);
    }
}

/* One tile times `rows` rows from `row` on. */
static inline __attribute__((always_inline)) void stream_rows(TileStorage storage, const TileJob *job, int tile,
                                                              int row, int bits, int rows) {
    const TileFormat *f = job->format;
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes;
    const int per_unit = f->unit / f->group;
    lf acc[STREAM_ROWS];
    UNROLL for (int r = 0; r < rows; r++) acc[r] = lf_set(0.0f);
    for (int k = 0; k < job->x->cols; k += CHUNK) {
        ChunkRows x = chunk_rows(job->x, row, k);
        for (int g = 0; g < x.n_groups; g += per_unit, unit += f->unit_bytes) {
            stream_unit(f, storage, unit, x.n_groups - g < per_unit ? x.n_groups - g : per_unit, &x, bits, rows, acc);
            x.codes += f->unit * bits / 8;
            x.steps += per_unit;
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        outputs_store(job->y + (size_t)(row + r) * job->y_stride + tile * TILE_ROWS, acc[r], outputs_of(job, tile));
}

/* A function for each width and height, not inlined: all in one would share a frame. */
typedef void StreamRows(const TileJob *job, int tile, int row);
#define STREAM_HEIGHT(name, bits, rows)                                                 \
    static __attribute__((noinline)) void name(const TileJob *job, int tile, int row) { \
        EACH_STORAGE(job->format->storage, stream_rows, job, tile, row, bits, rows)     \
    }
STREAM_HEIGHT(stream_one_16, 16, 1)
STREAM_HEIGHT(stream_two_16, 16, 2)
STREAM_HEIGHT(stream_three_16, 16, 3)
STREAM_HEIGHT(stream_four_16, 16, 4)
STREAM_HEIGHT(stream_one_8, 8, 1)
STREAM_HEIGHT(stream_two_8, 8, 2)
STREAM_HEIGHT(stream_three_8, 8, 3)
STREAM_HEIGHT(stream_four_8, 8, 4)

static void tiles_stream(const TileJob *job) {
    static StreamRows *const heights[2][STREAM_ROWS] = {{stream_one_16, stream_two_16, stream_three_16, stream_four_16},
                                                        {stream_one_8, stream_two_8, stream_three_8, stream_four_8}};
    for (int tile = 0; tile < job->n_tiles; tile++)
        for (int row = 0, rows; row < job->x->n_rows; row += rows) {
            rows = block_height(job->x->n_rows - row, STREAM_ROWS);
            heights[job->x->bits == 8][rows - 1](job, tile, row);
        }
}

/* ---- many rows: a chunk of a tile unpacked for all ---- */

/* quads [CHUNK / 4] of Pairs without the codes' offset, or of Bytes with it; the others [groups][16]. */
typedef struct Panel {
    _Alignas(64) uint8_t quads[CHUNK / 4 * sizeof(Pairs)];
    _Alignas(64) float scale[MOST_GROUPS * TILE_ROWS], bias[MOST_GROUPS * TILE_ROWS];
    _Alignas(64) int32_t minus_paired[MOST_GROUPS * TILE_ROWS]; /* of the codes, as in QuantStep; for Pairs */
    int first;                                                  /* input */
} Panel;

static inline li sums_load(const int32_t *p) {
    return (li){_mm256_loadu_si256((const void *)p), _mm256_loadu_si256((const void *)(p + 8))};
}

static inline void sums_store(int32_t *p, li x) {
    _mm256_storeu_si256((void *)p, x.a);
    _mm256_storeu_si256((void *)(p + 8), x.b);
}

static inline Pairs pairs_less(Pairs q, int offset) {
    const __m256i all = _mm256_set1_epi16((short)offset);
    UNROLL for (int h = 0; h < 2; h++) {
        q.even[h] = _mm256_sub_epi16(q.even[h], all);
        q.odd[h] = _mm256_sub_epi16(q.odd[h], all);
    }
    return q;
}

/* A block as Pairs, and what its halves add to minus_paired. */
static inline __attribute__((always_inline)) void unpack_pairs(TileStorage storage, const uint8_t *block, int offset,
                                                               uint8_t *quads, li halves[2]) {
    halves[0] = halves[1] = li_set(0);
    UNROLL for (int i = 0; i < TILE_BLOCK / 4; i++, quads += sizeof(Pairs)) {
        Pairs q = quad_pairs(storage, block, i);
        if (offset) q = pairs_less(q, offset);
        memcpy(quads, &q, sizeof q);
        li paired = {_mm256_madd_epi16(q.even[0], q.odd[0]), _mm256_madd_epi16(q.even[1], q.odd[1])};
        halves[i / 4] = li_sub(halves[i / 4], paired);
    }
}

static inline __attribute__((always_inline)) void unpack_bytes(TileStorage storage, const uint8_t *block,
                                                               uint8_t *quads) {
    UNROLL for (int i = 0; i < TILE_BLOCK / 4; i++, quads += sizeof(Bytes)) {
        Bytes q = quad_bytes(storage, block, i);
        memcpy(quads, &q, sizeof q);
    }
}

/* The block that ends at input `end` of a unit is done: its groups, or its share of one, which `sum` collects. */
static inline int32_t *paired_end(int group, int end, const li halves[2], li *sum, int32_t *to) {
    if (group < TILE_BLOCK) {
        sums_store(to, halves[0]);
        sums_store(to + TILE_ROWS, halves[1]);
        return to + 2 * TILE_ROWS;
    }
    *sum = li_add(*sum, li_add(halves[0], halves[1]));
    if (end % group != 0) return to;
    sums_store(to, *sum);
    *sum = li_set(0);
    return to + TILE_ROWS;
}

/* The same inputs of the next tile are asked for: they are wanted after this one's rows, and lie elsewhere. */
static inline __attribute__((always_inline)) void panel_codes(TileStorage storage, const TileJob *job, int tile,
                                                              int first, Panel *to) {
    const TileFormat *f = job->format;
    const bool bytes = multiplies_bytes(storage, job->x->bits);
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes + (size_t)(first / f->unit * f->unit_bytes);
    int end = first + CHUNK < job->x->cols ? first + CHUNK : job->x->cols;
    uint8_t *quads = to->quads;
    int32_t *paired = to->minus_paired;
    li sum = li_set(0), halves[2];
    for (int k = first; k < end; k += f->unit, unit += f->unit_bytes)
        for (int at = 0; at < f->unit; at += TILE_BLOCK) {
            const uint8_t *block = unit + at / TILE_BLOCK * f->block_bytes;
            for (int line = 0; line < f->block_bytes; line += 64)
                _mm_prefetch((const char *)(block + line + job->tile_bytes), _MM_HINT_T0);
            if (bytes) {
                unpack_bytes(storage, block, quads);
            } else {
                unpack_pairs(storage, block, f->offset, quads, halves);
                paired = paired_end(f->group, at + TILE_BLOCK, halves, &sum, paired);
            }
            quads += TILE_BLOCK / 4 * (bytes ? sizeof(Bytes) : sizeof(Pairs));
        }
}

/* Inputs [first, first + CHUNK) of a tile, or up to the last one. */
static __attribute__((noinline)) void panel_unpack(const TileJob *job, int tile, int first, Panel *to) {
    const TileFormat *f = job->format;
    EACH_STORAGE(f->storage, panel_codes, job, tile, first, to)
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes + (size_t)(first / f->unit * f->unit_bytes);
    const int per_unit = f->unit / f->group, n_groups = chunk_groups(job->x, first / f->group);
    to->first = first;
    for (int g = 0; g < n_groups; g += per_unit, unit += f->unit_bytes) {
        const Super super = unit_super(f, unit);
        for (int i = 0; i < per_unit && g + i < n_groups; i++) {
            lf scale, bias;
            group_scales(f, &super, unit, i, &scale, &bias);
            lf_store(to->scale + (g + i) * TILE_ROWS, scale);
            lf_store(to->bias + (g + i) * TILE_ROWS, bias);
        }
    }
}

/* `run` quads times those of `rows` rows, as bytes in one 16-bit sum, onto their sums or as their beginning. */
static inline __attribute__((always_inline)) void panel_run(const uint8_t *quads, int run, const uint8_t *codes,
                                                            size_t row_bytes, int rows, bool begins, li *dot) {
    Bytes sums[PANEL_ROWS];
    UNROLL for (int i = 0; i < run; i++, quads += sizeof(Bytes), codes += 4) {
        Bytes w = {{vector_load(quads), vector_load(quads + 32)}};
        bytes_dots(&w, codes, row_bytes, rows, i == 0, sums);
    }
    sums_widen(sums, rows, begins, dot);
}

static inline __attribute__((always_inline)) void
panel_bytes(const uint8_t *quads, int n, int run, const uint8_t *codes, size_t row_bytes, int rows, li *dot) {
    panel_run(quads, run, codes, row_bytes, rows, true, dot);
    for (int i = run; i < n; i += run)
        panel_run(quads + (size_t)i * sizeof(Bytes), run, codes + 4 * i, row_bytes, rows, false, dot);
}

/* One quad of pairs with that of `rows` rows, multiplied as the head of this file says, onto their sums. */
static inline __attribute__((always_inline)) void winograd_quad(const uint8_t *quad, int bits, const uint8_t *codes,
                                                                size_t row_bytes, int rows, li *dot) {
    Pairs w = {{vector_load(quad), vector_load(quad + 32)}, {vector_load(quad + 64), vector_load(quad + 96)}};
    UNROLL for (int r = 0; r < rows; r++) {
        __m256i even, odd;
        row_pairs(codes + (size_t)r * row_bytes, bits, &even, &odd);
        dot[r].a =
            sum_add(dot[r].a, _mm256_madd_epi16(_mm256_add_epi16(w.odd[0], even), _mm256_add_epi16(w.even[0], odd)));
        dot[r].b =
            sum_add(dot[r].b, _mm256_madd_epi16(_mm256_add_epi16(w.odd[1], even), _mm256_add_epi16(w.even[1], odd)));
    }
}

/* n is even. */
static inline __attribute__((always_inline)) void panel_pairs(const uint8_t *quads, int n, const uint8_t *codes,
                                                              size_t row_bytes, int bits, int rows, li *dot) {
    const int quad = (int)sizeof(Pairs), step = 4 * bits / 8;
    for (int i = 0; i < n; i += 2, quads += 2 * quad, codes += 2 * step) {
        winograd_quad(quads, bits, codes, row_bytes, rows, dot);
        winograd_quad(quads + quad, bits, codes + step, row_bytes, rows, dot);
    }
}

/* `rows` rows over a panel. run: 0 for pairs, else of bytes. */
static inline __attribute__((always_inline)) void panel_block(const TileJob *job, const Panel *panel, int tile, int row,
                                                              int bits, int run, int rows) {
    const int n_quads = job->x->group / 4, offset = run ? job->format->offset : 0, outputs = outputs_of(job, tile);
    const bool has_bias = job->format->has_bias;
    const uint8_t *quads = panel->quads;
    ChunkRows x = chunk_rows(job->x, row, panel->first);
    float *y = job->y + (size_t)row * job->y_stride + tile * TILE_ROWS;
    lf acc[PANEL_ROWS];
    UNROLL for (int r = 0; r < rows; r++) acc[r] =
        panel->first ? outputs_load(y + (size_t)r * job->y_stride, outputs) : lf_set(0.0f);
    for (int g = 0; g < x.n_groups; g++, x.codes += n_quads * bits / 2) {
        li dot[PANEL_ROWS];
        if (run) {
            panel_bytes(quads, n_quads, run, x.codes, x.row_bytes, rows, dot);
            if (offset)
                UNROLL for (int r = 0; r < rows; r++) dot[r] =
                    li_sub(dot[r], li_set(offset * x.steps[r * x.n_groups + g].sum));
        } else {
            li minus_paired = sums_load(panel->minus_paired + g * TILE_ROWS);
            UNROLL for (int r = 0; r < rows; r++) dot[r] =
                li_sub(minus_paired, li_set(x.steps[r * x.n_groups + g].paired));
            panel_pairs(quads, n_quads, x.codes, x.row_bytes, bits, rows, dot);
        }
        quads += (size_t)n_quads * (run ? sizeof(Bytes) : sizeof(Pairs));
        lf scale = lf_load(panel->scale + g * TILE_ROWS), bias = lf_load(panel->bias + g * TILE_ROWS);
        UNROLL for (int r = 0; r < rows; r++) acc[r] =
            group_add(lf_from_li(dot[r]), scale, bias, &x.steps[r * x.n_groups + g], has_bias, acc[r]);
    }
    UNROLL for (int r = 0; r < rows; r++) outputs_store(y + (size_t)r * job->y_stride, acc[r], outputs);
}

typedef void PanelRows(const TileJob *job, const Panel *panel, int tile, int row, int rows);
#define PANEL_HEIGHT(bits, run, rows)                        \
    case rows:                                               \
        panel_block(job, panel, tile, row, bits, run, rows); \
        break;
#define PANEL_HEIGHTS(name, bits, run)                                                                                \
    static __attribute__((noinline)) void name(const TileJob *job, const Panel *panel, int tile, int row, int rows) { \
        switch (rows) {                                                                                               \
            PANEL_HEIGHT(bits, run, 4)                                                                                \
            PANEL_HEIGHT(bits, run, 3)                                                                                \
            PANEL_HEIGHT(bits, run, 2)                                                                                \
            PANEL_HEIGHT(bits, run, 1)                                                                                \
        }                                                                                                             \
    }
PANEL_HEIGHTS(panel_pairs_16, 16, 0)
PANEL_HEIGHTS(panel_pairs_8, 8, 0)
PANEL_HEIGHTS(panel_bytes_two, 8, 2)
PANEL_HEIGHTS(panel_bytes_four, 8, 4)
PANEL_HEIGHTS(panel_bytes_eight, 8, 8)

static PanelRows *panel_rows(const TileJob *job) {
    if (job->x->bits == 16) return panel_pairs_16;
    int run = quads_per_sum(job->format->storage);
    if (run > job->x->group / 4) run = job->x->group / 4;
    return run == 1 ? panel_pairs_8 : run == 2 ? panel_bytes_two : run == 4 ? panel_bytes_four : panel_bytes_eight;
}

static void tiles_panel(const TileJob *job) {
    PanelRows *block = panel_rows(job);
    Panel panel;
    for (int first = 0, end; first < job->x->n_rows; first = end) {
        end = job->x->n_rows - first < CHUNK_ROWS ? job->x->n_rows : first + CHUNK_ROWS;
        for (int k = 0; k < job->x->cols; k += CHUNK)
            for (int tile = 0; tile < job->n_tiles; tile++) {
                panel_unpack(job, tile, k, &panel);
                for (int row = first, rows; row < end; row += rows) {
                    rows = block_height(end - row, PANEL_ROWS);
                    block(job, &panel, tile, row, rows);
                }
            }
    }
}

static void tile_rows(const TileJob *job) {
    if (job->x->n_rows <= STREAM_MOST)
        tiles_stream(job);
    else
        tiles_panel(job);
}

static bool supported(void) { /* clang 14 cannot be asked for f16c; every processor with AVX2 has it */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const KernelTable kernels_avx2 = {.name = "avx2", .supported = supported, .tiles = tile_rows, KERNELS_BODY_FIELDS};

#include "math/isa_end.h"
#else
typedef int kernels_avx2_is_for_x86; /* an empty translation unit is not C */
#endif
