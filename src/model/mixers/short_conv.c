/* A gated short convolution over positions (LFM2, arXiv:2511.23404): out(c * conv(b * x)), all of the hidden width.
 * What it keeps are the last few products. */
#include "model/mechanism.h"
#include "model/mixers/stretch.h"

static bool short_conv_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const ShortConvSpec *c = &spec->short_conv;
    ShortConvWeights *w = &out->short_conv;
    int hidden = bind_hidden(b);
    return bind_linear(b, &c->b, layer, hidden, hidden, &w->b) && bind_linear(b, &c->c, layer, hidden, hidden, &w->c) &&
           bind_linear(b, &c->x, layer, hidden, hidden, &w->x) &&
           bind_conv(b, &c->conv, layer, hidden, c->kernel, &w->conv) &&
           bind_linear(b, &c->o, layer, hidden, hidden, &w->o);
}

typedef struct ConvRun {
    const Step *step;
    const Stretch *stretches;
    int layer;
    const float *in;
    float *out;
} ConvRun;

static void conv_task(void *context, int task, int thread) {
    const ConvRun *r = context;
    const Stretch *t = &r->stretches[task];
    const Step *s = r->step;
    (void)thread;
    stretch_conv(t, &s->weights->layers[r->layer].short_conv.conv, s->blueprint->hidden,
                 s->blueprint->layers[r->layer].short_conv.kernel, state_recurrent(t->state, r->layer), r->in, r->out);
}

static bool short_conv_run(Step *s, int layer, const float *x, float *out) {
    const ShortConvWeights *w = &s->weights->layers[layer].short_conv;
    int hidden = s->blueprint->hidden, n_stretches;
    float *b = step_floats(s, s->n, hidden), *c = step_floats(s, s->n, hidden), *in = step_floats(s, s->n, hidden);
    float *mixed = step_floats(s, s->n, hidden);
    LinearJob jobs[] = {{.w = w->b, .y = b}, {.w = w->c, .y = c}, {.w = w->x, .y = in}}, o = {.w = w->o, .y = out};
    ConvRun run = {s, stretches_of(s, &n_stretches), layer, in, mixed};
    if (!b || !c || !in || !mixed || !run.stretches || !step_linear(s, jobs, 3, x, hidden, layer, "in_proj"))
        return false;
    ops_mul(s->pool, b, in, in, s->n, hidden);
    pool_run(s->pool, conv_task, &run, n_stretches);
    ops_mul(s->pool, c, mixed, mixed, s->n, hidden);
    step_zero_failed(s, mixed, hidden);
    step_tap(s, layer, "short convolution", mixed, hidden);
    if (!step_linear(s, &o, 1, mixed, hidden, layer, "out_proj")) return false;
    step_tap(s, layer, "out_proj", out, hidden);
    return true;
}

static void short_conv_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    (void)kv;
    out->recurrent = (size_t)(spec->short_conv.kernel - 1) * (size_t)spec->short_conv.conv.total;
}

static const char *short_conv_kind(const LayerSpec *spec) {
    (void)spec;
    return "convolution";
}

static void short_conv_describe(const LayerSpec *spec, Buffer *out) {
    buffer_printf(out, "gated convolution of %d positions", spec->short_conv.kernel);
}

const Mechanism mixer_short_conv = {.name = "short convolution",
                                    .bind = short_conv_bind,
                                    .run = short_conv_run,
                                    .state = short_conv_state,
                                    .kind = short_conv_kind,
                                    .describe = short_conv_describe};
