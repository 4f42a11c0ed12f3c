/* RWKV's channel mixing: a feed-forward that sees the row before its own, which makes it a mixer. */
#include "model/mechanism.h"
#include "model/mixers/token_shift.h"

static bool channel_mix_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const ChannelMixSpec *m = &spec->channel_mix;
    ChannelMixWeights *w = &out->channel_mix;
    int hidden = bind_hidden(b);
    return bind_linear(b, &m->key, layer, m->width, hidden, &w->key) &&
           bind_linear(b, &m->value, layer, hidden, m->width, &w->value) &&
           bind_vector(b, m->mix, layer, hidden, 0, &w->mix);
}

/* The last row. */
static void channel_mix_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    (void)kv;
    out->recurrent = (size_t)spec->channel_mix.hidden;
}

static bool channel_mix_run(Step *s, int layer, const float *x, float *out) {
    const ChannelMixSpec *m = &s->blueprint->layers[layer].channel_mix;
    const ChannelMixWeights *w = &s->weights->layers[layer].channel_mix;
    int hidden = s->blueprint->hidden, n;
    const Stretch *stretches = stretches_of(s, &n);
    float *shift = stretches ? token_shift(s, layer, stretches, n, x) : NULL;
    float *mixed = step_floats(s, s->n, hidden), *key = step_floats(s, s->n, m->width);
    LinearJob in = {.w = w->key, .y = key}, o = {.w = w->value, .y = out};
    if (!shift || !mixed || !key) return false;
    token_mix(s, x, shift, w->mix, mixed);
    if (!step_linear(s, &in, 1, mixed, hidden, layer, "key")) return false;
    ops_act(s->pool, ACT_RELU2, key, key, s->n, m->width);
    step_tap(s, layer, "key", key, m->width);
    if (!step_linear(s, &o, 1, key, m->width, layer, "value")) return false;
    step_tap(s, layer, "value", out, hidden);
    return true;
}

static const char *channel_mix_kind(const LayerSpec *spec) {
    (void)spec;
    return "channels";
}

static void channel_mix_describe(const LayerSpec *spec, Buffer *out) {
    buffer_printf(out, "channel mixing: width %d, squared relu", spec->channel_mix.width);
}

const Mechanism mixer_channel_mix = {.name = "channel mixing",
                                     .bind = channel_mix_bind,
                                     .run = channel_mix_run,
                                     .state = channel_mix_state,
                                     .kind = channel_mix_kind,
                                     .describe = channel_mix_describe};
