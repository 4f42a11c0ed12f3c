/* Mamba-2 and attention side by side (Falcon-H1, arXiv:2507.22448): both read the layer's input, and what they give is
 * added. Nothing of either is here but the order and the scales around them; the state is that of both. */
#include "model/mechanism.h"

static bool beside_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return mixer_mamba2.bind(b, spec, layer, out) && mixer_attention.bind(b, spec, layer, out);
}

static void beside_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    LayerShape ssm = {0};
    mixer_mamba2.state(spec, kv, &ssm);
    mixer_attention.state(spec, kv, out);
    out->recurrent = ssm.recurrent;
}

/* x times factor, in rows of its own. NULL: out of memory. */
static const float *scaled(Step *s, const float *x, float factor) {
    if (factor == 0 || factor == 1) return x;
    float *y = step_floats(s, s->n, s->blueprint->hidden);
    if (y) ops_scale(s->pool, x, factor, y, s->n, s->blueprint->hidden);
    return y;
}

static bool run_scaled(Step *s, const Mechanism *mixer, int layer, const float *x, float in, float out, float *y) {
    const float *from = scaled(s, x, in);
    if (!from || !mixer->run(s, layer, from, y)) return false;
    if (out != 0 && out != 1) ops_scale(s->pool, y, out, y, s->n, s->blueprint->hidden);
    return true;
}

static bool beside_run(Step *s, int layer, const float *x, float *out) {
    const BesideSpec *b = &s->blueprint->layers[layer].beside;
    int hidden = s->blueprint->hidden;
    float *attended = step_floats(s, s->n, hidden);
    if (!attended || !run_scaled(s, &mixer_mamba2, layer, x, b->ssm_in, b->ssm_out, out) ||
        !run_scaled(s, &mixer_attention, layer, x, b->attention_in, b->attention_out, attended))
        return false;
    ops_add(s->pool, out, attended, out, s->n, hidden);
    step_zero_failed(s, out, hidden);
    step_tap(s, layer, "both mixers", out, hidden);
    return true;
}

static const char *beside_kind(const LayerSpec *spec) {
    (void)spec;
    return "hybrid";
}

static void beside_describe(const LayerSpec *spec, Buffer *out) {
    mixer_mamba2.describe(spec, out);
    buffer_text(out, " beside ");
    mixer_attention.describe(spec, out);
}

const Mechanism mixer_ssm_beside_attention = {.name = "mamba 2 beside attention",
                                              .bind = beside_bind,
                                              .run = beside_run,
                                              .state = beside_state,
                                              .kind = beside_kind,
                                              .describe = beside_describe};
