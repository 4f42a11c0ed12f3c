/* The selective scan of Mamba 1 (Gu and Dao, arXiv:2312.00752). Every channel keeps a few values that fade and take up
 * the channel's input; how fast and how much, the token chooses. The state advances one token at a time, so a prefill
 * is the same bytes as a decode; blocks of channels, which do not touch each other, run side by side. */
#include "math/recurrent.h"
#include "model/mechanism.h"
#include "model/mixers/stretch.h"

enum { BLOCK = 256 }; /* channels of a task */

/* ---- binding ---- */

static bool mamba1_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const Mamba1Spec *m = &spec->mamba1;
    Mamba1Weights *w = &out->mamba1;
    int64_t hidden = bind_hidden(b), wide = m->channels;
    if (wide * m->d_state > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: %d channels with states of %d cannot be", m->channels, m->d_state);
    return bind_linear(b, &m->x, layer, wide, hidden, &w->x) && bind_linear(b, &m->z, layer, wide, hidden, &w->z) &&
           bind_conv(b, &m->conv, layer, m->channels, m->kernel, &w->conv) &&
           bind_linear(b, &m->dt_down, layer, m->rank, wide, &w->dt_down) &&
           bind_linear(b, &m->b, layer, m->d_state, wide, &w->b) &&
           bind_linear(b, &m->c, layer, m->d_state, wide, &w->c) &&
           bind_norm(b, &m->dt_norm, layer, m->rank, &w->dt_norm) &&
           bind_norm(b, &m->b_norm, layer, m->d_state, &w->b_norm) &&
           bind_norm(b, &m->c_norm, layer, m->d_state, &w->c_norm) &&
           bind_linear(b, &m->dt, layer, wide, m->rank, &w->dt) &&
           bind_rates(b, RATE_EXP, m->a_log, layer, m->channels, m->d_state, &w->rate) &&
           bind_vector(b, m->skip, layer, wide, 0, &w->skip) && bind_linear(b, &m->o, layer, hidden, wide, &w->o);
}

/* ---- the state: the convolution's window, then [d_state][channels] ---- */

static void mamba1_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const Mamba1Spec *m = &spec->mamba1;
    (void)kv;
    out->recurrent = conv_windows(m->kernel, m->channels) + (size_t)m->d_state * (size_t)m->channels;
}

/* ---- the run ---- */

typedef struct Mamba1Run {
    const Mamba1Spec *spec;
    const Mamba1Weights *w;
    int layer, n_stretches, n_blocks;
    const Stretch *stretches;
    float *x, *mixed; /* [n][channels]: projected, convolved */
    float *latent, *dt, *b, *c, *out;
} Mamba1Run;

/* Task: one block of channels of one stretch, token by token. */
static void scan_task(void *context, int task, int thread) {
    const Mamba1Run *r = context;
    const Mamba1Spec *m = r->spec;
    const Stretch *t = &r->stretches[task / r->n_blocks];
    int from = task % r->n_blocks * BLOCK, n = m->channels - from < BLOCK ? m->channels - from : BLOCK;
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        size_t row = (size_t)(t->first + i), wide = row * (size_t)m->channels, narrow = row * (size_t)m->d_state;
        ScanStep step = {.channels = m->channels,
                         .dims = m->d_state,
                         .from = from,
                         .n = n,
                         .state = state_recurrent(t->state, r->layer) + conv_windows(m->kernel, m->channels),
                         .rate = r->w->rate,
                         .dt = r->dt + wide,
                         .x = r->mixed + wide,
                         .skip = r->w->skip,
                         .b = r->b + narrow,
                         .q = r->c + narrow,
                         .out = r->out + wide};
        recurrent_scan_step(&step);
    }
}

static bool make_room(Step *s, const Mamba1Spec *m, Mamba1Run *r) {
    r->x = step_floats(s, s->n, m->channels);
    r->mixed = step_floats(s, s->n, m->channels);
    r->latent = step_floats(s, s->n, m->rank);
    r->dt = step_floats(s, s->n, m->channels);
    r->b = step_floats(s, s->n, m->d_state);
    r->c = step_floats(s, s->n, m->d_state);
    r->out = step_floats(s, s->n, m->channels);
    r->stretches = stretches_of(s, &r->n_stretches);
    r->n_blocks = (m->channels + BLOCK - 1) / BLOCK;
    return r->x && r->mixed && r->latent && r->dt && r->b && r->c && r->out && r->stretches;
}

/* What the token chooses: the step size, and the weights into and out of the state. */
static bool choose(Step *s, int layer, const Mamba1Run *r) {
    const Mamba1Spec *m = r->spec;
    const Mamba1Weights *w = r->w;
    LinearJob jobs[] = {{.w = w->dt_down, .y = r->latent}, {.w = w->b, .y = r->b}, {.w = w->c, .y = r->c}};
    LinearJob dt = {.w = w->dt, .y = r->dt};
    if (!step_linear(s, jobs, 3, r->mixed, m->channels, layer, "x_proj")) return false;
    step_norm(s, &m->dt_norm, &w->dt_norm, r->latent, r->latent, s->n, m->rank);
    step_norm(s, &m->b_norm, &w->b_norm, r->b, r->b, s->n, m->d_state);
    step_norm(s, &m->c_norm, &w->c_norm, r->c, r->c, s->n, m->d_state);
    if (!step_linear(s, &dt, 1, r->latent, m->rank, layer, "dt_proj")) return false;
    ops_act(s->pool, ACT_SOFTPLUS, r->dt, r->dt, s->n, m->channels);
    step_tap(s, layer, "step size", r->dt, m->channels);
    return true;
}

static bool mamba1_run(Step *s, int layer, const float *x, float *out) {
    const Mamba1Spec *m = &s->blueprint->layers[layer].mamba1;
    const Mamba1Weights *w = &s->weights->layers[layer].mamba1;
    Mamba1Run r = {.spec = m, .w = w, .layer = layer};
    float *z = step_floats(s, s->n, m->channels);
    if (!z || !make_room(s, m, &r)) return false;
    LinearJob in[] = {{.w = w->x, .y = r.x}, {.w = w->z, .y = z}}, o = {.w = w->o, .y = out};
    if (!step_linear(s, in, 2, x, s->blueprint->hidden, layer, "in_proj")) return false;
    conv_stretches(s, layer, r.stretches, r.n_stretches, m->kernel, &(ConvPart){&w->conv, m->channels, r.x, r.mixed},
                   1);
    ops_act(s->pool, ACT_SILU, r.mixed, r.mixed, s->n, m->channels);
    step_tap(s, layer, "convolved x", r.mixed, m->channels);
    if (!choose(s, layer, &r)) return false;
    pool_run(s->pool, scan_task, &r, r.n_stretches * r.n_blocks);
    step_zero_failed(s, r.out, m->channels);
    step_tap(s, layer, "scan", r.out, m->channels);
    ops_act_mul(s->pool, ACT_SILU, z, r.out, r.out, s->n, m->channels);
    if (!step_linear(s, &o, 1, r.out, m->channels, layer, "out_proj")) return false;
    step_tap(s, layer, "out_proj", out, s->blueprint->hidden);
    return true;
}

static const char *mamba1_kind(const LayerSpec *spec) {
    (void)spec;
    return "mamba";
}

static void mamba1_describe(const LayerSpec *spec, Buffer *out) {
    const Mamba1Spec *m = &spec->mamba1;
    buffer_printf(out, "selective scan: %d channels with states of %d, convolution of %d, step sizes of rank %d",
                  m->channels, m->d_state, m->kernel, m->rank);
}

const Mechanism mixer_mamba1 = {.name = "selective scan",
                                .bind = mamba1_bind,
                                .run = mamba1_run,
                                .state = mamba1_state,
                                .kind = mamba1_kind,
                                .describe = mamba1_describe};
