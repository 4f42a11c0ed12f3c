/* A dense mlp and routed experts side by side (Gemma 4): each reads the hidden rows through a norm of its own, each
 * result is normed, and they are added. */
#include "model/ffn/experts.h"
#include "model/ffn/mlp.h"
#include "model/mechanism.h"

static bool beside_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    const ExpertsSpec *e = &spec->experts;
    int64_t hidden = bind_hidden(b);
    return mlp_bind(b, &spec->mlp, layer, &out->mlp) && experts_bind(b, spec, layer, out) &&
           bind_norm(b, &e->router_norm, layer, hidden, &out->experts.router_norm) &&
           bind_norm(b, &e->input_norm, layer, hidden, &out->experts.input_norm) &&
           bind_norm(b, &e->dense_out, layer, hidden, &out->experts.dense_out) &&
           bind_norm(b, &e->experts_out, layer, hidden, &out->experts.experts_out);
}

/* x: the hidden rows as the layer's own norm gives them, for the dense side. */
static bool beside_run(Step *s, int layer, const float *x, float *out) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    const LayerWeights *w = &s->weights->layers[layer];
    const ExpertsSpec *e = &spec->experts;
    int hidden = s->blueprint->hidden;
    float *router_x = step_floats(s, s->n, hidden), *experts_x = step_floats(s, s->n, hidden);
    float *routed = step_floats(s, s->n, hidden);
    if (!router_x || !experts_x || !routed || !mlp_run(s, &spec->mlp, &w->mlp, layer, x, out)) return false;
    step_norm(s, &e->dense_out, &w->experts.dense_out, out, out, s->n, hidden);
    step_norm(s, &e->router_norm, &w->experts.router_norm, s->hidden, router_x, s->n, hidden);
    ops_scale(s->pool, router_x, e->router_scale, router_x, s->n, hidden);
    step_norm(s, &e->input_norm, &w->experts.input_norm, s->hidden, experts_x, s->n, hidden);
    if (!experts_routed(s, layer, router_x, experts_x, routed)) return false;
    step_norm(s, &e->experts_out, &w->experts.experts_out, routed, routed, s->n, hidden);
    ops_add(s->pool, out, routed, out, s->n, hidden);
    return true;
}

static void beside_describe(const LayerSpec *spec, Buffer *out) {
    mlp_describe(&spec->mlp, out);
    buffer_text(out, ", beside ");
    ffn_experts.describe(spec, out);
}

const Mechanism ffn_mlp_beside_experts = {
    .name = "mlp beside experts", .bind = beside_bind, .run = beside_run, .describe = beside_describe};
