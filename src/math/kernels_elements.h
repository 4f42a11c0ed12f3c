/* Activation functions and the other element-wise operations, over the 16 lanes of the including file: included by
 * kernels_body.h after exp_lanes, once per instruction set, with no guard on purpose. An element's result depends on
 * itself alone, so lanes that have no element may hold anything.
 *
 * The polynomials are our own minimax fits; tests/unit/math/ops.c holds each function against double. */

static inline lf magnitude_lanes(lf x) {
    return lf_bits(li_and(li_bits(x), li_set(0x7FFFFFFF)));
}

static inline lf negate_lanes(lf x) {
    return lf_sub(lf_set(0.0f), x);
}

/* 1 / (1 + exp(-x)) times a numerator: one rounding less than multiplying. */
static inline lf over_one_plus_exp(lf numerator, lf exponent) {
    return lf_div(numerator, lf_add(lf_set(1.0f), exp_lanes(exponent)));
}

/* Below 0.625 an odd polynomial, so that small values keep their relative accuracy (a soft cap must not lose small
 * logits); above, 1 - 2 / (exp(2|x|) + 1) with the sign of x. */
static inline lf tanh_lanes(lf x) {
    lf t = magnitude_lanes(x), square = lf_mul(x, x);
    lf p = lf_set(-0x1.76ac1cp-8f);
    p = lf_fma(p, square, lf_set(0x1.5256d8p-6f));
    p = lf_fma(p, square, lf_set(-0x1.b84448p-5f));
    p = lf_fma(p, square, lf_set(0x1.110768p-3f));
    p = lf_fma(p, square, lf_set(-0x1.555534p-2f));
    lf small = lf_fma(lf_mul(x, square), p, x);
    lf rest = over_one_plus_exp(lf_set(2.0f), lf_add(t, t));
    li sign = li_and(li_bits(x), li_set((int32_t)0x80000000));
    lf large = lf_bits(li_add(li_bits(lf_sub(lf_set(1.0f), rest)), sign));
    return lf_select_less(t, lf_set(0.625f), small, large);
}

/* The normal distribution beyond t >= 0, erfc(t / sqrt 2) / 2: exp(-t^2 / 2) times a polynomial in t / (t + 3), whose
 * constant is the half, so that little is lost where t is small. */
static inline lf normal_tail_lanes(lf t) {
    lf u = lf_div(t, lf_add(t, lf_set(3.0f)));
    lf p = lf_set(0x1.c24bbap-6f);
    p = lf_fma(p, u, lf_set(-0x1.816d36p-4f));
    p = lf_fma(p, u, lf_set(0x1.5e8c5ep-4f));
    p = lf_fma(p, u, lf_set(0x1.f279a8p-8f));
    p = lf_fma(p, u, lf_set(0x1.025488p-4f));
    p = lf_fma(p, u, lf_set(-0x1.45b9cep-3f));
    p = lf_fma(p, u, lf_set(-0x1.25cd46p-2f));
    p = lf_fma(p, u, lf_set(0x1.0d9b3ep+0f));
    p = lf_fma(p, u, lf_set(-0x1.326336p+0f));
    p = lf_fma(p, u, lf_set(0.5f));
    return lf_mul(p, exp_lanes(lf_mul(lf_mul(t, t), lf_set(-0.5f))));
}

/* x / 2 (1 + erf(x / sqrt 2)), without the cancellation that the formula has for negative x. */
static inline lf gelu_lanes(lf x) {
    lf tail = normal_tail_lanes(magnitude_lanes(x));
    return lf_select_less(x, lf_set(0.0f), lf_mul(x, tail), lf_fma(negate_lanes(x), tail, x));
}

/* x / 2 (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline lf gelu_tanh_lanes(lf x) {
    lf inner = lf_fma(lf_mul(x, x), lf_set(0.044715f), lf_set(1.0f));
    return over_one_plus_exp(x, lf_mul(lf_mul(x, inner), lf_set(-1.5957691216f)));
}

/* max(x, 0) + log(1 + e), e = exp(-|x|); log(1 + e) = 2 atanh(s), s = e / (2 + e). */
static inline lf softplus_lanes(lf x) {
    lf e = exp_lanes(negate_lanes(magnitude_lanes(x)));
    lf s = lf_div(e, lf_add(e, lf_set(2.0f))), square = lf_mul(s, s);
    lf p = lf_set(0x1.1ef870p-2f);
    p = lf_fma(p, square, lf_set(0x1.1eb612p-2f));
    p = lf_fma(p, square, lf_set(0x1.99d27cp-2f));
    p = lf_fma(p, square, lf_set(0x1.555500p-1f));
    lf logarithm = lf_fma(lf_mul(s, square), p, lf_add(s, s));
    return lf_add(lf_max(lf_set(0.0f), x), logarithm);
}

static inline lf act_lanes(Activation act, lf x) {
    lf positive;
    switch (act) {
    case ACT_NONE: break;
    case ACT_SILU: return over_one_plus_exp(x, negate_lanes(x));
    case ACT_GELU: return gelu_lanes(x);
    case ACT_GELU_TANH: return gelu_tanh_lanes(x);
    case ACT_GELU_QUICK: return over_one_plus_exp(x, lf_mul(x, lf_set(-1.702f)));
    case ACT_RELU: return lf_max(lf_set(0.0f), x); /* the second operand when unordered: NaN passes */
    case ACT_RELU2: positive = lf_max(lf_set(0.0f), x); return lf_mul(positive, positive);
    case ACT_SIGMOID: return over_one_plus_exp(lf_set(1.0f), negate_lanes(x));
    case ACT_TANH: return tanh_lanes(x);
    case ACT_SOFTPLUS: return softplus_lanes(x);
    case ACT_EXP: return exp_lanes(x);
    }
    return x;
}

/* exp(x) - 1 for x <= 0, from tanh(x / 2): small values keep their relative accuracy. */
static inline lf expm1_lanes(lf x) {
    lf t = tanh_lanes(lf_mul(x, lf_set(0.5f)));
    return lf_div(lf_add(t, t), lf_sub(lf_set(1.0f), t));
}

/* p x^2 + beta x where x > 0, else (exp(min(x, eps)) - 1 - x) n + beta x. */
static inline lf xielu_lanes(const float *params, lf x) {
    lf eps = lf_set(params[3]), linear = lf_mul(lf_set(params[2]), x);
    lf positive = lf_fma(lf_mul(lf_set(params[0]), x), x, linear);
    lf rest = lf_sub(expm1_lanes(lf_select_less(x, eps, x, eps)), x);
    return lf_select_less(lf_set(0.0f), x, positive, lf_fma(rest, lf_set(params[1]), linear));
}

static inline lf element_lanes(const ElementJob *job, ElementKind kind, lf x, lf other) {
    lf number = lf_set(job->number);
    switch (kind) {
    case ELEMENT_ADD: return lf_add(x, other);
    case ELEMENT_ADD_SCALED: return lf_add(x, lf_mul(other, number)); /* two roundings, as the references have */
    case ELEMENT_MUL: return lf_mul(x, other);
    case ELEMENT_SCALE: return lf_mul(x, number);
    case ELEMENT_SOFTCAP: return lf_mul(tanh_lanes(lf_div(x, number)), number);
    case ELEMENT_ACT: return act_lanes(job->act, x);
    case ELEMENT_XIELU: return xielu_lanes(job->params, x);
    case ELEMENT_ACT_MUL: break;
    }
    return lf_mul(act_lanes(job->act, x), other);
}

static inline __attribute__((always_inline)) void elements_kind(const ElementJob *job, ElementKind kind) {
    const float *other = job->other ? job->other : job->x; /* never read where the kind has none */
    int i = 0;
    for (; i + 16 <= job->n; i += 16)
        lf_store(job->y + i, element_lanes(job, kind, lf_load(job->x + i), lf_load(other + i)));
    if (i == job->n) return;
    float x[16] = {0}, z[16] = {0};
    size_t rest = (size_t)(job->n - i) * sizeof *x;
    __builtin_memcpy(x, job->x + i, rest);
    __builtin_memcpy(z, other + i, rest);
    lf_store(x, element_lanes(job, kind, lf_load(x), lf_load(z)));
    __builtin_memcpy(job->y + i, x, rest);
}

static void elements_row(const ElementJob *job) {
    switch (job->kind) {
    case ELEMENT_ADD: elements_kind(job, ELEMENT_ADD); return;
    case ELEMENT_ADD_SCALED: elements_kind(job, ELEMENT_ADD_SCALED); return;
    case ELEMENT_MUL: elements_kind(job, ELEMENT_MUL); return;
    case ELEMENT_SCALE: elements_kind(job, ELEMENT_SCALE); return;
    case ELEMENT_SOFTCAP: elements_kind(job, ELEMENT_SOFTCAP); return;
    case ELEMENT_ACT: elements_kind(job, ELEMENT_ACT); return;
    case ELEMENT_ACT_MUL: elements_kind(job, ELEMENT_ACT_MUL); return;
    case ELEMENT_XIELU: elements_kind(job, ELEMENT_XIELU); return;
    }
}

static void add_row(const float *x, const float *add, float *y, int n) {
    elements_row(&(ElementJob){.kind = ELEMENT_ADD, .x = x, .other = add, .y = y, .n = n});
}
