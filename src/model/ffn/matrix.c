/* One matrix in place of a layer's half: what Nemotron-NAS puts where its search found that no more is needed, for
 * attention as for the mlp. As a mixer it leaves nothing in a sequence's state. */
#include "model/mechanism.h"

static bool as_mixer_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return bind_linear(b, &spec->mixer_matrix, layer, bind_hidden(b), bind_hidden(b), &out->mixer_matrix);
}

static bool as_ffn_bind(Binder *b, const LayerSpec *spec, int layer, LayerWeights *out) {
    return bind_linear(b, &spec->ffn_matrix, layer, bind_hidden(b), bind_hidden(b), &out->ffn_matrix);
}

static bool run(Step *s, int layer, const Linear *w, const float *x, float *out) {
    LinearJob job = {.w = w, .y = out};
    if (!step_linear(s, &job, 1, x, s->blueprint->hidden, layer, "matrix")) return false;
    step_tap(s, layer, "matrix", out, s->blueprint->hidden);
    return true;
}

static bool as_mixer_run(Step *s, int layer, const float *x, float *out) {
    return run(s, layer, s->weights->layers[layer].mixer_matrix, x, out);
}

static bool as_ffn_run(Step *s, int layer, const float *x, float *out) {
    return run(s, layer, s->weights->layers[layer].ffn_matrix, x, out);
}

static const char *kind(const LayerSpec *spec) {
    (void)spec;
    return "matrix";
}

static void as_mixer_describe(const LayerSpec *spec, Buffer *out) {
    buffer_printf(out, "a matrix for attention%s", spec->mixer_matrix.bias ? ", bias" : "");
}

static void as_ffn_describe(const LayerSpec *spec, Buffer *out) {
    buffer_printf(out, "a matrix for the mlp%s", spec->ffn_matrix.bias ? ", bias" : "");
}

const Mechanism mixer_matrix = {
    .name = "matrix", .bind = as_mixer_bind, .run = as_mixer_run, .kind = kind, .describe = as_mixer_describe};
const Mechanism ffn_matrix = {.name = "matrix", .bind = as_ffn_bind, .run = as_ffn_run, .describe = as_ffn_describe};
