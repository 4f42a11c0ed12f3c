/* What Gemma 3n and Gemma 4 have in common: layers that share keys and values, and inputs of each layer's own. */
#include "model/standard.h"

#include <math.h>

/* The last `shared` layers read what the last layer of their own kind before them stores. */
bool standard_share_keys(const Config *c, Blueprint *b, int shared) {
    int first = b->n_layers - shared;
    if (shared < 0 || first < 1)
        return config_fail(c, "\"num_kv_shared_layers\" is %d of %d layers", shared, b->n_layers);
    for (int i = first; i < b->n_layers; i++) {
        AttentionSpec *a = &b->layers[i].attention;
        int donor = first - 1;
        while (donor >= 0 && b->layers[donor].attention.rope != a->rope) donor--;
        if (donor < 0)
            return config_fail(c, "layer %d shares keys and values, but no layer of its kind before %d stores any", i,
                               first);
        const AttentionSpec *from = &b->layers[donor].attention;
        if (from->head_dim != a->head_dim || from->n_kv_heads != a->n_kv_heads || from->window != a->window)
            return config_fail(c, "layer %d shares keys and values of layer %d, which has other widths", i, donor);
        a->shared = true;
        a->donor = donor;
    }
    return true;
}

PerLayerSpec standard_per_layer(const Config *c, const Blueprint *b, int width_default, int vocab_default) {
    double width = config_number_or(c, "hidden_size_per_layer_input", width_default);
    int vocab = config_size_or(c, "vocab_size_per_layer_input", vocab_default);
    if (width == 0) return (PerLayerSpec){0};
    return (PerLayerSpec){.width = config_size_or(c, "hidden_size_per_layer_input", width_default),
                          .vocab = vocab,
                          .embedding = {.name = "model.embed_tokens_per_layer"},
                          .projection = {.name = "model.per_layer_model_projection"},
                          .norm = standard_rms("model.per_layer_projection_norm.weight", b->final_norm.eps),
                          .embedding_scale = sqrtf((float)width),
                          .hidden_scale = (float)(1 / sqrt((double)b->hidden)),
                          .gate = {.name = "model.layers.*.per_layer_input_gate"},
                          .out = {.name = "model.layers.*.per_layer_projection"},
                          .act = standard_activation(c, "hidden_activation", "gelu_pytorch_tanh"),
                          .out_norm =
                              standard_rms("model.layers.*.post_per_layer_input_norm.weight", b->final_norm.eps)};
}
