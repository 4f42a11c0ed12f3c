/* Integer linears for instruction sets without a wide byte dot product (NEON, AVX-512 before VNNI): one tile is
 * unpacked to quads of bytes and f32 scales, then each row runs over it. The including file has defined group_dot and
 * the 64-byte Line operations.
 *
 * No include guard and no includes on purpose: one inclusion per instruction set, inside its target region. */

static inline __attribute__((always_inline)) void block_unpack(TileStorage storage, const uint8_t *p, uint8_t *quads) {
    Line q[8];
    UNROLL for (int i = 0; i < 8; i++) {
        if (storage == TILE_8)
            q[i] = line_load(p + 64 * i);
        else if (storage == TILE_2 || storage == TILE_3)
            q[i] = line_bits(line_load(p + i / 4 * 64), i % 4 * 2, 0, 3);
        else
            q[i] = line_bits(line_load(p + i / 2 * 64), i % 2 * 4, 0, 15);
        if (storage == TILE_FP4) q[i] = line_table(q[i], tile_fp4_codes);
        if (storage == TILE_3)
            q[i] = line_or(q[i], line_bits(line_load(p + 128), i > 2 ? i - 2 : 0, i < 2 ? 2 - i : 0, 4));
        if (storage == TILE_5)
            q[i] = line_or(q[i], line_bits(line_load(p + 256), i > 4 ? i - 4 : 0, i < 4 ? 4 - i : 0, 16));
        if (storage == TILE_6) {
            int part = i % 4 * 2;
            q[i] = line_or(
                q[i], line_bits(line_load(p + 256 + i / 4 * 64), part > 4 ? part - 4 : 0, part < 4 ? 4 - part : 0, 48));
        }
        line_store(quads + 64 * i, q[i]);
    }
}

static inline __attribute__((always_inline)) void panel_codes(const TileJob *job, TileStorage storage,
                                                              const uint8_t *unit, uint8_t *quads) {
    const TileFormat *f = job->format;
    for (int k = 0; k < job->x->cols; k += f->unit, unit += f->unit_bytes)
        for (int b = 0; b < f->unit / TILE_BLOCK; b++, quads += 512)
            block_unpack(storage, unit + b * f->block_bytes, quads);
}

static void panel_unpack(const TileJob *job, const uint8_t *unit, uint8_t *quads, float *scale, float *bias) {
    const TileFormat *f = job->format;
    switch (f->storage) {
    case TILE_2: panel_codes(job, TILE_2, unit, quads); break;
    case TILE_3: panel_codes(job, TILE_3, unit, quads); break;
    case TILE_4: panel_codes(job, TILE_4, unit, quads); break;
    case TILE_5: panel_codes(job, TILE_5, unit, quads); break;
    case TILE_6: panel_codes(job, TILE_6, unit, quads); break;
    case TILE_8: panel_codes(job, TILE_8, unit, quads); break;
    case TILE_FP4: panel_codes(job, TILE_FP4, unit, quads); break;
    }
    int per_unit = f->unit / f->group;
    for (int g = 0; g < job->x->n_groups; g += per_unit, unit += f->unit_bytes) {
        int n = job->x->n_groups - g < per_unit ? job->x->n_groups - g : per_unit;
        tile_unit_scales(f, unit, n, scale + g * TILE_ROWS, bias + g * TILE_ROWS);
    }
}

static inline __attribute__((always_inline)) void panel_row(const TileJob *job, const uint8_t *quads,
                                                            const float *scale, const float *bias, int bits, int tile,
                                                            int row) {
    const QuantRows *x = job->x;
    const TileFormat *f = job->format;
    const uint8_t *codes = x->codes + (size_t)row * (size_t)x->padded * (size_t)bits / 8;
    lf acc = lf_set(0.0f);
    for (int g = 0; g < x->n_groups; g++) {
        const QuantStep *step = &x->steps[step_at(x, row, g)];
        li dot =
            group_dot(quads + (size_t)(g * f->group) * TILE_ROWS, codes + g * f->group * bits / 8, f->group / 4, bits);
        dot = li_sub(dot, li_set(f->offset * step->sum));
        acc = lf_fma(lf_from_li(dot), lf_mul(lf_set(step->a), lf_load(scale + g * TILE_ROWS)), acc);
        if (f->has_bias) acc = lf_fma(lf_load(bias + g * TILE_ROWS), lf_set(step->a_sum), acc);
    }
    float out[16];
    lf_store(out, acc);
    int left = job->n_outputs - tile * TILE_ROWS, outputs = left < TILE_ROWS ? left : TILE_ROWS;
    __builtin_memcpy(job->y + (size_t)row * job->y_stride + tile * TILE_ROWS, out, (size_t)outputs * sizeof *out);
}

static void tile_rows(const TileJob *job) {
    const QuantRows *x = job->x;
    uint8_t *quads = job->scratch;
    float *scale = (float *)(void *)(quads + (size_t)x->padded * TILE_ROWS),
          *bias = scale + (size_t)x->n_groups * TILE_ROWS;
    for (int tile = 0; tile < job->n_tiles; tile++) {
        panel_unpack(job, job->tiles + (size_t)tile * job->tile_bytes, quads, scale, bias);
        for (int row = 0; row < x->n_rows; row++) {
            if (x->bits == 16)
                panel_row(job, quads, scale, bias, 16, tile, row);
            else
                panel_row(job, quads, scale, bias, 8, tile, row);
        }
    }
}
