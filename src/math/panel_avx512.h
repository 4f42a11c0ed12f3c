/* Tiles unpacked to bytes and f32 scales by AVX-512: what the loops over VNNI and AMX share.
 *
 * No include guard on purpose: one inclusion per instruction set, inside its target region, after kernels_body.h. */

static inline __m512i line_load(const uint8_t *p) {
    return _mm512_loadu_si512((const void *)p);
}

/* Quad i of a block of 32: see tile.h for the planes. `storage` and i are constants after inlining. */
static inline __attribute__((always_inline)) __m512i quad_unpack(TileStorage storage, const uint8_t *p, int i) {
    const __m512i m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(3), m1 = _mm512_set1_epi8(1);
    if (storage == TILE_8) return line_load(p + 64 * i);
    __m512i q;
    if (storage == TILE_2 || storage == TILE_3)
        q = _mm512_and_si512(_mm512_srli_epi16(line_load(p + 64 * (i / 4)), (unsigned)(i % 4 * 2)), m2);
    else
        q = _mm512_and_si512(_mm512_srli_epi16(line_load(p + 64 * (i / 2)), (unsigned)(i % 2 * 4)), m4);
    if (storage == TILE_FP4)
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)tile_fp4_codes)), q);
    if (storage == TILE_3 || storage == TILE_5) { /* one more bit, at 2 or at 4 */
        int at = storage == TILE_3 ? 2 : 4;
        __m512i line = line_load(p + (storage == TILE_3 ? 128 : 256));
        line = i < at ? _mm512_slli_epi16(line, (unsigned)(at - i)) : _mm512_srli_epi16(line, (unsigned)(i - at));
        q = _mm512_or_si512(q, _mm512_and_si512(line, _mm512_slli_epi16(m1, (unsigned)at)));
    }
    if (storage == TILE_6) { /* two more bits at 4 */
        int from = i % 4 * 2;
        __m512i line = line_load(p + 256 + 64 * (i / 4));
        line = from < 4 ? _mm512_slli_epi16(line, (unsigned)(4 - from)) : _mm512_srli_epi16(line, (unsigned)(from - 4));
        q = _mm512_or_si512(q, _mm512_and_si512(line, _mm512_slli_epi16(m2, 4)));
    }
    return q;
}

#include "math/tile_loops.h"

static inline void store_outputs(float *y, __m512 acc, int outputs) {
    _mm512_mask_storeu_ps(y, outputs >= 16 ? 0xFFFF : (__mmask16)((1u << outputs) - 1), acc);
}

/* A tile as bytes and f32 scales, for many rows: quads [padded / 4][64], scale and bias [n_groups][16]. The offset of
 * a format's codes is taken off them there (they become signed), or later, from the sums. */
typedef struct Panel {
    uint8_t *quads;
    float *scale, *bias;
} Panel;

static inline __attribute__((always_inline)) void panel_codes(TileStorage storage, const TileJob *job, int tile,
                                                              int offset, uint8_t *quads) {
    const TileFormat *f = job->format;
    const __m512i off = _mm512_set1_epi8((char)offset);
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes;
    for (int k = 0; k < job->x->cols; k += f->unit, unit += f->unit_bytes)
        for (int b = 0; b < f->unit / TILE_BLOCK; b++, quads += 512) {
            for (int line = 0; line < f->block_bytes; line += 64)
                _mm_prefetch((const char *)(unit + b * f->block_bytes + line + PREFETCH_BYTES), _MM_HINT_T0);
            UNROLL for (int i = 0; i < 8; i++) _mm512_storeu_si512(
                (void *)(quads + 64 * i), _mm512_sub_epi8(quad_unpack(storage, unit + b * f->block_bytes, i), off));
        }
}

static void panel_unpack(const TileJob *job, int tile, int offset, const Panel *to) {
    const TileFormat *f = job->format;
    EACH_STORAGE(f->storage, panel_codes, job, tile, offset, to->quads)
    const uint8_t *unit = job->tiles + (size_t)tile * job->tile_bytes;
    int per_unit = f->unit / f->group;
    for (int g = 0; g < job->x->n_groups; g++) {
        __m512 scale, bias;
        const uint8_t *at = unit + (size_t)(g / per_unit * f->unit_bytes);
        Super super = unit_super(f, at);
        group_scales(f, &super, at, g % per_unit, &scale, &bias);
        _mm512_storeu_ps(to->scale + g * 16, scale);
        _mm512_storeu_ps(to->bias + g * 16, bias);
    }
}
