/* RWKV 7's time mixing (Peng et al., arXiv:2503.14456). Each head keeps a matrix from keys to values, of which a token
 * lets every channel fade at its own rate, takes out part of what is held for its key, puts its value in, and reads it.
 * The state advances one token at a time, so a prefill is the same bytes as a decode; heads run side by side. */
#include "math/recurrent.h"
#include "model/mechanism.h"
#include "model/mixers/heads.h"
#include "model/mixers/token_shift.h"

#include <string.h>

/* ---- binding ---- */

static bool bind_latent(Binder *b, const LatentSpec *l, int layer, LatentWeights *out) {
    int hidden = bind_hidden(b);
    return bind_linear(b, &l->down, layer, l->rank, hidden, &out->down) &&
           bind_linear(b, &l->up, layer, hidden, l->rank, &out->up);
}

static bool bind_mixes(Binder *b, const Rwkv7Spec *m, int layer, Rwkv7Weights *w) {
    int hidden = bind_hidden(b);
    return bind_vector(b, m->mix_r, layer, hidden, 0, &w->mix_r) &&
           bind_vector(b, m->mix_k, layer, hidden, 0, &w->mix_k) &&
           bind_vector(b, m->mix_v, layer, hidden, 0, &w->mix_v) &&
           bind_vector(b, m->mix_decay, layer, hidden, 0, &w->mix_decay) &&
           bind_vector(b, m->mix_correct, layer, hidden, 0, &w->mix_correct) &&
           bind_vector(b, m->mix_gate, layer, hidden, 0, &w->mix_gate) &&
           bind_vector(b, m->k_unit, layer, hidden, 0, &w->k_unit) &&
           bind_vector(b, m->k_correct, layer, hidden, 0, &w->k_correct) &&
           bind_vector(b, m->bonus, layer, hidden, 0, &w->bonus);
}

static bool rwkv7_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const Rwkv7Spec *m = &spec->rwkv7;
    Rwkv7Weights *w = &out->rwkv7;
    int hidden = bind_hidden(b);
    if ((int64_t)m->heads * m->head_dim != hidden || (int64_t)hidden * m->head_dim > CONFIG_MAX_SIZE)
        return bind_fail(b, "config.json: a hidden size of %d does not divide into heads of %d", hidden, m->head_dim);
    return bind_linear(b, &m->r, layer, hidden, hidden, &w->r) && bind_linear(b, &m->k, layer, hidden, hidden, &w->k) &&
           bind_linear(b, &m->v, layer, hidden, hidden, &w->v) && bind_linear(b, &m->o, layer, hidden, hidden, &w->o) &&
           bind_latent(b, &m->decay, layer, &w->decay) && bind_latent(b, &m->correct, layer, &w->correct) &&
           bind_latent(b, &m->first, layer, &w->first) && bind_latent(b, &m->gate, layer, &w->gate) &&
           bind_mixes(b, m, layer, w) && bind_norm(b, &m->norm, layer, hidden, &w->norm);
}

/* ---- the state: the last row, then the matrices ---- */

static size_t row_size(const Rwkv7Spec *m) {
    return (size_t)m->heads * (size_t)m->head_dim;
}

static void rwkv7_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const Rwkv7Spec *m = &spec->rwkv7;
    (void)kv;
    out->recurrent = row_size(m) + row_size(m) * (size_t)m->head_dim;
}

/* ---- the run ---- */

typedef struct Rwkv7Run {
    const Rwkv7Spec *spec;
    const Rwkv7Weights *w;
    int layer, n_stretches;
    const Stretch *stretches;
    const float *x, *shift;
    float *mixed;                     /* what the projection at hand reads */
    float *r, *k, *v, *decay, *a, *b; /* [n][hidden]; a, b: of the correction */
    float *gate, *out;
} Rwkv7Run;

static bool make_room(Step *s, Rwkv7Run *r) {
    float **all[] = {&r->mixed, &r->r, &r->k, &r->v, &r->decay, &r->a, &r->b, &r->gate, &r->out};
    for (int i = 0; i < 9; i++)
        if (!(*all[i] = step_floats(s, s->n, s->blueprint->hidden))) return false;
    r->stretches = stretches_of(s, &r->n_stretches);
    return r->stretches && (r->shift = token_shift(s, r->layer, r->stretches, r->n_stretches, r->x));
}

/* From r->mixed. */
static bool project(Step *s, const Rwkv7Run *r, const Linear *w, float *out, const char *name) {
    LinearJob job = {.w = w, .y = out};
    if (!step_linear(s, &job, 1, r->mixed, s->blueprint->hidden, r->layer, name)) return false;
    step_tap(s, r->layer, name, out, s->blueprint->hidden);
    return true;
}

/* The same through a latent, then `act`. */
static bool project_latent(Step *s, const Rwkv7Run *r, const LatentSpec *spec, const LatentWeights *w, Activation act,
                           float *out, const char *name) {
    int hidden = s->blueprint->hidden;
    float *latent = step_floats(s, s->n, spec->rank);
    LinearJob down = {.w = w->down, .y = latent}, up = {.w = w->up, .y = out};
    if (!latent || !step_linear(s, &down, 1, r->mixed, hidden, r->layer, name)) return false;
    ops_act(s->pool, spec->act, latent, latent, s->n, spec->rank);
    if (!step_linear(s, &up, 1, latent, spec->rank, r->layer, name)) return false;
    ops_act(s->pool, act, out, out, s->n, hidden);
    step_tap(s, r->layer, name, out, hidden);
    return true;
}

static void mix(const Step *s, const Rwkv7Run *r, const float *how) {
    token_mix(s, r->x, r->shift, how, r->mixed);
}

/* The values, and as far as the token says those of the first layer in their place. */
static bool make_values(Step *s, Rwkv7Run *r) {
    size_t n = (size_t)s->n * row_size(r->spec);
    mix(s, r, r->w->mix_v);
    if (!project(s, r, r->w->v, r->v, "v_proj")) return false;
    if (r->spec->lends) memcpy(s->lent_v, r->v, n * sizeof *r->v);
    if (!r->w->first.up) return true;
    if (!project_latent(s, r, &r->spec->first, &r->w->first, ACT_SIGMOID, r->out, "v_lora")) return false;
    for (size_t i = 0; i < n; i++) {
        float part = (s->lent_v[i] - r->v[i]) * r->out[i];
        r->v[i] += part;
    }
    return true;
}

/* decay = exp(-exp(-1/2) sigmoid(w)). */
static bool make_decay(Step *s, Rwkv7Run *r) {
    int hidden = s->blueprint->hidden;
    mix(s, r, r->w->mix_decay);
    if (!project_latent(s, r, &r->spec->decay, &r->w->decay, ACT_SIGMOID, r->decay, "w_lora")) return false;
    ops_scale(s->pool, r->decay, -0.606531f, r->decay, s->n, hidden);
    ops_act(s->pool, ACT_EXP, r->decay, r->decay, s->n, hidden);
    return true;
}

/* What the state is corrected with: a is less the unit key, b the unit key times the rate c; and the key that is put in
 * is key * (1 + (c - 1) * k_correct). */
static bool make_keys(Step *s, Rwkv7Run *r) {
    const Rwkv7Spec *m = r->spec;
    size_t hidden = row_size(m), n = (size_t)s->n * hidden;
    mix(s, r, r->w->mix_k);
    if (!project(s, r, r->w->k, r->k, "k_proj")) return false;
    mix(s, r, r->w->mix_correct);
    if (!project_latent(s, r, &m->correct, &r->w->correct, ACT_SIGMOID, r->b, "a_lora")) return false;
    for (size_t i = 0; i < n; i++) r->a[i] = r->k[i] * r->w->k_unit[i % hidden];
    heads_unit(s, r->a, m->heads, m->head_dim, 1e-14f, 1);
    for (size_t i = 0; i < n; i++) {
        float less = (r->b[i] - 1) * r->w->k_correct[i % hidden];
        r->k[i] *= 1 + less;
        r->b[i] *= r->a[i];
        r->a[i] = -r->a[i];
    }
    return true;
}

/* Task: one head of one stretch, token by token. */
static void head_task(void *context, int task, int thread) {
    const Rwkv7Run *r = context;
    const Rwkv7Spec *m = r->spec;
    const Stretch *t = &r->stretches[task / m->heads];
    size_t dim = (size_t)m->head_dim, head = (size_t)(task % m->heads);
    float *matrices = state_recurrent(t->state, r->layer) + row_size(m);
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        size_t at = (size_t)(t->first + i) * row_size(m) + head * dim;
        WkvStep step = {.state = matrices + head * dim * dim,
                        .k_dim = m->head_dim,
                        .v_dim = m->head_dim,
                        .decay = r->decay + at,
                        .a = r->a + at,
                        .b = r->b + at,
                        .k = r->k + at,
                        .q = r->r + at,
                        .v = r->v + at,
                        .out = r->out + at};
        recurrent_wkv_step(&step);
    }
}

/* out += (r . k bonus) v, head by head; r->mixed and r->b are done with. */
static void add_bonus(const Step *s, const Rwkv7Run *r) {
    const Rwkv7Spec *m = r->spec;
    size_t n = (size_t)s->n * row_size(m);
    float *dots = r->b;
    ops_mul(s->pool, r->r, r->k, r->mixed, s->n, s->blueprint->hidden);
    heads_dot(s, r->mixed, r->w->bonus, NULL, dots, m->heads, m->head_dim);
    for (size_t i = 0; i < n; i++) {
        float part = dots[i / (size_t)m->head_dim] * r->v[i];
        r->out[i] += part;
    }
}

static bool rwkv7_run(Step *s, int layer, const float *x, float *out) {
    const Rwkv7Spec *m = &s->blueprint->layers[layer].rwkv7;
    const Rwkv7Weights *w = &s->weights->layers[layer].rwkv7;
    Rwkv7Run r = {.spec = m, .w = w, .layer = layer, .x = x};
    int hidden = s->blueprint->hidden;
    if (!make_room(s, &r)) return false;
    mix(s, &r, w->mix_r);
    if (!project(s, &r, w->r, r.r, "r_proj") || !make_values(s, &r) || !make_decay(s, &r) || !make_keys(s, &r))
        return false;
    mix(s, &r, w->mix_gate);
    if (!project_latent(s, &r, &m->gate, &w->gate, ACT_NONE, r.gate, "g_lora")) return false;
    pool_run(s->pool, head_task, &r, r.n_stretches * m->heads);
    step_zero_failed(s, r.out, hidden);
    step_tap(s, layer, "state", r.out, hidden);
    ops_layer_norm_heads(s->pool, r.out, w->norm.weight, w->norm.bias, m->norm.eps, r.out, s->n, m->heads, m->head_dim);
    add_bonus(s, &r);
    ops_mul(s->pool, r.out, r.gate, r.out, s->n, hidden);
    LinearJob o = {.w = w->o, .y = out};
    if (!step_linear(s, &o, 1, r.out, hidden, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, hidden);
    return true;
}

static const char *rwkv7_kind(const LayerSpec *spec) {
    (void)spec;
    return "time";
}

static void rwkv7_describe(const LayerSpec *spec, Buffer *out) {
    const Rwkv7Spec *m = &spec->rwkv7;
    buffer_printf(out, "time mixing: %d heads of %d by %d", m->heads, m->head_dim, m->head_dim);
}

const Mechanism mixer_rwkv7 = {.name = "rwkv 7 time mixing",
                               .bind = rwkv7_bind,
                               .run = rwkv7_run,
                               .state = rwkv7_state,
                               .kind = rwkv7_kind,
                               .describe = rwkv7_describe};
