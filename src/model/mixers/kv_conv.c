/* The convolutions of keys and of values run along each sequence's rows, side by side. */
#include "model/mixers/kv_conv.h"
#include "model/mixers/stretch.h"

size_t kv_conv_state(int kernel, int k_width, int v_width) {
    return conv_windows(kernel, k_width) + conv_windows(kernel, v_width);
}

bool kv_conv_bind(Binder *b, const AttentionSpec *a, int layer, int k_width, int v_width, AttentionWeights *w) {
    return bind_conv(b, &a->k_conv, layer, k_width, a->kernel, &w->k_conv) &&
           bind_conv(b, &a->v_conv, layer, v_width, a->kernel, &w->v_conv);
}

bool kv_conv_apply(Step *s, int layer, int k_width, int v_width, float **k, float **v) {
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    float *k_out = step_floats(s, s->n, k_width), *v_out = step_floats(s, s->n, v_width);
    ConvPart parts[] = {{&w->k_conv, k_width, *k, k_out}, {&w->v_conv, v_width, *v, v_out}};
    int n;
    const Stretch *stretches = stretches_of(s, &n);
    if (!stretches || !k_out || !v_out) return false;
    conv_stretches(s, layer, stretches, n, s->blueprint->layers[layer].attention.kernel, parts, 2);
    *k = k_out;
    *v = v_out;
    return true;
}
