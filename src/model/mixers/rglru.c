/* The recurrent block of Griffin (De et al., arXiv:2402.19427): a short convolution, then one number per channel that
 * fades and takes up the channel's input; how much of each, two gates say. The state advances one token at a time, so a
 * prefill is the same bytes as a decode; blocks of channels, which do not touch each other, run side by side. */
#include "math/recurrent.h"
#include "model/mechanism.h"
#include "model/mixers/heads.h"
#include "model/mixers/stretch.h"

enum { BLOCK = 256 }; /* channels of a task */

static bool rglru_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const RglruSpec *g = &spec->rglru;
    RglruWeights *w = &out->rglru;
    int64_t hidden = bind_hidden(b), width = g->width, head = g->width / g->heads;
    if (g->width % g->heads)
        return bind_fail(b, "config.json: a recurrence of %d channels does not divide into %d heads", g->width,
                         g->heads);
    return bind_linear(b, &g->x, layer, width, hidden, &w->x) && bind_linear(b, &g->y, layer, width, hidden, &w->y) &&
           bind_conv(b, &g->conv, layer, g->width, g->kernel, &w->conv) &&
           bind_experts(b, g->x_gate, layer, g->heads, head, head, &w->x_gate) &&
           bind_experts(b, g->a_gate, layer, g->heads, head, head, &w->a_gate) &&
           bind_vector(b, g->x_gate_bias, layer, width, 0, &w->x_gate_bias) &&
           bind_vector(b, g->a_gate_bias, layer, width, 0, &w->a_gate_bias) &&
           bind_rates(b, RATE_SOFTPLUS, g->rate, layer, g->width, 1, &w->rate) &&
           bind_linear(b, &g->o, layer, hidden, width, &w->o);
}

/* ---- the state: the convolution's window, then one number per channel ---- */

static void rglru_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const RglruSpec *g = &spec->rglru;
    (void)kv;
    out->recurrent = conv_windows(g->kernel, g->width) + (size_t)g->width;
}

/* ---- the run ---- */

typedef struct RglruRun {
    const Step *step;
    const RglruSpec *spec;
    const RglruWeights *w;
    int layer, n_stretches, n_blocks;
    const Stretch *stretches;
    float *x, *y, *mixed, *x_gate, *a_gate; /* [n][width] */
} RglruRun;

static bool make_room(Step *s, RglruRun *r) {
    float **all[] = {&r->x, &r->y, &r->mixed, &r->x_gate, &r->a_gate};
    for (int i = 0; i < 5; i++)
        if (!(*all[i] = step_floats(s, s->n, r->spec->width))) return false;
    r->stretches = stretches_of(s, &r->n_stretches);
    r->n_blocks = (r->spec->width + BLOCK - 1) / BLOCK;
    return r->stretches != NULL;
}

/* out = sigmoid(x w + bias), head by head. */
static bool run_gate(Step *s, const RglruRun *r, const Linear **w, const float *bias, float *out, const char *name) {
    int heads = r->spec->heads, width = r->spec->width, head = width / heads;
    float *each = step_floats(s, s->n, width); /* [heads][n][head] */
    if (!each || !heads_linear(s, r->layer, w, heads, r->mixed, head, 0, each, name)) return false;
    for (int h = 0; h < heads; h++)
        heads_copy(each + (size_t)h * (size_t)s->n * (size_t)head, head, 0, out, width, h * head, head, s->n);
    for (int i = 0; i < s->n; i++) {
        float *row = out + (size_t)i * (size_t)width;
        ops_add(s->pool, row, bias, row, 1, width);
    }
    ops_act(s->pool, ACT_SIGMOID, out, out, s->n, width);
    step_tap(s, r->layer, name, out, width);
    return true;
}

/* Task: one block of channels of one stretch, token by token. */
static void lru_task(void *context, int task, int thread) {
    const RglruRun *r = context;
    const RglruSpec *g = r->spec;
    const Stretch *t = &r->stretches[task / r->n_blocks];
    int from = task % r->n_blocks * BLOCK, n = g->width - from < BLOCK ? g->width - from : BLOCK;
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        size_t row = (size_t)(t->first + i), at = row * (size_t)g->width;
        LruStep step = {.from = from,
                        .n = n,
                        .state = state_recurrent(t->state, r->layer) + conv_windows(g->kernel, g->width),
                        .rate = r->w->rate,
                        .gate = r->a_gate + at,
                        .x = r->mixed + at,
                        .first = r->step->rows[row].position == 0,
                        .out = r->mixed + at};
        recurrent_lru_step(&step);
    }
}

static bool rglru_run(Step *s, int layer, const float *x, float *out) {
    const RglruSpec *g = &s->blueprint->layers[layer].rglru;
    const RglruWeights *w = &s->weights->layers[layer].rglru;
    RglruRun r = {.step = s, .spec = g, .w = w, .layer = layer};
    if (!make_room(s, &r)) return false;
    LinearJob in[] = {{.w = w->x, .y = r.x}, {.w = w->y, .y = r.y}}, o = {.w = w->o, .y = out};
    if (!step_linear(s, in, 2, x, s->blueprint->hidden, layer, "linear_x")) return false;
    conv_stretches(s, layer, r.stretches, r.n_stretches, g->kernel, &(ConvPart){&w->conv, g->width, r.x, r.mixed}, 1);
    step_tap(s, layer, "convolved x", r.mixed, g->width);
    if (!run_gate(s, &r, w->x_gate, w->x_gate_bias, r.x_gate, "input gate") ||
        !run_gate(s, &r, w->a_gate, w->a_gate_bias, r.a_gate, "recurrent gate"))
        return false;
    ops_mul(s->pool, r.mixed, r.x_gate, r.mixed, s->n, g->width);
    pool_run(s->pool, lru_task, &r, r.n_stretches * r.n_blocks);
    step_zero_failed(s, r.mixed, g->width);
    step_tap(s, layer, "recurrence", r.mixed, g->width);
    ops_act_mul(s->pool, g->act, r.y, r.mixed, r.mixed, s->n, g->width);
    if (!step_linear(s, &o, 1, r.mixed, g->width, layer, "linear_out")) return false;
    step_tap(s, layer, "linear_out", out, s->blueprint->hidden);
    return true;
}

static const char *rglru_kind(const LayerSpec *spec) {
    (void)spec;
    return "recurrent";
}

static void rglru_describe(const LayerSpec *spec, Buffer *out) {
    const RglruSpec *g = &spec->rglru;
    buffer_printf(out, "gated linear recurrence: %d channels, gates of %d heads, convolution of %d", g->width, g->heads,
                  g->kernel);
}

const Mechanism mixer_rglru = {.name = "gated linear recurrence",
                               .bind = rglru_bind,
                               .run = rglru_run,
                               .state = rglru_state,
                               .kind = rglru_kind,
                               .describe = rglru_describe};
