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

static bool short_conv_run(Step *s, int layer, const float *x, float *out) {
    const ShortConvWeights *w = &s->weights->layers[layer].short_conv;
    int hidden = s->blueprint->hidden, kernel = s->blueprint->layers[layer].short_conv.kernel, n;
    float *b = step_floats(s, s->n, hidden), *c = step_floats(s, s->n, hidden), *in = step_floats(s, s->n, hidden);
    float *mixed = step_floats(s, s->n, hidden);
    LinearJob jobs[] = {{.w = w->b, .y = b}, {.w = w->c, .y = c}, {.w = w->x, .y = in}}, o = {.w = w->o, .y = out};
    const Stretch *stretches = stretches_of(s, &n);
    if (!b || !c || !in || !mixed || !stretches || !step_linear(s, jobs, 3, x, hidden, layer, "in_proj")) return false;
    ops_mul(s->pool, b, in, in, s->n, hidden);
    conv_stretches(s, layer, stretches, n, kernel, &(ConvPart){&w->conv, hidden, in, mixed}, 1);
    ops_mul(s->pool, c, mixed, mixed, s->n, hidden);
    step_zero_failed(s, mixed, hidden);
    step_tap(s, layer, "short convolution", mixed, hidden);
    if (!step_linear(s, &o, 1, mixed, hidden, layer, "out_proj")) return false;
    step_tap(s, layer, "out_proj", out, hidden);
    return true;
}

static void short_conv_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    (void)kv;
    out->recurrent = conv_windows(spec->short_conv.kernel, (int)spec->short_conv.conv.total);
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
