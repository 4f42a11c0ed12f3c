/* What loops over tiles share whatever their vectors: a copy of a loop for each storage, the scales of a group as 16
 * lanes (tile_unit_scales of math/tile.h is the definition), and the end of a group.
 *
 * No include guard on purpose: one inclusion per instruction set, inside its target region, after its lanes. */

/* One specialised copy of a kernel for each storage; under sanitizers one for all, since each copy takes them seconds.
 */
#if UNROLLED
#define EACH_STORAGE(storage, call, ...)               \
    switch (storage) {                                 \
    case TILE_2: call(TILE_2, __VA_ARGS__); break;     \
    case TILE_3: call(TILE_3, __VA_ARGS__); break;     \
    case TILE_4: call(TILE_4, __VA_ARGS__); break;     \
    case TILE_5: call(TILE_5, __VA_ARGS__); break;     \
    case TILE_6: call(TILE_6, __VA_ARGS__); break;     \
    case TILE_8: call(TILE_8, __VA_ARGS__); break;     \
    case TILE_FP4: call(TILE_FP4, __VA_ARGS__); break; \
    }
#else
#define EACH_STORAGE(storage, call, ...) call(storage, __VA_ARGS__);
#endif

/* The hardware's prefetchers alone leave a thread at half of what it can read; 4096 was the best of 1024 to 8192 with
 * AVX-512. */
enum { PREFETCH_BYTES = 4096 };

/* Rows of the next block where `left` are to come in blocks of nearly equal height, `most` at most: 8 rows are 4 and 4
 * where 6 are possible, since a block of 2 could not hide the latency of its products. */
static inline int block_height(int left, int most) {
    int blocks = (left + most - 1) / most;
    return (left + blocks - 1) / blocks;
}

/* d and -dmin of a K-quant's unit; nothing for other formats. -(dmin * m) and (-dmin) * m are the same bits. */
typedef struct Super {
    lf d, minus_dmin;
} Super;

static inline __attribute__((always_inline)) Super unit_super(const TileFormat *f, const uint8_t *unit) {
    Super s = {lf_set(0.0f), lf_set(0.0f)};
    if (f->scale != TILE_SCALE_K) return s;
    s.d = lf_load_f16(unit + f->unit_codes);
    if (f->has_bias) s.minus_dmin = lf_mul(lf_load_f16(unit + f->unit_codes + 32), lf_set(-1.0f));
    return s;
}

/* Scale and bias of group g of a unit. */
static inline __attribute__((always_inline)) void group_scales(const TileFormat *f, const Super *super,
                                                               const uint8_t *unit, int g, lf *scale, lf *bias) {
    const uint8_t *at = unit + f->unit_codes;
    const bool has_bias = f->has_bias;
    const int parts = has_bias ? 2 : 1;
    *bias = lf_set(0.0f);
    if (f->scale == TILE_SCALE_K) {
        const uint8_t *p = at + parts * 32 + g * parts * 16;
        *scale = lf_mul(super->d, lf_from_li(f->signed_scales ? li_load_i8(p) : li_load_u8(p)));
        if (has_bias) *bias = lf_mul(super->minus_dmin, lf_from_li(li_load_u8(p + 16)));
    } else if (f->scale == TILE_SCALE_BF16) {
        const uint8_t *p = at + g * parts * 32;
        *scale = lf_bits(li_shl(li_load_u16(p), 16));
        if (has_bias) *bias = lf_bits(li_shl(li_load_u16(p + 32), 16));
    } else if (f->scale == TILE_SCALE_F16) {
        const uint8_t *p = at + g * parts * 32;
        *scale = lf_load_f16(p);
        if (has_bias) *bias = lf_load_f16(p + 32);
    } else {
        const uint8_t *p = at + g * parts * 64;
        *scale = lf_load_bytes(p);
        if (has_bias) *bias = lf_load_bytes(p + 64);
    }
}

/* The end of a group: `dot` is the exact I as a float, then the two fused operations of the definition. */
static inline lf group_add(lf dot, lf scale, lf bias, const QuantStep *step, bool has_bias, lf acc) {
    acc = lf_fma(dot, lf_mul(lf_set(step->a), scale), acc);
    return has_bias ? lf_fma(bias, lf_set(step->a_sum), acc) : acc;
}
