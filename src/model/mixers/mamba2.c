/* Mamba-2 (Dao and Gu, arXiv:2405.21060). Each head keeps a matrix from B's space to its values: it fades by exp(dt A),
 * takes in B times dt x, and is read with C. One token at a time, as every recurrence here; the chunked form sums in
 * another order. */
#include "math/recurrent.h"
#include "model/mechanism.h"
#include "model/mixers/stretch.h"

static int inner_width(const SsmSpec *m) {
    return m->heads * m->head_dim;
}

static int group_width(const SsmSpec *m) {
    return m->groups * m->state;
}

static bool mamba2_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const SsmSpec *m = &spec->ssm;
    SsmWeights *w = &out->ssm;
    int64_t hidden = bind_hidden(b), inner = inner_width(m), shared = group_width(m);
    if (m->heads % m->groups || inner > CONFIG_MAX_SIZE || inner * m->state > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: %d heads of %d in %d groups with a state of %d cannot be", m->heads,
                         m->head_dim, m->groups, m->state);
    int64_t from = m->rank ? inner : hidden; /* of what b, c and dt are formed */
    return bind_linear(b, &m->z, layer, inner, hidden, &w->z) && bind_linear(b, &m->x, layer, inner, hidden, &w->x) &&
           bind_linear(b, &m->b, layer, shared, from, &w->b) && bind_linear(b, &m->c, layer, shared, from, &w->c) &&
           bind_linear(b, &m->dt_down, layer, m->rank, from, &w->dt_down) &&
           bind_linear(b, &m->dt, layer, m->heads, m->rank ? m->rank : hidden, &w->dt) &&
           bind_norm(b, &m->dt_norm, layer, m->rank, &w->dt_norm) &&
           bind_norm(b, &m->b_norm, layer, shared, &w->b_norm) && bind_norm(b, &m->c_norm, layer, shared, &w->c_norm) &&
           bind_conv(b, &m->x_conv, layer, (int)inner, m->kernel, &w->x_conv) &&
           bind_conv(b, &m->b_conv, layer, (int)shared, m->kernel, &w->b_conv) &&
           bind_conv(b, &m->c_conv, layer, (int)shared, m->kernel, &w->c_conv) &&
           bind_rates(b, RATE_EXP, m->a_log, layer, m->heads, 1, &w->rate) &&
           bind_vector(b, m->dt_bias, layer, m->heads, 0, &w->dt_bias) &&
           bind_vector(b, m->d, layer, m->heads, 0, &w->d) && bind_norm(b, &m->norm, layer, inner, &w->norm) &&
           bind_linear(b, &m->o, layer, hidden, inner, &w->o);
}

/* ---- the state: windows of x, b and c, then the matrices ---- */

static size_t windows_size(const SsmSpec *m) {
    return conv_windows(m->kernel, inner_width(m) + (m->rank ? 0 : 2 * group_width(m)));
}

static void mamba2_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const SsmSpec *m = &spec->ssm;
    (void)kv;
    out->recurrent = windows_size(m) + (size_t)inner_width(m) * (size_t)m->state;
}

/* ---- the run ---- */

typedef struct SsmRun {
    const SsmSpec *spec;
    const SsmWeights *w;
    int layer, n_stretches;
    const Stretch *stretches;
    float *z, *x, *b, *c, *dt, *decay, *x_mixed, *b_mixed, *c_mixed, *out;
} SsmRun;

static bool make_room(Step *s, const SsmSpec *m, SsmRun *r) {
    int inner = inner_width(m), shared = group_width(m);
    float **wide[] = {&r->z, &r->x, &r->x_mixed, &r->out}, **narrow[] = {&r->b, &r->c, &r->b_mixed, &r->c_mixed};
    for (int i = 0; i < 4; i++) {
        *wide[i] = step_floats(s, s->n, inner);
        *narrow[i] = step_floats(s, s->n, shared);
        if (!*wide[i] || !*narrow[i]) return false;
    }
    r->dt = step_floats(s, s->n, m->heads);
    r->decay = step_floats(s, s->n, m->heads);
    r->stretches = stretches_of(s, &r->n_stretches);
    return r->dt && r->decay && r->stretches;
}

/* Task: one head of one stretch, token by token. */
static void head_task(void *context, int task, int thread) {
    const SsmRun *r = context;
    const SsmSpec *m = r->spec;
    const Stretch *t = &r->stretches[task / m->heads];
    int head = task % m->heads, group = head / (m->heads / m->groups);
    float *matrices = state_recurrent(t->state, r->layer) + windows_size(m);
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        size_t row = (size_t)(t->first + i), value = row * (size_t)inner_width(m) + (size_t)(head * m->head_dim);
        size_t shared = row * (size_t)group_width(m) + (size_t)(group * m->state);
        size_t scalar = row * (size_t)m->heads + (size_t)head;
        OuterStep step = {.state = matrices + (size_t)head * (size_t)m->head_dim * (size_t)m->state,
                          .k_dim = m->state,
                          .v_dim = m->head_dim,
                          .decay = r->decay + scalar,
                          .k = r->b_mixed + shared,
                          .q = r->c_mixed + shared,
                          .v = r->x_mixed + value,
                          .beta = r->dt[scalar],
                          .out = r->out + value};
        recurrent_outer_step(&step);
        for (int d = 0; d < m->head_dim; d++)
            r->out[value + (size_t)d] += r->w->d[head] * r->x_mixed[value + (size_t)d];
    }
}

/* dt = softplus(dt + bias) within its limits; decay = exp(-exp(a_log) dt). */
static void make_decay(const Step *s, SsmRun *r) {
    const SsmSpec *m = r->spec;
    for (int i = 0; i < s->n * m->heads; i++) r->dt[i] += r->w->dt_bias[i % m->heads];
    ops_act(s->pool, ACT_SOFTPLUS, r->dt, r->dt, s->n, m->heads);
    for (int i = 0; i < s->n * m->heads; i++) {
        if (r->dt[i] < m->dt_min) r->dt[i] = m->dt_min;
        if (m->dt_max > 0 && r->dt[i] > m->dt_max) r->dt[i] = m->dt_max;
        r->decay[i] = r->dt[i] * r->w->rate[i % m->heads];
    }
    ops_act(s->pool, ACT_EXP, r->decay, r->decay, s->n, m->heads);
}

static void scale(const Step *s, float factor, float *x, int cols) {
    if (factor != 0 && factor != 1) ops_scale(s->pool, x, factor, x, s->n, cols);
}

/* What a row's step needs, all from the row: b, c and x then pass their convolutions. */
static bool choose_at_once(Step *s, const float *x, const SsmRun *r) {
    const SsmSpec *m = r->spec;
    const SsmWeights *w = r->w;
    int inner = inner_width(m), shared = group_width(m);
    LinearJob jobs[] = {{.w = w->z, .y = r->z},
                        {.w = w->x, .y = r->x},
                        {.w = w->b, .y = r->b},
                        {.w = w->c, .y = r->c},
                        {.w = w->dt, .y = r->dt}};
    ConvPart parts[] = {{&w->x_conv, inner, r->x, r->x_mixed},
                        {&w->b_conv, shared, r->b, r->b_mixed},
                        {&w->c_conv, shared, r->c, r->c_mixed}};
    if (!step_linear(s, jobs, 5, x, s->blueprint->hidden, r->layer, "in_proj")) return false;
    scale(s, m->z_scale, r->z, inner);
    scale(s, m->x_scale, r->x, inner);
    scale(s, m->b_scale, r->b, shared);
    scale(s, m->c_scale, r->c, shared);
    scale(s, m->dt_scale, r->dt, m->heads);
    conv_stretches(s, r->layer, r->stretches, r->n_stretches, m->kernel, parts, 3);
    ops_act(s->pool, ACT_SILU, r->x_mixed, r->x_mixed, s->n, inner);
    ops_act(s->pool, ACT_SILU, r->b_mixed, r->b_mixed, s->n, shared);
    ops_act(s->pool, ACT_SILU, r->c_mixed, r->c_mixed, s->n, shared);
    return true;
}

/* The same where b, c and dt are formed of the convolved x. */
static bool choose_in_turn(Step *s, const float *x, const SsmRun *r) {
    const SsmSpec *m = r->spec;
    const SsmWeights *w = r->w;
    int inner = inner_width(m), shared = group_width(m);
    float *latent = step_floats(s, s->n, m->rank);
    LinearJob in[] = {{.w = w->z, .y = r->z}, {.w = w->x, .y = r->x}}, dt = {.w = w->dt, .y = r->dt};
    LinearJob chosen[] = {{.w = w->b, .y = r->b_mixed}, {.w = w->c, .y = r->c_mixed}, {.w = w->dt_down, .y = latent}};
    if (!latent || !step_linear(s, in, 2, x, s->blueprint->hidden, r->layer, "in_proj")) return false;
    conv_stretches(s, r->layer, r->stretches, r->n_stretches, m->kernel,
                   &(ConvPart){&w->x_conv, inner, r->x, r->x_mixed}, 1);
    ops_act(s->pool, ACT_SILU, r->x_mixed, r->x_mixed, s->n, inner);
    if (!step_linear(s, chosen, 3, r->x_mixed, inner, r->layer, "x_proj")) return false;
    step_norm(s, &m->b_norm, &w->b_norm, r->b_mixed, r->b_mixed, s->n, shared);
    step_norm(s, &m->c_norm, &w->c_norm, r->c_mixed, r->c_mixed, s->n, shared);
    step_norm(s, &m->dt_norm, &w->dt_norm, latent, latent, s->n, m->rank);
    return step_linear(s, &dt, 1, latent, m->rank, r->layer, "dt_proj");
}

static void norm_groups(const Step *s, const SsmSpec *m, const Norm *norm, float *x) {
    int inner = inner_width(m);
    if (m->norm.kind == NORM_RMS)
        ops_rms_norm_heads(s->pool, x, norm->weight, m->norm.eps, x, s->n, m->groups, inner / m->groups);
}

static bool mamba2_run(Step *s, int layer, const float *x, float *out) {
    const SsmSpec *m = &s->blueprint->layers[layer].ssm;
    const SsmWeights *w = &s->weights->layers[layer].ssm;
    SsmRun r = {.spec = m, .w = w, .layer = layer};
    int inner = inner_width(m);
    if (!make_room(s, m, &r)) return false;
    if (!(m->rank ? choose_in_turn(s, x, &r) : choose_at_once(s, x, &r))) return false;
    make_decay(s, &r);
    step_tap(s, layer, "convolved x", r.x_mixed, inner);
    pool_run(s->pool, head_task, &r, r.n_stretches * m->heads);
    step_zero_failed(s, r.out, inner);
    step_tap(s, layer, "state space", r.out, inner);
    if (m->norm_first) norm_groups(s, m, &w->norm, r.out);
    ops_act_mul(s->pool, ACT_SILU, r.z, r.out, r.out, s->n, inner);
    if (!m->norm_first) norm_groups(s, m, &w->norm, r.out);
    LinearJob o = {.w = w->o, .y = out};
    if (!step_linear(s, &o, 1, r.out, inner, layer, "out_proj")) return false;
    step_tap(s, layer, "out_proj", out, s->blueprint->hidden);
    return true;
}

static const char *mamba2_kind(const LayerSpec *spec) {
    (void)spec;
    return "state space";
}

static void mamba2_describe(const LayerSpec *spec, Buffer *out) {
    const SsmSpec *m = &spec->ssm;
    buffer_printf(out, "mamba 2: %d heads of %d, state %d, %d group%s, convolutions of %d", m->heads, m->head_dim,
                  m->state, m->groups, m->groups == 1 ? "" : "s", m->kernel);
}

const Mechanism mixer_mamba2 = {.name = "mamba 2",
                                .bind = mamba2_bind,
                                .run = mamba2_run,
                                .state = mamba2_state,
                                .kind = mamba2_kind,
                                .describe = mamba2_describe};
