/* Convolution instead of attention: keys and values pass a short convolution over the positions, and each head's output
 * is its value times the sigmoid of query times key, element by element. Uses the fields of attention that it has. */
#include "model/mechanism.h"
#include "model/mixers/kv_conv.h"

static bool conv_gate_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return mixer_attention.bind(b, spec, layer, out);
}

static bool project(Step *s, int layer, const float *x, float *q, float *k, float *v) {
    const AttentionWeights *w = &s->weights->layers[layer].attention;
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    LinearJob jobs[] = {{.w = w->q, .y = q}, {.w = w->k, .y = k}, {.w = w->v, .y = v}};
    if (!step_linear(s, jobs, 3, x, s->blueprint->hidden, layer, "q_proj")) return false;
    step_norm(s, &a->q_norm.norm, &w->q_norm, q, q, s->n * a->n_heads, a->head_dim);
    step_norm(s, &a->k_norm.norm, &w->k_norm, k, k, s->n * a->n_kv_heads, a->head_dim);
    return true;
}

/* q becomes q * k, then the mixed values; a key-value head serves its group of query heads. */
static void combine(const Step *s, const AttentionSpec *a, float *q, const float *k, const float *v) {
    int group = a->n_heads / a->n_kv_heads, width = a->n_heads * a->head_dim;
    for (int i = 0; i < s->n * a->n_heads; i++)
        for (int d = 0; d < a->head_dim; d++)
            q[(size_t)i * (size_t)a->head_dim + (size_t)d] *= k[(size_t)(i / group) * (size_t)a->head_dim + (size_t)d];
    ops_act(s->pool, ACT_SIGMOID, q, q, s->n, width);
    for (int i = 0; i < s->n * a->n_heads; i++)
        for (int d = 0; d < a->head_dim; d++)
            q[(size_t)i * (size_t)a->head_dim + (size_t)d] *= v[(size_t)(i / group) * (size_t)a->head_dim + (size_t)d];
}

static bool conv_gate_run(Step *s, int layer, const float *x, float *out) {
    const AttentionSpec *a = &s->blueprint->layers[layer].attention;
    int width = a->n_heads * a->head_dim, kv_width = a->n_kv_heads * a->head_dim;
    float *q = step_floats(s, s->n, width), *k = step_floats(s, s->n, kv_width), *v = step_floats(s, s->n, kv_width);
    LinearJob o = {.w = s->weights->layers[layer].attention.o, .y = out};
    if (!q || !k || !v || !project(s, layer, x, q, k, v) || !kv_conv_apply(s, layer, kv_width, kv_width, &k, &v))
        return false;
    combine(s, a, q, k, v);
    step_tap(s, layer, "gated values", q, width);
    if (!step_linear(s, &o, 1, q, width, layer, "o_proj")) return false;
    step_tap(s, layer, "o_proj", out, s->blueprint->hidden);
    return true;
}

static void conv_gate_state(const LayerSpec *spec, KvFormat kv, LayerShape *out) {
    const AttentionSpec *a = &spec->attention;
    int width = a->n_kv_heads * a->head_dim;
    (void)kv;
    out->recurrent = kv_conv_state(a->kernel, width, width);
}

static const char *conv_gate_kind(const LayerSpec *spec) {
    (void)spec;
    return "convolution";
}

static void conv_gate_describe(const LayerSpec *spec, Buffer *out) {
    const AttentionSpec *a = &spec->attention;
    buffer_printf(out, "gated convolution of %d: %d heads, %d key-value heads, %d dims", a->kernel, a->n_heads,
                  a->n_kv_heads, a->head_dim);
}

const Mechanism mixer_conv_gate = {.name = "gated convolution",
                                   .bind = conv_gate_bind,
                                   .run = conv_gate_run,
                                   .state = conv_gate_state,
                                   .kind = conv_gate_kind,
                                   .describe = conv_gate_describe};
