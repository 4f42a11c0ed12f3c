/* Lightning attention (Qin et al., arXiv:2401.04658): attention without a softmax, whose past is one matrix per head
 * that fades at a fixed rate. The references work in blocks, or token by token; here it is always token by token, so
 * that a prefill is the same bytes as a decode. */
#include "math/recurrent.h"
#include "math/rope.h"
#include "model/mechanism.h"
#include "model/mixers/stretch.h"

static int width_of(const LightningSpec *l) {
    return l->heads * l->head_dim;
}

static size_t matrix_size(const LightningSpec *l) {
    return (size_t)l->head_dim * (size_t)l->head_dim;
}

/* ---- binding ---- */

static double slope_of(const LightningSpec *l, int head) {
    int power = 1;
    if (l->slopes == SLOPES_EVEN) return rope_pow(2, -8.0 * (head + 1) / l->heads);
    while (power <= l->heads / 2) power *= 2;
    if (head < power) return rope_pow(2, -8.0 * (head + 1) / power);
    return rope_pow(2, -8.0 * (2 * (head - power) + 1) / (2 * power));
}

static bool make_decays(Binder *b, const LightningSpec *l, const float **out) {
    const double e = 2.718281828459045;
    float *decay = bind_floats(b, l->heads);
    for (int h = 0; decay && h < l->heads; h++) decay[h] = (float)rope_pow(e, -slope_of(l, h) * (double)l->slope_scale);
    *out = decay;
    return decay != NULL;
}

static bool lightning_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const LightningSpec *l = &spec->lightning;
    LightningWeights *w = &out->lightning;
    int64_t hidden = bind_hidden(b), width = (int64_t)l->heads * l->head_dim;
    if (width * l->head_dim > CONFIG_MAX_SIZE || width % l->norm_groups)
        return bind_fail(b, "config.json: %d heads of %d, normed in %d groups, cannot be", l->heads, l->head_dim,
                         l->norm_groups);
    return bind_linear(b, &l->q, layer, width, hidden, &w->q) && bind_linear(b, &l->k, layer, width, hidden, &w->k) &&
           bind_linear(b, &l->v, layer, width, hidden, &w->v) &&
           bind_linear(b, &l->gate, layer, width, hidden, &w->gate) &&
           bind_norm(b, &l->q_norm, layer, l->head_dim, &w->q_norm) &&
           bind_norm(b, &l->k_norm, layer, l->head_dim, &w->k_norm) && bind_norm(b, &l->norm, layer, width, &w->norm) &&
           bind_linear(b, &l->o, layer, hidden, width, &w->o) && make_decays(b, l, &w->decay);
}

static void lightning_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    (void)kv;
    out->recurrent = (size_t)spec->lightning.heads * matrix_size(&spec->lightning);
}

/* ---- the run ---- */

typedef struct LightningRun {
    const LightningSpec *spec;
    const float *decay;
    int layer;
    const Stretch *stretches;
    float *q, *k, *v, *out;
} LightningRun;

/* Task: one head of one stretch, token by token. */
static void head_task(void *context, int task, int thread) {
    const LightningRun *r = context;
    const LightningSpec *l = r->spec;
    const Stretch *t = &r->stretches[task / l->heads];
    int head = task % l->heads;
    float *matrix = state_recurrent(t->state, r->layer) + (size_t)head * matrix_size(l);
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        size_t at = (size_t)(t->first + i) * (size_t)width_of(l) + (size_t)(head * l->head_dim);
        OuterStep step = {.state = matrix,
                          .k_dim = l->head_dim,
                          .v_dim = l->head_dim,
                          .decay = r->decay + head,
                          .k = r->k + at,
                          .q = r->q + at,
                          .v = r->v + at,
                          .beta = 1,
                          .out = r->out + at};
        recurrent_outer_step(&step);
    }
}

/* Norm and rotation of queries or keys. */
static void shape_heads(const Step *s, const LightningSpec *l, const NormSpec *spec, const Norm *norm, float *x) {
    step_norm(s, spec, norm, x, x, s->n * l->heads, l->head_dim);
    if (l->rope == NO_ROPE) return;
    const RopeAngles *angles = &s->angles[l->rope];
    rope_rotate(s->pool, &s->blueprint->ropes[l->rope].table, angles->cos, angles->sin, x, s->n, l->heads, l->head_dim);
}

static bool prepare(Step *s, int layer, const float *x, const LightningRun *r) {
    const LightningSpec *l = r->spec;
    const LightningWeights *w = &s->weights->layers[layer].lightning;
    int width = width_of(l);
    LinearJob jobs[] = {{.w = w->q, .y = r->q}, {.w = w->k, .y = r->k}, {.w = w->v, .y = r->v}};
    if (!step_linear(s, jobs, 3, x, s->blueprint->hidden, layer, "q_proj")) return false;
    if (l->act != ACT_NONE)
        for (int i = 0; i < 3; i++) ops_act(s->pool, l->act, jobs[i].y, jobs[i].y, s->n, width);
    shape_heads(s, l, &l->q_norm, &w->q_norm, r->q);
    shape_heads(s, l, &l->k_norm, &w->k_norm, r->k);
    if (l->q_scale != 0) ops_scale(s->pool, r->q, l->q_scale, r->q, s->n, width);
    step_tap(s, layer, "keys", r->k, width);
    return true;
}

static bool lightning_run(Step *s, int layer, const float *x, float *out) {
    const LightningSpec *l = &s->blueprint->layers[layer].lightning;
    const LightningWeights *w = &s->weights->layers[layer].lightning;
    int width = width_of(l), n_stretches;
    LightningRun r = {.spec = l,
                      .decay = w->decay,
                      .layer = layer,
                      .stretches = stretches_of(s, &n_stretches),
                      .q = step_floats(s, s->n, width),
                      .k = step_floats(s, s->n, width),
                      .v = step_floats(s, s->n, width),
                      .out = step_floats(s, s->n, width)};
    if (!r.stretches || !r.q || !r.k || !r.v || !r.out || !prepare(s, layer, x, &r)) return false;
    pool_run(s->pool, head_task, &r, n_stretches * l->heads);
    step_zero_failed(s, r.out, width);
    step_tap(s, layer, "lightning attention", r.out, width);
    LinearJob gate = {.w = w->gate, .y = r.v}, o = {.w = w->o, .y = out}; /* the values are done with */
    if (!step_linear(s, &gate, 1, x, s->blueprint->hidden, layer, "gate")) return false;
    ops_rms_norm_heads(s->pool, r.out, w->norm.weight, l->norm.eps, r.out, s->n, l->norm_groups,
                       width / l->norm_groups);
    ops_act_mul(s->pool, ACT_SIGMOID, gate.y, r.out, r.out, s->n, width);
    if (!step_linear(s, &o, 1, r.out, width, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

static const char *lightning_kind(const LayerSpec *spec) {
    (void)spec;
    return "lightning";
}

static void lightning_describe(const LayerSpec *spec, Buffer *out) {
    const LightningSpec *l = &spec->lightning;
    buffer_printf(out, "lightning attention: %d heads of %d, normed in %d group%s", l->heads, l->head_dim,
                  l->norm_groups, l->norm_groups == 1 ? "" : "s");
}

const Mechanism mixer_lightning = {.name = "lightning attention",
                                   .bind = lightning_bind,
                                   .run = lightning_run,
                                   .state = lightning_state,
                                   .kind = lightning_kind,
                                   .describe = lightning_describe};
