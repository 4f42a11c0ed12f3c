/* The gated delta rule (Yang et al., arXiv:2412.06464; with a decay per channel: Kimi Delta Attention,
 * arXiv:2510.26692). Each value head keeps a matrix from keys to values; a token lets it fade, replaces what it held
 * for the token's key, and reads it with its query. The state advances one token at a time, so a prefill is the same
 * bytes as a decode; heads and sequences run side by side. */
#include "math/recurrent.h"
#include "model/mechanism.h"
#include "model/mixers/heads.h"
#include "model/mixers/stretch.h"

#include <math.h>
#include <string.h>

static int keys_width(const DeltaSpec *d) {
    return d->k_heads * d->k_dim;
}

static int values_width(const DeltaSpec *d) {
    return d->v_heads * d->v_dim;
}

static int decays_width(const DeltaSpec *d) {
    return d->decay_each ? d->v_heads * d->k_dim : d->v_heads;
}

/* ---- binding ---- */

static bool bind_latent(Binder *b, const LinearSpec *down, const LinearSpec *up, int layer, int rank, int64_t rows,
                        const Linear **out_down, const Linear **out) {
    return bind_linear(b, down, layer, rank, bind_hidden(b), out_down) &&
           bind_linear(b, up, layer, rows, down->name ? rank : bind_hidden(b), out);
}

static bool delta_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const DeltaSpec *d = &spec->delta;
    DeltaWeights *w = &out->delta;
    int64_t hidden = bind_hidden(b), keys = keys_width(d), values = values_width(d);
    if (d->v_heads % d->k_heads || (int64_t)d->v_heads * d->k_dim * d->v_dim > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: %d value heads of %d by %d over %d key heads cannot be", d->v_heads, d->k_dim,
                         d->v_dim, d->k_heads);
    return bind_linear(b, &d->q, layer, keys, hidden, &w->q) && bind_linear(b, &d->k, layer, keys, hidden, &w->k) &&
           bind_linear(b, &d->v, layer, values, hidden, &w->v) &&
           bind_conv(b, &d->q_conv, layer, (int)keys, d->kernel, &w->q_conv) &&
           bind_conv(b, &d->k_conv, layer, (int)keys, d->kernel, &w->k_conv) &&
           bind_conv(b, &d->v_conv, layer, (int)values, d->kernel, &w->v_conv) &&
           bind_latent(b, &d->a_down, &d->a, layer, d->a_rank, decays_width(d), &w->a_down, &w->a) &&
           bind_latent(b, &d->z_down, &d->z, layer, d->z_rank, values, &w->z_down, &w->z) &&
           bind_linear(b, &d->b, layer, d->v_heads, hidden, &w->b) &&
           bind_rates(b, RATE_EXP, d->a_log, layer, d->v_heads, 1, &w->rate) &&
           bind_vector(b, d->dt_bias, layer, decays_width(d), 0, &w->dt_bias) &&
           bind_norm(b, &d->norm, layer, d->v_dim, &w->norm) && bind_linear(b, &d->o, layer, hidden, values, &w->o);
}

/* ---- the state: windows of q, k and v, then the matrices ---- */

static size_t windows_size(const DeltaSpec *d) {
    return conv_windows(d->kernel, 2 * keys_width(d) + values_width(d));
}

static void delta_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const DeltaSpec *d = &spec->delta;
    (void)kv;
    out->recurrent = windows_size(d) + (size_t)d->v_heads * (size_t)d->k_dim * (size_t)d->v_dim;
}

/* ---- the run ---- */

typedef struct DeltaRun {
    const DeltaSpec *spec;
    const DeltaWeights *w;
    int layer, n_stretches;
    const Stretch *stretches;
    float *q, *k, *v, *q_mixed, *k_mixed, *v_mixed; /* projections, and those after the convolutions */
    float *decay, *beta, *out;
} DeltaRun;

/* Task: one value head of one stretch, token by token. */
static void head_task(void *context, int task, int thread) {
    const DeltaRun *r = context;
    const DeltaSpec *d = r->spec;
    const Stretch *t = &r->stretches[task / d->v_heads];
    int head = task % d->v_heads, key_head = d->tiled ? head % d->k_heads : head / (d->v_heads / d->k_heads);
    float *matrices = state_recurrent(t->state, r->layer) + windows_size(d);
    size_t decays = (size_t)decays_width(d), keys = (size_t)keys_width(d), values = (size_t)values_width(d);
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        size_t row = (size_t)(t->first + i), key = row * keys + (size_t)(key_head * d->k_dim);
        size_t value = row * values + (size_t)(head * d->v_dim);
        OuterStep step = {.state = matrices + (size_t)head * (size_t)d->k_dim * (size_t)d->v_dim,
                          .k_dim = d->k_dim,
                          .v_dim = d->v_dim,
                          .decay = r->decay + row * decays + (size_t)(d->decay_each ? head * d->k_dim : head),
                          .decay_each = d->decay_each,
                          .k = r->k_mixed + key,
                          .q = r->q_mixed + key,
                          .v = r->v_mixed + value,
                          .beta = r->beta[row * (size_t)d->v_heads + (size_t)head],
                          .correct = true,
                          .out = r->out + value};
        recurrent_outer_step(&step);
    }
}

/* A projection, straight or through a latent: out [n][rows of w]. */
static bool project_latent(Step *s, int layer, const Linear *down, const Linear *w, const float *x, float *out,
                           const char *name) {
    LinearJob job = {.w = w, .y = out};
    if (!down) return step_linear(s, &job, 1, x, s->blueprint->hidden, layer, name);
    float *latent = step_floats(s, s->n, linear_rows(down));
    LinearJob first = {.w = down, .y = latent};
    return latent && step_linear(s, &first, 1, x, s->blueprint->hidden, layer, name) &&
           step_linear(s, &job, 1, latent, linear_rows(down), layer, name);
}

/* decay = exp(-exp(a_log) * softplus(a + dt_bias)), or the form with a floor; in place of a. */
static void make_decay(const Step *s, const DeltaSpec *d, const DeltaWeights *w, float *a) {
    int width = decays_width(d), each = width / d->v_heads;
    for (int r = 0; r < s->n; r++)
        ops_add(s->pool, a + (size_t)r * (size_t)width, w->dt_bias, a + (size_t)r * (size_t)width, 1, width);
    if (d->decay_floor == 0) ops_act(s->pool, ACT_SOFTPLUS, a, a, s->n, width);
    for (int r = 0; r < s->n; r++)
        for (int i = 0; i < width; i++)
            a[(size_t)r * (size_t)width + (size_t)i] *= d->decay_floor == 0 ? w->rate[i / each] : -w->rate[i / each];
    if (d->decay_floor != 0) {
        ops_act(s->pool, ACT_SIGMOID, a, a, s->n, width);
        ops_scale(s->pool, a, d->decay_floor, a, s->n, width);
    }
    ops_act(s->pool, ACT_EXP, a, a, s->n, width);
}

static bool make_room(Step *s, const DeltaSpec *d, DeltaRun *r) {
    int keys = keys_width(d), values = values_width(d);
    r->q = step_floats(s, s->n, keys);
    r->k = step_floats(s, s->n, keys);
    r->v = step_floats(s, s->n, values);
    r->q_mixed = step_floats(s, s->n, keys);
    r->k_mixed = step_floats(s, s->n, keys);
    r->v_mixed = step_floats(s, s->n, values);
    r->decay = step_floats(s, s->n, decays_width(d));
    r->beta = step_floats(s, s->n, d->v_heads);
    r->out = step_floats(s, s->n, values);
    r->stretches = stretches_of(s, &r->n_stretches);
    return r->q && r->k && r->v && r->q_mixed && r->k_mixed && r->v_mixed && r->decay && r->beta && r->out &&
           r->stretches;
}

/* Everything that a token's step of the state needs. */
static bool prepare(Step *s, int layer, const float *x, DeltaRun *r) {
    const DeltaSpec *d = r->spec;
    const DeltaWeights *w = r->w;
    LinearJob jobs[] = {
        {.w = w->q, .y = r->q}, {.w = w->k, .y = r->k}, {.w = w->v, .y = r->v}, {.w = w->b, .y = r->beta}};
    if (!step_linear(s, jobs, 4, x, s->blueprint->hidden, layer, "q_proj") ||
        !project_latent(s, layer, w->a_down, w->a, x, r->decay, "a_proj"))
        return false;
    make_decay(s, d, w, r->decay);
    ops_act(s->pool, ACT_SIGMOID, r->beta, r->beta, s->n, d->v_heads);
    if (d->b_scale != 0) ops_scale(s->pool, r->beta, d->b_scale, r->beta, s->n, d->v_heads);
    ConvPart parts[] = {{&w->q_conv, keys_width(d), r->q, r->q_mixed},
                        {&w->k_conv, keys_width(d), r->k, r->k_mixed},
                        {&w->v_conv, values_width(d), r->v, r->v_mixed}};
    conv_stretches(s, layer, r->stretches, r->n_stretches, d->kernel, parts, 3);
    ops_act(s->pool, ACT_SILU, r->q_mixed, r->q_mixed, s->n, keys_width(d));
    ops_act(s->pool, ACT_SILU, r->k_mixed, r->k_mixed, s->n, keys_width(d));
    ops_act(s->pool, ACT_SILU, r->v_mixed, r->v_mixed, s->n, values_width(d));
    heads_unit(s, r->q_mixed, d->k_heads, d->k_dim, 1e-6f, 1 / sqrtf((float)d->k_dim));
    heads_unit(s, r->k_mixed, d->k_heads, d->k_dim, 1e-6f, 1);
    step_tap(s, layer, "convolved v", r->v_mixed, values_width(d));
    step_tap(s, layer, "decay", r->decay, decays_width(d));
    return true;
}

static bool delta_run(Step *s, int layer, const float *x, float *out) {
    const DeltaSpec *d = &s->blueprint->layers[layer].delta;
    const DeltaWeights *w = &s->weights->layers[layer].delta;
    DeltaRun r = {.spec = d, .w = w, .layer = layer};
    int values = values_width(d);
    if (!make_room(s, d, &r) || !prepare(s, layer, x, &r)) return false;
    pool_run(s->pool, head_task, &r, r.n_stretches * d->v_heads);
    step_zero_failed(s, r.out, values);
    step_tap(s, layer, "delta rule", r.out, values);
    float *z = r.v; /* its projection is done with */
    if (!project_latent(s, layer, w->z_down, w->z, x, z, "z_proj")) return false;
    step_norm(s, &d->norm, &w->norm, r.out, r.out, s->n * d->v_heads, d->v_dim);
    ops_act_mul(s->pool, d->gate_act, z, r.out, r.out, s->n, values);
    LinearJob o = {.w = w->o, .y = out};
    if (!step_linear(s, &o, 1, r.out, values, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

static const char *delta_kind(const LayerSpec *spec) {
    (void)spec;
    return "delta";
}

static void delta_describe(const LayerSpec *spec, Buffer *out) {
    const DeltaSpec *d = &spec->delta;
    buffer_printf(out, "gated delta rule: %d heads of %d by %d, %d key heads, convolutions of %d", d->v_heads, d->k_dim,
                  d->v_dim, d->k_heads, d->kernel);
    if (d->tiled) buffer_text(out, ", key heads in turn");
}

const Mechanism mixer_delta = {.name = "gated delta rule",
                               .bind = delta_bind,
                               .run = delta_run,
                               .state = delta_state,
                               .kind = delta_kind,
                               .describe = delta_describe};
