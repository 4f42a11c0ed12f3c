/* Weights into codes, over the 16 lanes of the including file: included by kernels_body.h, once per instruction set,
 * with no guard on purpose. The arithmetic is MLX's: what it rounds is rounded here, in the same order, because codes
 * are compared with its own. */

static void floats_read_row(ScaleType type, const uint8_t *bytes, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        lf x = type == SCALE_F32    ? lf_load_bytes(bytes + 4 * i)
               : type == SCALE_BF16 ? lf_bits(li_shl(li_load_u16(bytes + 2 * i), 16))
                                    : lf_load_f16(bytes + 2 * i);
        lf_store(out + i, x);
    }
    for (; i < n; i++) out[i] = float_at(type, bytes, i);
}

/* The values rounded to a number format. */
static inline lf lf_round_type(lf x, ScaleType type) {
    if (type == SCALE_F32) return x;
    if (type == SCALE_F16) {
        int16_t half[16];
        lf_store_f16(half, x);
        return lf_load_f16((const uint8_t *)half);
    }
    li b = li_bits(x), odd = li_and(li_shr(b, 16), li_set(1));
    return lf_bits(li_and(li_add(b, li_add(odd, li_set(0x7FFF))), li_set(-0x10000)));
}

static inline lf lf_abs(lf x) {
    return lf_bits(li_and(li_bits(x), li_set(0x7FFFFFFF)));
}

static inline float lanes_max(lf x) {
    float v[16];
    lf_store(v, x);
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) v[j] = v[j] > v[j + half] ? v[j] : v[j + half];
    return v[0];
}

/* The ends of each group, where its scale and bias come to lie. */
static inline void affine_ends(const EncodeJob *j) {
    for (int g = 0; g < j->n_groups; g++) {
        const float *x = j->x + (size_t)g * (size_t)j->group;
        lf least = lf_set(__builtin_inff()), most = lf_set(-__builtin_inff()); /* no number is passed over */
        for (int i = 0; i < j->group; i += 16) {
            least = lf_min(lf_load(x + i), least);
            most = lf_max(lf_load(x + i), most);
        }
        j->scales[g] = -lanes_max(lf_sub(lf_set(-0.0f), least));
        j->biases[g] = lanes_max(most);
    }
}

/* Scale and bias put the larger end of the group exactly on a code, and zero nearly on one: affine_scale for 16 groups
 * at once. */
static inline void affine_scales(const EncodeJob *j, int g, float bins) {
    lf low = lf_load(j->scales + g), high = lf_load(j->biases + g), least = lf_set(AFFINE_LEAST_SCALE);
    lf scale = lf_div(lf_sub(high, low), lf_set(bins)), low_size = lf_abs(low), high_size = lf_abs(high);
    scale = lf_select_less(scale, least, least, scale);
    scale = lf_select_less(high_size, low_size, scale, lf_mul(scale, lf_set(-1.0f)));
    lf edge = lf_select_less(high_size, low_size, low, high), steps = lf_rint(lf_div(edge, scale));
    lf step_size = lf_abs(steps), half = lf_set(0.5f); /* whole: less than a half is zero */
    lf_store(j->scales + g, lf_select_less(step_size, half, scale, lf_div(edge, steps)));
    lf_store(j->biases + g, lf_select_less(step_size, half, lf_set(0.0f), edge));
}

static inline void affine_codes(const EncodeJob *j, const float *x, int g, float bins) {
    lf bias = lf_set(j->biases[g]), by = lf_set(j->scales[g]), zero = lf_set(0.0f), top = lf_set(bins);
    for (int i = 0; i < j->group; i += 16) { /* clamping before rounding: the ends are whole numbers */
        lf q = lf_div(lf_sub(lf_load(x + i), bias), by);
        li_store_i16(j->codes + (size_t)g * (size_t)j->group + i, li_from_lf(lf_min(lf_max(q, zero), top)));
    }
}

static inline void affine_groups(const EncodeJob *j) {
    float bins = (float)((1 << j->bits) - 1);
    int g = 0;
    affine_ends(j);
    for (; g + 16 <= j->n_groups; g += 16) affine_scales(j, g, bins);
    for (; g < j->n_groups; g++) j->scales[g] = affine_scale(j->scales[g], j->biases[g], bins, &j->biases[g]);
    for (g = 0; g < j->n_groups; g++) affine_codes(j, j->x + (size_t)g * (size_t)j->group, g, bins);
}

/* E2M1 nearest to q, the smaller magnitude in a tie; zero has no sign. */
static inline li e2m1_codes(lf q) {
    static const float ties[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    lf magnitude = lf_abs(q), count = lf_set(0.0f), one = lf_set(1.0f), none = lf_set(0.0f);
    for (int i = 0; i < 7; i++) count = lf_add(count, lf_select_less(lf_set(ties[i]), magnitude, one, none));
    li code = li_from_lf(count), sign = li_and(li_shr(li_bits(q), 28), li_set(8));
    return li_select_equal(code, li_set(0), li_set(0), li_add(code, sign));
}

/* E4M3 nearest to q, half to even; past 448 it is 448. */
static inline li e4m3_codes(lf q) {
    lf magnitude = lf_abs(q), least = lf_set(0x1p-6f), most = lf_set(448.0f);
    li bits = li_bits(magnitude), sign = li_and(li_shr(li_bits(q), 24), li_set(0x80));
    li small = li_sub(li_bits(lf_add(magnitude, lf_set(0x1p14f))), li_bits(lf_set(0x1p14f)));
    li odd = li_and(li_shr(bits, 20), li_set(1));
    li normal = li_shr(li_add(li_add(bits, odd), li_set(0x7FFFF - (120 << 23))), 20);
    lf code = lf_select_less(magnitude, least, lf_from_li(small), lf_from_li(normal));
    code = lf_select_less(magnitude, most, code, lf_set(126.0f));
    return li_add(li_from_lf(code), sign);
}

static inline void minifloat_group(const EncodeJob *j, const float *x, int g) {
    lf most = lf_set(0.0f);
    for (int i = 0; i < j->group; i += 16) most = lf_max(lf_abs(lf_load(x + i)), most);
    float scale = minifloat_scale(j->format, j->type, lanes_max(most), &j->scale_codes[g]);
    int16_t *codes = j->codes + (size_t)g * (size_t)j->group;
    lf by = lf_set(scale);
    for (int i = 0; i < j->group; i += 16) {
        lf q = scale == 0 ? lf_set(0.0f) : lf_round_type(lf_div(lf_load(x + i), by), j->type);
        li_store_i16(codes + i, j->format == WEIGHT_MXFP8 ? e4m3_codes(q) : e2m1_codes(q));
    }
}

static void encode_groups(const EncodeJob *j) {
    if (j->format == WEIGHT_AFFINE)
        affine_groups(j);
    else
        for (int g = 0; g < j->n_groups; g++) minifloat_group(j, j->x + (size_t)g * (size_t)j->group, g);
}
