/* Scales and biases of a tile's groups as 16 lanes: tile_unit_scales (math/tile.h) is the definition.
 *
 * No include guard on purpose: one inclusion per instruction set, inside its target region, after its lanes. */

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
