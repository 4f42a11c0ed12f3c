/* The gated feed-forward: down(act(gate(x)) * up(x)) (Shazeer, arXiv:2002.05202). */
#include "model/mechanism.h"

static bool gated_mlp_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const GatedMlpSpec *m = &spec->gated_mlp;
    int hidden = bind_hidden(b);
    return bind_linear(b, m->gate, layer, m->width, hidden, &out->gate) &&
           bind_linear(b, m->up, layer, m->width, hidden, &out->up) &&
           bind_linear(b, m->down, layer, hidden, m->width, &out->down);
}

static bool gated_mlp_run(Step *s, int layer, const float *x, float *out) {
    const GatedMlpSpec *m = &s->blueprint->layers[layer].gated_mlp;
    const LayerWeights *w = &s->weights->layers[layer];
    int hidden = s->blueprint->hidden;
    float *gate = step_floats(s, s->n, m->width), *up = step_floats(s, s->n, m->width);
    if (!gate || !up) return false;

    LinearJob gate_up[] = {{w->gate, gate}, {w->up, up}};
    if (!step_linear(s, gate_up, 2, x, hidden, layer, "gate_proj")) return false;
    step_tap(s, layer, "gate_proj", gate, m->width);
    step_tap(s, layer, "up_proj", up, m->width);
    ops_act_mul(s->pool, m->activation, gate, up, gate, s->n, m->width);
    step_tap(s, layer, "activation", gate, m->width);
    LinearJob down = {w->down, out};
    if (!step_linear(s, &down, 1, gate, m->width, layer, "down_proj")) return false;
    step_tap(s, layer, "down_proj", out, hidden);
    return true;
}

static void gated_mlp_describe(const LayerSpec *spec, Buffer *out) {
    buffer_printf(out, "gated mlp: width %d, silu%s", spec->gated_mlp.width,
                  spec->gated_mlp.gate.bias ? ", biases" : "");
}

const Mechanism ffn_gated_mlp = {
    .name = "gated mlp", .bind = gated_mlp_bind, .run = gated_mlp_run, .describe = gated_mlp_describe};
