/* The steps of recurrences over the 16 lanes of the including file: included by kernels_body.h, once per instruction
 * set, with no guard on purpose. Lanes are channels; every channel's operations are the same whatever its neighbours.
 */

enum { OUTER_LANES = 4 }; /* vectors side by side, since each waits for its own last sum */

/* Columns [at, at + 16 n) of the state. What the correction reads is the decayed state, which is not kept for the
 * second pass but made again: a product costs less than a store. */
static inline __attribute__((always_inline)) void outer_columns(const OuterStep *s, int at, const int n,
                                                                const bool correct) {
    lf u[OUTER_LANES], out[OUTER_LANES];
    size_t stride = (size_t)s->v_dim, next_decay = s->decay_each;
    const float *k = s->k, *q = s->q, *decay = s->decay;
    float *row = s->state + at;
    for (int j = 0; j < n; j++) out[j] = u[j] = lf_set(0.0f);
    for (int i = 0; correct && i < s->k_dim; i++, row += stride, decay += next_decay)
        for (int j = 0; j < n; j++) u[j] = lf_fma(lf_mul(lf_load(row + 16 * j), lf_set(*decay)), lf_set(k[i]), u[j]);
    for (int j = 0; j < n; j++) {
        lf v = lf_load(s->v + at + 16 * j);
        u[j] = lf_mul(correct ? lf_sub(v, u[j]) : v, lf_set(s->beta));
    }
    row = s->state + at;
    decay = s->decay;
    for (int i = 0; i < s->k_dim; i++, row += stride, decay += next_decay)
        for (int j = 0; j < n; j++) {
            lf state = lf_fma(lf_set(k[i]), u[j], lf_mul(lf_load(row + 16 * j), lf_set(*decay)));
            lf_store(row + 16 * j, state);
            out[j] = lf_fma(state, lf_set(q[i]), out[j]);
        }
    for (int j = 0; j < n; j++) lf_store(s->out + at + 16 * j, out[j]);
}

/* The columns that do not fill a vector, one by one. */
static inline void outer_column(const OuterStep *s, int at) {
    float u = 0, out = 0;
    for (int i = 0; i < s->k_dim; i++) {
        float *state = s->state + (size_t)i * (size_t)s->v_dim + at;
        *state *= s->decay[s->decay_each ? i : 0];
        if (s->correct) u = __builtin_fmaf(*state, s->k[i], u);
    }
    u = (s->correct ? s->v[at] - u : s->v[at]) * s->beta;
    for (int i = 0; i < s->k_dim; i++) {
        float *state = s->state + (size_t)i * (size_t)s->v_dim + at;
        *state = __builtin_fmaf(s->k[i], u, *state);
        out = __builtin_fmaf(*state, s->q[i], out);
    }
    s->out[at] = out;
}

static inline __attribute__((always_inline)) int outer_vectors(const OuterStep *s, const bool correct) {
    int at = 0;
    for (; at + 16 * OUTER_LANES <= s->v_dim; at += 16 * OUTER_LANES) outer_columns(s, at, OUTER_LANES, correct);
    for (; at + 16 <= s->v_dim; at += 16) outer_columns(s, at, 1, correct);
    return at;
}

static void outer_step(const OuterStep *s) {
    int at = s->correct ? outer_vectors(s, true) : outer_vectors(s, false);
    for (; at < s->v_dim; at++) outer_column(s, at);
}

static void conv_step(const ConvStep *s) {
    int last = s->kernel - 1, c = 0;
    size_t stride = (size_t)s->channels;
    for (; c + 16 <= s->channels; c += 16) {
        lf sum = lf_set(0.0f);
        for (int j = 0; j < last; j++)
            sum =
                lf_fma(lf_load(s->weights + (size_t)j * stride + c), lf_load(s->window + (size_t)j * stride + c), sum);
        sum = lf_fma(lf_load(s->weights + (size_t)last * stride + c), lf_load(s->x + c), sum);
        lf_store(s->y + c, s->bias ? lf_add(sum, lf_load(s->bias + c)) : sum);
    }
    for (; c < s->channels; c++) {
        float sum = 0;
        for (int j = 0; j < last; j++)
            sum = __builtin_fmaf(s->weights[(size_t)j * stride + (size_t)c], s->window[(size_t)j * stride + (size_t)c],
                                 sum);
        sum = __builtin_fmaf(s->weights[(size_t)last * stride + (size_t)c], s->x[c], sum);
        s->y[c] = s->bias ? sum + s->bias[c] : sum;
    }
}

/* The first n of 16 floats, the others 0; and back. */
static inline __attribute__((always_inline)) lf some_load(const float *p, int n) {
    float padded[16] = {0};
    if (n == 16) return lf_load(p);
    __builtin_memcpy(padded, p, (size_t)n * sizeof *p);
    return lf_load(padded);
}

static inline __attribute__((always_inline)) void some_store(float *p, lf v, int n) {
    float all[16];
    if (n == 16) {
        lf_store(p, v);
        return;
    }
    lf_store(all, v);
    __builtin_memcpy(p, all, (size_t)n * sizeof *p);
}

/* Channels [at, at + n), n at most 16. */
static inline __attribute__((always_inline)) void scan_channels(const ScanStep *s, int at, int n) {
    lf dt = some_load(s->dt + at, n), x = some_load(s->x + at, n), u = lf_mul(dt, x), sum = lf_set(0.0f);
    for (int i = 0; i < s->dims; i++) {
        size_t place = (size_t)i * (size_t)s->channels + (size_t)at;
        lf decay = exp_lanes(lf_mul(dt, some_load(s->rate + place, n)));
        lf state = lf_fma(u, lf_set(s->b[i]), lf_mul(some_load(s->state + place, n), decay));
        some_store(s->state + place, state, n);
        sum = lf_fma(state, lf_set(s->q[i]), sum);
    }
    some_store(s->out + at, lf_fma(some_load(s->skip + at, n), x, sum), n);
}

static void scan_step(const ScanStep *s) {
    int at = s->from, end = s->from + s->n;
    for (; at + 16 <= end; at += 16) scan_channels(s, at, 16);
    if (at < end) scan_channels(s, at, end - at);
}

/* Channels [at, at + n), n at most 16. */
static inline __attribute__((always_inline)) void lru_channels(const LruStep *s, int at, int n) {
    lf l = lf_mul(some_load(s->rate + at, n), some_load(s->gate + at, n)), x = some_load(s->x + at, n);
    if (!s->first) {
        lf left = lf_sub(lf_set(1.0f), exp_lanes(lf_add(l, l)));
        x = lf_mul(x, lf_sqrt(lf_max(left, lf_set(0.0f))));
        x = lf_fma(some_load(s->state + at, n), exp_lanes(l), x);
    }
    some_store(s->state + at, x, n);
    some_store(s->out + at, x, n);
}

static void lru_step(const LruStep *s) {
    int at = s->from, end = s->from + s->n;
    for (; at + 16 <= end; at += 16) lru_channels(s, at, 16);
    if (at < end) lru_channels(s, at, end - at);
}

/* Columns [at, at + n) of one vector each, n at most 16; m vectors side by side when n is 16. */
static inline __attribute__((always_inline)) void wkv_columns(const WkvStep *s, int at, int n, const int m) {
    lf u[OUTER_LANES], out[OUTER_LANES], v[OUTER_LANES];
    size_t stride = (size_t)s->v_dim;
    for (int j = 0; j < m; j++) {
        out[j] = u[j] = lf_set(0.0f);
        v[j] = some_load(s->v + at + 16 * j, n);
    }
    for (int i = 0; i < s->k_dim; i++) {
        lf a = lf_set(s->a[i]);
        for (int j = 0; j < m; j++) u[j] = lf_fma(some_load(s->state + (size_t)i * stride + at + 16 * j, n), a, u[j]);
    }
    for (int i = 0; i < s->k_dim; i++) {
        float *row = s->state + (size_t)i * stride + at;
        lf decay = lf_set(s->decay[i]), k = lf_set(s->k[i]), b = lf_set(s->b[i]), q = lf_set(s->q[i]);
        for (int j = 0; j < m; j++) {
            lf state = lf_fma(k, v[j], lf_mul(some_load(row + 16 * j, n), decay));
            state = lf_fma(b, u[j], state);
            some_store(row + 16 * j, state, n);
            out[j] = lf_fma(state, q, out[j]);
        }
    }
    for (int j = 0; j < m; j++) some_store(s->out + at + 16 * j, out[j], n);
}

static void wkv_step(const WkvStep *s) {
    int at = 0;
    for (; at + 16 * OUTER_LANES <= s->v_dim; at += 16 * OUTER_LANES) wkv_columns(s, at, 16, OUTER_LANES);
    for (; at + 16 <= s->v_dim; at += 16) wkv_columns(s, at, 16, 1);
    if (at < s->v_dim) wkv_columns(s, at, s->v_dim - at, 1);
}
