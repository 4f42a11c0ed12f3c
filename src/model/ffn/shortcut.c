/* LongCat-Flash's shortcut (arXiv:2509.01322): experts that read what one layer's mlp reads, and whose result is added
 * after the next layer's mlp, so that they can run beside all in between. Two mechanisms: the layer that begins one,
 * and the layer that ends it. */
#include "model/ffn/experts.h"
#include "model/ffn/mlp.h"
#include "model/mechanism.h"

static bool begin_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return mlp_bind(b, &spec->mlp, layer, &out->mlp) && experts_bind(b, spec, layer, out);
}

static bool begin_run(Step *s, int layer, const float *x, float *out) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    return experts_routed(s, layer, x, x, s->shortcut) &&
           mlp_run(s, &spec->mlp, &s->weights->layers[layer].mlp, layer, x, out);
}

static void begin_describe(const LayerSpec *spec, Buffer *out) {
    mlp_describe(&spec->mlp, out);
    buffer_text(out, ", and for the next layer's output ");
    ffn_experts.describe(spec, out);
}

static bool end_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return mlp_bind(b, &spec->mlp, layer, &out->mlp);
}

static bool end_run(Step *s, int layer, const float *x, float *out) {
    const LayerSpec *spec = &s->blueprint->layers[layer];
    if (!mlp_run(s, &spec->mlp, &s->weights->layers[layer].mlp, layer, x, out)) return false;
    ops_add(s->pool, out, s->shortcut, out, s->n, s->blueprint->hidden);
    return true;
}

static void end_describe(const LayerSpec *spec, Buffer *out) {
    mlp_describe(&spec->mlp, out);
    buffer_text(out, ", plus the experts of the layer before");
}

const Mechanism ffn_shortcut_begin = {
    .name = "mlp and the begin of a shortcut", .bind = begin_bind, .run = begin_run, .describe = begin_describe};
const Mechanism ffn_shortcut_end = {
    .name = "mlp and the end of a shortcut", .bind = end_bind, .run = end_run, .describe = end_describe};
