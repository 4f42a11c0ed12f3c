/* Where codes and steps of activations lie for the two tables with byte dot products, AVX-512 VNNI and AMX. Few rows
 * are streamed in bands, in the same layout for both; the including file has defined for many rows
 *
 *     rows_streamed(x)              whether the rows of x are few
 *     wide_codes_at(x, row, block)  where the codes of a row's block of 32 begin, its H bytes first
 *     wide_low_codes(x, row)        from a block's H bytes to its L bytes
 *     wide_step_at(x, row, group)
 *
 * No include guard on purpose: one inclusion per instruction set, inside its target region, before kernels_body.h. */

enum { BAND = 8 };

static inline int band_rows(const QuantRows *x, int row) {
    int left = x->n_rows - row / BAND * BAND;
    return left < BAND ? left : BAND;
}

/* Where the codes of a row's block of 32 begin. Streamed: for each block the rows of a band, each 32 H bytes (the codes
 * themselves with 8 bits) and then 32 L bytes, so that a band is one forward stream and its rows are constants apart.
 */
static inline size_t codes_at(const QuantRows *x, int row, int block) {
    if (!rows_streamed(x)) return wide_codes_at(x, row, block);
    const size_t bytes = (size_t)x->bits / 8, first = (size_t)(row / BAND * BAND), padded = (size_t)x->padded;
    size_t at = (size_t)block * (size_t)band_rows(x, row) + (size_t)(row % BAND);
    return first * padded * bytes + at * TILE_BLOCK * bytes;
}

/* Steps lie in bands too: for each group the rows of a band. */
static inline size_t step_at(const QuantRows *x, int row, int group) {
    if (!rows_streamed(x)) return wide_step_at(x, row, group);
    return (size_t)(row / BAND * BAND) * (size_t)x->n_groups + (size_t)(group * band_rows(x, row) + row % BAND);
}

static inline size_t low_codes(const QuantRows *x, int row) {
    return rows_streamed(x) ? TILE_BLOCK : wide_low_codes(x, row);
}

static inline void codes_copy(QuantRows *to, int i, const QuantRows *from, int row) {
    for (int b = 0; b < to->padded / TILE_BLOCK; b++) {
        uint8_t *out = to->codes + codes_at(to, i, b);
        const uint8_t *in = from->codes + codes_at(from, row, b);
        memcpy(out, in, TILE_BLOCK);
        if (to->bits == 16) memcpy(out + low_codes(to, i), in + low_codes(from, row), TILE_BLOCK);
    }
}

static inline void codes_place(QuantRows *q, int row, const int16_t *x, int k, int n) {
    const size_t low = low_codes(q, row);
    for (int i = 0; i < n; i += 16) {
        uint8_t *to = q->codes + codes_at(q, row, (k + i) / TILE_BLOCK) + (k + i) % TILE_BLOCK;
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        if (q->bits == 16) {
            __m256i high =
                _mm256_srai_epi16(_mm256_add_epi16(v, _mm256_set1_epi16(128)), 8); /* L = x - 256 H in -128..127 */
            _mm_storeu_si128((void *)to, _mm256_cvtepi16_epi8(high));
            _mm_storeu_si128((void *)(to + low), _mm256_cvtepi16_epi8(v));
        } else
            _mm_storeu_si128((void *)to, _mm256_cvtepi16_epi8(v));
    }
}
